//! Memory over time: what was allocated and freed, by process, device and space, how high it went,
//! and what was left at the end.
//!
//! Exact while no more than four million allocations are live at once; what comes on top is
//! counted, and the report says so.

use crate::frees::{FreeSweep, Frees, Owner, frees_memory};
use crate::gauge::{Curve, Gauge};
use crate::leaks::{self, Leaks};
use crate::passed::MemoryPassed;
use crate::rate::{Rate, Rates};
use crate::sites::{CallSite, Sites, may_mean};
use ahash::RandomState;
use event::{Event, Extent, Meaning, MemoryOp, MemorySpace, Name, Record, Summary, Value, What};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Live allocations followed one by one.
const MOST_LIVE: usize = 4 << 20;
/// Processes × devices × spaces with a curve of their own; further ones share one.
const MOST_USES: usize = 1 << 12;
/// Places listed that hold memory at the end.
const MOST_HOLDERS: usize = 64;
/// Functions counted apart; there are about forty.
const MOST_FUNCTIONS: usize = 256;
/// Live allocations looked at when contexts are destroyed, in all.
const MOST_SCANNED: u64 = 1 << 26;
/// Other processes asked whether a refused pointer is theirs.
const MOST_ASKED: usize = 64;
/// Blocks the driver hands device memory out of: small allocations share one, and one that is
/// still in use keeps the whole block.
const BLOCK: u64 = 2 << 20;
/// Blocks followed; beyond, no hint is given.
const MOST_BLOCKS: usize = 1 << 18;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
    /// Allocations whose size the trace does not say: they count, their bytes do not.
    pub of_unknown_size: u64,
    /// Over all processes and devices, one a space, in the order of the highest mark.
    pub spaces: Vec<SpaceUse>,
    /// By process, device and space, the highest mark first.
    pub uses: Vec<Use>,
    /// What was live when the trace ended.
    pub live: u64,
    pub live_bytes: u64,
    /// The places that hold the most of it.
    pub holders: Vec<Holder>,
    pub leaks: Leaks,
    pub bad_frees: Frees,
    pub functions: Vec<FunctionUse>,
    pub fragmentation: Option<Fragmentation>,
    /// Allocations beyond those that could be followed one by one: of them only bytes are known.
    pub not_followed: u64,
}

impl Memory {
    /// What device memory was used, over all processes and devices.
    pub fn device(&self) -> Option<&SpaceUse> {
        (self.spaces.iter()).find(|space| space.space == Some(MemorySpace::Device))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpaceUse {
    /// None where the trace does not say.
    #[serde(deserialize_with = "crate::stored::some_word")]
    pub space: Option<MemorySpace>,
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub peak_bytes: u64,
    pub peak_at_ns: u64,
    pub live_bytes: u64,
    pub curve: Curve,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// None: of processes beyond those followed apart.
    pub pid: Option<u32>,
    pub device: Option<u32>,
    #[serde(flatten)]
    pub space: SpaceUse,
}

/// A place in the program that holds memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub place: CallSite,
    #[serde(deserialize_with = "crate::stored::some_word")]
    pub space: Option<MemorySpace>,
    pub count: u64,
    pub bytes: u64,
    pub first_at_ns: u64,
    pub last_at_ns: u64,
    /// Kernels that the process launched between the first and the last of them.
    pub launches_between: u64,
    /// Allocations this place ever made.
    pub allocations: u64,
    /// Some of the calls.
    pub op_ids: Vec<u64>,
}

/// Calls of one allocating or freeing function that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionUse {
    pub function: Name,
    pub frees: bool,
    pub calls: u64,
    pub bytes: u64,
    pub time_ns: u64,
    /// The last call and when it ended.
    pub last_op_id: u64,
    pub last_at_ns: u64,
    /// Calls over time, to tell a loop from a beginning.
    pub rate: Rate,
}

/// A hint, not a measurement: how much of the driver's blocks the live device memory uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragmentation {
    /// The size of block assumed.
    pub block_bytes: u64,
    /// When the most was wasted: what was live, and what the blocks it was in hold.
    pub at_ns: u64,
    pub live_bytes: u64,
    pub block_held_bytes: u64,
}

/// Functions whose memory goes by a handle; it goes with the last handle or the last mapping.
const HANDLES: [&str; 5] = [
    "cuMemCreate",
    "cuMemImportFromShareableHandle",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemUnmap",
];

/// What numbers a free names, each with values of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Address,
    Handle,
    Array,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::Address, Class::Handle, Class::Array];

    fn of(function: &str) -> Self {
        if function.contains("Array") {
            Class::Array
        } else if HANDLES.contains(&cuda::family(function)) {
            Class::Handle
        } else {
            Class::Address
        }
    }
}

/// Equal pointers of two processes are two pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub pid: u32,
    pub class: Class,
    pub ptr: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub size: u64,
    pub at: u64,
    pub op: u64,
    pub context: u64,
    pub site: u32,
    /// Kernels the process had launched by then.
    pub launches: u32,
    usage: u32,
    /// A node of a graph made it, and makes it again whenever the graph is launched.
    again: bool,
}

/// Exact sums: sizes of a hostile trace must not wrap, and what is added must come off again.
#[derive(Debug, Default)]
struct Flow {
    allocations: u64,
    allocated: u128,
    live: u128,
    gauge: Gauge,
}

impl Flow {
    fn change(&mut self, since: u64, more: u64, less: u64) {
        self.live = (self.live + u128::from(more)).saturating_sub(less.into());
        self.gauge.set(since, clamp(self.live));
    }

    fn report(&self, space: Option<MemorySpace>, origin: u64) -> SpaceUse {
        let (peak_bytes, peak_since) = self.gauge.high();
        SpaceUse {
            space,
            allocations: self.allocations,
            allocated_bytes: clamp(self.allocated),
            peak_bytes,
            peak_at_ns: origin.saturating_add(peak_since),
            live_bytes: clamp(self.live),
            curve: self.gauge.curve(origin),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct UseKey {
    pid: Option<u32>,
    device: Option<u32>,
    space: Option<MemorySpace>,
}

/// Follows the memory of every process in a trace.
#[derive(Debug)]
pub struct MemorySweep {
    /// Where curves begin: the trace's start, or its first record.
    origin: Option<u64>,
    most_live: usize,
    live: HashMap<Key, Live, RandomState>,
    uses: Vec<(UseKey, Flow)>,
    use_index: HashMap<UseKey, u32, RandomState>,
    spaces: HashMap<Option<MemorySpace>, Flow, RandomState>,
    sites: Sites,
    /// Allocations each site ever made.
    made: Vec<u64>,
    functions: HashMap<Name, (FunctionUse, Rates), RandomState>,
    free: FreeSweep,
    pids: Vec<u32>,
    launches: HashMap<u32, u32, RandomState>,
    /// From the first launch to the last.
    working: Option<(u64, u64)>,
    latest: u64,
    frees: u64,
    freed: u128,
    of_unknown_size: u64,
    not_followed: u64,
    scanned: u64,
    blocks: Option<Blocks>,
    destroyed: leaks::Groups,
    lost: u64,
}

impl MemorySweep {
    /// `start_ns` is when the trace began; 0 where it does not say.
    pub fn new(start_ns: u64) -> Self {
        MemorySweep::following(start_ns, MOST_LIVE)
    }

    /// Follows no more than so many live allocations one by one: each takes about 100 bytes.
    pub fn following(start_ns: u64, most_live: usize) -> Self {
        MemorySweep {
            origin: (start_ns != 0).then_some(start_ns),
            most_live,
            live: HashMap::default(),
            uses: Vec::new(),
            use_index: HashMap::default(),
            spaces: HashMap::default(),
            sites: Sites::default(),
            made: Vec::new(),
            functions: HashMap::default(),
            free: FreeSweep::default(),
            pids: Vec::new(),
            launches: HashMap::default(),
            working: None,
            latest: 0,
            frees: 0,
            freed: 0,
            of_unknown_size: 0,
            not_followed: 0,
            scanned: 0,
            blocks: Some(Blocks::default()),
            destroyed: leaks::Groups::default(),
            lost: 0,
        }
    }

    pub fn add(&mut self, record: &Record) {
        self.see(record.ts());
        match record {
            Record::Meaning(meaning) => match &meaning.what {
                What::Memory(memory) => self.meaning(meaning, memory),
                What::Launch(_) => {
                    let (first, _) = self.working.unwrap_or((meaning.ts, 0));
                    self.working = Some((first, meaning.ts));
                    if self.launches.len() < MOST_USES || self.launches.contains_key(&meaning.pid) {
                        let launches = self.launches.entry(meaning.pid).or_default();
                        *launches = launches.saturating_add(1);
                    }
                }
                What::Transfer(_) => {}
            },
            Record::Event(event) => {
                if let Some(call) = may_mean(record) {
                    self.sites.called(call);
                    let failed = (call.status.as_ref()).is_some_and(|status| status.code != 0);
                    if failed && frees_memory(&call.name) {
                        self.refused(call);
                    }
                } else if ends_context(event) {
                    self.context_ended(event);
                }
            }
            Record::Lost(lost) => self.lost = self.lost.saturating_add(lost.count),
        }
    }

    /// Something happened that has nothing to do with memory.
    #[inline]
    pub fn see(&mut self, ts: u64) {
        self.origin.get_or_insert(ts);
        self.latest = self.latest.max(ts);
    }

    /// Device memory that a process has now.
    pub(crate) fn device_bytes(&self, pid: u32) -> u64 {
        let of_process =
            |key: &UseKey| key.pid == Some(pid) && key.space == Some(MemorySpace::Device);
        let uses = self.uses.iter().filter(|(key, _)| of_process(key));
        clamp(uses.map(|(_, flow)| flow.live).sum())
    }

    /// Nanoseconds since the curves' beginning.
    fn since(&self, ts: u64) -> u64 {
        ts.saturating_sub(self.origin.unwrap_or(0))
    }

    fn meaning(&mut self, meaning: &Meaning, memory: &event::Memory) {
        // Freeing nothing frees nothing, and an allocation of no bytes allocates none.
        if memory.ptr == 0 {
            return;
        }
        let key = Key {
            pid: meaning.pid,
            class: Class::of(&meaning.name),
            ptr: memory.ptr,
        };
        match memory.op {
            MemoryOp::Alloc => self.allocated(key, meaning, memory),
            MemoryOp::Free => self.freed(key, meaning, memory),
        }
    }

    fn allocated(&mut self, key: Key, meaning: &Meaning, memory: &event::Memory) {
        let at = meaning.ts;
        let since = self.since(at);
        if !self.pids.contains(&key.pid) && self.pids.len() < MOST_ASKED {
            self.pids.push(key.pid);
        }
        self.free.allocated(&key);
        if let Some(old) = self.live.remove(&key) {
            self.free.found.unseen += 1;
            self.give_back(&key, &old, at);
        }
        let size = memory.size.unwrap_or(0);
        self.of_unknown_size += u64::from(memory.size.is_none());
        let call = self.sites.call(meaning.pid, meaning.tid, meaning.op);
        let site = self.sites.site(&meaning.name, call, size);
        if self.made.len() <= site as usize {
            self.made.resize(site as usize + 1, 0);
        }
        self.made[site as usize] += 1;
        let usage = self.usage(UseKey {
            pid: Some(meaning.pid),
            device: meaning.device,
            space: memory.space,
        });
        for flow in [
            &mut self.uses[usage as usize].1,
            self.spaces.entry(memory.space).or_default(),
        ] {
            flow.allocations += 1;
            flow.allocated += u128::from(size);
            flow.change(since, size, 0);
        }
        self.function(meaning, false, size, call.map_or(0, |call| call.duration));
        if memory.space == Some(MemorySpace::Device) && key.class == Class::Address {
            self.block_change(&key, size, at, true);
        }
        if self.live.len() >= self.most_live {
            self.not_followed += 1;
            return;
        }
        let live = Live {
            size,
            at,
            op: meaning.op,
            context: meaning.context.unwrap_or(0),
            site,
            launches: self.launches.get(&meaning.pid).copied().unwrap_or(0),
            usage,
            again: cuda::family(&meaning.name).ends_with("GraphAddMemAllocNode"),
        };
        self.live.insert(key, live);
    }

    fn freed(&mut self, key: Key, meaning: &Meaning, memory: &event::Memory) {
        let at = meaning.ts;
        let time =
            (self.sites.call(meaning.pid, meaning.tid, meaning.op)).map_or(0, |c| c.duration);
        let size = match self.live.remove(&key) {
            Some(live) => {
                self.give_back(&key, &live, at);
                // Freed after every launch of its graph, it is not freed twice.
                if !live.again {
                    self.free.freed(key);
                }
                live.size
            }
            None => {
                let not_followed = self.not_followed > 0 && memory.size.is_some();
                if not_followed {
                    self.not_followed_freed(key, meaning, memory, at);
                } else {
                    self.free.unmatched(key, meaning, at);
                }
                0
            }
        };
        self.frees += 1;
        self.function(meaning, true, size, time);
    }

    /// One of those beyond count: the tracer that saw it allocated says its size.
    fn not_followed_freed(&mut self, key: Key, meaning: &Meaning, memory: &event::Memory, at: u64) {
        let size = memory.size.unwrap_or(0);
        let usage = self.usage(UseKey {
            pid: Some(meaning.pid),
            device: meaning.device,
            space: memory.space,
        });
        let since = self.since(at);
        self.uses[usage as usize].1.change(since, 0, size);
        self.spaces
            .entry(memory.space)
            .or_default()
            .change(since, 0, size);
        self.freed += u128::from(size);
        self.not_followed -= 1;
        self.free.freed(key);
    }

    fn give_back(&mut self, key: &Key, live: &Live, at: u64) {
        let since = self.since(at);
        let (use_key, flow) = &mut self.uses[live.usage as usize];
        flow.change(since, 0, live.size);
        let space = use_key.space;
        self.spaces
            .entry(space)
            .or_default()
            .change(since, 0, live.size);
        self.freed += u128::from(live.size);
        if space == Some(MemorySpace::Device) && key.class == Class::Address {
            self.block_change(key, live.size, at, false);
        }
    }

    /// Device memory held now, and how often some was allocated.
    pub(crate) fn passed(&self) -> MemoryPassed {
        let flow = self.spaces.get(&Some(MemorySpace::Device));
        flow.map_or_else(MemoryPassed::default, |flow| MemoryPassed {
            live_bytes: clamp(flow.live),
            allocations: flow.allocations,
        })
    }

    fn usage(&mut self, key: UseKey) -> u32 {
        if let Some(&usage) = self.use_index.get(&key) {
            return usage;
        }
        let key = if self.uses.len() < MOST_USES {
            key
        } else {
            UseKey {
                pid: None,
                device: None,
                ..key
            }
        };
        *self.use_index.entry(key).or_insert_with(|| {
            self.uses.push((key, Flow::default()));
            (self.uses.len() - 1) as u32
        })
    }

    fn function(&mut self, meaning: &Meaning, frees: bool, size: u64, time: u64) {
        let since = self.since(meaning.ts);
        if !self.functions.contains_key(&meaning.name) {
            if self.functions.len() >= MOST_FUNCTIONS {
                return;
            }
            let function = FunctionUse {
                function: meaning.name.clone(),
                frees,
                calls: 0,
                bytes: 0,
                time_ns: 0,
                last_op_id: 0,
                last_at_ns: 0,
                rate: Rate::default(),
            };
            self.functions
                .insert(meaning.name.clone(), (function, Rates::default()));
        }
        if let Some((function, rates)) = self.functions.get_mut(&meaning.name) {
            function.calls += 1;
            function.bytes = function.bytes.saturating_add(size);
            function.time_ns = function.time_ns.saturating_add(time);
            function.last_op_id = meaning.op;
            function.last_at_ns = meaning.ts;
            rates.add(since, time);
        }
    }

    fn refused(&mut self, call: &Event) {
        let at = call.start;
        let (live, pids) = (&self.live, &self.pids);
        let holds = |pid: u32, ptr: u64| {
            (Class::ALL.iter()).any(|&class| live.contains_key(&Key { pid, class, ptr }))
        };
        self.free.refused(call, at, |ptr| {
            if holds(call.pid, ptr) {
                Owner::ThisProcess
            } else if pids.iter().any(|&pid| pid != call.pid && holds(pid, ptr)) {
                Owner::AnotherProcess
            } else {
                Owner::Unknown
            }
        });
    }

    /// A context takes its memory with it: what was live in it was never freed.
    fn context_ended(&mut self, event: &Event) {
        let named = ["ctx", "hctx"].iter().find_map(|name| event.arg(name));
        let Some(context) = named.and_then(Value::as_u64).or(event.context) else {
            return;
        };
        self.scanned = self.scanned.saturating_add(self.live.len() as u64);
        if context == 0 || self.scanned > MOST_SCANNED {
            return;
        }
        let gone: Vec<_> = (self.live.iter())
            .filter(|(key, live)| key.pid == event.pid && live.context == context)
            .map(|(key, live)| (*key, *live))
            .collect();
        let at = event.end().unwrap_or(event.start);
        for (key, live) in gone {
            self.live.remove(&key);
            self.give_back(&key, &live, at);
            let space = self.uses[live.usage as usize].0.space;
            self.destroyed.add(key.pid, space, &live);
        }
    }

    fn block_change(&mut self, key: &Key, size: u64, at: u64, more: bool) {
        if let Some(blocks) = &mut self.blocks
            && !blocks.change(key, size, at, more)
        {
            self.blocks = None;
        }
    }

    pub fn finish(self, summary: Option<&Summary>) -> Memory {
        let origin = self.origin.unwrap_or(0);
        let mut held = leaks::Groups::default();
        for (key, live) in &self.live {
            held.add(key.pid, self.uses[live.usage as usize].0.space, live);
        }
        let made = |site: u32| self.made.get(site as usize).copied().unwrap_or(0);
        let holders = held.holders(&self.sites, made, MOST_HOLDERS);
        let leaks = leaks::judge(leaks::Evidence {
            summary,
            lost: self.lost,
            frees: self.frees,
            working: match self.working {
                Some((first, last)) => last.saturating_sub(first),
                None => self.since(self.latest),
            },
            held: holders.clone(),
            live: self.live.len() as u64,
            live_bytes: held.bytes(),
            with_context: self.destroyed.holders(&self.sites, made, MOST_HOLDERS),
        });
        let mut spaces: Vec<_> = (self.spaces.iter())
            .map(|(space, flow)| flow.report(*space, origin))
            .collect();
        spaces.sort_by_key(|space| (std::cmp::Reverse(space.peak_bytes), space.space));
        let mut uses: Vec<_> = (self.uses.iter())
            .map(|(key, flow)| Use {
                pid: key.pid,
                device: key.device,
                space: flow.report(key.space, origin),
            })
            .collect();
        uses.sort_by_key(|one| {
            let space = &one.space;
            (
                std::cmp::Reverse(space.peak_bytes),
                one.pid,
                one.device,
                space.space,
            )
        });
        let mut functions: Vec<_> = (self.functions.into_values())
            .map(|(function, rates)| FunctionUse {
                rate: rates.rate(origin),
                ..function
            })
            .collect();
        functions.sort_by(|a, b| (b.time_ns, &a.function).cmp(&(a.time_ns, &b.function)));
        let sum = |of: fn(&Flow) -> u128| self.uses.iter().map(|(_, flow)| of(flow)).sum::<u128>();
        Memory {
            allocations: self.uses.iter().map(|(_, flow)| flow.allocations).sum(),
            allocated_bytes: clamp(sum(|flow| flow.allocated)),
            frees: self.frees,
            freed_bytes: clamp(self.freed),
            of_unknown_size: self.of_unknown_size,
            live: self.live.len() as u64 + self.not_followed,
            live_bytes: clamp(sum(|flow| flow.live)),
            spaces,
            uses,
            holders,
            leaks,
            bad_frees: self.free.found,
            functions,
            fragmentation: self.blocks.and_then(|blocks| blocks.worst),
            not_followed: self.not_followed,
        }
    }
}

/// Blocks of device memory, and how many live allocations begin or end in each.
#[derive(Debug, Default)]
struct Blocks {
    edges: HashMap<(u32, u64), u32, RandomState>,
    /// Bytes of blocks that lie inside one allocation.
    inner: u128,
    live: u128,
    worst: Option<Fragmentation>,
}

impl Blocks {
    /// False where there are too many to follow.
    fn change(&mut self, key: &Key, size: u64, at: u64, more: bool) -> bool {
        if size == 0 {
            return true;
        }
        let first = key.ptr / BLOCK;
        let last = key.ptr.saturating_add(size - 1) / BLOCK;
        let inner = u128::from((last - first).saturating_sub(1)) * u128::from(BLOCK);
        for block in [first, last].iter().take(1 + usize::from(last > first)) {
            let users = self.edges.entry((key.pid, *block)).or_default();
            if more {
                *users = users.saturating_add(1);
            } else {
                *users = users.saturating_sub(1);
                if *users == 0 {
                    self.edges.remove(&(key.pid, *block));
                }
            }
        }
        if more {
            (self.inner, self.live) = (self.inner + inner, self.live + u128::from(size));
        } else {
            self.inner = self.inner.saturating_sub(inner);
            self.live = self.live.saturating_sub(size.into());
        }
        let held = clamp(self.inner + self.edges.len() as u128 * u128::from(BLOCK));
        let live = clamp(self.live);
        let waste = held.saturating_sub(live);
        if self
            .worst
            .is_none_or(|worst| waste > worst.block_held_bytes - worst.live_bytes)
        {
            self.worst = (held > live).then_some(Fragmentation {
                block_bytes: BLOCK,
                at_ns: at,
                live_bytes: live,
                block_held_bytes: held,
            });
        }
        self.edges.len() <= MOST_BLOCKS
    }
}

fn ends_context(event: &Event) -> bool {
    event.category == event::Category::Context
        && matches!(event.extent, Extent::Closed(_))
        && (event.status.as_ref()).is_none_or(|status| status.code == 0)
        && matches!(
            cuda::family(&event.name),
            "cuCtxDestroy" | "cudaDeviceReset" | "cudaThreadExit" | "cuDevicePrimaryCtxReset"
        )
}

pub(crate) fn clamp(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
