//! What the tracer tells the library in the traced program: probes, maps, and the text they need. Files
//! in one folder; how much memory each map takes follows from them, the same on both sides.

use super::layout::{Descriptor, MOST_PARTS, RING_DATA, Ring, map_kind, slot_bytes};
use crate::rewrite::{Inline, Isa, Pattern, Plan, Probe, ProbePoint, Sum};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Values a map has for one key, if nobody says how many threads there are: as many as fit here.
const THREAD_MEMORY: u64 = 256 << 20;
const FEWEST_THREADS: u64 = 1024;
const MOST_THREADS: u64 = 4 << 20;
/// Records a ring holds for each entry that its map asks for: bpftime counts them per thread.
const RECORDS_AN_ENTRY: u64 = 1024;
/// And for each multiprocessor, if its map asks for fewer.
const RECORDS_A_MULTIPROCESSOR: u64 = 512;
const FEWEST_RECORDS: u64 = 1024;
const FEWEST_OF_PART: u64 = 256;
const RING_MEMORY: u64 = 256 << 20;
/// Warps that a multiprocessor can hold.
const WARPS: u64 = 64;
/// What copies of maps begin at multiples of, and what they may take: then there are fewer.
const SPREAD_ALIGNMENT: u64 = 256;
const SPREAD_MEMORY: u64 = 64 << 20;
/// A map larger than this is a mistake.
const MOST_BYTES: u64 = 16 << 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    pub name: String,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub initial: Option<Vec<u8>>,
    /// Device code only adds to it, numbers of so many bytes (0: it does other things, too): then
    /// each multiprocessor has a copy, and the values are the sums over all.
    pub summed: u8,
}

#[derive(Debug, Clone, Default)]
pub struct Orders {
    pub maps: Vec<Map>,
    pub plan: Plan,
    /// Threads that maps with one value a thread have room for; 0: as many as there is memory for.
    pub threads: u64,
    /// Records that a ring holds; 0: by its map.
    pub records: u64,
    /// What is loaded may have our variables without having been rewritten: it was written so.
    pub has_own_modules: bool,
    /// Where rewritten texts are kept from run to run.
    pub cache: Option<PathBuf>,
    /// How often maps are read while the program runs; `None`: at its end only.
    pub every: Option<Duration>,
}

/// How a map is laid out in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Values a key has.
    pub copies: u64,
    pub stride: u64,
    /// Slots of a hash, or of each part of a ring.
    pub capacity: u64,
    /// Parts of a ring, or copies of a whole map: one for a multiprocessor, as far as they go.
    pub parts: u64,
    /// Bytes from one such copy to the next.
    pub part_bytes: u64,
    pub device_bytes: u64,
    /// In memory of the host that the tracer sees too.
    pub host_bytes: u64,
}

impl Map {
    /// `None`: more than any machine has.
    pub fn layout(&self, orders: &Orders, multiprocessors: u64) -> Option<Layout> {
        let (value, entries) = (u64::from(self.value_size), u64::from(self.max_entries));
        let mut layout = Layout {
            copies: 1,
            stride: value,
            capacity: 0,
            parts: 0,
            part_bytes: 0,
            device_bytes: 0,
            host_bytes: 0,
        };
        if self.kind == map_kind::ELSEWHERE {
            return Some(layout);
        }
        if self.kind == map_kind::SHARED_ARRAY {
            // As the kernel lays its arrays out.
            layout.stride = value.next_multiple_of(8);
        }
        if self.kind == map_kind::RING {
            layout.stride = slot_bytes(value);
            let multiprocessors = multiprocessors.max(1);
            let wanted = match orders.records {
                0 => (entries.saturating_mul(RECORDS_AN_ENTRY))
                    .max(multiprocessors * RECORDS_A_MULTIPROCESSOR)
                    .min(RING_MEMORY / layout.stride),
                records => records,
            };
            let wanted = wanted.clamp(FEWEST_RECORDS, 1 << 32);
            // A part holds at least what a few warps write at once.
            layout.parts = multiprocessors.min(MOST_PARTS).min(wanted / FEWEST_OF_PART);
            layout.capacity = wanted.div_ceil(layout.parts).next_power_of_two();
            layout.device_bytes = layout.parts * Ring::BYTES as u64;
            let slots = layout.parts * layout.capacity;
            layout.host_bytes = slots.checked_mul(layout.stride)? + RING_DATA as u64;
        } else if map_kind::is_hash(self.kind) {
            let key = u64::from(self.key_size).next_multiple_of(8);
            layout.stride = 8 + key + value.next_multiple_of(8);
            layout.capacity = (entries * 2).max(8).next_power_of_two();
            layout.device_bytes = layout.capacity.checked_mul(layout.stride)? + 64;
        } else {
            layout.copies = match self.kind {
                map_kind::THREAD_ARRAY | map_kind::THREAD_HOST_ARRAY => match orders.threads {
                    0 => (THREAD_MEMORY / entries.saturating_mul(value).max(1))
                        .clamp(FEWEST_THREADS, MOST_THREADS),
                    threads => threads,
                },
                map_kind::SM_ARRAY => multiprocessors.max(1),
                map_kind::WARP_ARRAY => multiprocessors.max(1) * WARPS,
                _ => 1,
            };
            let one = entries.checked_mul(layout.stride)?;
            let mut bytes = one.checked_mul(layout.copies)?;
            if self.kind == map_kind::SM_ARRAY || self.is_spread() {
                // As device code counts on: gpubpf::map::spread_bytes.
                layout.part_bytes = one.checked_next_multiple_of(SPREAD_ALIGNMENT)?;
                let most = match self.kind {
                    map_kind::SM_ARRAY => u64::MAX,
                    _ => (SPREAD_MEMORY / layout.part_bytes.max(1)).max(1),
                };
                layout.parts = multiprocessors.clamp(1, most);
                bytes = layout.part_bytes.checked_mul(layout.parts)?;
            }
            let bytes = bytes.checked_next_multiple_of(64)?.max(64);
            if map_kind::is_host(self.kind) {
                layout.host_bytes = bytes;
            } else {
                layout.device_bytes = bytes;
            }
        }
        (layout.device_bytes.max(layout.host_bytes) <= MOST_BYTES).then_some(layout)
    }

    fn is_spread(&self) -> bool {
        self.summed > 0 && matches!(self.kind, map_kind::ARRAY | map_kind::GPU_ARRAY)
    }

    /// What the host is to see of a map's memory: one value a key, or those of a key side by side.
    pub fn gathered(&self, layout: &Layout, device: Vec<u8>) -> Vec<u8> {
        if layout.part_bytes == 0 {
            return device;
        }
        let one = self.max_entries as usize * self.value_size as usize;
        let copies = device.chunks_exact(layout.part_bytes as usize);
        if self.is_spread() {
            let mut sums = vec![0; one];
            for copy in copies {
                add(&mut sums, copy, self.summed);
            }
            return sums;
        }
        let value = (self.value_size as usize).max(1);
        let mut out = vec![0; one * layout.copies as usize];
        for (number, copy) in copies.take(layout.copies as usize).enumerate() {
            for (key, bytes) in copy[..one].chunks_exact(value).enumerate() {
                let at = (key * layout.copies as usize + number) * value;
                out[at..at + value].copy_from_slice(bytes);
            }
        }
        out
    }

    pub fn descriptor(&self, layout: &Layout, device: u64, host: u64) -> Descriptor {
        let in_host = map_kind::is_host(self.kind);
        Descriptor {
            base: if in_host { host } else { device },
            host_base: host,
            kind: self.kind,
            key_size: self.key_size,
            value_size: self.value_size,
            max_entries: self.max_entries,
            threads: layout.copies,
            stride: layout.stride,
            capacity: layout.capacity.max(layout.part_bytes),
            parts: layout.parts,
        }
    }
}

/// Adds numbers of so many bytes, each to its own.
fn add(sums: &mut [u8], copy: &[u8], width: u8) {
    let width = if width == 4 { 4 } else { 8 };
    for (sum, one) in sums.chunks_exact_mut(width).zip(copy.chunks_exact(width)) {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let all = word(sum).wrapping_add(word(one)).to_le_bytes();
        sum.copy_from_slice(&all[..width]);
    }
}

/// The map that printk writes to: it is nobody's.
pub fn log_map() -> Map {
    Map {
        name: "printk".into(),
        kind: map_kind::RING,
        key_size: 0,
        value_size: 112,
        max_entries: 16,
        initial: None,
        summed: 0,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OrdersError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("line {0} of the probe instructions cannot be read")]
    Line(usize),
}

impl Orders {
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = String::new();
        let isa = self.plan.isa;
        let _ = writeln!(
            text,
            "isa {} {} {}",
            isa.version.0, isa.version.1, isa.target
        );
        let _ = writeln!(text, "threads {}", self.threads);
        let _ = writeln!(text, "records {}", self.records);
        let _ = writeln!(text, "own-modules {}", u8::from(self.has_own_modules));
        if let Some(every) = self.every {
            let _ = writeln!(text, "every {}", every.as_nanos());
        }
        if let Some(cache) = self.cache.as_ref().and_then(|path| path.to_str()) {
            let _ = writeln!(text, "cache {}", one_line(cache));
        }
        for (index, map) in self.maps.iter().enumerate() {
            let _ = writeln!(
                text,
                "map {} {} {} {} {} {}",
                map.kind,
                map.key_size,
                map.value_size,
                map.max_entries,
                map.summed,
                one_line(&map.name)
            );
            if let Some(initial) = &map.initial {
                fs::write(folder.join(format!("initial.{index}")), initial)?;
            }
        }
        for probe in &self.plan.probes {
            let place = match probe.place {
                ProbePoint::Entry => "entry",
                ProbePoint::Return => "return",
                ProbePoint::Memory => "memory",
            };
            let _ = writeln!(
                text,
                "probe {place} {} {} {} {}",
                probe.function,
                probe.context_bytes,
                probe.one_of,
                one_line(probe.kernels.text())
            );
        }
        for (index, probe) in self.plan.probes.iter().enumerate() {
            let Some(inline) = &probe.inline else {
                continue;
            };
            let _ = write!(text, "inline {index} {}", u8::from(inline.diverges));
            fs::write(folder.join(format!("inline.{index}")), &inline.text)?;
            for sum in &inline.sums {
                let _ = write!(text, " {}", sum.register);
                let file = format!("flush.{}", sum.register.trim_start_matches('%'));
                fs::write(folder.join(file), &sum.flush)?;
            }
            text.push('\n');
        }
        fs::write(folder.join("prelude.ptx"), &self.plan.prelude)?;
        fs::write(folder.join("orders"), text)
    }

    pub fn read(folder: &Path) -> Result<Orders, OrdersError> {
        let text = fs::read_to_string(folder.join("orders"))?;
        let mut orders = Orders::default();
        orders.plan.prelude = fs::read_to_string(folder.join("prelude.ptx"))?;
        for (number, line) in text.lines().enumerate() {
            let file = |name: String| fs::read(folder.join(name)).ok();
            orders
                .line(line, file)
                .ok_or(OrdersError::Line(number + 1))?;
        }
        Ok(orders)
    }

    fn line(&mut self, line: &str, file: impl Fn(String) -> Option<Vec<u8>>) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        let numbers = |rest: &str| -> Option<Vec<u32>> {
            rest.split(' ').map(|word| word.parse().ok()).collect()
        };
        match word {
            "isa" => {
                let [major, minor, target] = numbers(rest)?.try_into().ok()?;
                self.plan.isa = Isa {
                    version: (major, minor),
                    target,
                };
            }
            "threads" => self.threads = rest.parse().ok()?,
            "every" => self.every = Some(Duration::from_nanos(rest.parse().ok()?)),
            "cache" => self.cache = Some(rest.into()),
            "own-modules" => self.has_own_modules = rest == "1",
            "records" => self.records = rest.parse().ok()?,
            "map" => {
                let words: Vec<&str> = rest.splitn(6, ' ').collect();
                let &[kind, key, value, entries, summed, name] = words.as_slice() else {
                    return None;
                };
                self.maps.push(Map {
                    name: name.to_owned(),
                    kind: kind.parse().ok()?,
                    key_size: key.parse().ok()?,
                    value_size: value.parse().ok()?,
                    max_entries: entries.parse().ok()?,
                    initial: file(format!("initial.{}", self.maps.len())),
                    summed: summed.parse().ok()?,
                });
            }
            "probe" => {
                let words: Vec<&str> = rest.splitn(5, ' ').collect();
                let &[place, function, bytes, one_of, kernels] = words.as_slice() else {
                    return None;
                };
                self.plan.probes.push(Probe {
                    place: match place {
                        "entry" => ProbePoint::Entry,
                        "return" => ProbePoint::Return,
                        "memory" => ProbePoint::Memory,
                        _ => return None,
                    },
                    kernels: Pattern::parse(kernels).ok()?,
                    function: function.to_owned(),
                    context_bytes: bytes.parse().ok()?,
                    one_of: one_of.parse().ok()?,
                    inline: None,
                });
            }
            "inline" => {
                let text = |name: String| file(name).and_then(|text| String::from_utf8(text).ok());
                let mut words = rest.split(' ');
                let index = words.next()?.parse::<usize>().ok()?;
                let diverges = words.next()? == "1";
                let sum = |register: &str| {
                    let name = register.trim_start_matches('%');
                    Some(Sum {
                        register: register.to_owned(),
                        flush: text(format!("flush.{name}"))?,
                    })
                };
                let inline = Inline {
                    text: text(format!("inline.{index}"))?,
                    sums: words.map(sum).collect::<Option<_>>()?,
                    diverges,
                };
                self.plan.probes.get_mut(index)?.inline = Some(inline);
            }
            _ => return None,
        }
        Some(())
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(kind: u32, value_size: u32, max_entries: u32) -> Map {
        Map {
            name: "a map".into(),
            kind,
            key_size: 4,
            value_size,
            max_entries,
            initial: (kind == map_kind::ARRAY).then(|| vec![1, 2, 3]),
            summed: 0,
        }
    }

    #[test]
    fn orders_are_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let orders = Orders {
            maps: vec![map(map_kind::RING, 56, 16), map(map_kind::ARRAY, 8, 1)],
            plan: Plan {
                probes: vec![Probe {
                    place: ProbePoint::Return,
                    kernels: Pattern::parse("vectorAdd(float const*, int)").expect("a name"),
                    function: "__cutrace_p0".into(),
                    context_bytes: 16,
                    one_of: 16,
                    inline: Some(Inline {
                        text: "add.s64 %cutrace_sum_0_8, %cutrace_sum_0_8, 1;\n".into(),
                        sums: vec![Sum {
                            register: "%cutrace_sum_0_8".into(),
                            flush: "{}\n".into(),
                        }],
                        diverges: true,
                    }),
                }],
                prelude: "// text\n".into(),
                isa: Isa::PARAMETER_ADDRESS,
            },
            threads: 0,
            records: 4096,
            has_own_modules: true,
            cache: Some("/a folder".into()),
            every: Some(Duration::from_millis(1500)),
        };
        orders.write(folder.path()).expect("written");
        let read = Orders::read(folder.path()).expect("read");
        assert_eq!(read.maps, orders.maps);
        assert_eq!(read.plan.isa, orders.plan.isa);
        assert_eq!(format!("{:?}", read.plan), format!("{:?}", orders.plan));
        assert_eq!((read.threads, read.records), (0, 4096));
        assert_eq!(read.cache, orders.cache);
        assert_eq!(read.every, orders.every);
        assert!(read.has_own_modules);
        fs::write(folder.path().join("orders"), "map 1 2\n").expect("written");
        assert!(Orders::read(folder.path()).is_err());
    }

    #[test]
    fn copies_of_multiprocessors_come_together() {
        let orders = Orders::default();
        let mut counters = map(map_kind::GPU_ARRAY, 8, 2);
        counters.summed = 8;
        let layout = counters.layout(&orders, 3).expect("a layout");
        assert_eq!(layout.device_bytes, 3 * 256);
        let mut device = vec![0; 3 * 256];
        for (copy, (a, b)) in [(1u64, 10u64), (2, 20), (u64::MAX, 30)].iter().enumerate() {
            device[copy * 256..][..8].copy_from_slice(&a.to_le_bytes());
            device[copy * 256 + 8..][..8].copy_from_slice(&b.to_le_bytes());
        }
        let words = |bytes: Vec<u8>| -> Vec<u64> {
            let words = bytes.chunks_exact(8);
            words
                .map(|word| u64::from_le_bytes(word.try_into().expect("a word")))
                .collect()
        };
        assert_eq!(words(counters.gathered(&layout, device.clone())), [2, 60]);
        let own = map(map_kind::SM_ARRAY, 8, 2);
        let layout = own.layout(&orders, 3).expect("a layout");
        assert_eq!(
            words(own.gathered(&layout, device)),
            [1, 2, u64::MAX, 10, 20, 30]
        );
        // A large map has fewer copies than there are multiprocessors.
        let mut large = map(map_kind::GPU_ARRAY, 8, 4 << 20);
        large.summed = 8;
        assert_eq!(
            large.layout(&orders, 132).map(|layout| layout.parts),
            Some(2)
        );
    }

    #[test]
    fn maps_take_what_they_need() {
        let orders = Orders::default();
        let layout = |map: Map| map.layout(&orders, 132).expect("a layout");
        assert_eq!(layout(map(map_kind::GPU_ARRAY, 8, 10)).device_bytes, 128);
        let ring = layout(map(map_kind::RING, 56, 16));
        assert_eq!((ring.stride, ring.parts, ring.capacity), (128, 132, 512));
        let alone = map(map_kind::RING, 56, 16)
            .layout(&orders, 1)
            .expect("a layout");
        assert_eq!((alone.parts, alone.capacity), (1, 16384));
        assert_eq!(layout(map(map_kind::THREAD_ARRAY, 8, 1)).copies, 4 << 20);
        let spread = layout(map(map_kind::SM_ARRAY, 8, 2));
        assert_eq!(
            (spread.copies, spread.parts, spread.part_bytes),
            (132, 132, 256)
        );
        assert_eq!(layout(map(map_kind::GPU_HASH, 8, 2)).capacity, 8);
        let huge = map(map_kind::GPU_ARRAY, u32::MAX, u32::MAX);
        assert_eq!(huge.layout(&orders, 132), None);
    }
}
