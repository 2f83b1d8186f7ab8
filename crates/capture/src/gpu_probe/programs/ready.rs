//! Probes that are there without anybody writing one.

use super::{
    Probes, What,
    accesses::{LINE_ENTRY_BYTES, LINES, SITE_BYTES, SITES, SUMS_BYTES},
};
use ptx::device::{Map, Orders, map_kind, runtime};
use ptx::rewrite::{Inline, Isa, MEMORY_CONTEXT_BYTES, Pattern, Plan, Probe, ProbePoint, Sum};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Threads, warps and blocks that enter, threads that leave.
    Count,
    /// When each block came and went, and where it ran.
    Trace,
    /// The same of each thread.
    TraceThreads,
    /// How long warps take.
    Hist,
    /// What memory accesses do: all of them, or one in so many.
    Mem { one_of: u32 },
    /// How blocks are spread over multiprocessors.
    Sched,
}

/// A block, from its first thread's entry to its leaving; times are the device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
    pub block: u64,
    pub sm: u32,
    pub warp: u32,
}

/// A thread, from its entry to its leaving; times are the device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSpan {
    pub start: u64,
    pub end: u64,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub lane: u32,
    pub sm: u32,
    pub warp: u32,
}

const COUNT: &str = include_str!("count.ptx");
const WARP: &str = include_str!("warp.ptx");
const MEMORY: &str = include_str!("memory.ptx");
const THREAD: &str = include_str!("thread.ptx");

/// When a thread began, in a register that it keeps.
const THREAD_BEGAN: &str = "%cutrace_thread_began";

/// Blocks, and threads, that the ring holds until they are read, in thousands.
const BLOCKS: u32 = 256;
const THREADS: u32 = 1024;
const THREAD_BYTES: u32 = 40;

impl Ready {
    /// In these kernels.
    pub fn probes(self, kernels: &Pattern) -> Probes {
        let probe = |place, function: &str| Probe {
            place,
            kernels: kernels.clone(),
            function: function.into(),
            context_bytes: match place {
                ProbePoint::Memory => MEMORY_CONTEXT_BYTES,
                ProbePoint::Entry | ProbePoint::Return => 0,
            },
            one_of: 1,
            inline: None,
        };
        let warps = map("warps", map_kind::WARP_ARRAY, 24, 1);
        let (text, probes, maps) = match self {
            Ready::Count => (
                COUNT,
                vec![
                    probe(ProbePoint::Entry, "__cutrace_count_in"),
                    probe(ProbePoint::Return, "__cutrace_count_out"),
                ],
                vec![sums("counts", 8, 4)],
            ),
            Ready::Trace | Ready::Sched => (
                WARP,
                vec![
                    probe(ProbePoint::Entry, "__cutrace_warp_in"),
                    probe(ProbePoint::Return, "__cutrace_block_out"),
                ],
                vec![
                    warps,
                    map("blocks", map_kind::RING, 32, BLOCKS),
                    map("blocks on", map_kind::SM_ARRAY, 8, 1),
                ],
            ),
            Ready::TraceThreads => (
                THREAD,
                vec![
                    Probe {
                        inline: Some(in_thread(&format!(
                            "\tmov.u64 {THREAD_BEGAN}, %globaltimer;\n"
                        ))),
                        ..probe(ProbePoint::Entry, "__cutrace_thread_in")
                    },
                    Probe {
                        inline: Some(in_thread(&format!(
                            "\t.reg .b64 %cutrace_ignored;\n\tcall (%cutrace_ignored), __cutrace_thread_span, ({THREAD_BEGAN});\n"
                        ))),
                        ..probe(ProbePoint::Return, "__cutrace_thread_out")
                    },
                ],
                vec![map("threads", map_kind::RING, THREAD_BYTES, THREADS)],
            ),
            Ready::Hist => (
                WARP,
                vec![
                    probe(ProbePoint::Entry, "__cutrace_warp_in"),
                    probe(ProbePoint::Return, "__cutrace_warp_hist"),
                ],
                vec![
                    warps,
                    map("durations", map_kind::GPU_ARRAY, 8, 64),
                    map("total", map_kind::GPU_ARRAY, 8, 4),
                    map("block durations", map_kind::GPU_ARRAY, 8, 64),
                ],
            ),
            Ready::Mem { one_of } => (
                MEMORY,
                vec![Probe {
                    one_of,
                    ..probe(ProbePoint::Memory, "__cutrace_count_access")
                }],
                vec![
                    sums("accesses", SUMS_BYTES, SITES),
                    map("sites", map_kind::GPU_ARRAY, SITE_BYTES, SITES),
                    map("lines", map_kind::GPU_ARRAY, LINE_ENTRY_BYTES, LINES),
                ],
            ),
        };
        let prelude = format!("{}{text}", runtime(text, maps.len()));
        Probes {
            orders: Orders {
                maps,
                plan: Plan {
                    probes,
                    prelude,
                    isa: Isa::PROBES,
                },
                ..Orders::default()
            },
            what: What::Ready(self),
            host: None,
            pin: None,
            budgeted: None,
            notes: Vec::new(),
            show: None,
        }
    }
}

impl Span {
    pub fn read(data: &[u8]) -> Option<Span> {
        let word = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
        Some(Span {
            start: word(0)?,
            end: word(8)?,
            block: word(16)?,
            sm: half(24)?,
            warp: half(28)?,
        })
    }
}

impl ThreadSpan {
    pub fn read(data: &[u8]) -> Option<ThreadSpan> {
        let word = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
        let quarter = |at: usize| {
            let bytes = data.get(at..)?.first_chunk()?;
            Some(u32::from(u16::from_le_bytes(*bytes)))
        };
        Some(ThreadSpan {
            start: word(0)?,
            end: word(8)?,
            block: [half(16)?, quarter(20)?, quarter(22)?],
            thread: [quarter(24)?, quarter(26)?, quarter(28)?],
            lane: quarter(30)?,
            sm: half(32)?,
            warp: half(36)?,
        })
    }
}

/// Text for the kernel itself, which has the register when a thread began.
fn in_thread(text: &str) -> Inline {
    Inline {
        text: text.to_owned(),
        sums: vec![Sum {
            register: THREAD_BEGAN.into(),
            // It is no sum: nothing of it goes to memory.
            flush: String::new(),
        }],
        diverges: true,
    }
}

fn map(name: &str, kind: u32, value_size: u32, max_entries: u32) -> Map {
    Map {
        name: name.into(),
        kind,
        key_size: 4,
        value_size,
        max_entries,
        initial: None,
        summed: 0,
    }
}

/// An array that is only added to: each multiprocessor has its own, and they come together at the end.
fn sums(name: &str, value_size: u32, max_entries: u32) -> Map {
    Map {
        summed: 8,
        ..map(name, map_kind::GPU_ARRAY, value_size, max_entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_ptx() {
        for ready in [
            Ready::Count,
            Ready::Trace,
            Ready::TraceThreads,
            Ready::Hist,
            Ready::Mem { one_of: 1 },
            Ready::Mem { one_of: 16 },
            Ready::Sched,
        ] {
            let probes = ready.probes(&Pattern::any());
            let text = format!(
                ".version 6.3\n.target sm_70\n.address_size 64\n{}",
                probes.orders.plan.prelude
            );
            let names = &probes.orders.plan.probes;
            assert!(names.iter().all(|probe| text.contains(&probe.function)));
            ptx::rewrite::kernels(&text).unwrap_or_else(|why| panic!("{ready:?}: {why}"));
        }
    }
}
