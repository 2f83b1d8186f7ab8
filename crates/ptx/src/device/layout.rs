//! What host and device share: descriptors of maps, rings, and the state of a module.

/// Numbers of map types.
pub mod map_kind {
    /// Only programs of the host use it: it has no memory here.
    pub const ELSEWHERE: u32 = 0;
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const GPU_HASH: u32 = 1501;
    pub const THREAD_ARRAY: u32 = 1502;
    pub const GPU_ARRAY: u32 = 1503;
    pub const SHARED_ARRAY: u32 = 1504;
    pub const THREAD_HOST_ARRAY: u32 = 1512;
    pub const HOST_ARRAY: u32 = 1513;
    pub const RING: u32 = 1527;
    pub const SM_ARRAY: u32 = 1600;
    pub const WARP_ARRAY: u32 = 1601;

    pub const fn is_hash(kind: u32) -> bool {
        matches!(kind, HASH | GPU_HASH)
    }

    /// In memory of the host, which both sides see all the time.
    pub const fn is_host(kind: u32) -> bool {
        matches!(kind, SHARED_ARRAY | THREAD_HOST_ARRAY | HOST_ARRAY)
    }

    pub const fn is_known(kind: u32) -> bool {
        is_hash(kind)
            || is_host(kind)
            || matches!(
                kind,
                ARRAY | THREAD_ARRAY | GPU_ARRAY | RING | SM_ARRAY | WARP_ARRAY
            )
    }

    pub const fn name(kind: u32) -> &'static str {
        match kind {
            HASH => "hash",
            ARRAY => "array",
            GPU_HASH => "gpu hash",
            THREAD_ARRAY => "array per thread",
            GPU_ARRAY => "gpu array",
            SHARED_ARRAY => "shared array",
            THREAD_HOST_ARRAY => "host array per thread",
            HOST_ARRAY => "host array",
            RING => "ring",
            SM_ARRAY => "array per multiprocessor",
            WARP_ARRAY => "array per warp",
            _ => "unknown",
        }
    }
}

/// A map, as device code sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Values; of a hash the block before its slots; of a ring its heads.
    pub base: u64,
    /// Of a ring: where the host's side of it is.
    pub host_base: u64,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    /// Values a key has.
    pub threads: u64,
    /// Bytes from one value, or slot, to the next.
    pub stride: u64,
    /// Slots of a hash, or of each part of a ring: a power of two. Bytes of a multiprocessor's copy.
    pub capacity: u64,
    /// Parts of a ring, or copies of a map that multiprocessors have.
    pub parts: u64,
}

impl Descriptor {
    pub const BYTES: usize = 64;

    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let words: [(usize, u64); 6] = [
            (0, self.base),
            (8, self.host_base),
            (32, self.threads),
            (40, self.stride),
            (48, self.capacity),
            (56, self.parts),
        ];
        for (at, word) in words {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let halves = [
            (16, self.kind),
            (20, self.key_size),
            (24, self.value_size),
            (28, self.max_entries),
        ];
        for (at, word) in halves {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// The head of a ring's part, as it is in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ring {
    pub head: u64,
    pub seen_tail: u64,
    pub lost: u64,
}

impl Ring {
    pub const BYTES: usize = 64;

    /// All parts together: what was taken, and what found no room.
    pub fn sum(bytes: &[u8]) -> Ring {
        let parts = bytes.chunks_exact(Self::BYTES).filter_map(Ring::read);
        parts.fold(Ring::default(), |all, one| Ring {
            head: all.head.saturating_add(one.head),
            seen_tail: all.seen_tail.saturating_add(one.seen_tail),
            lost: all.lost.saturating_add(one.lost),
        })
    }

    pub fn read(bytes: &[u8]) -> Option<Ring> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Ring {
            head: word(0)?,
            seen_tail: word(8)?,
            lost: word(16)?,
        })
    }
}

/// Where a ring's slots begin in its host memory; the tails of its parts come first.
pub const RING_DATA: usize = 16384;
/// Bytes from one part's tail to the next.
pub const TAIL_STRIDE: usize = 64;
/// Behind the first tail: how many parts there are, and slots in each.
pub const PARTS_AT: usize = 8;
pub const CAPACITY_AT: usize = 16;
/// As many as have tails before the slots.
pub const MOST_PARTS: u64 = (RING_DATA / TAIL_STRIDE) as u64;
/// `{u32 bytes, round; u32 0, round}` before a record's data.
pub const SLOT_HEADER: usize = 16;

/// Bytes of a slot for records of so many bytes at most: each four have their round beside them.
pub const fn slot_bytes(largest: u64) -> u64 {
    SLOT_HEADER as u64 + largest.next_multiple_of(8) * 2
}

/// Bytes of `__cutrace_state`.
pub const STATE_BYTES: usize = 128;

/// What all probes of a module share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Added to %globaltimer it is the host's CLOCK_MONOTONIC.
    pub clock_offset: i64,
    /// `tgid << 32 | pid`
    pub process: u64,
    /// The ring that printk writes to.
    pub log: Descriptor,
}

impl State {
    pub fn bytes(&self) -> [u8; STATE_BYTES] {
        let mut out = [0; STATE_BYTES];
        out[..8].copy_from_slice(&self.clock_offset.to_le_bytes());
        out[8..16].copy_from_slice(&self.process.to_le_bytes());
        out[64..].copy_from_slice(&self.log.bytes());
        out
    }
}
