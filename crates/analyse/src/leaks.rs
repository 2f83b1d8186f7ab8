//! What was never freed: memory live when its process ended well, or when its context was
//! destroyed, by the place that allocated it.

use crate::memory::{Holder, Live, clamp};
use crate::sites::Sites;
use ahash::RandomState;
use event::{MemorySpace, Summary};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Groups kept apart, at most.
const MOST_GROUPS: usize = 1 << 16;
/// Calls named of each group: the first ones.
const OPS: usize = 8;
/// A place grows when it holds at least so many allocations: fewer may be chance.
const GROWS_FROM: u64 = 4;
/// … made over at least this part of the working time: a model that is loaded comes all at once.
const GROWS_OVER: u64 = 4;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Leaks {
    pub judged: Judged,
    /// By place, most bytes first.
    pub groups: Vec<Leak>,
    pub count: u64,
    pub bytes: u64,
}

/// Why live memory is taken for leaked, or is not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// The program ended with status 0: what it held then, it never freed.
    ProgramEnded,
    /// It failed or was killed: what it held then says nothing. Only growth counts.
    ProgramFailed,
    /// The trace does not say how the program ended. Only growth counts.
    #[default]
    EndUnknown,
    /// Events were lost, frees perhaps among them. Only growth counts.
    EventsLost,
    /// Calls were left out on purpose, frees among them. Nothing can be said.
    CallsLeftOut,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leak {
    #[serde(flatten)]
    pub holder: Holder,
    /// The place went on allocating and its memory stayed: a leak of every round, not one
    /// allocation kept for the program's life.
    pub grows: bool,
    pub with_context: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    site: u32,
    space: Option<MemorySpace>,
}

#[derive(Debug, Default)]
struct Group {
    count: u64,
    bytes: u128,
    first: u64,
    last: u64,
    launches: (u32, u32),
    /// The first ones, by time.
    ops: Vec<(u64, u64)>,
}

/// Allocations by place.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: HashMap<Key, Group, RandomState>,
    bytes: u128,
}

impl Groups {
    pub fn add(&mut self, pid: u32, space: Option<MemorySpace>, live: &Live) {
        self.bytes += u128::from(live.size);
        let key = Key {
            pid,
            site: live.site,
            space,
        };
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
            return;
        }
        let group = self.groups.entry(key).or_insert_with(|| Group {
            first: u64::MAX,
            launches: (u32::MAX, 0),
            ..Group::default()
        });
        group.count += 1;
        group.bytes += u128::from(live.size);
        group.first = group.first.min(live.at);
        group.last = group.last.max(live.at);
        let (least, most) = group.launches;
        group.launches = (least.min(live.launches), most.max(live.launches));
        let call = (live.at, live.op);
        let place = group.ops.partition_point(|earlier| *earlier < call);
        if place < OPS {
            group.ops.insert(place, call);
            group.ops.truncate(OPS);
        }
    }

    pub fn bytes(&self) -> u64 {
        clamp(self.bytes)
    }

    /// Most bytes first; `made` knows how many allocations a site ever made.
    pub fn holders(&self, sites: &Sites, made: impl Fn(u32) -> u64, most: usize) -> Vec<Holder> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(key, group)| {
            (
                std::cmp::Reverse(group.bytes),
                group.first,
                key.pid,
                key.site,
            )
        });
        (groups.iter().take(most))
            .map(|(key, group)| Holder {
                pid: key.pid,
                place: sites.place(key.site),
                space: key.space,
                count: group.count,
                bytes: clamp(group.bytes),
                first_at_ns: group.first,
                last_at_ns: group.last,
                launches_between: (group.launches.1 - group.launches.0).into(),
                allocations: made(key.site),
                op_ids: group.ops.iter().map(|(_, op)| *op).collect(),
            })
            .collect()
    }
}

/// What leaks are judged by.
pub(crate) struct Evidence<'a> {
    pub summary: Option<&'a Summary>,
    pub lost: u64,
    /// Frees in the trace.
    pub frees: u64,
    /// Nanoseconds from the first launch to the last: start-up may take long and says nothing.
    pub working: u64,
    /// The largest of what was held at the end, of `live` allocations with `live_bytes`.
    pub held: Vec<Holder>,
    pub live: u64,
    pub live_bytes: u64,
    /// What contexts took with them.
    pub with_context: Vec<Holder>,
}

/// Which of what is held was leaked.
pub(crate) fn judge(evidence: Evidence<'_>) -> Leaks {
    let Evidence {
        summary,
        working,
        live,
        live_bytes,
        ..
    } = evidence;
    let lost = evidence.lost.max(summary.map_or(0, |summary| summary.lost));
    if summary.is_some_and(|summary| frees_left_out(summary, evidence.frees)) {
        return Leaks {
            judged: Judged::CallsLeftOut,
            ..Leaks::default()
        };
    }
    let judged = match summary.and_then(|summary| summary.exit) {
        _ if lost > 0 => Judged::EventsLost,
        Some(0) => Judged::ProgramEnded,
        Some(_) => Judged::ProgramFailed,
        None => Judged::EndUnknown,
    };
    let leak = |holder: Holder, with_context| Leak {
        grows: grows(&holder, working),
        holder,
        with_context,
    };
    let mut groups: Vec<_> = (evidence.held.into_iter().map(|holder| leak(holder, false)))
        .filter(|leak| judged == Judged::ProgramEnded || leak.grows)
        .collect();
    let (mut count, mut bytes) = match judged {
        Judged::ProgramEnded => (live, live_bytes),
        _ => totals(&groups),
    };
    let mut destroyed: Vec<_> = (evidence.with_context.into_iter())
        .map(|holder| leak(holder, true))
        .collect();
    let more = totals(&destroyed);
    (count, bytes) = (count + more.0, bytes.saturating_add(more.1));
    groups.append(&mut destroyed);
    groups.sort_by_key(|leak| {
        (
            std::cmp::Reverse(leak.holder.bytes),
            leak.holder.first_at_ns,
        )
    });
    Leaks {
        judged,
        groups,
        count,
        bytes,
    }
}

/// Whether frees are missing because they were not asked for. A selection that has some has all of them; short ones
/// may be missing beside long ones.
fn frees_left_out(summary: &Summary, frees: u64) -> bool {
    let by_length = |option: &String| option.starts_with("--min-duration");
    !summary.left_out.is_empty() && (frees == 0 || summary.left_out.iter().any(by_length))
}

fn totals(leaks: &[Leak]) -> (u64, u64) {
    leaks.iter().fold((0, 0u64), |sum, leak| {
        (
            sum.0 + leak.holder.count,
            sum.1.saturating_add(leak.holder.bytes),
        )
    })
}

/// Several allocations of one place were kept, with work between them, over much of the work, and
/// most of all it ever made: a pool that is filled and emptied keeps few of the many it makes.
fn grows(holder: &Holder, working: u64) -> bool {
    holder.count >= GROWS_FROM
        && holder.launches_between >= holder.count - 1
        && (holder.last_at_ns - holder.first_at_ns).saturating_mul(GROWS_OVER) >= working
        && holder.count.saturating_mul(2) >= holder.allocations
}
