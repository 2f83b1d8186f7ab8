//! Maps of an object, their kinds, and the descriptor through which a program on the GPU sees them.
//!
//! The descriptors of all maps of an object stand one after another in the variable
//! `__cutrace_maps`, [`DESCRIPTOR_BYTES`] each, in the order of [`crate::Object::maps`].

/// The variable that holds the descriptors.
pub const DESCRIPTORS: &str = "__cutrace_maps";
pub const DESCRIPTOR_BYTES: usize = 64;

/// Where things stand in a descriptor.
pub mod descriptor {
    /// u64: the first value, at an address the GPU reaches.
    pub const BASE: usize = 0;
    /// u64: the same for the host, if it reaches it.
    pub const HOST_BASE: usize = 8;
    /// u32: the number of the kind.
    pub const KIND: usize = 16;
    pub const KEY_SIZE: usize = 20;
    pub const VALUE_SIZE: usize = 24;
    pub const MAX_ENTRIES: usize = 28;
    /// u64: how many copies of a value there are, in maps of one per thread, warp or SM.
    pub const COPIES: usize = 32;
    /// u64: how many copies of a whole map there are, in maps that have one for each SM.
    pub const PARTS: usize = 56;
}

/// Bytes from one SM's copy of a map to the next: no two share a line of the cache.
pub fn spread_bytes(map: &Map) -> u64 {
    (u64::from(map.max_entries) * u64::from(map.value_size)).next_multiple_of(SPREAD_ALIGNMENT)
}

/// What the copies of multiprocessors begin at multiples of.
pub const SPREAD_ALIGNMENT: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    pub name: String,
    pub kind: MapKind,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    /// `map_flags` of the definition.
    pub flags: u32,
    /// BTF type of a key and of a value, where the definition names one.
    pub key_type: Option<u32>,
    pub value_type: Option<u32>,
    /// Set for global data (.rodata, .data, .bss): what the value starts as.
    pub initial: Option<Vec<u8>>,
    /// .rodata.
    pub read_only: bool,
}

impl Map {
    /// Bytes from one entry to the next. Values are not padded: bpftime's host programs count on it. The
    /// kernel's arrays are.
    pub fn stride(&self) -> u32 {
        match self.kind {
            MapKind::KernelShared => self.value_size.next_multiple_of(8),
            _ => self.value_size,
        }
    }

    /// What every value's address is a multiple of.
    pub fn value_alignment(&self) -> u32 {
        let padded = self.kind == MapKind::KernelShared;
        if self.kind.is_array() && self.initial.is_none() && !padded {
            1 << self.value_size.trailing_zeros().min(3)
        } else {
            8
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// 1, 1501.
    Hash { host: bool },
    /// One copy: 2, 1503, 1513 (in the host's memory).
    Array { number: u32 },
    /// 1504: a kernel BPF array.
    KernelShared,
    /// One copy for each thread: 1502, 1512 (in the host's memory).
    PerThread { number: u32 },
    /// 1600: one copy for each SM.
    PerSm,
    /// 1601: one copy for each warp.
    PerWarp,
    /// 1527.
    Ring,
    /// A map of the kernel's that only programs of the host may use.
    HostOnly(u32),
}

/// Kinds the kernel has; beyond, a number is not known to anyone.
const KERNEL_KINDS: u32 = 40;

impl MapKind {
    pub fn from_number(number: u32) -> Option<MapKind> {
        Some(match number {
            1 => MapKind::Hash { host: true },
            1501 => MapKind::Hash { host: false },
            2 | 1503 | 1513 => MapKind::Array { number },
            1504 => MapKind::KernelShared,
            1502 | 1512 => MapKind::PerThread { number },
            1527 => MapKind::Ring,
            1600 => MapKind::PerSm,
            1601 => MapKind::PerWarp,
            3..KERNEL_KINDS => MapKind::HostOnly(number),
            _ => return None,
        })
    }

    pub fn number(self) -> u32 {
        match self {
            MapKind::Hash { host } => {
                if host {
                    1
                } else {
                    1501
                }
            }
            MapKind::Array { number }
            | MapKind::PerThread { number }
            | MapKind::HostOnly(number) => number,
            MapKind::KernelShared => 1504,
            MapKind::Ring => 1527,
            MapKind::PerSm => 1600,
            MapKind::PerWarp => 1601,
        }
    }

    pub fn name(self) -> &'static str {
        match self.number() {
            1 => "hash",
            2 => "array",
            1501 => "gpu hash",
            1502 => "array per thread",
            1503 => "gpu array",
            1504 => "array shared with the kernel",
            1512 => "array per thread, host memory",
            1513 => "gpu array, host memory",
            1527 => "ring",
            1600 => "array per SM",
            1601 => "array per warp",
            _ => "host only",
        }
    }

    /// Entries are numbered from 0; the key is a u32.
    pub fn is_array(self) -> bool {
        matches!(
            self,
            MapKind::Array { .. }
                | MapKind::KernelShared
                | MapKind::PerThread { .. }
                | MapKind::PerSm
                | MapKind::PerWarp
        )
    }

    /// Whether all threads reach the same values.
    pub fn is_shared(self) -> bool {
        matches!(
            self,
            MapKind::Hash { .. } | MapKind::Array { .. } | MapKind::KernelShared | MapKind::PerSm
        )
    }

    pub fn is_keyed(self) -> bool {
        self.is_array() || matches!(self, MapKind::Hash { .. })
    }
}
