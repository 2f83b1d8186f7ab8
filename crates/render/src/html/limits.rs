//! What a multiprocessor of each GPU holds, as the program asked the driver and the trace recorded: occupancy
//! is computed from it.

use event::Event;
use std::collections::BTreeMap;

/// The answers that occupancy needs, and what the page calls them.
const WANTED: [(&str, &str); 8] = [
    ("COMPUTE_CAPABILITY_MAJOR", "major"),
    ("COMPUTE_CAPABILITY_MINOR", "minor"),
    ("MULTIPROCESSOR_COUNT", "multiprocessors"),
    ("MAX_THREADS_PER_MULTIPROCESSOR", "threads"),
    ("MAX_BLOCKS_PER_MULTIPROCESSOR", "blocks"),
    ("MAX_REGISTERS_PER_MULTIPROCESSOR", "registers"),
    ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "shared"),
    ("RESERVED_SHARED_MEMORY_PER_BLOCK", "reserved_shared"),
];
/// GPUs told apart.
const MAX_DEVICES: usize = 256;

/// By device, then by what the page calls it.
#[derive(Default)]
pub struct Limits(pub BTreeMap<u64, BTreeMap<&'static str, u64>>);

impl Limits {
    /// A call has ended.
    pub fn add(&mut self, event: &Event) {
        if &*event.name != "cuDeviceGetAttribute" {
            return;
        }
        let number = |name| event.arg(name).and_then(event::Value::as_u64);
        let (Some(attribute), Some(value), Some(device)) = (
            event.arg("attrib").and_then(event::Value::as_str),
            number("pi"),
            number("dev"),
        ) else {
            return;
        };
        let Some(attribute) = attribute.strip_prefix("CU_DEVICE_ATTRIBUTE_") else {
            return;
        };
        let Some((_, name)) = WANTED.iter().find(|(wanted, _)| *wanted == attribute) else {
            return;
        };
        if self.0.len() < MAX_DEVICES || self.0.contains_key(&device) {
            self.0.entry(device).or_default().insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    #[test]
    fn answers_are_remembered_by_device() {
        let mut limits = Limits::default();
        let mut event = Event::new(1, Layer::Driver, Category::Query, "cuDeviceGetAttribute", 0);
        limits.add(&event);
        event.args = vec![
            Arg::new(
                "attrib",
                "CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR",
            ),
            Arg::new("dev", 3u64),
        ];
        limits.add(&event);
        assert!(limits.0.is_empty(), "no answer yet");
        event.outputs = vec![Arg::new("pi", 32u64)];
        limits.add(&event);
        assert_eq!(limits.0[&3]["blocks"], 32);
    }
}
