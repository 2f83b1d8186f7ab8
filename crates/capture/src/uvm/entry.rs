//! The entries of the UVM driver's event queue: bytes become what happened to managed memory.
//!
//! Two layouts: 64 bytes (drivers before 565) and 72 bytes, in which processors have 16-bit numbers.
//! Times are CLOCK_MONOTONIC_RAW of the host, in nanoseconds. Processor 0 is the CPU.

/// Which layout a queue's entries have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    First,
    Second,
}

impl Layout {
    /// Bytes of an entry.
    pub const fn bytes(self) -> usize {
        match self {
            Layout::First => 64,
            Layout::Second => 72,
        }
    }
}

/// Kinds of entries that are asked for, as the driver numbers them: 1 to 14.
pub const KINDS: u64 = 0x7ffe;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it happened, or the driver asked for it; 0 if the entry does not say.
    pub start: u64,
    /// When the driver saw that it was done: perhaps long after it was.
    pub end: Option<u64>,
    /// From when to when the GPU was at it, by the GPU's own clock.
    pub on_gpu: Option<(u64, u64)>,
    pub what: What,
}

/// What happened. Processors are numbers of the driver's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    CpuFault {
        access: u8,
        cpu: u32,
        address: u64,
        tid: u32,
        pc: u64,
    },
    Migration {
        cause: u8,
        source: u16,
        target: u16,
        address: u64,
        bytes: u64,
    },
    GpuFault {
        gpu: u16,
        fault: u8,
        access: u8,
        /// 1 a graphics processing cluster, 2 the hub (copy engines, the host interface).
        client: u8,
        address: u64,
        batch: u32,
    },
    /// Faulting accesses of a batch are tried again.
    Replay {
        gpu: u16,
        batch: u32,
    },
    FaultBufferOverflow,
    FatalFault {
        processor: u16,
        fault: u8,
        access: u8,
        reason: u8,
        address: u64,
    },
    ReadDuplicate {
        address: u64,
        bytes: u64,
        processors: u64,
    },
    ReadDuplicateInvalidate {
        resident: u16,
        address: u64,
        bytes: u64,
    },
    PageSizeChange {
        processor: u16,
        page: u32,
        address: u64,
    },
    Thrashing {
        address: u64,
        bytes: u64,
        processors: u64,
    },
    ThrottlingStart {
        processor: u16,
        address: u64,
    },
    ThrottlingEnd {
        processor: u16,
        address: u64,
    },
    MapRemote {
        cause: u8,
        source: u16,
        target: u16,
        address: u64,
        bytes: u64,
    },
    Eviction {
        source: u16,
        target: u16,
        address: u64,
        /// What needed the room.
        for_address: u64,
        bytes: u64,
    },
}

/// What an entry says; None if its kind is not known or it is too short.
pub fn decode(layout: Layout, bytes: &[u8]) -> Option<Entry> {
    let entry = Bytes(bytes.get(..layout.bytes())?);
    match layout {
        Layout::First => first(&entry),
        Layout::Second => second(&entry),
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn half(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at + 2)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn long(&self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn small(&self, at: usize) -> Option<u16> {
        self.byte(at).map(u16::from)
    }
}

fn at(start: u64, what: What) -> Option<Entry> {
    Some(Entry {
        start,
        end: None,
        on_gpu: None,
        what,
    })
}

/// Copies that the CPU makes have no times of a GPU's.
fn was_on_gpu((begin, end): &(u64, u64)) -> bool {
    *begin != 0 && end >= begin
}

fn cpu_fault(entry: &Bytes) -> Option<Entry> {
    let what = What::CpuFault {
        access: entry.byte(1)?,
        cpu: entry.word(4)?,
        address: entry.long(8)?,
        tid: entry.word(28)?,
        pc: entry.long(32)?,
    };
    at(entry.long(16)?, what)
}

fn first(entry: &Bytes) -> Option<Entry> {
    match entry.byte(0)? {
        1 => cpu_fault(entry),
        2 => Some(Entry {
            start: entry.long(24)?,
            end: entry.long(32),
            on_gpu: entry.long(48).zip(entry.long(56)).filter(was_on_gpu),
            what: What::Migration {
                cause: entry.byte(1)?,
                source: entry.small(2)?,
                target: entry.small(3)?,
                address: entry.long(8)?,
                bytes: entry.long(16)?,
            },
        }),
        3 => at(
            entry.long(16)?,
            What::GpuFault {
                fault: entry.byte(1)?,
                access: entry.byte(2)?,
                gpu: entry.small(3)?,
                address: entry.long(8)?,
                batch: entry.word(32)?,
                client: entry.byte(36)?,
            },
        ),
        4 => at(
            entry.long(8)?,
            What::Replay {
                gpu: entry.small(1)?,
                batch: entry.word(4)?,
            },
        ),
        5 => at(0, What::FaultBufferOverflow),
        6 => at(
            entry.long(16)?,
            What::FatalFault {
                fault: entry.byte(1)?,
                access: entry.byte(2)?,
                processor: entry.small(3)?,
                reason: entry.byte(4)?,
                address: entry.long(8)?,
            },
        ),
        7 => at(
            entry.long(32)?,
            What::ReadDuplicate {
                processors: entry.long(8)?,
                address: entry.long(16)?,
                bytes: entry.long(24)?,
            },
        ),
        8 => read_duplicate_invalidate(entry, entry.small(1)?),
        9 => page_size_change(entry, entry.small(1)?),
        10 => at(
            entry.long(32)?,
            What::Thrashing {
                processors: entry.long(8)?,
                address: entry.long(16)?,
                bytes: entry.long(24)?,
            },
        ),
        11 | 12 => throttling(entry, entry.small(1)?),
        13 => map_remote(entry, entry.byte(3)?, entry.small(1)?, entry.small(2)?),
        14 => eviction(entry, entry.small(1)?, entry.small(2)?),
        _ => None,
    }
}

fn second(entry: &Bytes) -> Option<Entry> {
    match entry.byte(0)? {
        1 => cpu_fault(entry),
        2 => Some(Entry {
            start: entry.long(32)?,
            end: entry.long(40),
            on_gpu: entry.long(56).zip(entry.long(64)).filter(was_on_gpu),
            what: What::Migration {
                cause: entry.byte(1)?,
                source: entry.half(4)?,
                target: entry.half(6)?,
                address: entry.long(16)?,
                bytes: entry.long(24)?,
            },
        }),
        3 => at(
            entry.long(16)?,
            What::GpuFault {
                fault: entry.byte(1)?,
                gpu: entry.half(2)?,
                address: entry.long(8)?,
                batch: entry.word(32)?,
                client: entry.byte(36)?,
                access: entry.byte(37)?,
            },
        ),
        4 => at(
            entry.long(8)?,
            What::Replay {
                gpu: entry.half(2)?,
                batch: entry.word(4)?,
            },
        ),
        5 => at(0, What::FaultBufferOverflow),
        6 => at(
            entry.long(16)?,
            What::FatalFault {
                fault: entry.byte(1)?,
                access: entry.byte(2)?,
                reason: entry.byte(3)?,
                processor: entry.half(4)?,
                address: entry.long(8)?,
            },
        ),
        7 => at(
            entry.long(24)?,
            What::ReadDuplicate {
                address: entry.long(8)?,
                bytes: entry.long(16)?,
                processors: entry.long(32)?,
            },
        ),
        8 => read_duplicate_invalidate(entry, entry.half(2)?),
        9 => page_size_change(entry, entry.half(2)?),
        10 => at(
            entry.long(24)?,
            What::Thrashing {
                address: entry.long(8)?,
                bytes: entry.long(16)?,
                processors: entry.long(32)?,
            },
        ),
        11 | 12 => throttling(entry, entry.half(2)?),
        13 => map_remote(entry, entry.byte(1)?, entry.half(4)?, entry.half(6)?),
        14 => eviction(entry, entry.half(4)?, entry.half(6)?),
        _ => None,
    }
}

fn read_duplicate_invalidate(entry: &Bytes, resident: u16) -> Option<Entry> {
    let what = What::ReadDuplicateInvalidate {
        resident,
        address: entry.long(8)?,
        bytes: entry.long(16)?,
    };
    at(entry.long(24)?, what)
}

fn page_size_change(entry: &Bytes, processor: u16) -> Option<Entry> {
    let what = What::PageSizeChange {
        processor,
        page: entry.word(4)?,
        address: entry.long(8)?,
    };
    at(entry.long(16)?, what)
}

fn throttling(entry: &Bytes, processor: u16) -> Option<Entry> {
    let address = entry.long(8)?;
    let what = match entry.byte(0)? {
        11 => What::ThrottlingStart { processor, address },
        _ => What::ThrottlingEnd { processor, address },
    };
    at(entry.long(16)?, what)
}

fn map_remote(entry: &Bytes, cause: u8, source: u16, target: u16) -> Option<Entry> {
    let what = What::MapRemote {
        cause,
        source,
        target,
        address: entry.long(8)?,
        bytes: entry.long(16)?,
    };
    at(entry.long(24)?, what)
}

fn eviction(entry: &Bytes, source: u16, target: u16) -> Option<Entry> {
    let what = What::Eviction {
        source,
        target,
        address: entry.long(8)?,
        for_address: entry.long(16)?,
        bytes: entry.long(24)?,
    };
    at(entry.long(32)?, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with these numbers at these places, little-endian.
    fn bytes(layout: Layout, fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; layout.bytes()];
        for &(place, size, value) in fields {
            bytes[place..place + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        bytes
    }

    #[test]
    fn a_migration_in_both_layouts() {
        let what = What::Migration {
            cause: 2,
            source: 0,
            target: 1,
            address: 0x7f00_0000_0000,
            bytes: 65_536,
        };
        let expected = Entry {
            start: 1000,
            end: Some(1500),
            on_gpu: Some((70_000, 70_100)),
            what,
        };
        let old = [
            (0, 1, 2),
            (1, 1, 2),
            (3, 1, 1),
            (8, 8, 0x7f00_0000_0000),
            (16, 8, 65_536),
            (24, 8, 1000),
            (32, 8, 1500),
            (48, 8, 70_000),
            (56, 8, 70_100),
        ];
        let old = bytes(Layout::First, &old);
        assert_eq!(decode(Layout::First, &old), Some(expected.clone()));
        let new = [
            (0, 1, 2),
            (1, 1, 2),
            (6, 2, 1),
            (8, 4, 0xffff_ffff),
            (16, 8, 0x7f00_0000_0000),
            (24, 8, 65_536),
            (32, 8, 1000),
            (40, 8, 1500),
            (56, 8, 70_000),
            (64, 8, 70_100),
        ];
        let new = bytes(Layout::Second, &new);
        assert_eq!(decode(Layout::Second, &new), Some(expected));
        // An entry that is too short is none.
        assert_eq!(decode(Layout::Second, &new[..71]), None);
    }

    #[test]
    fn faults_name_who_and_where() {
        let fault = [
            (0, 1, 3),
            (1, 1, 2),
            (2, 2, 300),
            (8, 8, 0xabc000),
            (16, 8, 77),
            (32, 4, 9),
            (36, 1, 1),
            (37, 1, 2),
        ];
        let what = What::GpuFault {
            gpu: 300,
            fault: 2,
            access: 2,
            client: 1,
            address: 0xabc000,
            batch: 9,
        };
        let decoded = decode(Layout::Second, &bytes(Layout::Second, &fault));
        assert_eq!(
            decoded.map(|entry| (entry.start, entry.what)),
            Some((77, what))
        );
        let fault = [
            (0, 1, 1),
            (1, 1, 1),
            (4, 4, 12),
            (8, 8, 0xdef000),
            (16, 8, 88),
            (24, 4, 41),
            (28, 4, 42),
            (32, 8, 0x401000),
        ];
        let what = What::CpuFault {
            access: 1,
            cpu: 12,
            address: 0xdef000,
            tid: 42,
            pc: 0x401000,
        };
        for layout in [Layout::First, Layout::Second] {
            let decoded = decode(layout, &bytes(layout, &fault));
            let entry = decoded.expect("an entry");
            assert_eq!((entry.start, &entry.what), (88, &what));
        }
    }

    #[test]
    fn every_kind_is_decoded_and_nothing_else() {
        for layout in [Layout::First, Layout::Second] {
            for kind in 0..=u8::MAX {
                let mut entry = vec![0xff; layout.bytes()];
                entry[0] = kind;
                let known = kind < 64 && KINDS >> kind & 1 == 1;
                assert_eq!(decode(layout, &entry).is_some(), known, "{layout:?} {kind}");
            }
            assert_eq!(decode(layout, &[]), None);
        }
    }
}
