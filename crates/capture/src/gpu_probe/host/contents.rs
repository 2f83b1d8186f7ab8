//! What maps of the host hold at the end.

use super::{HostMap, is_named};
use crate::gpu_probe::maps::{MapContents, MapDump};
use libbpf_rs::{Map, MapCore, MapFlags, MapType, Object};

/// Entries of one map that are read.
const MOST_ENTRIES: usize = 1 << 20;

pub fn of(object: &Object, maps: &[HostMap]) -> Vec<MapDump> {
    let read = |one: &HostMap| {
        let map = object.maps().find(|map| is_named(map.name(), &one.name))?;
        let held = entries(&map)?;
        Some(MapDump::of_host(
            one.index,
            &one.name,
            &format!("{:?} of the kernel", map.map_type()).to_lowercase(),
            [map.key_size(), map.value_size(), map.max_entries()],
            held,
        ))
    };
    maps.iter().filter_map(read).collect()
}

/// `None`: a map of another sort than keys and values.
fn entries(map: &Map<'_>) -> Option<MapContents> {
    let per_processor = match map.map_type() {
        MapType::Hash | MapType::LruHash | MapType::Array => false,
        MapType::PercpuHash | MapType::LruPercpuHash | MapType::PercpuArray => true,
        _ => return None,
    };
    let mut held = MapContents::new();
    for key in map.keys().take(MOST_ENTRIES) {
        let values = if per_processor {
            map.lookup_percpu(&key, MapFlags::ANY).ok().flatten()
        } else {
            (map.lookup(&key, MapFlags::ANY).ok().flatten()).map(|value| vec![value])
        };
        // Gone meanwhile, or of a kind that is not read so.
        if let Some(values) = values {
            held.push((key, values));
        }
    }
    held.sort_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
    Some(held)
}
