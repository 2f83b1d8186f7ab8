//! What was called from where, as a tree that does not grow beyond a bound.

use crate::captured::Captured;
use ahash::HashMap;
use event::{Event, Extent, Frame, Kind, Layer, Name, Record, What};
use std::collections::VecDeque;

/// What the width of a frame means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Nanoseconds of the host in the call itself.
    #[default]
    Time,
    /// Nanoseconds of the GPU in the work that the call submitted.
    GpuTime,
    /// Bytes that the call copied or allocated.
    Bytes,
}

impl Weight {
    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Weight::Time | Weight::GpuTime => "ns",
            Weight::Bytes => "bytes",
        }
    }
}

/// More paths than this are counted under the last frame that is known.
const MOST_PATHS: usize = 500_000;
/// Calls whose GPU work may still come.
const MOST_PENDING: usize = 1 << 20;

/// One frame, below the frames that lead to it.
struct Node {
    parent: usize,
    name: Name,
    weight: u64,
}

struct Open {
    node: usize,
    /// Time in the calls below.
    below: u64,
}

pub struct Stacks {
    weight: Weight,
    nodes: Vec<Node>,
    below: HashMap<(usize, Name), usize>,
    open: HashMap<u64, Open>,
    /// The call that ended last on each thread: what it meant follows.
    ended: HashMap<(u32, u32), (u64, usize)>,
    submitted: HashMap<(u32, u64), usize>,
    oldest: VecDeque<(u32, u64)>,
    /// Calls whose work runs when a graph is launched.
    captured: Captured<usize>,
    unknown: Name,
}

impl Stacks {
    pub fn new(weight: Weight) -> Self {
        let root = Node {
            parent: 0,
            name: "".into(),
            weight: 0,
        };
        Stacks {
            weight,
            nodes: vec![root],
            below: HashMap::default(),
            open: HashMap::default(),
            ended: HashMap::default(),
            submitted: HashMap::default(),
            oldest: VecDeque::new(),
            captured: Captured::default(),
            unknown: "?".into(),
        }
    }

    pub fn record(&mut self, record: &Record) {
        match record {
            // Samples, waits, and what the driver does with managed memory, are no work of the program's.
            Record::Event(event)
                if matches!(
                    event.kind,
                    Kind::Counter
                        | Kind::GpuMem
                        | Kind::GpuContext
                        | Kind::GpuWait
                        | Kind::NotWatched
                ) => {}
            Record::Event(event) if event.layer == Layer::Gpu => self.work(event),
            Record::Event(event) if !event.kind.nests() => {}
            Record::Event(event) => match event.extent {
                Extent::Open => self.begin(event),
                Extent::Closed(duration) => self.end(event, duration),
                Extent::Instant => {}
            },
            Record::Meaning(meaning) if self.weight == Weight::Bytes => {
                let bytes = match &meaning.what {
                    What::Memory(memory) => memory.size.unwrap_or(0),
                    What::Transfer(transfer) => transfer.size,
                    What::Launch(_) => 0,
                };
                let ended = self.ended.get(&(meaning.pid, meaning.tid));
                if let Some(&(_, node)) = ended.filter(|(op, _)| *op == meaning.op) {
                    self.add(node, bytes);
                }
            }
            Record::Meaning(_) | Record::Lost(_) => {}
        }
    }

    fn begin(&mut self, event: &Event) {
        let node = self.node_of(event);
        self.open.insert(event.id, Open { node, below: 0 });
        if self.weight == Weight::GpuTime {
            self.captured.call(event, node);
        }
        if let (Weight::GpuTime, Some(correlation)) = (self.weight, event.correlation) {
            let key = (event.pid, correlation);
            if self.submitted.insert(key, node).is_none() {
                self.oldest.push_back(key);
            }
            if self.oldest.len() > MOST_PENDING
                && let Some(oldest) = self.oldest.pop_front()
            {
                self.submitted.remove(&oldest);
            }
        }
    }

    fn end(&mut self, event: &Event, duration: u64) {
        let (node, below) = match self.open.remove(&event.id) {
            Some(Open { node, below }) => (node, below),
            None => (self.node_of(event), 0),
        };
        if self.weight == Weight::Time {
            self.add(node, duration.saturating_sub(below));
        }
        if let Some(around) = event.parent.and_then(|id| self.open.get_mut(&id)) {
            around.below = around.below.saturating_add(duration);
        }
        if self.weight == Weight::Bytes {
            self.ended.insert((event.pid, event.tid), (event.id, node));
        }
    }

    fn work(&mut self, event: &Event) {
        let (Weight::GpuTime, Extent::Closed(duration)) = (self.weight, event.extent) else {
            return;
        };
        let correlation = event.correlation.map(|id| (event.pid, id));
        let launch = || correlation.and_then(|key| self.submitted.get(&key).copied());
        let caller = self.captured.of(event).or_else(launch);
        let node = self.below(caller.unwrap_or(0), &event.name);
        self.add(node, duration);
    }

    /// Below the call around it; a call that nothing is around, below its host stack.
    fn node_of(&mut self, event: &Event) -> usize {
        let around = event.parent.and_then(|id| self.open.get(&id));
        let around = match around {
            Some(open) => open.node,
            None => {
                let mut node = 0;
                for frame in event.stack.iter().rev() {
                    let name = self.frame_name(frame);
                    node = self.below(node, &name);
                }
                node
            }
        };
        self.below(around, &event.name)
    }

    fn frame_name(&self, frame: &Frame) -> Name {
        match (&frame.symbol, &frame.module) {
            (Some(symbol), _) => symbol.clone(),
            (None, Some(module)) => {
                let file = module.rsplit('/').next().unwrap_or(module);
                format!("[{file}]").into()
            }
            (None, None) => self.unknown.clone(),
        }
    }

    fn below(&mut self, parent: usize, name: &Name) -> usize {
        let key = (parent, name.clone());
        if let Some(&node) = self.below.get(&key) {
            return node;
        }
        if self.nodes.len() >= MOST_PATHS {
            return parent;
        }
        let node = self.nodes.len();
        self.nodes.push(Node {
            parent,
            name: name.clone(),
            weight: 0,
        });
        self.below.insert(key, node);
        node
    }

    fn add(&mut self, node: usize, weight: u64) {
        let sum = &mut self.nodes[node].weight;
        *sum = sum.saturating_add(weight);
    }

    /// Every path that weighs something: its frames from the outermost, joined by `;`. Sorted.
    pub fn folded(&self) -> Vec<(String, u64)> {
        let mut lines: Vec<(String, u64)> = (self.nodes.iter().enumerate())
            .filter(|(_, node)| node.weight > 0)
            .map(|(index, node)| (self.path(index), node.weight))
            .collect();
        lines.sort();
        lines
    }

    fn path(&self, mut index: usize) -> String {
        let mut frames = Vec::new();
        while index != 0 {
            // It has a meaning in folded stacks, and a line break would end the line.
            let name = self.nodes[index].name.replace(';', ":");
            frames.push(crate::printable(&name));
            index = self.nodes[index].parent;
        }
        frames.reverse();
        frames.join(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Meaning, Memory, MemoryOp, Value};

    fn span(id: u64, name: &str, parent: Option<u64>) -> Event {
        let mut event = Event::new(id, Layer::Runtime, Category::Memory, name, 0);
        event.extent = Extent::Open;
        event.parent = parent;
        event
    }

    fn ended(mut event: Event, duration: u64) -> Event {
        event.extent = Extent::Closed(duration);
        event
    }

    fn folded(weight: Weight, records: &[Record]) -> Vec<(String, u64)> {
        let mut stacks = Stacks::new(weight);
        for record in records {
            stacks.record(record);
        }
        stacks.folded()
    }

    fn line(path: &str, weight: u64) -> (String, u64) {
        (path.to_owned(), weight)
    }

    #[test]
    fn time_is_counted_once_where_it_was_spent() {
        let mut outer = span(1, "cudaMalloc", None);
        let frame = |symbol: &str| Frame {
            symbol: Some(symbol.into()),
            ..Frame::default()
        };
        outer.stack = [frame("load;weights"), frame("main")].into();
        let inner = span(2, "cuMemAlloc_v2", Some(1));
        let lines = folded(
            Weight::Time,
            &[
                outer.clone().into(),
                inner.clone().into(),
                ended(inner, 30).into(),
                ended(outer, 100).into(),
            ],
        );
        let expected = [
            line("main;load:weights;cudaMalloc", 70),
            line("main;load:weights;cudaMalloc;cuMemAlloc_v2", 30),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_graphs_work_hangs_below_the_call_that_was_captured() {
        let call = |id: u64, name: &str| {
            let mut call = span(id, name, None);
            call.correlation = Some(id);
            [call.clone().into(), ended(call, 5).into()]
        };
        let work = |id: u64, origin: Option<u64>| {
            let mut work = ended(span(id, "matmul", None), id);
            (work.layer, work.correlation) = (Layer::Gpu, Some(4));
            work.args = (origin.into_iter())
                .map(|call| Arg::new("origin", Value::Map(vec![Arg::new("op_id", call)])))
                .collect();
            [Record::from(work)]
        };
        let records: Vec<Record> = [
            &call(1, "cudaStreamBeginCapture")[..],
            &call(2, "cudaLaunchKernel")[..],
            &call(3, "cudaStreamEndCapture")[..],
            &call(4, "cudaGraphLaunch")[..],
            &work(10, Some(2))[..],
            &work(100, Some(2))[..],
            &work(1_000, None)[..],
        ]
        .concat();
        let expected = [
            line("cudaGraphLaunch;matmul", 1_000),
            line("cudaLaunchKernel;matmul", 110),
        ];
        assert_eq!(folded(Weight::GpuTime, &records), expected);
    }

    #[test]
    fn gpu_time_hangs_below_the_call_that_submitted_it() {
        let mut launch = span(1, "cuLaunchKernel", None);
        launch.correlation = Some(9);
        let mut work = ended(span(2, "matmul", None), 500);
        work.layer = Layer::Gpu;
        work.correlation = Some(9);
        let mut stray = ended(span(3, "other", None), 7);
        stray.layer = Layer::Gpu;
        let lines = folded(
            Weight::GpuTime,
            &[
                launch.clone().into(),
                ended(launch, 3).into(),
                work.into(),
                stray.into(),
            ],
        );
        assert_eq!(
            lines,
            [line("cuLaunchKernel;matmul", 500), line("other", 7)]
        );
    }

    #[test]
    fn bytes_are_of_the_call_that_meant_them() {
        let call = ended(span(1, "cuMemAlloc_v2", None), 3);
        let memory = What::Memory(Memory {
            op: MemoryOp::Alloc,
            size: Some(4096),
            ptr: 1,
            space: None,
        });
        let lines = folded(
            Weight::Bytes,
            &[call.clone().into(), Meaning::of(&call, memory).into()],
        );
        assert_eq!(lines, [line("cuMemAlloc_v2", 4096)]);
    }
}
