//! Probes that are there without anybody writing one.

use super::{
    Probes, What,
    accesses::{LINE_ENTRY_BYTES, LINES, SITE_BYTES, SITES, SUMS_BYTES},
};
use ptx::device::{Map, Orders, map_kind, runtime};
use ptx::rewrite::{Isa, MEMORY_CONTEXT_BYTES, Pattern, Place, Plan, Probe};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Threads, warps and blocks that enter, threads that leave.
    Count,
    /// When each block came and went, and where it ran.
    Trace,
    /// How long warps take.
    Hist,
    /// What memory accesses do.
    Mem,
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

const COUNT: &str = include_str!("count.ptx");
const WARP: &str = include_str!("warp.ptx");
const MEMORY: &str = include_str!("memory.ptx");

/// Blocks that the ring holds until they are read.
const BLOCKS: u32 = 256;

impl Ready {
    /// In these kernels.
    pub fn probes(self, kernels: &Pattern) -> Probes {
        let probe = |place, function: &str| Probe {
            place,
            kernels: kernels.clone(),
            function: function.into(),
            context_bytes: match place {
                Place::Memory => MEMORY_CONTEXT_BYTES,
                Place::Entry | Place::Return => 0,
            },
            inline: None,
        };
        let warps = map("warps", map_kind::WARP_ARRAY, 24, 1);
        let (text, probes, maps) = match self {
            Ready::Count => (
                COUNT,
                vec![
                    probe(Place::Entry, "__cutrace_count_in"),
                    probe(Place::Return, "__cutrace_count_out"),
                ],
                vec![sums("counts", 8, 4)],
            ),
            Ready::Trace | Ready::Sched => (
                WARP,
                vec![
                    probe(Place::Entry, "__cutrace_warp_in"),
                    probe(Place::Return, "__cutrace_block_out"),
                ],
                vec![
                    warps,
                    map("blocks", map_kind::RING, 32, BLOCKS),
                    map("blocks on", map_kind::SM_ARRAY, 8, 1),
                ],
            ),
            Ready::Hist => (
                WARP,
                vec![
                    probe(Place::Entry, "__cutrace_warp_in"),
                    probe(Place::Return, "__cutrace_warp_hist"),
                ],
                vec![
                    warps,
                    map("durations", map_kind::GPU_ARRAY, 8, 64),
                    map("total", map_kind::GPU_ARRAY, 8, 4),
                    map("block durations", map_kind::GPU_ARRAY, 8, 64),
                ],
            ),
            Ready::Mem => (
                MEMORY,
                vec![probe(Place::Memory, "__cutrace_count_access")],
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
            Ready::Hist,
            Ready::Mem,
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
