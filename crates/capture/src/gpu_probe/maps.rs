//! What maps hold at the end of a context: copies of device memory, and files of the host's.

use super::files;
use crate::preload::folder::read_left;
use ptx::device::{Layout, Map, Orders, Ring, map_kind};
use std::path::{Path, PathBuf};

/// More than any map holds.
const MOST_BYTES: u64 = 16 << 30;

/// Looked at together, for most are 0.
const VALUES_AT_ONCE: usize = 512;

/// Whether any byte is not 0.
pub fn is_set(bytes: &[u8]) -> bool {
    // SAFETY: every pattern of bits is a number.
    let (before, words, after) = unsafe { bytes.align_to::<u128>() };
    words.iter().any(|word| *word != 0) || before.iter().chain(after).any(|byte| *byte != 0)
}

/// A map of one context.
#[derive(Debug)]
pub struct MapDump {
    pub pid: u32,
    pub context: u32,
    /// The map's place in the orders; `None` is printk's ring.
    pub map: Option<usize>,
    layout: Layout,
    spec: Map,
    bytes: Vec<u8>,
    /// Of a map of the host's kernel, which has no memory to be shown.
    held: Option<MapContents>,
    /// What it is, in words.
    pub kind: String,
}

/// Keys of a map, each with its values.
pub type MapContents = Vec<(Vec<u8>, Vec<Vec<u8>>)>;

/// A key and its values.
#[derive(Debug, PartialEq, Eq)]
pub struct MapEntry<'a> {
    pub key: Vec<u8>,
    /// One, or one for each thread, multiprocessor or warp.
    pub values: Vec<&'a [u8]>,
}

/// A key, and those of its values that are not 0, each with its place among the key's.
pub type SetEntry<'a> = (Vec<u8>, Vec<(usize, &'a [u8])>);

/// All that was left in the folder.
pub fn dumps(
    folder: &Path,
    orders: &Orders,
    multiprocessors: impl Fn(u32, u32) -> u64,
) -> Vec<MapDump> {
    let mut found = Vec::new();
    for prefix in ["map", "shared"] {
        for (path, pid, context, name) in files(folder, prefix) {
            let (map, spec) = match name.parse::<usize>() {
                Ok(index) => match orders.maps.get(index) {
                    Some(spec) => (Some(index), spec.clone()),
                    None => continue,
                },
                Err(_) if name == "log" => (None, ptx::device::log_map()),
                Err(_) => continue,
            };
            // Rings are read as they fill; of theirs only the heads are of interest.
            let is_shared = prefix == "shared";
            if is_shared != map_kind::is_host(spec.kind) {
                continue;
            }
            let Some(layout) = spec.layout(orders, multiprocessors(pid, context)) else {
                continue;
            };
            let Ok(bytes) = read_left(&path, MOST_BYTES) else {
                continue;
            };
            found.push(MapDump {
                pid,
                context,
                map,
                layout,
                kind: map_kind::name(spec.kind).to_owned(),
                spec,
                bytes,
                held: None,
            });
        }
    }
    found.sort_by_key(|dump| (dump.pid, dump.context, dump.map));
    found
}

/// A map in memory of the host, which changes as kernels write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMap {
    pub path: PathBuf,
    pub pid: u32,
    pub context: u32,
    /// Its place in the orders.
    pub map: usize,
    pub layout: Layout,
}

/// Those that are there now.
pub fn live_maps(folder: &Path, orders: &Orders) -> Vec<LiveMap> {
    let all = files(folder, "shared").into_iter();
    let live = all.filter_map(|(path, pid, context, name)| {
        let map: usize = name.parse().ok()?;
        let spec = orders.maps.get(map)?;
        let layout = spec.layout(orders, 1)?;
        // It is made first, and given its length then.
        let is_whole = path.metadata().ok()?.len() >= layout.host_bytes;
        (map_kind::is_host(spec.kind) && is_whole).then_some(LiveMap {
            path,
            pid,
            context,
            map,
            layout,
        })
    });
    live.collect()
}

impl MapDump {
    /// A map of the host's kernel: its sizes are those of a key, of a value, and how many there may be.
    pub(super) fn of_host(
        map: usize,
        name: &str,
        kind: &str,
        [key_size, value_size, max_entries]: [u32; 3],
        held: MapContents,
    ) -> MapDump {
        let spec = Map {
            name: name.to_owned(),
            kind: map_kind::ELSEWHERE,
            key_size,
            value_size,
            max_entries,
            initial: None,
            summed: 0,
        };
        let copies = held.first().map_or(1, |(_, values)| values.len() as u64);
        MapDump {
            pid: 0,
            context: 0,
            map: Some(map),
            layout: Layout {
                copies,
                stride: value_size.into(),
                capacity: 0,
                parts: 0,
                device_bytes: 0,
                host_bytes: 0,
                part_bytes: 0,
            },
            spec,
            bytes: (held.iter().flat_map(|(_, values)| values.concat())).collect(),
            held: Some(held),
            kind: kind.to_owned(),
        }
    }

    pub fn is_of_host(&self) -> bool {
        self.held.is_some()
    }

    pub fn spec(&self) -> &Map {
        &self.spec
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// As it is in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Of a ring: how many records were taken, and how many found no room.
    pub fn ring(&self) -> Option<Ring> {
        (self.spec.kind == map_kind::RING).then(|| Ring::sum(&self.bytes))
    }

    /// Keys that a hash refused because it was full.
    pub fn refused(&self) -> u64 {
        if !map_kind::is_hash(self.spec.kind) {
            return 0;
        }
        let word = self
            .bytes
            .get(8..16)
            .and_then(|bytes| bytes.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    }

    /// What is not 0 of it: maps with one value a thread have room for millions, and hold a few.
    pub fn set_entries(&self) -> Vec<SetEntry<'_>> {
        if self.held.is_some()
            || self.spec.kind == map_kind::RING
            || map_kind::is_hash(self.spec.kind)
        {
            let entries = self.entries().into_iter().map(|entry| {
                let values = entry.values.into_iter().enumerate();
                let values = values.filter(|(_, value)| is_set(value)).collect();
                (entry.key, values)
            });
            return entries.collect();
        }
        let (stride, copies) = (self.layout.stride as usize, self.layout.copies as usize);
        let mut found = Vec::new();
        for key in 0..self.spec.max_entries {
            let start = key as usize * copies * stride;
            let Some(all) = self.bytes.get(start..start + copies * stride) else {
                break;
            };
            let mut values = Vec::new();
            for (part, bytes) in all.chunks(stride * VALUES_AT_ONCE).enumerate() {
                if !is_set(bytes) {
                    continue;
                }
                let each = bytes.chunks_exact(stride).enumerate();
                let each = each.filter(|(_, value)| is_set(value));
                values.extend(each.map(|(at, value)| (part * VALUES_AT_ONCE + at, value)));
            }
            found.push((key.to_le_bytes().to_vec(), values));
        }
        found
    }

    /// Its entries in the order of keys; of arrays all, of hashes those that are there.
    pub fn entries(&self) -> Vec<MapEntry<'_>> {
        if let Some(held) = &self.held {
            let entries = held.iter().map(|(key, values)| MapEntry {
                key: key.clone(),
                values: values.iter().map(Vec::as_slice).collect(),
            });
            return entries.collect();
        }
        if self.spec.kind == map_kind::RING {
            return Vec::new();
        }
        if map_kind::is_hash(self.spec.kind) {
            return self.hash_entries();
        }
        let (stride, copies) = (self.layout.stride as usize, self.layout.copies as usize);
        let value = |at: usize| self.bytes.get(at * stride..at * stride + stride);
        (0..self.spec.max_entries)
            .map(|key| MapEntry {
                key: key.to_le_bytes().to_vec(),
                values: (0..copies)
                    .filter_map(|copy| value(key as usize * copies + copy))
                    .collect(),
            })
            .collect()
    }

    fn hash_entries(&self) -> Vec<MapEntry<'_>> {
        let key_bytes = self.spec.key_size as usize;
        let value_bytes = self.spec.value_size as usize;
        let slots = self.bytes.get(64..).unwrap_or(&[]);
        let mut entries: Vec<MapEntry> = slots
            .chunks_exact(self.layout.stride as usize)
            .filter_map(|slot| {
                let tag = u64::from_le_bytes(*slot.first_chunk()?);
                let value_at = 8 + key_bytes.next_multiple_of(8);
                (tag & 3 == 2).then_some(())?;
                Some(MapEntry {
                    key: slot.get(8..8 + key_bytes)?.to_vec(),
                    values: vec![slot.get(value_at..value_at + value_bytes)?],
                })
            })
            .collect();
        entries.sort_by(|a, b| a.key.iter().rev().cmp(b.key.iter().rev()));
        entries
    }
}
