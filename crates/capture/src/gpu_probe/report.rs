//! What probes found as plain data: maps decoded, counts summed over contexts, kernels with their names.

use super::{
    MapDump, ProbeResults, is_set,
    programs::{Probes, Ready, What, accesses, is_time},
    words::{notes, unread},
};
use event::Value;
use event::probed::{
    BlockSchedule, DurationBins, MemoryAccess, ProbeAnswer, ProbeReport, ProbedKernel, ProbedMap,
    ProbedRing, ThreadCounts,
};
use ptx::{device::map_kind, rewrite::readable};
use std::collections::BTreeMap;

impl ProbeResults {
    pub fn report(&self, probes: &Probes) -> ProbeReport {
        let ready = match probes.what {
            What::Ready(ready) => Some(ready),
            What::Object(_) => None,
        };
        let mut all = notes(
            probes,
            &self.notes,
            &self.dumps,
            &self.rings,
            &self.readings,
        );
        all.extend(self.unprobed.notes.iter().cloned());
        let is_unread = unread(probes, &self.notes, &self.dumps).is_some();
        let is_empty = ready.is_some() && self.notes.probed.is_empty();
        let printed = self.rings.iter().filter(|ring| ring.source.map.is_none());
        ProbeReport {
            notes: all,
            kernels: self.kernels(),
            answer: (!is_unread && !is_empty)
                .then(|| answer(probes, &self.dumps, &self.spans, &self.accesses)),
            recorded: match ready {
                Some(Ready::Trace) => Some(self.recorded("block")),
                Some(Ready::TraceThreads) => Some(self.recorded("thread")),
                _ => None,
            },
            rings: match ready {
                Some(_) => Vec::new(),
                None => self.own_rings(probes),
            },
            printed_in_all: printed.map(|ring| ring.read).sum(),
            printed: self.lines.clone(),
        }
    }

    fn kernels(&self) -> Vec<ProbedKernel> {
        let kernels = self.notes.probed.iter().map(|(name, notes)| ProbedKernel {
            name: readable(name),
            has_run: self.unprobed.probed.contains(name),
            facts: notes.facts.clone(),
        });
        let (mut kernels, idle): (Vec<_>, Vec<_>) = kernels.partition(|kernel| kernel.has_run);
        kernels.extend(idle);
        kernels
    }

    /// What `gpu trace` has put into the trace.
    fn recorded(&self, what: &str) -> ProbedRing {
        let heads = self.dumps.iter().filter_map(MapDump::ring);
        ProbedRing {
            name: what.to_owned(),
            read: self.rings.iter().map(|ring| ring.read).sum(),
            lost: heads.map(|ring| ring.lost).sum(),
        }
    }

    /// What was printed is shown as such.
    fn own_rings(&self, probes: &Probes) -> Vec<ProbedRing> {
        let of_maps = self.rings.iter().filter_map(|total| {
            let source = total.source;
            let dump = (self.dumps.iter()).find(|dump| {
                (dump.pid, dump.context, dump.map) == (source.pid, source.context, source.map)
            });
            Some(ProbedRing {
                name: probes.map_name(source.map?).to_owned(),
                read: total.read,
                lost: dump.and_then(MapDump::ring).map_or(0, |ring| ring.lost),
            })
        });
        of_maps.collect()
    }
}

/// What maps held while the program ran; whose memory it was becomes known at the end.
pub fn answer_so_far(probes: &Probes, dumps: &[MapDump]) -> ProbeAnswer {
    let accesses = match probes.addresses_of() {
        Some(one_of) => accesses(dumps, one_of, |_, _| None),
        None => Vec::new(),
    };
    answer(probes, dumps, &[], &accesses)
}

fn answer(
    probes: &Probes,
    dumps: &[MapDump],
    spans: &[(u64, u64)],
    accesses: &[MemoryAccess],
) -> ProbeAnswer {
    let ready = match probes.what {
        What::Ready(ready) => ready,
        What::Object(_) => {
            let maps = dumps.iter().filter_map(|dump| map(probes, dump));
            return ProbeAnswer::Maps(maps.collect());
        }
    };
    match ready {
        Ready::Count => {
            let counts = numbers(dumps, 0, 4);
            ProbeAnswer::Counts(ThreadCounts {
                entered: counts[0],
                warps: counts[1],
                blocks: counts[2],
                left: counts[3],
            })
        }
        Ready::Hist => {
            let totals = numbers(dumps, 2, 4);
            let bins = |map, at: usize| DurationBins {
                count: totals[at],
                sum: totals[at + 1],
                bins: numbers(dumps, map, 64),
            };
            ProbeAnswer::Durations {
                warps: bins(1, 0),
                blocks: bins(3, 2),
            }
        }
        Ready::Trace | Ready::TraceThreads => ProbeAnswer::Recorded,
        Ready::Sched => ProbeAnswer::Schedule(BlockSchedule {
            blocks: blocks(dumps),
            spans: spans.to_vec(),
        }),
        Ready::Mem { .. } => ProbeAnswer::Accesses(accesses.to_vec()),
    }
}

/// An array's values, over all contexts.
fn numbers(dumps: &[MapDump], map: usize, count: usize) -> Vec<u64> {
    let mut sums = vec![0u64; count];
    for dump in dumps.iter().filter(|dump| dump.map == Some(map)) {
        for (sum, word) in sums.iter_mut().zip(dump.bytes().chunks_exact(8)) {
            *sum += u64::from_le_bytes(word.try_into().unwrap_or_default());
        }
    }
    sums
}

/// Blocks by multiprocessor.
fn blocks(dumps: &[MapDump]) -> BTreeMap<usize, u64> {
    let mut blocks = BTreeMap::new();
    for dump in dumps.iter().filter(|dump| dump.map == Some(2)) {
        for (sm, word) in dump.bytes().chunks_exact(8).enumerate() {
            let count = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if count > 0 {
                *blocks.entry(sm).or_default() += count;
            }
        }
    }
    blocks
}

/// A map of the user's; None of one that nobody asked for.
fn map(probes: &Probes, dump: &MapDump) -> Option<ProbedMap> {
    let (number, spec) = (dump.map?, dump.spec());
    // Constants, and sections of global variables that nobody has set, are no news.
    let is_unset = spec.name.starts_with('.') && !is_set(dump.bytes());
    if spec.kind == map_kind::RING || is_unset || probes.is_hidden(number) {
        return None;
    }
    let key = |bytes: &[u8]| probes.value(number, bytes, true);
    let value = |bytes: &[u8]| probes.value(number, bytes, false);
    let is_hash = map_kind::is_hash(spec.kind);
    let has_copies = dump.layout().copies > 1;
    let entries: Vec<(Value, Vec<(usize, Value)>)> = if has_copies {
        let set = dump.set_entries().into_iter();
        set.filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                let values = values.iter().map(|(copy, bytes)| (*copy, value(bytes)));
                (key(&name), values.collect())
            })
            .collect()
    } else {
        // A key that is in a hash is news, whatever its value is.
        (dump.entries().iter())
            .filter_map(|entry| Some((entry, *entry.values.first()?)))
            .filter(|(_, bytes)| is_hash || is_set(bytes))
            .map(|(entry, bytes)| (key(&entry.key), vec![(0, value(bytes))]))
            .collect()
    };
    Some(ProbedMap {
        name: spec.name.clone(),
        kind: dump.kind.clone(),
        context: dump.context,
        values_of: has_copies.then_some(match spec.kind {
            map_kind::THREAD_ARRAY | map_kind::THREAD_HOST_ARRAY => "thread",
            map_kind::SM_ARRAY => "SM",
            map_kind::WARP_ARRAY => "warp",
            _ => "processor",
        }),
        is_hash,
        is_in_powers_of_two: probes.is_in_powers_of_two(number),
        has_times: is_time(&spec.name),
        max_entries: spec.max_entries,
        entries,
    })
}
