//! Any bytes as a fatbin, as an ELF file that holds some, as a module image.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx::fatbin::{Fatbin, sections};
use ptx::image::Image;

/// Unpacking more than this is slow, not interesting.
const MOST: usize = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    let _ = Image::detect(bytes);
    let _ = Fatbin::total_size(bytes);
    read(bytes);
    for section in sections(bytes).into_iter().flatten() {
        let _ = section.wrappers().count();
        read(section.data);
    }
});

fn read(bytes: &[u8]) {
    let Ok(fatbin) = Fatbin::parse(bytes) else {
        return;
    };
    let _ = fatbin.best_ptx(90);
    for entry in fatbin.entries() {
        let _ = (entry.kind(), entry.name(), entry.options(), entry.architecture());
        if entry.unpacked_size() <= MOST as u64 {
            let _ = entry.payload();
            let _ = entry.text();
        }
    }
}
