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
pub struct UvmEntry {
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
pub fn decode(layout: Layout, bytes: &[u8]) -> Option<UvmEntry> {
    let bytes = bytes.get(..layout.bytes())?;
    let fields = Fields { layout, bytes };
    let (start, what) = fields.what()?;
    let (end, on_gpu) = match what {
        What::Migration { .. } => (fields.long(32, 40), fields.time_on_gpu()),
        _ => (None, None),
    };
    Some(UvmEntry {
        start,
        end,
        on_gpu,
        what,
    })
}

/// An entry's fields, by their places in the first and in the second layout.
struct Fields<'a> {
    layout: Layout,
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn at<const BYTES: usize>(&self, first: usize, second: usize) -> Option<[u8; BYTES]> {
        let place = match self.layout {
            Layout::First => first,
            Layout::Second => second,
        };
        self.bytes.get(place..)?.first_chunk().copied()
    }

    fn byte(&self, first: usize, second: usize) -> Option<u8> {
        self.at(first, second).map(u8::from_le_bytes)
    }

    fn word(&self, first: usize, second: usize) -> Option<u32> {
        self.at(first, second).map(u32::from_le_bytes)
    }

    fn long(&self, first: usize, second: usize) -> Option<u64> {
        self.at(first, second).map(u64::from_le_bytes)
    }

    /// A processor's number: a byte, in the second layout two.
    fn processor(&self, first: usize, second: usize) -> Option<u16> {
        match self.layout {
            Layout::First => self.byte(first, first).map(u16::from),
            Layout::Second => self.at(second, second).map(u16::from_le_bytes),
        }
    }

    /// Copies that the CPU makes have no times of a GPU's.
    fn time_on_gpu(&self) -> Option<(u64, u64)> {
        let (begin, end) = (self.long(48, 56)?, self.long(56, 64)?);
        (begin != 0 && end >= begin).then_some((begin, end))
    }

    /// When it happened, and what.
    fn what(&self) -> Option<(u64, What)> {
        Some(match self.byte(0, 0)? {
            1 => (
                self.long(16, 16)?,
                What::CpuFault {
                    access: self.byte(1, 1)?,
                    cpu: self.word(4, 4)?,
                    address: self.long(8, 8)?,
                    tid: self.word(28, 28)?,
                    pc: self.long(32, 32)?,
                },
            ),
            2 => (
                self.long(24, 32)?,
                What::Migration {
                    cause: self.byte(1, 1)?,
                    source: self.processor(2, 4)?,
                    target: self.processor(3, 6)?,
                    address: self.long(8, 16)?,
                    bytes: self.long(16, 24)?,
                },
            ),
            3 => (
                self.long(16, 16)?,
                What::GpuFault {
                    fault: self.byte(1, 1)?,
                    access: self.byte(2, 37)?,
                    gpu: self.processor(3, 2)?,
                    address: self.long(8, 8)?,
                    batch: self.word(32, 32)?,
                    client: self.byte(36, 36)?,
                },
            ),
            4 => (
                self.long(8, 8)?,
                What::Replay {
                    gpu: self.processor(1, 2)?,
                    batch: self.word(4, 4)?,
                },
            ),
            5 => (0, What::FaultBufferOverflow),
            6 => (
                self.long(16, 16)?,
                What::FatalFault {
                    fault: self.byte(1, 1)?,
                    access: self.byte(2, 2)?,
                    processor: self.processor(3, 4)?,
                    reason: self.byte(4, 3)?,
                    address: self.long(8, 8)?,
                },
            ),
            7 => (
                self.long(32, 24)?,
                What::ReadDuplicate {
                    processors: self.long(8, 32)?,
                    address: self.long(16, 8)?,
                    bytes: self.long(24, 16)?,
                },
            ),
            8 => (
                self.long(24, 24)?,
                What::ReadDuplicateInvalidate {
                    resident: self.processor(1, 2)?,
                    address: self.long(8, 8)?,
                    bytes: self.long(16, 16)?,
                },
            ),
            9 => (
                self.long(16, 16)?,
                What::PageSizeChange {
                    processor: self.processor(1, 2)?,
                    page: self.word(4, 4)?,
                    address: self.long(8, 8)?,
                },
            ),
            10 => (
                self.long(32, 24)?,
                What::Thrashing {
                    processors: self.long(8, 32)?,
                    address: self.long(16, 8)?,
                    bytes: self.long(24, 16)?,
                },
            ),
            11 => (
                self.long(16, 16)?,
                What::ThrottlingStart {
                    processor: self.processor(1, 2)?,
                    address: self.long(8, 8)?,
                },
            ),
            12 => (
                self.long(16, 16)?,
                What::ThrottlingEnd {
                    processor: self.processor(1, 2)?,
                    address: self.long(8, 8)?,
                },
            ),
            13 => (
                self.long(24, 24)?,
                What::MapRemote {
                    cause: self.byte(3, 1)?,
                    source: self.processor(1, 4)?,
                    target: self.processor(2, 6)?,
                    address: self.long(8, 8)?,
                    bytes: self.long(16, 16)?,
                },
            ),
            14 => (
                self.long(32, 32)?,
                What::Eviction {
                    source: self.processor(1, 4)?,
                    target: self.processor(2, 6)?,
                    address: self.long(8, 8)?,
                    for_address: self.long(16, 16)?,
                    bytes: self.long(24, 24)?,
                },
            ),
            _ => return None,
        })
    }
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
        let expected = UvmEntry {
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
