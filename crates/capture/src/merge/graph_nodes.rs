//! What CUPTI says of new nodes of graphs, on its way to [`super::graph_origins`]: never a record of the trace.

use event::{Arg, Category, Event, Kind, Layer, Value, gpu_times::GraphNode};

const NAME: &str = "graph node";

/// For the merge: in its place in time it is inside the call that made the node.
pub fn event(pid: u32, node: &GraphNode, id: u64) -> Event {
    let mut event = Event::new(id, Layer::Gpu, Category::Graph, NAME, node.at);
    event.kind = Kind::Counter;
    (event.pid, event.tid) = (pid, node.thread.try_into().unwrap_or(0));
    event.args = vec![
        Arg::new("node", node.node),
        Arg::new("original", node.original),
    ];
    event
}

/// The node, and the one that it is a copy of.
pub(super) fn read(event: &Event) -> Option<(u64, Option<u64>)> {
    if event.kind != Kind::Counter || &*event.name != NAME {
        return None;
    }
    let word = |name| event.arg(name).and_then(Value::as_u64);
    Some((word("node")?, word("original").filter(|it| *it != 0)))
}
