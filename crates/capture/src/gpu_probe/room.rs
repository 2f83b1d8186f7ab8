//! Whether there is memory for the maps of a BPF object: said before the program runs, which would go
//! without memory otherwise.

use ptx::device::Orders;
use std::fs;

/// Which map is too large.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    #[error(
        "map {map}: {entries} entries need more memory than a GPU has: make max_entries smaller"
    )]
    MoreThanAny { map: String, entries: u32 },
    #[error(
        "map {map}: {entries} entries need {} of the host's memory, and {} are free: make max_entries smaller",
        gigabytes(*needed),
        gigabytes(*free)
    )]
    MoreThanFree {
        map: String,
        entries: u32,
        needed: u64,
        free: u64,
    },
}

/// More than any GPU of today has: maps with a copy for each are laid out for so many.
const MULTIPROCESSORS: u64 = 256;

pub fn check_room(orders: &Orders, simulated: bool) -> Result<(), RoomError> {
    enough(orders, simulated, available().unwrap_or(u64::MAX))
}

/// On softgpu the device's memory is the host's, too; what a map holds at the end is copied to a file,
/// and read from there.
fn enough(orders: &Orders, simulated: bool, available: u64) -> Result<(), RoomError> {
    let mut all: u64 = 0;
    for map in &orders.maps {
        let Some(layout) = map.layout(orders, MULTIPROCESSORS) else {
            return Err(RoomError::MoreThanAny {
                map: map.name.clone(),
                entries: map.max_entries,
            });
        };
        let copies = if simulated { 3 } else { 2 };
        let bytes = layout.device_bytes.saturating_mul(copies);
        let bytes = bytes.saturating_add(layout.host_bytes);
        all = all.saturating_add(bytes);
        if all > available {
            return Err(RoomError::MoreThanFree {
                map: map.name.clone(),
                entries: map.max_entries,
                needed: bytes,
                free: available,
            });
        }
    }
    Ok(())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::device::{Map, map_kind};

    #[test]
    fn a_map_that_is_too_large_is_named_with_its_size() {
        let map = |entries| Map {
            name: "big".into(),
            kind: map_kind::HASH,
            key_size: 8,
            value_size: 8,
            max_entries: entries,
            initial: None,
            summed: 0,
        };
        let orders = |entries| Orders {
            maps: vec![map(1), map(entries)],
            ..Orders::default()
        };
        assert!(enough(&orders(1000), true, 1 << 30).is_ok());
        let why = enough(&orders(100_000_000), false, 8 << 30).expect_err("too much");
        let words =
            "map big: 100000000 entries need 12.9 GB of the host's memory, and 8.6 GB are free";
        assert!(why.to_string().starts_with(words), "{why}");
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
