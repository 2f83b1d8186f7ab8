//! Records of CUPTI's activity interface, 11.0 to 13.4.
//!
//! A record's fields lie where they have lain since they were added; newer versions add fields at
//! the end. So one set of offsets reads them all, and a record's length says what is in it.
//! `tests/cupti.rs` compares the offsets with NVIDIA's headers where they are installed.

pub const MEMCPY: u32 = 1;
pub const MEMSET: u32 = 2;
pub const KERNEL: u32 = 3;
pub const DRIVER: u32 = 4;
pub const RUNTIME: u32 = 5;
pub const CONTEXT: u32 = 9;
pub const CONCURRENT_KERNEL: u32 = 10;
pub const OVERHEAD: u32 = 17;
pub const MEMCPY2: u32 = 22;
pub const UNIFIED_MEMORY_COUNTER: u32 = 25;
pub const SYNCHRONIZATION: u32 = 38;

/// What CUPTI writes where there is no stream, event or correlation.
pub const NONE: u32 = u32::MAX;

/// What one record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Kernel(Kernel),
    Copy(Copy),
    Fill(Fill),
    Call(ApiCall),
    Synchronisation(Synchronisation),
    Overhead(Overhead),
    Counter(Counter),
    /// Of no use here, or too short for its kind.
    Other(u32),
}

/// When work ran and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkPlacement {
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    /// The executable graph and the node in it; 0: none.
    pub graph: u32,
    pub node: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kernel {
    pub place: WorkPlacement,
    /// The address of its name in the process.
    pub name: u64,
    pub registers: u16,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub static_shared: u32,
    pub dynamic_shared: u32,
    /// Local memory of each thread.
    pub local: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copy {
    pub place: WorkPlacement,
    pub bytes: u64,
    /// CUPTI_ACTIVITY_MEMCPY_KIND
    pub kind: u8,
    /// CUPTI_ACTIVITY_MEMORY_KIND of both ends.
    pub from: u8,
    pub to: u8,
    /// Between devices: which.
    pub devices: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    pub place: WorkPlacement,
    pub bytes: u64,
    pub value: u32,
    pub memory: u16,
}

/// A call of the driver's or the runtime's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApiCall {
    pub is_runtime: bool,
    pub number: u32,
    pub start: u64,
    pub end: u64,
    pub thread: u32,
    pub correlation: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Synchronisation {
    pub kind: u32,
    pub start: u64,
    pub end: u64,
    pub correlation: u32,
    pub context: u32,
    /// [`NONE`] where it is for no stream, likewise for no event.
    pub stream: u32,
    pub event: u32,
}

/// Time that CUPTI or the driver took for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overhead {
    pub kind: u32,
    pub start: u64,
    pub end: u64,
}

/// A counter of unified memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counter {
    pub kind: u32,
    pub value: u64,
    pub start: u64,
    pub end: u64,
    pub address: u64,
    pub from: u32,
    pub to: u32,
}

/// Little-endian numbers at places of a record; 0 behind its end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(found) = self.0.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        bytes
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes::<1>(at)[0]
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn words(&self, at: usize) -> [u32; 3] {
        [self.word(at), self.word(at + 4), self.word(at + 8)]
    }
}

/// The least a record of a kind that is understood must have: up to its last field that all
/// supported versions have.
fn least(kind: u32) -> Option<usize> {
    Some(match kind {
        KERNEL | CONCURRENT_KERNEL => 112,
        MEMCPY | MEMSET => 48,
        MEMCPY2 => 64,
        DRIVER | RUNTIME => 40,
        SYNCHRONIZATION => 40,
        OVERHEAD => 40,
        UNIFIED_MEMORY_COUNTER => 56,
        _ => return None,
    })
}

/// The place of the name's address in a kernel's record.
pub const KERNEL_NAME: usize = 104;

/// A kernel's record: has a name that only its process can read.
pub fn is_kernel(kind: u32) -> bool {
    matches!(kind, KERNEL | CONCURRENT_KERNEL)
}

impl Activity {
    /// Reads one record of exactly these bytes.
    pub fn read(bytes: &[u8]) -> Activity {
        let fields = Fields(bytes);
        let kind = fields.word(0);
        if least(kind).is_none_or(|least| bytes.len() < least) {
            return Activity::Other(kind);
        }
        match kind {
            KERNEL | CONCURRENT_KERNEL => Activity::Kernel(Kernel {
                place: WorkPlacement {
                    start: fields.long(16),
                    end: fields.long(24),
                    device: fields.word(40),
                    context: fields.word(44),
                    stream: fields.word(48),
                    correlation: fields.word(92),
                    graph: fields.word(156),
                    node: fields.long(144),
                },
                name: fields.long(KERNEL_NAME),
                registers: fields.half(6),
                grid: fields.words(52),
                block: fields.words(64),
                static_shared: fields.word(76),
                dynamic_shared: fields.word(80),
                local: fields.word(84),
            }),
            MEMCPY => Activity::Copy(Copy {
                place: fields.copy_place(44, 64, 72),
                bytes: fields.long(8),
                kind: fields.byte(4),
                from: fields.byte(5),
                to: fields.byte(6),
                devices: None,
            }),
            MEMCPY2 => Activity::Copy(Copy {
                place: fields.copy_place(60, 72, 80),
                bytes: fields.long(8),
                kind: fields.byte(4),
                from: fields.byte(5),
                to: fields.byte(6),
                devices: Some((fields.word(44), fields.word(52))),
            }),
            MEMSET => Activity::Fill(Fill {
                place: fields.copy_place(44, 64, 72),
                bytes: fields.long(8),
                value: fields.word(4),
                memory: fields.half(50),
            }),
            DRIVER | RUNTIME => Activity::Call(ApiCall {
                is_runtime: kind == RUNTIME,
                number: fields.word(4),
                start: fields.long(8),
                end: fields.long(16),
                thread: fields.word(28),
                correlation: fields.word(32),
            }),
            SYNCHRONIZATION => Activity::Synchronisation(Synchronisation {
                kind: fields.word(4),
                start: fields.long(8),
                end: fields.long(16),
                correlation: fields.word(24),
                context: fields.word(28),
                stream: fields.word(32),
                event: fields.word(36),
            }),
            OVERHEAD => Activity::Overhead(Overhead {
                kind: fields.word(4),
                start: fields.long(24),
                end: fields.long(32),
            }),
            UNIFIED_MEMORY_COUNTER => Activity::Counter(Counter {
                kind: fields.word(4),
                value: fields.long(8),
                start: fields.long(16),
                end: fields.long(24),
                address: fields.long(32),
                from: fields.word(40),
                to: fields.word(44),
            }),
            kind => Activity::Other(kind),
        }
    }
}

impl Fields<'_> {
    /// Where copies and fills ran: alike but for where the last fields are.
    fn copy_place(&self, correlation: usize, node: usize, graph: usize) -> WorkPlacement {
        WorkPlacement {
            start: self.long(16),
            end: self.long(24),
            device: self.word(32),
            context: self.word(36),
            stream: self.word(40),
            correlation: self.word(correlation),
            graph: self.word(graph),
            node: self.long(node),
        }
    }
}

/// CUPTI_ACTIVITY_MEMORY_KIND, in a word.
pub fn memory_name(kind: u16) -> &'static str {
    match kind {
        1 => "pageable",
        2 => "pinned",
        3 => "device",
        4 => "array",
        5 => "managed",
        6 => "device static",
        7 => "managed static",
        _ => "unknown",
    }
}

/// What CUPTI or the driver did in the time it took for itself.
pub fn overhead_name(kind: u32) -> &'static str {
    match kind {
        1 => "driver compiler",
        0x1_0000 => "CUPTI buffer flush",
        0x2_0000 => "CUPTI instrumentation",
        0x3_0000 => "CUPTI resources",
        0x4_0000 => "module loading by the runtime",
        0x5_0000 => "lazy function loading",
        0x6_0000 => "command buffer full",
        0x7_0000 => "CUPTI buffer request",
        0x8_0000 => "unified memory activity start",
        _ => "CUPTI",
    }
}

/// CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE, in words.
pub fn synchronisation_name(kind: u32) -> &'static str {
    match kind {
        1 => "wait for event",
        2 => "stream waits for event",
        3 => "wait for stream",
        4 => "wait for context",
        _ => "wait",
    }
}

/// A CUptiResult in words that help.
pub fn result_words(result: u32) -> &'static str {
    match result {
        7 => "CUPTI refused the operation",
        11 | 27 => "this CUPTI has no such function",
        14 => "this CUPTI does not match the driver",
        15 => "CUPTI could not be initialised with this driver",
        23 => "CUPTI is disabled here: another profiler or a debugger uses it",
        26 => "the profiling hardware is in use by another tool",
        28..=31 => "unified memory cannot be traced on this device",
        33 | 40 => "the device is a virtual GPU that may not be profiled",
        35 => {
            "profiling this GPU is reserved for administrators (ERR_NVGPUCTRPERM): run as root, or load \
             the nvidia module with NVreg_RestrictProfilingToAdminUsers=0"
        }
        39 | 12 => "another tool uses CUPTI in this process",
        41 => "not possible under confidential computing",
        43 => "not possible on this MIG device",
        45 => "not possible under WSL",
        _ => "CUPTI failed",
    }
}

/// A function's name without what all of its API begin with.
fn bare(name: &str) -> Option<&str> {
    name.strip_prefix("cuda")
        .or_else(|| name.strip_prefix("cu"))
}

/// Whether an API function waits for the GPU or makes a stream wait, by its name as CUPTI tells it:
/// those that synchronisation records are of.
pub fn synchronises(name: &str) -> bool {
    bare(name).is_some_and(|rest| {
        [
            "CtxSynchronize",
            "DeviceSynchronize",
            "ThreadSynchronize",
            "StreamSynchronize",
            "StreamWaitEvent",
            "EventSynchronize",
        ]
        .iter()
        .any(|prefix| rest.starts_with(prefix))
    })
}

/// Whether an API function may give the GPU work, by its name as CUPTI tells it.
pub fn submits_work(name: &str) -> bool {
    let Some(rest) = bare(name) else {
        return false;
    };
    let begins = |prefix: &str| rest.starts_with(prefix);
    !begins("LaunchHostFunc")
        && (begins("Launch")
            || begins("GraphLaunch")
            || begins("Memcpy")
            || begins("Memset")
            || begins("MemPrefetch")
            || begins("MemBatchDecompress"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_unknown_records_are_no_reason_to_fail() {
        for kind in 0..64u32 {
            for length in 0..256 {
                let mut bytes = [0xff; 256];
                bytes[..4].copy_from_slice(&kind.to_le_bytes());
                let read = Activity::read(&bytes[..length]);
                if length < 32 {
                    assert!(
                        matches!(read, Activity::Other(_)),
                        "{kind} {length}: {read:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_gives_work_is_known_by_name() {
        for name in [
            "cuLaunchKernel_ptsz",
            "cudaMemcpyAsync",
            "cuMemsetD2D8_v2",
            "cudaGraphLaunch",
        ] {
            assert!(submits_work(name), "{name}");
        }
        for name in [
            "cuLaunchHostFunc",
            "cuMemAlloc_v2",
            "cudaGraphAddNode",
            "culaunch",
            "x",
        ] {
            assert!(!submits_work(name), "{name}");
        }
    }

    #[test]
    fn what_waits_is_known_by_name() {
        for name in [
            "cuCtxSynchronize",
            "cuCtxSynchronize_v2",
            "cudaDeviceSynchronize_v3020",
            "cudaStreamSynchronize_ptsz",
            "cuStreamWaitEvent",
            "cuEventSynchronize",
        ] {
            assert!(synchronises(name) && !submits_work(name), "{name}");
        }
        for name in ["cuStreamQuery", "cuEventRecord", "cudaMemcpy", "x"] {
            assert!(!synchronises(name), "{name}");
        }
    }
}
