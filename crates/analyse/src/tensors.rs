//! GPU memory of a framework's tensors: who has it, in modules, operators and lines. The framework's allocator keeps what it
//! has of CUDA, so `memory` shows its pool; this shows what is in the pool.

use event::{Event, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// What tensors had of the GPUs' memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TensorMemory {
    pub allocations: u64,
    pub frees: u64,
    pub allocated_bytes: u64,
    /// The most at a time, and when; of it, what was allocated before recording began is unknown.
    pub peak_bytes: u64,
    pub peak_at_ns: u64,
    /// What the allocator had of CUDA then.
    pub reserved_bytes: u64,
    /// At the end of the trace.
    pub live_bytes: u64,
    /// Most at the peak first; as many as are kept.
    pub owners: Vec<TensorOwner>,
    pub owner_count: u64,
    /// Owners of what is never given back, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growing: Vec<Growth>,
    /// The first time that there was none left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<Exhausted>,
}

impl TensorMemory {
    pub fn is_empty(&self) -> bool {
        self.allocations == 0 && self.exhausted.is_none()
    }
}

/// Who allocated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OwnerName {
    /// The module whose forward or backward it was.
    pub module: Option<Name>,
    pub operator: Option<Name>,
    /// Of large tensors: the line of Python.
    pub line: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorOwner {
    #[serde(flatten)]
    pub name: OwnerName,
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// When all tensors together had most.
    pub at_peak_bytes: u64,
    pub live_bytes: u64,
}

/// Tensors of many steps that nothing has given back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    #[serde(flatten)]
    pub name: OwnerName,
    /// Steps that left some.
    pub steps: u64,
    pub bytes: u64,
    pub bytes_per_step: u64,
    pub op_id: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exhausted {
    pub at_ns: u64,
    pub op_id: u64,
    pub name: OwnerName,
    pub wanted_bytes: u64,
    pub allocated_bytes: u64,
    pub reserved_bytes: u64,
    /// What each had then, most first.
    pub holders: Vec<(OwnerName, u64)>,
}

const MOST_OWNERS: usize = 65_536;
const MOST_LIVE: usize = 1 << 20;
const MOST_AGED: usize = 1 << 18;
/// Owners that are kept in the report.
const ROWS: usize = 200;
/// Tensors of the first steps may stay: parameters, an optimizer's state, pools.
const WARM_UP: u64 = 3;
/// A tensor that is kept for so many steps is kept on purpose, or by mistake.
const OLD: u64 = 3;
/// Fewer steps that left something are no habit.
const FEWEST_STEPS: usize = 6;

#[derive(Default)]
pub(crate) struct TensorSweep {
    owners: Vec<OwnerState>,
    index: HashMap<OwnerName, u32, ahash::RandomState>,
    live: HashMap<(u32, Option<u32>, u64), Tensor, ahash::RandomState>,
    aged: Vec<Aged>,
    total: u64,
    /// How often the peak has risen.
    peaks: u64,
    found: TensorMemory,
    /// Steps that are over.
    step: u64,
}

struct OwnerState {
    row: TensorOwner,
    /// The peak that `at_peak_bytes` is of.
    peak: u64,
}

#[derive(Clone, Copy)]
struct Tensor {
    owner: u32,
    bytes: u64,
    step: u64,
    id: u64,
}

/// A tensor that was given back long after its step.
#[derive(Clone, Copy)]
struct Aged {
    tensor: Tensor,
    freed: u64,
}

impl TensorSweep {
    pub fn event(&mut self, event: &Event, owner: OwnerName, step: u64) {
        self.step = self.step.max(step);
        let bytes = event.arg("bytes").and_then(Value::as_u64).unwrap_or(0);
        let pointer = event.arg("ptr").and_then(Value::as_u64);
        match (&*event.name, pointer) {
            ("allocate", Some(pointer)) => self.allocated(event, pointer, bytes, owner),
            ("free", Some(pointer)) => self.freed(event, pointer),
            ("out of memory", _) => self.exhausted(event, bytes, owner),
            _ => {}
        }
    }

    /// What tensors have now, by this count.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn allocated(&mut self, event: &Event, pointer: u64, bytes: u64, owner: OwnerName) {
        let key = (event.pid, event.device, pointer);
        if let Some(old) = self.live.remove(&key) {
            // Its free was not seen.
            self.change(old.owner, 0, old.bytes);
        }
        self.found.allocations += 1;
        self.found.allocated_bytes = self.found.allocated_bytes.saturating_add(bytes);
        let Some(owner) = self.owner(owner) else {
            return;
        };
        let row = &mut self.owners[owner as usize].row;
        row.allocations += 1;
        row.allocated_bytes = row.allocated_bytes.saturating_add(bytes);
        if self.live.len() >= MOST_LIVE {
            return;
        }
        let tensor = Tensor {
            owner,
            bytes,
            step: self.step,
            id: event.id,
        };
        self.live.insert(key, tensor);
        self.change(owner, bytes, 0);
        if self.total > self.found.peak_bytes {
            self.peaks += 1;
            self.found.peak_bytes = self.total;
            self.found.peak_at_ns = event.start;
            let reserved = event.arg("reserved").and_then(Value::as_u64);
            self.found.reserved_bytes = reserved.unwrap_or(0);
        }
    }

    fn freed(&mut self, event: &Event, pointer: u64) {
        self.found.frees += 1;
        let key = (event.pid, event.device, pointer);
        let Some(tensor) = self.live.remove(&key) else {
            return;
        };
        self.change(tensor.owner, 0, tensor.bytes);
        if self.is_old(&tensor) {
            if self.aged.len() >= MOST_AGED {
                let now = self.step;
                self.aged.retain(|aged| aged.freed == now);
            }
            if self.aged.len() < MOST_AGED {
                let freed = self.step;
                self.aged.push(Aged { tensor, freed });
            }
        }
    }

    fn is_old(&self, tensor: &Tensor) -> bool {
        tensor.step >= WARM_UP && self.step >= tensor.step + OLD
    }

    /// What an owner had at the peak is what it had before it first changed after that.
    fn change(&mut self, owner: u32, more: u64, less: u64) {
        self.total = self.total.saturating_add(more).saturating_sub(less);
        let peaks = self.peaks;
        let owner = &mut self.owners[owner as usize];
        if owner.peak < peaks {
            owner.peak = peaks;
            owner.row.at_peak_bytes = owner.row.live_bytes;
        }
        let live = owner.row.live_bytes;
        owner.row.live_bytes = live.saturating_add(more).saturating_sub(less);
    }

    fn exhausted(&mut self, event: &Event, bytes: u64, name: OwnerName) {
        if self.found.exhausted.is_some() {
            return;
        }
        let number = |name| event.arg(name).and_then(Value::as_u64).unwrap_or(0);
        let owners = self.owners.iter().filter(|owner| owner.row.live_bytes > 0);
        let mut holders: Vec<_> = owners
            .map(|owner| (owner.row.name.clone(), owner.row.live_bytes))
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.1));
        holders.truncate(ROWS);
        self.found.exhausted = Some(Exhausted {
            at_ns: event.start,
            op_id: event.id,
            name,
            wanted_bytes: bytes,
            allocated_bytes: number("allocated"),
            reserved_bytes: number("reserved"),
            holders,
        });
    }

    fn owner(&mut self, name: OwnerName) -> Option<u32> {
        if let Some(&owner) = self.index.get(&name) {
            return Some(owner);
        }
        if self.owners.len() >= MOST_OWNERS {
            return None;
        }
        let owner = self.owners.len() as u32;
        self.index.insert(name.clone(), owner);
        self.owners.push(OwnerState {
            row: TensorOwner {
                name,
                allocations: 0,
                allocated_bytes: 0,
                at_peak_bytes: 0,
                live_bytes: 0,
            },
            peak: 0,
        });
        Some(owner)
    }

    pub fn finish(mut self) -> TensorMemory {
        self.found.growing = self.growing();
        self.found.live_bytes = self.total;
        let peaks = self.peaks;
        let mut owners: Vec<TensorOwner> = (self.owners.into_iter())
            .map(|mut owner| {
                if owner.peak < peaks {
                    owner.row.at_peak_bytes = owner.row.live_bytes;
                }
                owner.row
            })
            .collect();
        owners.sort_by(|a, b| {
            (b.at_peak_bytes, b.allocated_bytes).cmp(&(a.at_peak_bytes, a.allocated_bytes))
        });
        self.found.owner_count = owners.len() as u64;
        owners.truncate(ROWS);
        self.found.owners = owners;
        self.found
    }

    /// Tensors that were still there in the last step, by owners that left some in many steps. A program that ends gives
    /// everything back, so what is live at the very end says nothing.
    fn growing(&self) -> Vec<Growth> {
        let last = self.step;
        let freed = self.aged.iter().filter(|aged| aged.freed == last);
        let live = self.live.values().filter(|tensor| self.is_old(tensor));
        let mut owners: HashMap<u32, (HashSet<u64>, u64, u64)> = HashMap::new();
        for tensor in freed.map(|aged| &aged.tensor).chain(live) {
            let (steps, bytes, first) = owners.entry(tensor.owner).or_default();
            steps.insert(tensor.step);
            *bytes = bytes.saturating_add(tensor.bytes);
            *first = if *first == 0 {
                tensor.id
            } else {
                tensor.id.min(*first)
            };
        }
        // Those steps could have left something: not the first, nor the last.
        let possible = last.saturating_sub(WARM_UP + OLD - 1);
        let mut growing: Vec<Growth> = (owners.into_iter())
            .filter(|(_, (steps, ..))| {
                steps.len() >= FEWEST_STEPS && 2 * steps.len() as u64 >= possible
            })
            .map(|(owner, (steps, bytes, first))| Growth {
                name: self.owners[owner as usize].row.name.clone(),
                steps: steps.len() as u64,
                bytes,
                bytes_per_step: bytes / steps.len().max(1) as u64,
                op_id: Some(first),
            })
            .collect();
        growing.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.op_id.cmp(&b.op_id)));
        growing.truncate(ROWS);
        growing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Extent, Layer};

    fn memory(name: &str, pointer: u64, bytes: u64) -> Event {
        let mut event = Event::new(pointer, Layer::Framework, Category::Memory, name, pointer);
        (event.pid, event.extent, event.device) = (1, Extent::Instant, Some(0));
        event.args = vec![
            Arg::new("bytes", bytes),
            Arg::new("ptr", Value::Pointer(pointer)),
            Arg::new("allocated", 5u64),
            Arg::new("reserved", 1000u64),
        ];
        event
    }

    fn owner(module: &str) -> OwnerName {
        OwnerName {
            module: Some(module.into()),
            ..OwnerName::default()
        }
    }

    #[test]
    fn the_peak_says_who_had_it() {
        let mut sweep = TensorSweep::default();
        sweep.event(&memory("allocate", 1, 100), owner("a"), 0);
        sweep.event(&memory("allocate", 2, 300), owner("b"), 0);
        sweep.event(&memory("free", 2, 300), owner("c"), 0);
        sweep.event(&memory("allocate", 3, 250), owner("a"), 0);
        sweep.event(&memory("free", 1, 100), owner("c"), 0);
        // Not known: it was there before.
        sweep.event(&memory("free", 77, 10), owner("c"), 0);
        let found = sweep.finish();
        assert_eq!((found.allocations, found.frees), (3, 3));
        assert_eq!((found.peak_bytes, found.peak_at_ns), (400, 2));
        assert_eq!((found.live_bytes, found.reserved_bytes), (250, 1000));
        let rows: Vec<_> = (found.owners.iter())
            .map(|row| {
                (
                    row.name.module.as_deref(),
                    row.at_peak_bytes,
                    row.live_bytes,
                )
            })
            .collect();
        assert_eq!(rows, [(Some("b"), 300, 0), (Some("a"), 100, 250)]);
    }

    #[test]
    fn what_every_step_leaves_grows() {
        let mut sweep = TensorSweep::default();
        let mut next = 1;
        let mut allocate = |sweep: &mut TensorSweep, who: &str, step| {
            next += 1;
            sweep.event(&memory("allocate", next, 10), owner(who), step);
            next
        };
        allocate(&mut sweep, "weights", 0);
        let mut kept = Vec::new();
        let mut gradient = None;
        for step in 0..20 {
            if let Some(old) = gradient.replace(allocate(&mut sweep, "gradient", step)) {
                sweep.event(&memory("free", old, 10), owner("x"), step);
            }
            kept.push(allocate(&mut sweep, "leaks", step));
            // Replaced now and then.
            if step % 5 == 0 {
                allocate(&mut sweep, "average", step);
            }
        }
        // At the program's end everything goes.
        for pointer in kept {
            sweep.event(&memory("free", pointer, 10), owner("x"), 20);
        }
        let found = sweep.finish();
        assert_eq!(found.growing.len(), 1, "{:?}", found.growing);
        let growth = &found.growing[0];
        assert_eq!(growth.name, owner("leaks"));
        assert_eq!((growth.steps, growth.bytes_per_step), (15, 10));
    }

    #[test]
    fn the_moment_without_memory_is_kept() {
        let mut sweep = TensorSweep::default();
        sweep.event(&memory("allocate", 1, 100), owner("a"), 0);
        sweep.event(&memory("out of memory", 9, 7), owner("b"), 0);
        sweep.event(&memory("free", 1, 100), owner("a"), 0);
        let found = sweep.finish().exhausted.expect("it happened");
        assert_eq!((found.wanted_bytes, found.name), (7, owner("b")));
        assert_eq!(found.holders, [(owner("a"), 100)]);
    }
}
