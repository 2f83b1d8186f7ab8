//! What programs inside kernels found, as plain data: capture fills it, render shows it.

use crate::Value;
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// All that there is to say of a run's probes when it has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeReport {
    /// What was not as it should be.
    pub notes: Vec<String>,
    /// Kernels with probes; those that ran first.
    pub kernels: Vec<ProbedKernel>,
    /// None where nothing was counted, or where it could not be read: zeros would be read as counts.
    pub answer: Option<ProbeAnswer>,
    /// What went into the trace.
    pub recorded: Option<ProbedRing>,
    /// The rings of the user's own programs.
    pub rings: Vec<ProbedRing>,
    /// Lines that programs printed, the first of them, and how many there were.
    pub printed: Vec<String>,
    pub printed_in_all: u64,
}

/// A kernel that was given probes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedKernel {
    /// Demangled.
    pub name: String,
    pub has_run: bool,
    /// What the probes did to it, and what became of it: `entries`, `registers`, …
    pub facts: BTreeMap<String, String>,
}

/// Records that came through a ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedRing {
    /// The ring's own name, or what its records are.
    pub name: String,
    pub read: u64,
    pub lost: u64,
}

/// What maps say, now or at the end.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeAnswer {
    Counts(ThreadCounts),
    Durations {
        warps: DurationBins,
        blocks: DurationBins,
    },
    Schedule(BlockSchedule),
    Accesses(Vec<MemoryAccess>),
    /// Nothing: the records are in the trace.
    Recorded,
    /// Maps of the user's own programs.
    Maps(Vec<ProbedMap>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    pub entered: u64,
    pub warps: u64,
    pub blocks: u64,
    pub left: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationBins {
    pub count: u64,
    /// Nanoseconds.
    pub sum: u64,
    /// Bin n has what is below 2^n ns and not below half of it.
    pub bins: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockSchedule {
    /// Blocks by multiprocessor.
    pub blocks: BTreeMap<usize, u64>,
    /// When blocks began and ended, in the device's time, the first of them.
    pub spans: Vec<(u64, u64)>,
}

/// A map of one context.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbedMap {
    pub name: String,
    /// In words.
    pub kind: String,
    /// 0: there is only one.
    pub context: u32,
    /// Where each key has many values: whose they are (thread, SM, warp, processor).
    pub values_of: Option<&'static str>,
    pub is_hash: bool,
    /// Keys are what `gpu_histogram` makes of numbers.
    pub is_in_powers_of_two: bool,
    /// Values are moments.
    pub has_times: bool,
    pub max_entries: u32,
    /// Keys with those of their values that are set, each with its place among the key's.
    pub entries: Vec<(Value, Vec<(usize, Value)>)>,
}

/// One access of one context: a load, a store or the like in a kernel's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryAccess {
    pub pid: u32,
    pub context: u32,
    pub number: u32,
    /// In the source; 0: unknown.
    pub line: u32,
    pub space: &'static str,
    pub kind: &'static str,
    /// Bytes of one thread; 0 where that is another each time.
    pub size: u32,
    /// Requests were counted one in so many; the numbers below are scaled up to the whole.
    pub one_of: u32,
    /// How far off they may be, in millionths, with a confidence of 95 %; 0 where all were counted.
    pub error_ppm: u64,
    /// By warps.
    pub requests: u64,
    pub threads: u64,
    pub bytes: u64,
    /// Sectors of 32 bytes; in shared memory passes.
    pub parts: u64,
    pub is_shared: bool,
    /// Lines of [`CACHE_LINE_BYTES`] that it touched, as far as there was room to tell them apart.
    pub lines: u64,
    /// How many threads went to the line with the fewest and the one with the most.
    pub least: u64,
    pub most: u64,
    /// Threads at lines that found no room.
    pub untold: u64,
    /// The busiest lines.
    pub hot: Vec<CacheLine>,
    /// Whose memory it was, the busiest first.
    pub owners: Vec<(MemoryOwner, u64)>,
}

pub const CACHE_LINE_BYTES: u64 = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLine {
    /// In shared memory from its beginning.
    pub address: u64,
    pub threads: u64,
    /// And how far in the line begins.
    pub owner: Option<(MemoryOwner, i64)>,
}

/// Memory with a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryOwner {
    /// A function that allocates, or a variable.
    pub name: String,
    /// Which of the run's allocations; 0 is a variable.
    pub number: u64,
    pub bytes: u64,
    /// The call's id in the trace.
    pub op: u64,
    /// How often there was memory there.
    pub times: u64,
}
