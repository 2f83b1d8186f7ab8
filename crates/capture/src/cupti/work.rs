//! The GPU's work as events.

use super::process::Work;
use cuda::cupti::{self, Activity, Copy, Fill, Kernel, NONE, Synchronisation, WorkPlacement};
use event::{Arg, Category, Direction, Event, Extent, Kind, Layer, Name, Value};

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
                vec![Arg::new("bytes", copy.bytes)],
            ),
            None => (
                Category::Transfer,
                copy_name(copy),
                copy.place,
                of_copy(copy),
            ),
        },
        Activity::Fill(fill) => (Category::Memory, "memset".into(), fill.place, of_fill(fill)),
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

/// Lies on the thread that waited, and is no work of the GPU.
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
        Arg::new("grid", three(kernel.grid)),
        Arg::new("block", three(kernel.block)),
    ];
    for (name, bytes) in [
        ("registers", u32::from(kernel.registers)),
        ("static_shared", kernel.static_shared),
        ("dynamic_shared", kernel.dynamic_shared),
        ("local", kernel.local),
    ] {
        if bytes > 0 {
            args.push(Arg::new(name, u64::from(bytes)));
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
    format!("memcpy {}", direction.as_str()).into()
}

fn of_copy(copy: &Copy) -> Vec<Arg> {
    let mut args = vec![
        Arg::new("bytes", copy.bytes),
        Arg::new("from", cupti::memory_name(copy.from.into())),
        Arg::new("to", cupti::memory_name(copy.to.into())),
    ];
    if let Some((from, to)) = copy.devices {
        args.push(Arg::new("from_device", u64::from(from)));
        args.push(Arg::new("to_device", u64::from(to)));
    }
    args
}

fn of_fill(fill: &Fill) -> Vec<Arg> {
    let mut args = vec![
        Arg::new("bytes", fill.bytes),
        Arg::new("value", u64::from(fill.value)),
    ];
    if fill.memory != 0 {
        args.push(Arg::new("memory", cupti::memory_name(fill.memory)));
    }
    args
}
