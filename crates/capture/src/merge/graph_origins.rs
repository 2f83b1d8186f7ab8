//! Which call put a node into a CUDA graph: work of a graph's launch gets an `origin`, the call that captured or added it and
//! the operator around that.
//!
//! CUPTI numbers nodes: the executable graph's number, and below it the node's place in the order in which nodes were added.
//! Graphs keep that order when they are captured, cloned and instantiated, so the list of calls that added nodes is
//! enough. Records come in the order of time, with final ids.

use ahash::RandomState;
use event::{Arg, Category, Event, Extent, Kind, Layer, Name, Value};
use std::{collections::HashMap, sync::Arc};

/// Bounds: a program may claim anything.
const MOST: usize = 65_536;
const MOST_NODES: usize = 1 << 20;

type Map<K, V> = HashMap<K, V, RandomState>;
/// A handle of a process.
type Handle = (u32, u64);
/// The calls that added a graph's nodes, in order.
type Nodes = Arc<Vec<Node>>;

#[derive(Debug, Clone)]
struct Node {
    /// What it does, as its work is called; None: no work of the GPU.
    category: Option<Category>,
    call: u64,
    operator: Option<Name>,
}

#[derive(Debug, Default)]
pub(super) struct GraphOrigins {
    /// Streams that are being captured, with the stream where their capture began.
    streams: Map<Handle, u64>,
    /// Events recorded in captured streams: a stream that waits for one joins the capture.
    marks: Map<Handle, u64>,
    /// By the stream where the capture began.
    captured: Map<Handle, Vec<Node>>,
    graphs: Map<Handle, Nodes>,
    executables: Map<Handle, Nodes>,
    /// Launches of executable graphs, by the call's id: the earlier half goes when there are too many.
    launches: Map<u64, Option<Nodes>>,
    older_launches: Map<u64, Option<Nodes>>,
    /// Operators that are open, by thread.
    operators: Map<(u32, u32), Vec<(u64, Name)>>,
}

impl GraphOrigins {
    /// Every event on its way into the trace; its parent is settled.
    pub fn see(&mut self, event: &mut Event) {
        match (event.layer, event.category) {
            (Layer::Framework, _) => self.operator(event),
            (Layer::Gpu, _) => self.work(event),
            (Layer::Driver | Layer::Runtime, Category::Graph) => self.graph(event),
            (Layer::Driver, _) if !self.streams.is_empty() => self.captured_call(event),
            _ => {}
        }
    }

    fn operator(&mut self, event: &Event) {
        if event.kind != Kind::Operator {
            return;
        }
        let thread = (event.pid, event.tid);
        match event.extent {
            Extent::Open if self.operators.len() < MOST || self.operators.contains_key(&thread) => {
                let open = self.operators.entry(thread).or_default();
                if open.len() < MOST {
                    open.push((event.id, event.name.clone()));
                }
            }
            Extent::Closed(_) => {
                if let Some(open) = self.operators.get_mut(&thread)
                    && let Some(place) = open.iter().rposition(|(id, _)| *id == event.id)
                {
                    open.remove(place);
                }
            }
            _ => {}
        }
    }

    fn node(&self, event: &Event, category: Option<Category>) -> Node {
        let open = self.operators.get(&(event.pid, event.tid));
        Node {
            category,
            call: event.id,
            operator: open
                .and_then(|open| open.last())
                .map(|(_, name)| name.clone()),
        }
    }

    /// A call of the driver while something is being captured.
    fn captured_call(&mut self, event: &Event) {
        if !succeeded(event) {
            return;
        }
        let Some(stream) = event.stream else {
            return;
        };
        let origin = self.streams.get(&(event.pid, stream)).copied();
        if event.name.starts_with("cuStreamWaitEvent") {
            let mark = handle(event, &["hEvent"]);
            let joined = mark.and_then(|mark| self.marks.get(&(event.pid, mark)).copied());
            if let Some(joined) = joined
                && self.streams.len() < MOST
            {
                self.streams.insert((event.pid, stream), joined);
            }
            return;
        }
        let Some(origin) = origin else {
            return;
        };
        if event.name.starts_with("cuEventRecord") {
            if let Some(mark) = handle(event, &["hEvent"])
                && self.marks.len() < MOST
            {
                self.marks.insert((event.pid, mark), origin);
            }
            // CU_EVENT_RECORD_EXTERNAL is a node.
            let is_external = match event.arg("flags") {
                Some(Value::Str(flags)) => flags.contains("EXTERNAL"),
                Some(flags) => flags.as_u64() == Some(1),
                None => false,
            };
            if !is_external {
                return;
            }
        }
        let Some(category) = adds_node(&event.name) else {
            return;
        };
        let node = self.node(event, category);
        let nodes = self.captured.entry((event.pid, origin)).or_default();
        if nodes.len() < MOST_NODES {
            nodes.push(node);
        }
    }

    fn graph(&mut self, event: &Event) {
        let name = &*event.name;
        if name.contains("GraphLaunch") {
            let executable = handle(event, &["hGraphExec", "hGraph", "graphExec"]);
            if let (Extent::Open, Some(executable)) = (event.extent, executable) {
                self.launched(event, executable);
            }
            // Into a graph that is being captured: one node.
            if event.layer == Layer::Driver && !self.streams.is_empty() {
                self.captured_call(event);
            }
            return;
        }
        if event.layer != Layer::Driver || !succeeded(event) {
            return;
        }
        let pid = event.pid;
        let stream = event.stream.or_else(|| handle(event, &["hStream"]));
        let graph = handle(event, &["hGraph", "graph"]);
        if name.starts_with("cuStreamBeginCapture") {
            if let Some(stream) = stream
                && self.streams.len() < MOST
            {
                self.streams.insert((pid, stream), stream);
                let before = graph.and_then(|graph| self.graphs.get(&(pid, graph)));
                let before = before.map_or_else(Vec::new, |nodes| nodes.to_vec());
                self.captured.insert((pid, stream), before);
            }
        } else if name.starts_with("cuStreamEndCapture") {
            if let Some(stream) = stream {
                self.ended(pid, stream, handle(event, &["phGraph"]));
            }
        } else if name.starts_with("cuGraphInstantiate") {
            let executable = handle(event, &["phGraphExec"]);
            self.copy(pid, graph, executable);
        } else if name.starts_with("cuGraphExecUpdate") {
            let executable = handle(event, &["hGraphExec"]);
            self.copy(pid, graph, executable);
        } else if name.starts_with("cuGraphClone") {
            let original = handle(event, &["originalGraph"]);
            let nodes = original.and_then(|it| self.graphs.get(&(pid, it)).cloned());
            if let (Some(nodes), Some(clone)) = (nodes, handle(event, &["phGraphClone"])) {
                keep(&mut self.graphs, (pid, clone), nodes);
            }
        } else if name.starts_with("cuGraphCreate") {
            if let Some(graph) = handle(event, &["phGraph"]) {
                keep(&mut self.graphs, (pid, graph), Nodes::default());
            }
        } else if let Some(rest) = name.strip_prefix("cuGraphAdd")
            && rest.contains("Node")
            && let Some(graph) = graph
        {
            let node = self.node(event, added(rest));
            if let Some(nodes) = self.graphs.get_mut(&(pid, graph))
                && nodes.len() < MOST_NODES
            {
                Arc::make_mut(nodes).push(node);
            }
        } else if name.starts_with("cuGraphDestroy") {
            if let Some(graph) = graph {
                self.graphs.remove(&(pid, graph));
            }
        } else if name.starts_with("cuGraphExecDestroy")
            && let Some(executable) = handle(event, &["hGraphExec"])
        {
            self.executables.remove(&(pid, executable));
        }
    }

    fn ended(&mut self, pid: u32, stream: u64, graph: Option<u64>) {
        self.streams
            .retain(|(of, _), origin| *of != pid || *origin != stream);
        self.marks
            .retain(|(of, _), origin| *of != pid || *origin != stream);
        let nodes = self.captured.remove(&(pid, stream));
        if let (Some(nodes), Some(graph)) = (nodes, graph) {
            keep(&mut self.graphs, (pid, graph), Arc::new(nodes));
        }
    }

    /// An executable graph has the nodes that a graph has now.
    fn copy(&mut self, pid: u32, graph: Option<u64>, executable: Option<u64>) {
        let nodes = graph.and_then(|graph| self.graphs.get(&(pid, graph)).cloned());
        if let (Some(nodes), Some(executable)) = (nodes, executable) {
            keep(&mut self.executables, (pid, executable), nodes);
        }
    }

    fn launched(&mut self, event: &Event, executable: u64) {
        let nodes = self.executables.get(&(event.pid, executable)).cloned();
        if self.launches.len() >= MOST {
            self.older_launches = std::mem::take(&mut self.launches);
        }
        self.launches.insert(event.id, nodes);
    }

    /// Work of the GPU: if a graph's launch started it, where it comes from.
    fn work(&self, event: &mut Event) {
        let Some(node) = event.arg("node").and_then(Value::as_u64) else {
            return;
        };
        let Some(launch) = event.correlation.and_then(|call| {
            let newer = self.launches.get(&call);
            newer.or_else(|| self.older_launches.get(&call))
        }) else {
            return;
        };
        // Known since it began.
        if event.arg("origin").is_some() {
            return;
        }
        let Some(nodes) = launch else {
            event
                .args
                .push(Arg::new("origin", "captured before tracing"));
            return;
        };
        let found = nodes.get((node & u64::from(u32::MAX)) as usize);
        // What does something else is another node: the order is not what it is taken for.
        let Some(found) = found.filter(|it| it.category == Some(event.category)) else {
            return;
        };
        let mut origin = vec![Arg::new("op_id", found.call)];
        if let Some(operator) = &found.operator {
            origin.push(Arg::new("operator", operator.clone()));
        }
        event.args.push(Arg::new("origin", Value::Map(origin)));
    }
}

fn keep(map: &mut Map<Handle, Nodes>, key: Handle, nodes: Nodes) {
    if map.len() < MOST || map.contains_key(&key) {
        map.insert(key, nodes);
    }
}

fn succeeded(event: &Event) -> bool {
    matches!(event.extent, Extent::Closed(_)) && event.status.as_ref().is_none_or(|it| it.code == 0)
}

/// An argument or output of one of these names.
fn handle(event: &Event, names: &[&str]) -> Option<u64> {
    let mut found = names.iter().filter_map(|name| event.arg(name)?.as_u64());
    found.next()
}

/// Whether a call on a captured stream adds a node, and what that does.
fn adds_node(name: &str) -> Option<Option<Category>> {
    let is = |prefix: &str| name.starts_with(prefix);
    if is("cuLaunchHostFunc") {
        Some(None)
    } else if is("cuLaunch") {
        Some(Some(Category::Kernel))
    } else if is("cuMemcpy") {
        Some(Some(Category::Transfer))
    } else if is("cuMemset") {
        Some(Some(Category::Memory))
    } else if is("cuMemAlloc") && name.contains("Async")
        || is("cuMemFreeAsync")
        || is("cuEventRecord")
        || is("cuGraphLaunch")
        || is("cuStreamWriteValue")
        || is("cuStreamWaitValue")
        || is("cuStreamBatchMemOp")
        || is("cuSignalExternalSemaphores")
        || is("cuWaitExternalSemaphores")
    {
        Some(None)
    } else {
        None
    }
}

/// What a node that `cuGraphAdd…` adds does.
fn added(kind: &str) -> Option<Category> {
    if kind.starts_with("Kernel") {
        Some(Category::Kernel)
    } else if kind.starts_with("Memcpy") {
        Some(Category::Transfer)
    } else if kind.starts_with("Memset") {
        Some(Category::Memory)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Status;

    struct Story {
        origins: GraphOrigins,
        next: u64,
    }

    impl Story {
        fn new() -> Story {
            Story {
                origins: GraphOrigins::default(),
                next: 1,
            }
        }

        fn call(&mut self, name: &str, stream: Option<u64>, args: &[(&str, u64)]) -> u64 {
            let id = self.next;
            self.next += 1;
            let mut event = Event::new(id, Layer::Driver, category(name), name, id * 10);
            (event.pid, event.tid, event.stream) = (1, 1, stream);
            event.args = (args.iter())
                .map(|(name, value)| Arg::new(*name, Value::Pointer(*value)))
                .collect();
            event.extent = Extent::Open;
            self.origins.see(&mut event);
            event.extent = Extent::Closed(5);
            event.status = Some(Status {
                code: 0,
                name: None,
            });
            self.origins.see(&mut event);
            id
        }

        fn operator(&mut self, id: u64, name: &str, extent: Extent) {
            let mut event = Event::new(id, Layer::Framework, Category::Other, name, id);
            (event.pid, event.tid, event.extent) = (1, 1, extent);
            self.origins.see(&mut event);
        }

        fn work(&mut self, launch: u64, place: u64, category: Category) -> Option<Value> {
            let mut event = Event::new(9999, Layer::Gpu, category, "k", 10_000);
            (event.pid, event.correlation) = (1, Some(launch));
            event.args = vec![Arg::new("node", 2 << 32 | place)];
            self.origins.see(&mut event);
            event.arg("origin").cloned()
        }
    }

    fn category(name: &str) -> Category {
        if name.contains("Capture") || name.contains("Graph") {
            Category::Graph
        } else if name.contains("Memset") {
            Category::Memory
        } else {
            Category::Kernel
        }
    }

    fn from(call: u64, operator: Option<&str>) -> Option<Value> {
        let mut origin = vec![Arg::new("op_id", call)];
        origin.extend(operator.map(|name| Arg::new("operator", name)));
        Some(Value::Map(origin))
    }

    #[test]
    fn replayed_work_leads_to_the_call_that_captured_it() {
        let mut story = Story::new();
        story.call("cuLaunchKernel", Some(7), &[]);
        story.call("cuStreamBeginCapture_v2", Some(7), &[("hStream", 7)]);
        story.operator(500, "aten::addmm", Extent::Open);
        let first = story.call("cuLaunchKernelEx", Some(7), &[]);
        story.operator(500, "aten::addmm", Extent::Closed(1));
        let fill = story.call("cuMemsetD8Async", Some(7), &[]);
        // Another stream takes part, one that is not captured does not.
        story.call("cuEventRecord", Some(7), &[("hEvent", 70)]);
        story.call("cuStreamWaitEvent", Some(8), &[("hEvent", 70)]);
        let beside = story.call("cuLaunchKernel", Some(8), &[]);
        story.call("cuLaunchKernel", Some(9), &[]);
        let ended = [("hStream", 7), ("phGraph", 0x100)];
        story.call("cuStreamEndCapture", Some(7), &ended);
        let made = [("hGraph", 0x100), ("phGraphExec", 0x200)];
        story.call("cuGraphInstantiateWithFlags", None, &made);
        for _ in 0..2 {
            let launch = story.call("cuGraphLaunch", Some(7), &[("hGraphExec", 0x200)]);
            let mut work = |place, category| story.work(launch, place, category);
            assert_eq!(work(0, Category::Kernel), from(first, Some("aten::addmm")));
            assert_eq!(work(1, Category::Memory), from(fill, None));
            assert_eq!(work(2, Category::Kernel), from(beside, None));
            // Something else than what was captured there, and more than was.
            assert_eq!(work(1, Category::Kernel), None);
            assert_eq!(work(3, Category::Kernel), None);
        }
    }

    #[test]
    fn graphs_that_are_built_cloned_and_updated_are_followed() {
        let mut story = Story::new();
        story.call("cuGraphCreate", None, &[("phGraph", 1)]);
        let first = story.call("cuGraphAddKernelNode_v2", None, &[("hGraph", 1)]);
        story.call("cuGraphAddEmptyNode", None, &[("hGraph", 1)]);
        let clone = [("originalGraph", 1), ("phGraphClone", 2)];
        story.call("cuGraphClone", None, &clone);
        let last = story.call("cuGraphAddKernelNode_v2", None, &[("hGraph", 2)]);
        let made = [("hGraph", 1), ("phGraphExec", 3)];
        story.call("cuGraphInstantiate", None, &made);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        assert_eq!(story.work(launch, 0, Category::Kernel), from(first, None));
        assert_eq!(story.work(launch, 2, Category::Kernel), None);
        let update = [("hGraphExec", 3), ("hGraph", 2)];
        story.call("cuGraphExecUpdate_v2", None, &update);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        assert_eq!(story.work(launch, 2, Category::Kernel), from(last, None));
    }

    #[test]
    fn a_graph_from_before_says_so() {
        let mut story = Story::new();
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        let words = Value::from("captured before tracing");
        assert_eq!(story.work(launch, 0, Category::Kernel), Some(words));
        assert_eq!(story.work(12345, 0, Category::Kernel), None);
    }
}
