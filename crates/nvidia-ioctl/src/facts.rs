//! What the calls mean: what came to be, what was set, what memory really came and went.

use std::fmt;

use event::{Arg, Value};

use super::class::ObjectKind;

/// What a call that succeeded did. Handles are numbers of their client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A channel: a queue of work for one engine. `group` is its TSG.
    ChannelCreated {
        client: u32,
        channel: u32,
        group: u32,
        class: &'static str,
        /// Entries of its ring.
        entries: u64,
        engine: u64,
    },
    /// A TSG: channels that are scheduled as one.
    GroupCreated {
        client: u32,
        group: u32,
        engine: u64,
    },
    AddressSpaceCreated {
        client: u32,
        space: u32,
    },
    /// How long a TSG may run before others do.
    TimesliceSet {
        client: u32,
        group: u32,
        microseconds: u64,
    },
    /// How often a TSG comes: 0 low, 1 medium, 2 high.
    InterleaveSet {
        client: u32,
        group: u32,
        level: u64,
    },
    /// How the work of a channel or TSG may be interrupted: 0 waits for idle, 1 or 2 finer (graphics: GFXP;
    /// compute: 1 CTA, 2 CILP).
    PreemptionSet {
        client: u32,
        object: u32,
        graphics: u64,
        compute: u64,
    },
    /// A channel or TSG was put on the runlist, or taken off.
    Scheduled {
        client: u32,
        object: u32,
        enabled: bool,
    },
    /// What a channel's doorbell is rung with.
    TokenGiven {
        client: u32,
        channel: u32,
        token: u64,
    },
    /// The page with the doorbell: from here on work is submitted without system calls.
    DoorbellMapped {
        client: u32,
        object: u32,
        address: u64,
    },
    /// Memory really allocated, or the program's memory registered.
    MemoryAllocated {
        client: u32,
        object: u32,
        kind: ObjectKind,
        /// What the program asked for.
        requested: u64,
        /// What it got.
        bytes: u64,
        /// Where registered memory is.
        address: Option<u64>,
    },
    /// Memory whose allocation was seen.
    MemoryFreed {
        client: u32,
        object: u32,
        kind: ObjectKind,
        bytes: u64,
    },
    /// A channel or TSG went.
    Destroyed {
        client: u32,
        object: u32,
        kind: ObjectKind,
    },
    /// Addresses that UVM keeps for memory from elsewhere.
    RangeCreated {
        address: u64,
        bytes: u64,
    },
    /// The GPU sees memory at these addresses.
    RangeMapped {
        address: u64,
        bytes: u64,
        client: u32,
        memory: u32,
    },
    /// `bytes` where the driver is told: not since 590.
    RangeFreed {
        address: u64,
        bytes: Option<u64>,
    },
    /// Managed memory was moved because the program asked for it.
    Migrated {
        address: u64,
        bytes: u64,
        to: Value,
    },
    /// Where managed memory should lie: what cuMemAdvise says.
    Advised {
        advice: &'static str,
        address: u64,
        bytes: u64,
        processor: Option<Value>,
    },
}

impl Fact {
    /// One word for it: `channel_created`.
    pub fn name(&self) -> &'static str {
        match self {
            Fact::ChannelCreated { .. } => "channel_created",
            Fact::GroupCreated { .. } => "tsg_created",
            Fact::AddressSpaceCreated { .. } => "address_space_created",
            Fact::TimesliceSet { .. } => "timeslice_set",
            Fact::InterleaveSet { .. } => "interleave_set",
            Fact::PreemptionSet { .. } => "preemption_set",
            Fact::Scheduled { .. } => "scheduled",
            Fact::TokenGiven { .. } => "token_given",
            Fact::DoorbellMapped { .. } => "doorbell_mapped",
            Fact::MemoryAllocated { kind, .. } => match kind {
                ObjectKind::DeviceMemory => "vram_allocated",
                ObjectKind::RegisteredMemory => "host_memory_registered",
                _ => "host_memory_allocated",
            },
            Fact::MemoryFreed { kind, .. } => match kind {
                ObjectKind::DeviceMemory => "vram_freed",
                ObjectKind::RegisteredMemory => "host_memory_unregistered",
                _ => "host_memory_freed",
            },
            Fact::Destroyed { kind, .. } => match kind {
                ObjectKind::Channel => "channel_destroyed",
                ObjectKind::ChannelGroup => "tsg_destroyed",
                _ => "destroyed",
            },
            Fact::RangeCreated { .. } => "range_created",
            Fact::RangeMapped { .. } => "range_mapped",
            Fact::RangeFreed { .. } => "range_freed",
            Fact::Migrated { .. } => "migrated",
            Fact::Advised { .. } => "advised",
        }
    }

    /// The rest, as an event's arguments.
    pub fn args(&self) -> Vec<Arg> {
        let handle = |name: &'static str, value: u32| Arg::new(name, Value::Pointer(value.into()));
        let address = |value: u64| Arg::new("address", Value::Pointer(value));
        match self {
            Fact::ChannelCreated {
                client,
                channel,
                group,
                class,
                entries,
                engine,
            } => vec![
                handle("client", *client),
                handle("channel", *channel),
                handle("tsg", *group),
                Arg::new("class", *class),
                Arg::new("entries", *entries),
                Arg::new("engine", *engine),
            ],
            Fact::GroupCreated {
                client,
                group,
                engine,
            } => vec![
                handle("client", *client),
                handle("tsg", *group),
                Arg::new("engine", *engine),
            ],
            Fact::AddressSpaceCreated { client, space } => {
                vec![handle("client", *client), handle("space", *space)]
            }
            Fact::TimesliceSet {
                client,
                group,
                microseconds,
            } => vec![
                handle("client", *client),
                handle("tsg", *group),
                Arg::new("microseconds", *microseconds),
            ],
            Fact::InterleaveSet {
                client,
                group,
                level,
            } => vec![
                handle("client", *client),
                handle("tsg", *group),
                Arg::new("level", *level),
            ],
            Fact::PreemptionSet {
                client,
                object,
                graphics,
                compute,
            } => vec![
                handle("client", *client),
                handle("object", *object),
                Arg::new("graphics", *graphics),
                Arg::new("compute", *compute),
            ],
            Fact::Scheduled {
                client,
                object,
                enabled,
            } => vec![
                handle("client", *client),
                handle("object", *object),
                Arg::new("enabled", *enabled),
            ],
            Fact::TokenGiven {
                client,
                channel,
                token,
            } => vec![
                handle("client", *client),
                handle("channel", *channel),
                Arg::new("token", *token),
            ],
            Fact::DoorbellMapped {
                client,
                object,
                address: at,
            } => vec![
                handle("client", *client),
                handle("object", *object),
                address(*at),
            ],
            Fact::MemoryAllocated {
                client,
                object,
                requested,
                bytes,
                address: at,
                ..
            } => {
                let mut args = vec![handle("client", *client), handle("object", *object)];
                args.push(Arg::new("requested", *requested));
                args.push(Arg::new("bytes", *bytes));
                args.extend(at.map(address));
                args
            }
            Fact::MemoryFreed {
                client,
                object,
                bytes,
                ..
            } => vec![
                handle("client", *client),
                handle("object", *object),
                Arg::new("bytes", *bytes),
            ],
            Fact::Destroyed { client, object, .. } => {
                vec![handle("client", *client), handle("object", *object)]
            }
            Fact::RangeCreated { address: at, bytes } => {
                vec![address(*at), Arg::new("bytes", *bytes)]
            }
            Fact::RangeMapped {
                address: at,
                bytes,
                client,
                memory,
            } => vec![
                address(*at),
                Arg::new("bytes", *bytes),
                handle("client", *client),
                handle("memory", *memory),
            ],
            Fact::RangeFreed { address: at, bytes } => {
                let bytes = bytes.map(|bytes| Arg::new("bytes", bytes));
                std::iter::once(address(*at)).chain(bytes).collect()
            }
            Fact::Migrated {
                address: at,
                bytes,
                to,
            } => vec![
                address(*at),
                Arg::new("bytes", *bytes),
                Arg::new("to", to.clone()),
            ],
            Fact::Advised {
                advice,
                address: at,
                bytes,
                processor,
            } => {
                let mut args = vec![Arg::new("advice", *advice), address(*at)];
                args.push(Arg::new("bytes", *bytes));
                args.extend(processor.clone().map(|value| Arg::new("processor", value)));
                args
            }
        }
    }
}

impl fmt::Display for Fact {
    /// `vram allocated: object=0x5c000013 bytes=2097152`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name().replace('_', " "))?;
        for arg in self.args() {
            write!(f, " {}={}", arg.name, super::text::Shown(&arg.value))?;
        }
        Ok(())
    }
}
