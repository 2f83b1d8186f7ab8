//! Where events are drawn: host threads, and the streams of each GPU in as many lanes as overlap.
//!
//! Work of one stream may overlap (the nodes of a graph do), and viewers draw what is on one
//! track as nested. So a stream has lanes, and each span takes the first that is free.

use ahash::HashMap;
use event::{Category, Event, Extent, Kind, Layer, Name, Value};

/// Where one event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    Thread {
        pid: u32,
        tid: u32,
    },
    Stream {
        device: u32,
        /// Streams of different processes and contexts may have the same handle.
        pid: u32,
        context: u64,
        stream: u64,
        lane: u32,
    },
    /// Something else of a process, in as many lanes as overlap.
    Beside {
        pid: u32,
        what: Beside,
        lane: u32,
    },
}

/// What is drawn beside threads and streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Beside {
    /// Ranges that begin on one thread and end on any.
    Ranges,
    /// Faults and migrations of managed memory.
    ManagedMemory,
    /// When its contexts had the GPU.
    Contexts,
    /// When its threads waited for the GPU.
    Waits,
}

impl Beside {
    /// The name of a lane.
    pub fn name(self, lane: u32) -> String {
        let name = match self {
            Beside::Ranges => "process ranges",
            Beside::ManagedMemory => "managed memory",
            Beside::Contexts => "contexts on the GPU",
            Beside::Waits => "waits for the GPU",
        };
        match lane {
            0 => name.to_owned(),
            lane => format!("{name} ({})", lane + 1),
        }
    }
}

/// What an event is called in a picture: an ioctl by what it asks for.
pub fn label(event: &Event) -> &Name {
    let decoded = event.ioctl.as_ref().and_then(|ioctl| {
        let name = ioctl.decoded.iter().find(|arg| &*arg.name == "name")?;
        match &name.value {
            Value::Str(name) => Some(name),
            _ => None,
        }
    });
    decoded.unwrap_or(&event.name)
}

/// Whether a call may hand work to the GPU: its correlation id then leads to that work.
pub fn submits(event: &Event) -> bool {
    matches!(event.layer, Layer::Runtime | Layer::Driver)
        && matches!(
            event.category,
            Category::Kernel | Category::Transfer | Category::Memory | Category::Graph
        )
}

/// Tracks of multiprocessors beside those of streams: no handle has this bit.
const MULTIPROCESSORS: u64 = 1 << 63;

/// One stream, in all its lanes.
type Stream = (u32, u32, u64, u64);

/// Which tracks are taken by what.
#[derive(Debug, Default)]
pub struct Tracks {
    /// For each stream, the span in each of its lanes.
    lanes: HashMap<Stream, Vec<Option<u64>>>,
    beside: HashMap<(u32, Beside), Vec<Lane>>,
}

/// What is in a lane, and until when the last of it lasted.
#[derive(Debug, Default)]
struct Lane {
    taken: Option<u64>,
    end: u64,
}

impl Tracks {
    /// Where this event is drawn. A span keeps its track from its beginning to its end.
    pub fn of(&mut self, event: &Event) -> Track {
        if let Some(what) = beside(event) {
            let lanes = self.beside.entry((event.pid, what)).or_default();
            return Track::Beside {
                pid: event.pid,
                what,
                lane: lane_of(lanes, event),
            };
        }
        // Blocks of a kernel, as probes inside it saw them, lie on their multiprocessors.
        let multiprocessor = (event.layer == Layer::Device)
            .then_some(event.cpu)
            .flatten();
        if event.layer != Layer::Gpu && multiprocessor.is_none() {
            return Track::Thread {
                pid: event.pid,
                tid: event.tid,
            };
        }
        let stream = (
            event.device.unwrap_or(0),
            event.pid,
            event.context.unwrap_or(0),
            match multiprocessor {
                Some(number) => MULTIPROCESSORS | u64::from(number),
                None => event.stream.unwrap_or(0),
            },
        );
        let lane = match event.extent {
            Extent::Instant => 0,
            Extent::Open => self.take(stream, event.id),
            Extent::Closed(_) => self.leave(stream, event.id),
        };
        let (device, pid, context, stream) = stream;
        Track::Stream {
            device,
            pid,
            context,
            stream,
            lane,
        }
    }

    fn take(&mut self, stream: Stream, id: u64) -> u32 {
        let lanes = self.lanes.entry(stream).or_default();
        let free = lanes.iter().position(Option::is_none);
        let lane = free.unwrap_or_else(|| {
            lanes.push(None);
            lanes.len() - 1
        });
        lanes[lane] = Some(id);
        lane as u32
    }

    fn leave(&mut self, stream: Stream, id: u64) -> u32 {
        let lanes = self.lanes.entry(stream).or_default();
        match lanes.iter().position(|taken| *taken == Some(id)) {
            Some(lane) => {
                lanes[lane] = None;
                lane as u32
            }
            // Its beginning was not recorded.
            None => 0,
        }
    }
}

fn beside(event: &Event) -> Option<Beside> {
    match event.kind {
        Kind::ProcessRange => Some(Beside::Ranges),
        Kind::GpuMem => Some(Beside::ManagedMemory),
        Kind::GpuContext => Some(Beside::Contexts),
        Kind::GpuWait => Some(Beside::Waits),
        _ => None,
    }
}

/// The lane in which it began, or else the first that was free all the while.
fn lane_of(lanes: &mut Vec<Lane>, event: &Event) -> u32 {
    let begun = lanes.iter().position(|lane| lane.taken == Some(event.id));
    let place = begun.or_else(|| {
        let free = |lane: &Lane| lane.taken.is_none() && lane.end <= event.start;
        lanes.iter().position(free)
    });
    let place = place.unwrap_or(lanes.len());
    if place == lanes.len() {
        lanes.push(Lane::default());
    }
    lanes[place] = Lane {
        taken: (event.extent == Extent::Open).then_some(event.id),
        end: event.end().unwrap_or(event.start),
    };
    place as u32
}

impl Track {
    /// The name of a stream's lane.
    pub fn stream_name(stream: u64, lane: u32) -> String {
        let name = match stream {
            0 => "default stream".to_owned(),
            1 => "legacy default stream".to_owned(),
            2 => "per-thread default stream".to_owned(),
            number if number < 1 << 16 => format!("stream {number}"),
            sm if sm & MULTIPROCESSORS != 0 => format!("SM {}", sm & !MULTIPROCESSORS),
            handle => format!("stream {handle:#x}"),
        };
        match lane {
            0 => name,
            lane => format!("{name} ({})", lane + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(id: u64, stream: u64, extent: Extent) -> Event {
        let mut event = Event::new(id, Layer::Gpu, Category::Kernel, "k", 0);
        event.stream = Some(stream);
        event.extent = extent;
        event
    }

    fn lane(track: Track) -> u32 {
        match track {
            Track::Stream { lane, .. } => lane,
            Track::Thread { .. } | Track::Beside { .. } => panic!("GPU work on a host thread"),
        }
    }

    #[test]
    fn what_overlaps_on_a_stream_gets_lanes_of_its_own() {
        let mut tracks = Tracks::default();
        assert_eq!(lane(tracks.of(&work(1, 7, Extent::Open))), 0);
        assert_eq!(lane(tracks.of(&work(2, 7, Extent::Open))), 1);
        assert_eq!(lane(tracks.of(&work(3, 8, Extent::Open))), 0);
        assert_eq!(lane(tracks.of(&work(1, 7, Extent::Closed(5)))), 0);
        assert_eq!(lane(tracks.of(&work(4, 7, Extent::Open))), 0);
        assert_eq!(lane(tracks.of(&work(2, 7, Extent::Closed(5)))), 1);
        assert_eq!(lane(tracks.of(&work(9, 7, Extent::Closed(5)))), 0);
    }

    #[test]
    fn what_is_beside_threads_overlaps_in_lanes_too() {
        let mut tracks = Tracks::default();
        let mut lane = |id, start, extent| {
            let mut event = Event::new(id, Layer::Library, Category::Other, "r", start);
            (event.kind, event.extent) = (Kind::ProcessRange, extent);
            match tracks.of(&event) {
                Track::Beside { lane, .. } => lane,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(lane(1, 0, Extent::Open), 0);
        assert_eq!(lane(2, 1, Extent::Open), 1);
        assert_eq!(lane(1, 0, Extent::Closed(5)), 0);
        // Their beginnings were not told: the second lies in the time of the first.
        assert_eq!(lane(3, 6, Extent::Closed(4)), 0);
        assert_eq!(lane(4, 8, Extent::Closed(4)), 2);
        assert_eq!(lane(2, 1, Extent::Closed(20)), 1);
    }

    #[test]
    fn blocks_lie_on_their_multiprocessors() {
        let mut tracks = Tracks::default();
        let mut block = Event::new(1, Layer::Device, Category::Kernel, "block", 0);
        assert!(matches!(tracks.of(&block), Track::Thread { .. }));
        block.cpu = Some(7);
        block.extent = Extent::Open;
        let Track::Stream { stream, lane, .. } = tracks.of(&block) else {
            panic!("on a host thread");
        };
        assert_eq!(Track::stream_name(stream, lane), "SM 7");
    }
}
