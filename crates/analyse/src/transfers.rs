//! Copies: by direction and size, how fast they were, and what kind of host memory they used.
//!
//! How long a copy took is known from the GPU where the trace has its times. Otherwise it is known
//! of calls that return when the copy is done; a call that only queues one says nothing of its speed,
//! nor does one that had to wait for kernels first.

use crate::pinned::{HostKind, HostMemory};
use crate::rate::{Rate, Rates};
use crate::sites::{CallSite, Sites, may_mean};
use crate::union_by_end::UnionByEnd;
use ahash::RandomState;
use event::{Category, Direction, Event, Extent, Kind, Layer, Meaning, Record, Transfer, What};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Places listed, most bytes first.
const MOST_PLACES: usize = 32;
/// Pairs of addresses followed, to find copies that repeat.
const MOST_PAIRS: usize = 1 << 16;
/// Repeated copies listed, and how often one must repeat to be listed.
const MOST_REPEATED: usize = 16;
const REPEATS: u64 = 4;
/// Calls whose GPU work may still come.
const MOST_CORRELATED: usize = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    pub count: u64,
    pub bytes: u64,
    /// Time in which at least one copy went on, as far as it is known.
    pub busy_ns: u64,
    /// That time, call by call, over the run.
    pub rate: Rate,
    /// One a direction, most bytes first.
    pub directions: Vec<DirectionTotals>,
    /// Where most bytes are copied.
    pub places: Vec<CopyPlace>,
    /// Copies between the same two addresses, again and again.
    pub repeated: Vec<Repeated>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionTotals {
    #[serde(deserialize_with = "crate::stored::word")]
    pub direction: Direction,
    pub count: u64,
    pub bytes: u64,
    /// Calls that only queued the copy.
    pub queued: u64,
    /// Calls that waited for kernels before they copied.
    pub waited: u64,
    pub waited_ns: u64,
    /// Time in all these calls together.
    pub call_ns: u64,
    pub timed_by: TimedBy,
    /// Time in which a copy went on: a union, never a sum.
    pub busy_ns: u64,
    /// Bytes that moved in that time.
    pub timed_bytes: u64,
    pub bytes_per_second: Option<u64>,
    pub host: Vec<HostUse>,
    pub sizes: Vec<SizeBin>,
}

/// What `busy_ns` was measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedBy {
    /// The GPU's own times.
    Gpu,
    /// Calls that return when the copy is done.
    Calls,
    /// All calls only queued copies, or waited for something else too.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUse {
    pub memory: HostKind,
    pub count: u64,
    pub bytes: u64,
    pub call_ns: u64,
}

/// Copies of at least `from_bytes` and less than twice as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeBin {
    pub from_bytes: u64,
    pub count: u64,
    pub bytes: u64,
    pub call_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyPlace {
    pub place: CallSite,
    #[serde(deserialize_with = "crate::stored::word")]
    pub direction: Direction,
    pub count: u64,
    pub bytes: u64,
    /// Time in its calls, without those that waited for kernels first.
    pub copy_ns: u64,
    /// The longest of its calls, and the first and the last moment of any.
    pub op_id: u64,
    pub from_ns: u64,
    pub to_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    pub pid: u32,
    #[serde(deserialize_with = "crate::stored::word")]
    pub direction: Direction,
    pub src: u64,
    pub dst: u64,
    pub size_bytes: u64,
    pub count: u64,
    pub call_ns: u64,
    pub first_op_id: u64,
    pub last_op_id: u64,
}

#[derive(Debug)]
struct Tally {
    count: u64,
    bytes: u128,
    queued: u64,
    waited: u64,
    waited_ns: u64,
    call_ns: u64,
    by_calls: UnionByEnd,
    by_calls_bytes: u128,
    on_gpu: UnionByEnd,
    on_gpu_count: u64,
    sizes: [(u64, u64, u64); 65],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            count: 0,
            bytes: 0,
            queued: 0,
            waited: 0,
            waited_ns: 0,
            call_ns: 0,
            by_calls: UnionByEnd::default(),
            by_calls_bytes: 0,
            on_gpu: UnionByEnd::default(),
            on_gpu_count: 0,
            sizes: [(0, 0, 0); 65],
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PlaceTally {
    count: u64,
    bytes: u64,
    copy_ns: u64,
    longest: (u64, u64),
    from: u64,
    to: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    pid: u32,
    direction: Direction,
    src: u64,
    dst: u64,
    size: u64,
}

/// Follows every copy of a trace.
#[derive(Debug, Default)]
pub struct TransferSweep {
    ways: HashMap<Direction, Tally, RandomState>,
    busy_calls: UnionByEnd,
    busy_gpu: UnionByEnd,
    sites: Sites,
    places: HashMap<(u32, Direction), PlaceTally, RandomState>,
    pairs: HashMap<Pair, Repeated, RandomState>,
    host: HostMemory,
    /// Directions by correlation, for GPU work whose name does not say its own.
    correlated: HashMap<u64, Direction, RandomState>,
    latest: HashMap<(u32, u32), (u64, u64), RandomState>,
    /// Threads that launched kernels and have not waited yet.
    launched: HashSet<(u32, u32), RandomState>,
    origin: Option<u64>,
    rates: Rates,
    gpu_rates: Rates,
}

impl TransferSweep {
    /// Something happened that moves nothing and waits for nothing.
    #[inline]
    pub fn see(&mut self, ts: u64) {
        self.origin.get_or_insert(ts);
    }

    pub fn add(&mut self, record: &Record) {
        self.see(record.ts());
        match record {
            Record::Event(event) if event.layer == Layer::Gpu => self.on_gpu(event),
            Record::Event(event) => {
                if event.category == Category::Sync && event.extent != Extent::Open {
                    self.launched.remove(&(event.pid, event.tid));
                }
                if may_mean(record).is_none() {
                    return;
                }
                match event.category {
                    Category::Transfer => {
                        self.sites.called(event);
                        if let Some(correlation) = event.correlation {
                            self.remember(event, correlation);
                        }
                    }
                    _ => self.host.called(event),
                }
            }
            Record::Meaning(meaning) => match &meaning.what {
                What::Transfer(transfer) if meaning.layer != Some(Layer::Gpu) => {
                    self.copied(meaning, transfer);
                }
                What::Memory(memory) => self.host.memory(meaning, memory),
                What::Launch(_) => {
                    if self.launched.len() < MOST_CORRELATED {
                        self.launched.insert((meaning.pid, meaning.tid));
                    }
                }
                What::Transfer(_) => {}
            },
            Record::Lost(lost) => self.host.lost(lost.pid),
        }
    }

    fn remember(&mut self, event: &Event, correlation: u64) {
        if self.latest.len() >= MOST_CORRELATED {
            self.latest.clear();
        }
        self.latest
            .insert((event.pid, event.tid), (event.id, correlation));
    }

    fn on_gpu(&mut self, event: &Event) {
        let (Category::Transfer, Kind::Gpu, Extent::Closed(_)) =
            (event.category, event.kind, event.extent)
        else {
            return;
        };
        let end = event.end().unwrap_or(event.start);
        let by_correlation = || {
            (event.correlation).and_then(|correlation| self.correlated.get(&correlation).copied())
        };
        let Some(direction) = named_direction(&event.name).or_else(by_correlation) else {
            return;
        };
        self.busy_gpu.add(event.start, end);
        if let Extent::Closed(time) = event.extent {
            let since = end.saturating_sub(self.origin.unwrap_or(0));
            self.gpu_rates.add(since, time);
        }
        let tally = self.ways.entry(direction).or_default();
        tally.on_gpu.add(event.start, end);
        tally.on_gpu_count += 1;
    }

    fn copied(&mut self, meaning: &Meaning, transfer: &Transfer) {
        let Transfer {
            direction, size, ..
        } = *transfer;
        let call = self.sites.call(meaning.pid, meaning.tid, meaning.op);
        let time = (transfer.duration)
            .or(call.map(|call| call.duration))
            .unwrap_or(0);
        let queued = meaning.name.contains("Async");
        let start = meaning.ts.saturating_sub(time);
        if let Some(&(op, correlation)) = self.latest.get(&(meaning.pid, meaning.tid))
            && op == meaning.op
        {
            if self.correlated.len() >= MOST_CORRELATED {
                self.correlated.clear();
            }
            self.correlated.insert(correlation, direction);
        }
        let tally = self.ways.entry(direction).or_default();
        tally.count += 1;
        tally.bytes += u128::from(size);
        tally.call_ns = tally.call_ns.saturating_add(time);
        let bin = &mut tally.sizes[(u64::BITS - size.leading_zeros()) as usize];
        *bin = (
            bin.0 + 1,
            bin.1.saturating_add(size),
            bin.2.saturating_add(time),
        );
        // Of a copy that waits for kernels first, most of the time may be theirs.
        let waited = !queued && self.launched.remove(&(meaning.pid, meaning.tid));
        if queued {
            tally.queued += 1;
        } else if waited {
            tally.waited += 1;
            tally.waited_ns = tally.waited_ns.saturating_add(time);
        } else {
            tally.by_calls.add(start, meaning.ts);
            tally.by_calls_bytes += u128::from(size);
            self.busy_calls.add(start, meaning.ts);
            let since = meaning.ts.saturating_sub(self.origin.unwrap_or(0));
            self.rates.add(since, time);
        }
        self.host.copied(meaning.pid, transfer, time);
        let site = self.sites.site(&meaning.name, call, size);
        let (from, to) = (start, meaning.ts);
        let place = self.places.entry((site, direction)).or_insert(PlaceTally {
            count: 0,
            bytes: 0,
            copy_ns: 0,
            longest: (time, meaning.op),
            from,
            to,
        });
        place.count += 1;
        place.bytes = place.bytes.saturating_add(size);
        if !waited {
            place.copy_ns = place.copy_ns.saturating_add(time);
        }
        place.to = place.to.max(to);
        if time > place.longest.0 {
            place.longest = (time, meaning.op);
        }
        self.pair(meaning, transfer, time);
    }

    fn pair(&mut self, meaning: &Meaning, transfer: &Transfer, time: u64) {
        let (Some(src), Some(dst)) = (transfer.src, transfer.dst) else {
            return;
        };
        let pair = Pair {
            pid: meaning.pid,
            direction: transfer.direction,
            src,
            dst,
            size: transfer.size,
        };
        if self.pairs.len() >= MOST_PAIRS && !self.pairs.contains_key(&pair) {
            return;
        }
        let repeated = self.pairs.entry(pair).or_insert(Repeated {
            pid: pair.pid,
            direction: pair.direction,
            src,
            dst,
            size_bytes: pair.size,
            count: 0,
            call_ns: 0,
            first_op_id: meaning.op,
            last_op_id: meaning.op,
        });
        repeated.count += 1;
        repeated.call_ns = repeated.call_ns.saturating_add(time);
        repeated.last_op_id = meaning.op;
    }

    pub fn finish(self) -> Transfers {
        let host = self.host.finish();
        let mut directions: Vec<_> = (self.ways.into_iter())
            .map(|(direction, tally)| tally.report(direction, &host))
            .collect();
        directions.sort_by_key(|way| (std::cmp::Reverse(way.bytes), way.direction));
        let mut places: Vec<_> = (self.places.into_iter())
            .map(|((site, direction), tally)| CopyPlace {
                place: self.sites.place(site),
                direction,
                count: tally.count,
                bytes: tally.bytes,
                copy_ns: tally.copy_ns,
                op_id: tally.longest.1,
                from_ns: tally.from,
                to_ns: tally.to,
            })
            .collect();
        places.sort_by_key(|place| (std::cmp::Reverse(place.bytes), place.from_ns, place.op_id));
        places.truncate(MOST_PLACES);
        let mut repeated: Vec<_> = (self.pairs.into_values())
            .filter(|repeated| repeated.count >= REPEATS)
            .collect();
        repeated.sort_by_key(|pair| {
            let bytes = u128::from(pair.size_bytes) * u128::from(pair.count);
            (std::cmp::Reverse(bytes), pair.first_op_id)
        });
        repeated.truncate(MOST_REPEATED);
        let gpu_only = (directions.iter()).all(|way| way.timed_by == TimedBy::Gpu);
        // Where the GPU told of some copies only, calls know of the others.
        let (busy_ns, rates) = match (gpu_only, self.busy_gpu.length(), self.busy_calls.length()) {
            (false, on_gpu, in_calls) if in_calls >= on_gpu => (in_calls, &self.rates),
            (_, on_gpu, _) => (on_gpu, &self.gpu_rates),
        };
        Transfers {
            count: directions.iter().map(|way| way.count).sum(),
            bytes: directions
                .iter()
                .fold(0, |sum, way| sum.saturating_add(way.bytes)),
            busy_ns,
            rate: rates.rate(self.origin.unwrap_or(0)),
            directions,
            places,
            repeated,
        }
    }
}

impl Tally {
    fn report(self, direction: Direction, host: &crate::pinned::HostUses) -> DirectionTotals {
        let bytes = crate::memory::clamp(self.bytes);
        // The GPU's times count where it told of all the copies that were asked for.
        let (timed_by, busy_ns, timed_bytes) = if self.on_gpu_count > 0
            && (self.on_gpu_count >= self.count || self.by_calls_bytes == 0)
        {
            (TimedBy::Gpu, self.on_gpu.length(), bytes)
        } else if self.count > self.queued + self.waited {
            let bytes = crate::memory::clamp(self.by_calls_bytes);
            (TimedBy::Calls, self.by_calls.length(), bytes)
        } else {
            (TimedBy::Nothing, 0, 0)
        };
        let rate = u128::from(timed_bytes) * 1_000_000_000;
        DirectionTotals {
            direction,
            count: self.count,
            bytes,
            queued: self.queued,
            waited: self.waited,
            waited_ns: self.waited_ns,
            call_ns: self.call_ns,
            timed_by,
            busy_ns,
            timed_bytes,
            bytes_per_second: rate.checked_div(busy_ns.into()).map(crate::memory::clamp),
            host: host.of(direction),
            sizes: (self.sizes.iter().enumerate())
                .filter(|(_, (count, _, _))| *count > 0)
                .map(|(bin, &(count, bytes, call_ns))| SizeBin {
                    from_bytes: if bin == 0 { 0 } else { 1 << (bin - 1) },
                    count,
                    bytes,
                    call_ns,
                })
                .collect(),
        }
    }
}

/// The direction that a GPU operation's name tells: `[CUDA memcpy HtoD]` and the like.
fn named_direction(name: &str) -> Option<Direction> {
    let ways = [
        (
            ["HtoD", "H2D", "HostToDevice", "Host-to-Device"],
            Direction::HostToDevice,
        ),
        (
            ["DtoH", "D2H", "DeviceToHost", "Device-to-Host"],
            Direction::DeviceToHost,
        ),
        (
            ["DtoD", "D2D", "DeviceToDevice", "Device-to-Device"],
            Direction::DeviceToDevice,
        ),
        (
            ["HtoH", "H2H", "HostToHost", "Host-to-Host"],
            Direction::HostToHost,
        ),
        (["PtoP", "P2P", "Peer", "peer"], Direction::Peer),
    ];
    (ways.into_iter())
        .find(|(words, _)| words.iter().any(|word| name.contains(word)))
        .map(|(_, direction)| direction)
}
