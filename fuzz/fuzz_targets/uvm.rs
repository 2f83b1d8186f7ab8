//! The decoder of the UVM driver's event queue: any bytes in either layout give entries and events.
#![no_main]

use capture::uvm::{Layout, Processors, decode, event};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let layout = if first & 1 == 0 {
        Layout::First
    } else {
        Layout::Second
    };
    let processors = Processors {
        gpus: vec![None; usize::from(first >> 1)],
    };
    for bytes in bytes.chunks(layout.bytes()) {
        if let Some(entry) = decode(layout, bytes) {
            let event = event(&entry, &processors);
            assert!(!event.name.is_empty() && event.end().is_some());
        }
    }
});
