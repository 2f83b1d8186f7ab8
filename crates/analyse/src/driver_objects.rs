//! What ioctls did: channels and how they are scheduled, memory that really came and went, doorbells,
//! UVM's ranges and migrations. From the `facts` of decoded ioctls (docs/IOCTLS.md).

use event::{Arg, Category, Event, Ioctl, Name, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// What the driver was asked to make, keep and move.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverObjects {
    /// Ioctls that did something worth telling.
    pub facts: u64,
    pub channels: Made,
    /// Channels that are scheduled as one.
    pub groups: Made,
    pub address_spaces: u64,
    /// Microseconds a TSG may run before others do, and how many TSGs were given so much.
    pub timeslices: BTreeMap<u64, u64>,
    /// How work may be interrupted: (graphics, compute), as the driver numbers it.
    pub preemption: Vec<Preemption>,
    /// From here on work is submitted without system calls.
    pub doorbells: u64,
    pub tokens: u64,
    pub vram: Space,
    /// Memory of the host that the driver allocated.
    pub host: Space,
    /// The program's own memory, made visible to the GPU.
    pub registered: Space,
    /// VRAM allocated inside of API calls that allocate memory.
    pub vram_in_allocations: u64,
    /// Ranges of UVM's addresses.
    pub ranges: u64,
    pub range_bytes: u64,
    pub ranges_freed: u64,
    /// Managed memory moved because the program asked.
    pub migrations: Vec<Migration>,
    /// cuMemAdvise and the like, by kind.
    pub advice: BTreeMap<Name, u64>,
    /// The call that allocated most VRAM.
    pub largest_op_id: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub created: u64,
    pub destroyed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    pub graphics: u64,
    pub compute: u64,
    pub times: u64,
}

/// Memory of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub allocations: u64,
    /// What was asked for, and what was given: sizes are rounded up.
    pub requested: u64,
    pub bytes: u64,
    pub frees: u64,
    pub freed: u64,
    pub peak: u64,
    #[serde(skip)]
    live: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// Where to, as the driver names processors.
    pub to: Name,
    pub times: u64,
    pub bytes: u64,
}

/// Kinds of one thing told apart: a damaged trace has any number.
const MOST_KINDS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DriverObjectSweep {
    found: DriverObjects,
    migrations: HashMap<Name, (u64, u64), ahash::RandomState>,
    largest: u64,
}

impl Space {
    fn allocated(&mut self, requested: u64, bytes: u64) {
        self.allocations += 1;
        self.requested = self.requested.saturating_add(requested);
        self.bytes = self.bytes.saturating_add(bytes);
        self.live = self.live.saturating_add(bytes);
        self.peak = self.peak.max(self.live);
    }

    fn freed(&mut self, bytes: u64) {
        self.frees += 1;
        self.freed = self.freed.saturating_add(bytes);
        self.live = self.live.saturating_sub(bytes);
    }
}

impl DriverObjectSweep {
    /// An ioctl that has ended; `inside` is the category of the API call around it.
    pub fn end(&mut self, event: &Event, ioctl: &Ioctl, inside: Option<Category>) {
        let facts = ioctl.decoded.iter().find(|arg| &*arg.name == "facts");
        let Some(Value::List(facts)) = facts.map(|facts| &facts.value) else {
            return;
        };
        for fact in facts {
            if let Value::Map(fact) = fact {
                self.fact(event, fact, inside);
            }
        }
    }

    fn fact(&mut self, event: &Event, fact: &[Arg], inside: Option<Category>) {
        let value = |name: &str| {
            let arg = fact.iter().find(|arg| &*arg.name == name);
            arg.map(|arg| &arg.value)
        };
        let number = |name: &str| value(name).and_then(Value::as_u64).unwrap_or(0);
        let Some(Value::Str(what)) = value("fact") else {
            return;
        };
        let found = &mut self.found;
        found.facts += 1;
        let bytes = number("bytes");
        match &**what {
            "channel_created" => found.channels.created += 1,
            "channel_destroyed" => found.channels.destroyed += 1,
            "tsg_created" => found.groups.created += 1,
            "tsg_destroyed" => found.groups.destroyed += 1,
            "address_space_created" => found.address_spaces += 1,
            "timeslice_set" => {
                let microseconds = number("microseconds");
                if found.timeslices.len() < MOST_KINDS
                    || found.timeslices.contains_key(&microseconds)
                {
                    *found.timeslices.entry(microseconds).or_default() += 1;
                }
            }
            "preemption_set" => self.preemption(number("graphics"), number("compute")),
            "doorbell_mapped" => found.doorbells += 1,
            "token_given" => found.tokens += 1,
            "vram_allocated" => {
                found.vram.allocated(number("requested"), bytes);
                if inside == Some(Category::Memory) {
                    found.vram_in_allocations = found.vram_in_allocations.saturating_add(bytes);
                }
                if bytes > self.largest {
                    (self.largest, found.largest_op_id) = (bytes, Some(event.id));
                }
            }
            "vram_freed" => found.vram.freed(bytes),
            "host_memory_allocated" => found.host.allocated(number("requested"), bytes),
            "host_memory_freed" => found.host.freed(bytes),
            "host_memory_registered" => found.registered.allocated(number("requested"), bytes),
            "host_memory_unregistered" => found.registered.freed(bytes),
            "range_created" => {
                found.ranges += 1;
                found.range_bytes = found.range_bytes.saturating_add(bytes);
            }
            "range_freed" => found.ranges_freed += 1,
            "migrated" => {
                if let Some(Value::Str(to)) = value("to")
                    && (self.migrations.len() < MOST_KINDS || self.migrations.contains_key(to))
                {
                    let sums = self.migrations.entry(to.clone()).or_default();
                    *sums = (sums.0 + 1, sums.1.saturating_add(bytes));
                }
            }
            "advised" => {
                if let Some(Value::Str(advice)) = value("advice")
                    && (found.advice.len() < MOST_KINDS || found.advice.contains_key(advice))
                {
                    *found.advice.entry(advice.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn preemption(&mut self, graphics: u64, compute: u64) {
        let all = &mut self.found.preemption;
        let same = |one: &&mut Preemption| (one.graphics, one.compute) == (graphics, compute);
        if let Some(known) = all.iter_mut().find(same) {
            known.times += 1;
        } else if all.len() < MOST_KINDS {
            all.push(Preemption {
                graphics,
                compute,
                times: 1,
            });
        }
    }

    pub fn finish(self) -> DriverObjects {
        let mut migrations: Vec<Migration> = (self.migrations.into_iter())
            .map(|(to, (times, bytes))| Migration { to, times, bytes })
            .collect();
        migrations.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.to.cmp(&b.to)));
        DriverObjects {
            migrations,
            ..self.found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Layer;

    fn fact(name: &str, args: &[(&str, u64)]) -> Value {
        let mut all = vec![Arg::new("fact", name)];
        all.extend(args.iter().map(|(name, value)| Arg::new(*name, *value)));
        Value::Map(all)
    }

    fn swept(steps: Vec<(u64, Option<Category>, Vec<Value>)>) -> DriverObjects {
        let mut sweep = DriverObjectSweep::default();
        for (id, inside, facts) in steps {
            let event = Event::new(id, Layer::Syscall, Category::Memory, "ioctl", 0);
            let decoded = vec![Arg::new("facts", Value::List(facts))];
            sweep.end(&event, &Ioctl { cmd: 1, decoded }, inside);
        }
        sweep.finish()
    }

    #[test]
    fn memory_that_really_came_and_went() {
        let vram = |requested, bytes| {
            let args = [("requested", requested), ("bytes", bytes)];
            fact("vram_allocated", &args)
        };
        let found = swept(vec![
            (1, Some(Category::Memory), vec![vram(1000, 4096)]),
            (2, None, vec![vram(5000, 8192)]),
            (
                3,
                Some(Category::Memory),
                vec![fact("vram_freed", &[("bytes", 4096)])],
            ),
            (4, None, vec![vram(1, 2048)]),
        ]);
        let space = &found.vram;
        assert_eq!(
            (space.allocations, space.requested, space.bytes),
            (3, 6001, 14336)
        );
        assert_eq!((space.frees, space.freed, space.peak), (1, 4096, 12288));
        assert_eq!(
            (found.vram_in_allocations, found.largest_op_id),
            (4096, Some(2))
        );
        assert_eq!(found.facts, 4);
    }

    #[test]
    fn scheduling_and_moves() {
        let mut moved = vec![Arg::new("fact", "migrated"), Arg::new("bytes", 7u64)];
        moved.push(Arg::new("to", "GPU-1"));
        let found = swept(vec![(
            1,
            None,
            vec![
                fact("tsg_created", &[]),
                fact("channel_created", &[]),
                fact("channel_created", &[]),
                fact("channel_destroyed", &[]),
                fact("timeslice_set", &[("microseconds", 2000)]),
                fact("timeslice_set", &[("microseconds", 2000)]),
                fact("preemption_set", &[("graphics", 0), ("compute", 2)]),
                fact("preemption_set", &[("graphics", 0), ("compute", 2)]),
                fact("doorbell_mapped", &[]),
                Value::Map(moved.clone()),
                Value::Map(moved),
                fact("something new", &[]),
                Value::Null,
            ],
        )]);
        assert_eq!((found.channels.created, found.channels.destroyed), (2, 1));
        assert_eq!((found.groups.created, found.doorbells), (1, 1));
        assert_eq!(found.timeslices, BTreeMap::from([(2000, 2)]));
        assert_eq!(found.preemption[0].times, 2);
        assert_eq!(
            (found.migrations[0].times, found.migrations[0].bytes),
            (2, 14)
        );
    }
}
