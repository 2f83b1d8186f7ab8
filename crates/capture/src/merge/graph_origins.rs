//! Which call put a node into a CUDA graph: work of a graph's launch gets an `origin`, the call that captured or added it and
//! the operator around that.
//!
//! CUPTI numbers nodes, and says when a graph gets one and of which other it is a copy
//! ([`super::graph_nodes`]): so nodes are followed through clones, executables, child graphs and the bodies of conditional
//! nodes. A CUPTI that does not say so numbers nodes all the same: the executable graph's number, and below it the node's
//! place in the order in which nodes were added. Graphs keep that order when they are captured, cloned and instantiated, so the
//! list of calls that added nodes is enough there, but for graphs inside graphs. Records come in the order of time, with
//! final ids.

use super::graph_nodes;
use ahash::RandomState;
use event::{Arg, Category, Event, Extent, Kind, Layer, Name, Value};
use std::{collections::HashMap, sync::Arc};

/// Bounds: a program may claim anything.
const MOST: usize = 65_536;
const MOST_NODES: usize = 1 << 20;

type Map<K, V> = HashMap<K, V, RandomState>;
/// A handle, or a node's number, of a process.
type Handle = (u32, u64);
/// A graph's nodes in the order in which calls added them, with those of its child graphs.
type Nodes = Arc<Vec<Node>>;

#[derive(Debug, Clone)]
struct Node {
    /// CUPTI's number, if it says that there is a new node.
    id: Option<u64>,
    does: Does,
    call: u64,
    operator: Option<Name>,
    /// Where it is in its graph's list; an executable's node: in that of the graph it was made of.
    place: Option<usize>,
}

/// What a node does, as its work is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// No work of the GPU.
    Nothing,
    Work(Category),
    /// The call does not say.
    Something,
}

impl Does {
    fn may(self, category: Category) -> bool {
        match self {
            Does::Nothing => false,
            Does::Work(known) => known == category,
            Does::Something => true,
        }
    }
}

/// What CUPTI says of a new node.
#[derive(Debug, Clone, Copy)]
struct NewNode {
    id: u64,
    original: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Executable {
    nodes: Nodes,
    /// They are of another graph than it was made of.
    updated: bool,
}

/// The entries of late: the earlier half goes when there are too many.
#[derive(Debug)]
struct Recent<K, V> {
    newer: Map<K, V>,
    older: Map<K, V>,
    most: usize,
}

impl<K: Eq + std::hash::Hash, V> Recent<K, V> {
    fn new(most: usize) -> Self {
        Recent {
            newer: Map::default(),
            older: Map::default(),
            most,
        }
    }

    fn insert(&mut self, key: K, value: V) {
        if self.newer.len() >= self.most {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.newer.get(key).or_else(|| self.older.get(key))
    }
}

#[derive(Debug)]
pub(super) struct GraphOrigins {
    /// Streams that are being captured, with the stream where their capture began.
    streams: Map<Handle, u64>,
    /// Events recorded in captured streams: a stream that waits for one joins the capture.
    marks: Map<Handle, u64>,
    /// By the stream where the capture began.
    captured: Map<Handle, Vec<Node>>,
    graphs: Map<Handle, Nodes>,
    executables: Map<Handle, Executable>,
    /// New nodes of the call that a thread is in.
    new: Map<(u32, u32), Vec<NewNode>>,
    /// Nodes by CUPTI's numbers.
    known: Recent<Handle, Node>,
    /// Launches of executable graphs, by the call's id.
    launches: Recent<u64, Option<Executable>>,
    /// Operators that are open, by thread.
    operators: Map<(u32, u32), Vec<(u64, Name)>>,
}

impl Default for GraphOrigins {
    fn default() -> Self {
        GraphOrigins {
            streams: Map::default(),
            marks: Map::default(),
            captured: Map::default(),
            graphs: Map::default(),
            executables: Map::default(),
            new: Map::default(),
            known: Recent::new(MOST_NODES),
            launches: Recent::new(MOST),
            operators: Map::default(),
        }
    }
}

impl GraphOrigins {
    /// Whether this is no event of the trace, but what CUPTI says of a graph's node.
    pub fn takes(&mut self, event: &Event) -> bool {
        let Some((id, original)) = graph_nodes::read(event) else {
            return false;
        };
        let thread = (event.pid, event.tid);
        if self.new.len() >= MOST && !self.new.contains_key(&thread) {
            return true;
        }
        let new = self.new.entry(thread).or_default();
        if let Some(last) = new.last_mut()
            && last.id == id
        {
            // Said once more: it is a copy.
            last.original = original.or(last.original);
        } else if new.len() < MOST_NODES {
            new.push(NewNode { id, original });
        }
        true
    }

    /// Every event on its way into the trace; its parent is settled.
    pub fn see(&mut self, event: &mut Event) {
        // The nodes that a call made: the driver's calls on one thread follow one another.
        let has_ended = event.layer == Layer::Driver && matches!(event.extent, Extent::Closed(_));
        let new = match has_ended && !self.new.is_empty() {
            true => self.new.remove(&(event.pid, event.tid)).unwrap_or_default(),
            false => Vec::new(),
        };
        match (event.layer, event.category) {
            (Layer::Framework, _) if event.kind == Kind::Operator => {
                self.operator(event, || event.name.clone());
            }
            (Layer::Library, _) if event.kind == Kind::Range => {
                if let Some(name) = names::xla_operator(&event.name) {
                    self.operator(event, || name.into());
                }
            }
            (Layer::Gpu, _) => self.work(event),
            (Layer::Driver | Layer::Runtime, Category::Graph) => self.graph(event, &new),
            (Layer::Driver, _) if !self.streams.is_empty() => self.captured_call(event, &new),
            _ => {}
        }
    }

    /// PyTorch's, or a range that XLA puts around its own.
    fn operator(&mut self, event: &Event, name: impl FnOnce() -> Name) {
        let thread = (event.pid, event.tid);
        match event.extent {
            Extent::Open if self.operators.len() < MOST || self.operators.contains_key(&thread) => {
                let open = self.operators.entry(thread).or_default();
                if open.len() < MOST {
                    open.push((event.id, name()));
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

    /// The nodes that a call adds: one that does this, or those that CUPTI has said. Copies come from where their
    /// originals come from.
    fn added(&self, event: &Event, does: Does, new: &[NewNode]) -> Vec<Node> {
        let open = self.operators.get(&(event.pid, event.tid));
        let own = Node {
            id: None,
            does,
            call: event.id,
            operator: open
                .and_then(|open| open.last())
                .map(|(_, name)| name.clone()),
            place: None,
        };
        if new.is_empty() {
            return vec![own];
        }
        let node = |new: &NewNode| {
            let original = new.original.and_then(|id| self.known.get(&(event.pid, id)));
            let node = original.cloned().unwrap_or_else(|| match new.original {
                None => own.clone(),
                Some(_) => Node {
                    does: Does::Something,
                    ..own.clone()
                },
            });
            Node {
                id: Some(new.id),
                ..node
            }
        };
        new.iter().map(node).collect()
    }

    /// Appends nodes to a graph's list.
    fn append(&mut self, pid: u32, nodes: &mut Vec<Node>, added: Vec<Node>) {
        for mut node in added {
            if nodes.len() >= MOST_NODES {
                return;
            }
            node.place = Some(nodes.len());
            if let Some(id) = node.id {
                self.known.insert((pid, id), node.clone());
            }
            nodes.push(node);
        }
    }

    /// A call of the driver while something is being captured.
    fn captured_call(&mut self, event: &Event, new: &[NewNode]) {
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
        let Some(does) = captured(&event.name) else {
            return;
        };
        let added = self.added(event, does, new);
        let key = (event.pid, origin);
        let mut nodes = self.captured.remove(&key).unwrap_or_default();
        self.append(event.pid, &mut nodes, added);
        self.captured.insert(key, nodes);
    }

    fn graph(&mut self, event: &Event, new: &[NewNode]) {
        let name = &*event.name;
        if name.contains("GraphLaunch") {
            let executable = handle(event, &["hGraphExec", "hGraph", "graphExec"]);
            if let (Extent::Open, Some(executable)) = (event.extent, executable) {
                self.launched(event, executable);
            }
            // Into a graph that is being captured: a node, and those of its child graph.
            if event.layer == Layer::Driver && !self.streams.is_empty() {
                self.captured_call(event, new);
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
            if let Some(executable) = handle(event, &["phGraphExec"]) {
                self.instantiated(pid, graph, executable, new);
            }
        } else if name.starts_with("cuGraphExecUpdate") {
            let nodes = graph.and_then(|graph| self.graphs.get(&(pid, graph)).cloned());
            if let (Some(nodes), Some(executable)) = (nodes, handle(event, &["hGraphExec"])) {
                let executable = self.executables.get_mut(&(pid, executable));
                if let Some(executable) = executable {
                    (executable.nodes, executable.updated) = (nodes, true);
                }
            }
        } else if name.starts_with("cuGraphClone") {
            let original = handle(event, &["originalGraph"]);
            let nodes = original.and_then(|it| self.graphs.get(&(pid, it)).cloned());
            if let (Some(nodes), Some(clone)) = (nodes, handle(event, &["phGraphClone"])) {
                let nodes = self.copied(pid, &nodes, new);
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
            let added = self.added(event, added_by(rest), new);
            // Bodies of conditional nodes are graphs that no call creates.
            let key = (pid, graph);
            let nodes = self.graphs.remove(&key);
            if nodes.is_some() || !new.is_empty() {
                let mut nodes = nodes.unwrap_or_default();
                self.append(pid, Arc::make_mut(&mut nodes), added);
                keep(&mut self.graphs, key, nodes);
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
    fn instantiated(&mut self, pid: u32, graph: Option<u64>, executable: u64, new: &[NewNode]) {
        let nodes = graph.and_then(|graph| self.graphs.get(&(pid, graph)).cloned());
        let Some(nodes) = nodes else {
            return;
        };
        self.copied(pid, &nodes, new);
        let made = Executable {
            nodes,
            updated: false,
        };
        keep(&mut self.executables, (pid, executable), made);
    }

    /// The nodes as another graph has them. Copies of nodes that are elsewhere, as in the body of a conditional node, have no
    /// place in its list.
    fn copied(&mut self, pid: u32, nodes: &Nodes, new: &[NewNode]) -> Nodes {
        if new.is_empty() {
            return nodes.clone();
        }
        let mut copies = nodes.to_vec();
        for new in new {
            let original = new.original.and_then(|id| self.known.get(&(pid, id)));
            let Some(mut node) = original.cloned() else {
                continue;
            };
            let own = node.place.and_then(|place| copies.get_mut(place));
            // The list of its graph at the time: this one, if it is there.
            let is_here = (node.place.and_then(|place| nodes.get(place)))
                .is_some_and(|here| here.id.is_some() && here.id == new.original);
            match own.filter(|_| is_here) {
                Some(own) => own.id = Some(new.id),
                None => node.place = None,
            }
            node.id = Some(new.id);
            self.known.insert((pid, new.id), node);
        }
        Arc::new(copies)
    }

    fn launched(&mut self, event: &Event, executable: u64) {
        let executable = self.executables.get(&(event.pid, executable)).cloned();
        self.launches.insert(event.id, executable);
    }

    /// Work of the GPU: if a graph's launch started it, where it comes from.
    fn work(&self, event: &mut Event) {
        let Some(node) = event.arg("node").and_then(Value::as_u64) else {
            return;
        };
        let Some(launch) = (event.correlation).and_then(|call| self.launches.get(&call)) else {
            return;
        };
        // Known since it began.
        if event.arg("origin").is_some() {
            return;
        }
        let Some(executable) = launch else {
            event
                .args
                .push(Arg::new("origin", "captured before tracing"));
            return;
        };
        let nodes = &executable.nodes;
        let found = match self.known.get(&(event.pid, node)) {
            Some(node) if executable.updated => node.place.and_then(|place| nodes.get(place)),
            Some(node) => Some(node),
            // CUPTI says nothing of new nodes.
            None if nodes.first().is_some_and(|it| it.id.is_none()) => {
                nodes.get((node & u64::from(u32::MAX)) as usize)
            }
            None => None,
        };
        // What does something else is another node.
        let Some(found) = found.filter(|it| it.does.may(event.category)) else {
            return;
        };
        let mut origin = vec![Arg::new("op_id", found.call)];
        if let Some(operator) = &found.operator {
            origin.push(Arg::new("operator", operator.clone()));
        }
        event.args.push(Arg::new("origin", Value::Map(origin)));
    }
}

fn keep<T>(map: &mut Map<Handle, T>, key: Handle, value: T) {
    if map.len() < MOST || map.contains_key(&key) {
        map.insert(key, value);
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
fn captured(name: &str) -> Option<Does> {
    let is = |prefix: &str| name.starts_with(prefix);
    if is("cuLaunchHostFunc") {
        Some(Does::Nothing)
    } else if is("cuLaunch") {
        Some(Does::Work(Category::Kernel))
    } else if is("cuMemcpy") {
        Some(Does::Work(Category::Transfer))
    } else if is("cuMemset") {
        Some(Does::Work(Category::Memory))
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
        Some(Does::Nothing)
    } else {
        None
    }
}

/// What a node that `cuGraphAdd…` adds does.
fn added_by(kind: &str) -> Does {
    if kind.starts_with("Kernel") {
        Does::Work(Category::Kernel)
    } else if kind.starts_with("Memcpy") {
        Does::Work(Category::Transfer)
    } else if kind.starts_with("Memset") {
        Does::Work(Category::Memory)
    } else if kind.starts_with("Node") {
        Does::Something
    } else {
        Does::Nothing
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
            self.call_making(name, stream, args, &[])
        }

        /// A call in which CUPTI says that there are these nodes, each a copy of another (or of none: 0).
        fn call_making(
            &mut self,
            name: &str,
            stream: Option<u64>,
            args: &[(&str, u64)],
            nodes: &[(u64, u64)],
        ) -> u64 {
            let id = self.next;
            self.next += 1;
            let mut event = Event::new(id, Layer::Driver, category(name), name, id * 10);
            (event.pid, event.tid, event.stream) = (1, 1, stream);
            event.args = (args.iter())
                .map(|(name, value)| Arg::new(*name, Value::Pointer(*value)))
                .collect();
            event.extent = Extent::Open;
            self.origins.see(&mut event);
            for (node, original) in nodes {
                self.new_node(*node, 0);
                if *original != 0 {
                    self.new_node(*node, *original);
                }
            }
            event.extent = Extent::Closed(5);
            event.status = Some(Status {
                code: 0,
                name: None,
            });
            self.origins.see(&mut event);
            id
        }

        fn new_node(&mut self, node: u64, original: u64) {
            let new = event::gpu_times::GraphNode {
                at: 0,
                thread: 1,
                node,
                original,
            };
            assert!(self.origins.takes(&graph_nodes::event(1, &new, 0)));
        }

        fn operator(&mut self, id: u64, name: &str, extent: Extent) {
            let mut event = Event::new(id, Layer::Framework, Category::Other, name, id);
            (event.pid, event.tid, event.extent) = (1, 1, extent);
            self.origins.see(&mut event);
        }

        fn work(&mut self, launch: u64, place: u64, category: Category) -> Option<Value> {
            self.work_of(launch, 2 << 32 | place, category)
        }

        fn work_of(&mut self, launch: u64, node: u64, category: Category) -> Option<Value> {
            let mut event = Event::new(9999, Layer::Gpu, category, "k", 10_000);
            (event.pid, event.correlation) = (1, Some(launch));
            event.args = vec![Arg::new("node", node)];
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

    const KERNEL: &str = "cuGraphAddKernelNode_v2";
    /// A node of a graph by both numbers.
    const fn node(graph: u64, place: u64) -> u64 {
        graph << 32 | place
    }

    /// A graph of a kernel, a child graph of another and a conditional node with a third in its body, under handles and
    /// numbers from `first` on; the calls that added the three kernels.
    fn nested(story: &mut Story, first: u64) -> [u64; 3] {
        let [child, graph, inside, body] = [first, first + 1, first + 2, first + 3];
        story.call("cuGraphCreate", None, &[("phGraph", child)]);
        let one = [("hGraph", child)];
        let in_child = story.call_making(KERNEL, None, &one, &[(node(child, 0), 0)]);
        story.call("cuGraphCreate", None, &[("phGraph", graph)]);
        let one = [("hGraph", graph)];
        let outside = story.call_making(KERNEL, None, &one, &[(node(graph, 0), 0)]);
        let copied = [(node(inside, 0), node(child, 0)), (node(graph, 1), 0)];
        story.call_making("cuGraphAddChildGraphNode", None, &one, &copied);
        story.call_making("cuGraphAddNode", None, &one, &[(node(graph, 2), 0)]);
        let one = [("hGraph", body)];
        let in_body = story.call_making(KERNEL, None, &one, &[(node(body, 0), 0)]);
        [outside, in_child, in_body]
    }

    #[test]
    fn nodes_in_graphs_inside_graphs_lead_to_the_calls_that_added_them() {
        let mut story = Story::new();
        let [outside, in_child, in_body] = nested(&mut story, 10);
        let made = [("hGraph", 11), ("phGraphExec", 3)];
        let copies = [
            (node(20, 0), node(11, 0)),
            (node(20, 1), node(11, 1)),
            (node(20, 2), node(11, 2)),
            (node(21, 0), node(12, 0)),
            (node(22, 0), node(13, 0)),
        ];
        story.call_making("cuGraphInstantiate", None, &made, &copies);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        let kernel = |story: &mut Story, id| story.work_of(launch, id, Category::Kernel);
        assert_eq!(kernel(&mut story, node(20, 0)), from(outside, None));
        assert_eq!(kernel(&mut story, node(21, 0)), from(in_child, None));
        assert_eq!(kernel(&mut story, node(22, 0)), from(in_body, None));
        // The nodes that stand for the graphs do nothing themselves; numbers that nobody has said are nobody's.
        assert_eq!(kernel(&mut story, node(20, 1)), None);
        assert_eq!(kernel(&mut story, node(23, 0)), None);
        // The same shape from other calls. Which body takes whose place is not known.
        let [outside, in_child, _] = nested(&mut story, 30);
        let update = [("hGraphExec", 3), ("hGraph", 31)];
        story.call("cuGraphExecUpdate_v2", None, &update);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        let mut kernel = |id| story.work_of(launch, id, Category::Kernel);
        assert_eq!(kernel(node(20, 0)), from(outside, None));
        assert_eq!(kernel(node(21, 0)), from(in_child, None));
        assert_eq!(kernel(node(22, 0)), None);
    }

    #[test]
    fn a_captured_launch_leads_to_the_calls_of_its_graph() {
        let mut story = Story::new();
        let [_, in_child, _] = nested(&mut story, 10);
        let made = [("hGraph", 10), ("phGraphExec", 3)];
        let copied = [(node(20, 0), node(10, 0))];
        story.call_making("cuGraphInstantiate", None, &made, &copied);
        story.call("cuStreamBeginCapture_v2", Some(7), &[("hStream", 7)]);
        let copied = [(node(31, 0), node(20, 0)), (node(30, 0), 0)];
        let executable = [("hGraphExec", 3)];
        story.call_making("cuGraphLaunch", Some(7), &executable, &copied);
        let fill = story.call_making("cuMemsetD8Async", Some(7), &[], &[(node(30, 1), 0)]);
        let ended = [("hStream", 7), ("phGraph", 40)];
        story.call("cuStreamEndCapture", Some(7), &ended);
        let made = [("hGraph", 40), ("phGraphExec", 4)];
        let copies = [
            (node(50, 0), node(30, 0)),
            (node(50, 1), node(30, 1)),
            (node(51, 0), node(31, 0)),
        ];
        story.call_making("cuGraphInstantiate", None, &made, &copies);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 4)]);
        let child = story.work_of(launch, node(51, 0), Category::Kernel);
        assert_eq!(child, from(in_child, None));
        let filled = story.work_of(launch, node(50, 1), Category::Memory);
        assert_eq!(filled, from(fill, None));
    }

    #[test]
    fn ranges_of_xla_are_operators() {
        let mut story = Story::new();
        let graph = [("hGraph", 1)];
        story.call("cuGraphCreate", None, &[("phGraph", 1)]);
        let range = "Thunk:#name=jit(f)/add,hlo_op=add.1,unique_hlo_op_id=7#";
        let mut event = Event::new(900, Layer::Library, Category::Other, range, 1);
        (event.pid, event.tid, event.kind) = (1, 1, Kind::Range);
        event.extent = Extent::Open;
        story.origins.see(&mut event);
        let added = story.call("cuGraphAddNode_v2", None, &graph);
        event.extent = Extent::Closed(1);
        story.origins.see(&mut event);
        let other = story.call("cuGraphAddNode_v2", None, &graph);
        let made = [("hGraph", 1), ("phGraphExec", 3)];
        story.call("cuGraphInstantiate", None, &made);
        let launch = story.call("cuGraphLaunch", None, &[("hGraphExec", 3)]);
        let operator = Some("jit(f)/add (add.1)");
        let mut work = |place| story.work(launch, place, Category::Kernel);
        assert_eq!(work(0), from(added, operator));
        assert_eq!(work(1), from(other, None));
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
