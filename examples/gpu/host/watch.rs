//! Reads a pinned map while the program runs: what each key holds, again and again, until nothing changes
//! any more.
//!
//!     cutrace gpu run host_map_test.bpf.o --pin pins -- ./app &
//!     cargo run -p cutrace-gpu-maps --example watch -- pins call_count

use gpu_maps::{Folder, PinnedError};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Prints a line whenever the sums of the map's keys have changed; ends when the map is complete.
pub fn watch(folder: &Path, name: &str, out: &mut impl Write) -> Result<(), PinnedError> {
    let mut last = Vec::new();
    loop {
        // Opened again each time: contexts come and go, and the map with them.
        if let Ok(map) = Folder::open(folder).and_then(|folder| folder.map(name)) {
            let spec = map.spec();
            let sums: Vec<u64> = (0..spec.max_entries).map(|key| map.sum(key)).collect();
            if sums != last || !spec.is_live {
                let state = if spec.is_live { "so far" } else { "at the end" };
                let _ = writeln!(out, "{name} {state}: {sums:?}");
                let _ = out.flush();
            }
            if !spec.is_live {
                return Ok(());
            }
            last = sums;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(folder), Some(name)) = (words.next(), words.next()) else {
        return Err("watch FOLDER MAP".into());
    };
    watch(Path::new(&folder), &name, &mut std::io::stdout())?;
    Ok(())
}
