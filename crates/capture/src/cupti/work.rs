//! The GPU's work as events.

use super::process::Work;
use cuda::cupti::{self, Activity, Copy, Fill, Kernel, NONE, Synchronisation, WorkPlacement};
use event::{Arg, Category, Direction, Event, Extent, Kind, Layer, Name, Value};
use std::sync::LazyLock;

/// Names that nearly every piece of work has: made once.
struct Words {
    grid: Name,
    block: Name,
    registers: Name,
    static_shared: Name,
    dynamic_shared: Name,
    local: Name,
    bytes: Name,
    from: Name,
    to: Name,
    value: Name,
    memset: Name,
    /// By CUPTI's numbers; those beyond are of the same name as the first.
    memory: [Name; 8],
    /// Copies, in the order of [`Direction::ALL`].
    copies: Vec<Name>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| Words {
    grid: "grid".into(),
    block: "block".into(),
    registers: "registers".into(),
    static_shared: "static_shared".into(),
    dynamic_shared: "dynamic_shared".into(),
    local: "local".into(),
    bytes: "bytes".into(),
    from: "from".into(),
    to: "to".into(),
    value: "value".into(),
    memset: "memset".into(),
    memory: std::array::from_fn(|kind| cupti::memory_name(kind as u16).into()),
    copies: (Direction::ALL.iter())
        .map(|direction| format!("memcpy {}", direction.as_str()).into())
        .collect(),
});

fn memory(kind: u16) -> Name {
    let known = WORDS.memory.get(usize::from(kind));
    known.unwrap_or(&WORDS.memory[0]).clone()
}

/// The event of a piece of work, under its id.
pub fn event(work: &Work, id: u64) -> Event {
    if let Activity::Synchronisation(sync) = &work.record {
        return of_wait(work, sync, id);
    }
    let is_graph = work.timed.is_some_and(|timed| timed.is_graph);
    let (category, name, place, args) = match &work.record {
        Activity::Kernel(kernel) if is_graph => {
            (Category::Graph, "graph".into(), kernel.place, Vec::new())
        }
        Activity::Kernel(kernel) => {
            let name = work.name.clone().unwrap_or_else(|| "a kernel".into());
            (Category::Kernel, name, kernel.place, of_kernel(kernel))
        }
        Activity::Copy(copy) => match work.timed {
            Some(timed) => (
                Category::Transfer,
                timed.direction.map_or("memcpy".into(), copied),
                copy.place,
                vec![Arg::new(WORDS.bytes.clone(), copy.bytes)],
            ),
            None => (
                Category::Transfer,
                copy_name(copy),
                copy.place,
                of_copy(copy),
            ),
        },
        Activity::Fill(fill) => (
            Category::Memory,
            WORDS.memset.clone(),
            fill.place,
            of_fill(fill),
        ),
        _ => (
            Category::Other,
            "work".into(),
            WorkPlacement::default(),
            Vec::new(),
        ),
    };
    let mut event = Event::new(id, Layer::Gpu, category, name, work.start);
    event.extent = Extent::Closed(work.end.saturating_sub(work.start));
    event.pid = work.pid;
    event.device = Some(place.device);
    event.context = Some(work.context);
    event.stream = work.stream;
    event.correlation = work.cause.map(|cause| cause.id);
    event.args = args;
    if let Some(timed) = work.timed {
        event.args.push(Arg::new("source", "events"));
        event.args.push(Arg::new("error_ns", timed.error));
        if timed.every > 1 {
            event.args.push(Arg::new("every", timed.every));
        }
    }
    if place.graph != 0 {
        event.args.push(Arg::new("graph", u64::from(place.graph)));
        event.args.push(Arg::new("node", place.node));
    }
    event
}

/// On the thread that waited; not work of the GPU.
fn of_wait(work: &Work, sync: &Synchronisation, id: u64) -> Event {
    let name = cupti::synchronisation_name(sync.kind);
    let mut event = Event::new(id, Layer::Gpu, Category::Sync, name, work.start);
    event.kind = Kind::GpuWait;
    event.extent = Extent::Closed(work.end.saturating_sub(work.start));
    (event.pid, event.tid) = (work.pid, work.thread.unwrap_or(0));
    event.device = work.cause.and_then(|cause| cause.device);
    (event.context, event.stream) = (Some(work.context), work.stream);
    event.correlation = work.cause.map(|cause| cause.id);
    if sync.event != NONE {
        event.args.push(Arg::new("event", u64::from(sync.event)));
    }
    event
}

fn of_kernel(kernel: &Kernel) -> Vec<Arg> {
    let three = |words: [u32; 3]| Value::List(words.iter().map(|n| u64::from(*n).into()).collect());
    let mut args = vec![
        Arg::new(WORDS.grid.clone(), three(kernel.grid)),
        Arg::new(WORDS.block.clone(), three(kernel.block)),
    ];
    for (name, bytes) in [
        (&WORDS.registers, u32::from(kernel.registers)),
        (&WORDS.static_shared, kernel.static_shared),
        (&WORDS.dynamic_shared, kernel.dynamic_shared),
        (&WORDS.local, kernel.local),
    ] {
        if bytes > 0 {
            args.push(Arg::new(name.clone(), u64::from(bytes)));
        }
    }
    args
}

fn copy_name(copy: &Copy) -> Name {
    let direction = match (copy.kind, copy.devices) {
        (10, _) | (_, Some(_)) => Direction::Peer,
        // HTOD, HTOA
        (1 | 3, _) => Direction::HostToDevice,
        // DTOH, ATOH
        (2 | 4, _) => Direction::DeviceToHost,
        (9, _) => Direction::HostToHost,
        _ => Direction::DeviceToDevice,
    };
    copied(direction)
}

fn copied(direction: Direction) -> Name {
    let known = Direction::ALL.iter().zip(&WORDS.copies);
    let mut names = known.filter(|(one, _)| **one == direction);
    names
        .next()
        .map_or("memcpy".into(), |(_, name)| name.clone())
}

fn of_copy(copy: &Copy) -> Vec<Arg> {
    let mut args = vec![
        Arg::new(WORDS.bytes.clone(), copy.bytes),
        Arg::new(WORDS.from.clone(), memory(copy.from.into())),
        Arg::new(WORDS.to.clone(), memory(copy.to.into())),
    ];
    if let Some((from, to)) = copy.devices {
        args.push(Arg::new("from_device", u64::from(from)));
        args.push(Arg::new("to_device", u64::from(to)));
    }
    args
}

fn of_fill(fill: &Fill) -> Vec<Arg> {
    let mut args = vec![
        Arg::new(WORDS.bytes.clone(), fill.bytes),
        Arg::new(WORDS.value.clone(), u64::from(fill.value)),
    ];
    if fill.memory != 0 {
        args.push(Arg::new("memory", memory(fill.memory)));
    }
    args
}
