//! From an API call down: the system calls inside it, the driver's functions inside those, and the
//! GPU work it started.
//!
//! Host layers are joined by nesting on a thread, GPU work by correlation ids.

use crate::{
    Below, Ended, Quantiles, SymbolId, Symbols,
    call_tree::{CallTree, NO_NODE, NodeId},
    nesting::{Nesting, is_call},
};
use event::{Category, Event, Layer, Name};
use serde::{Deserialize, Serialize};

pub use crate::call_tree::CallNode;

/// How the layers belong together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Time by layer: each moment of a thread counts for the innermost layer it was in.
    pub layers: Vec<LayerTime>,
    /// The sum of the layers' self times: time in which threads were in anything traced.
    pub host_ns: u64,
    /// API and library functions, with what is below them; most total time first.
    pub functions: Vec<FunctionBelow>,
    /// Who calls what.
    pub tree: Vec<CallNode>,
    /// Functions under their callers that are not in `tree`: too many, or too deep.
    pub tree_left_out: u64,
    pub queue: Queue,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTime {
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    pub calls: u64,
    pub self_ns: u64,
}

/// An API function and what its calls did further down:
/// `total_ns` = `user_ns` + `syscall_ns`, and `kernel_ns` is a part of `syscall_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionBelow {
    pub name: Name,
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    /// Calls that ended and lie in no other call of the same function.
    pub calls: u64,
    pub total_ns: u64,
    /// In user space: everything but system calls.
    pub user_ns: u64,
    pub syscalls: u64,
    pub syscall_ns: u64,
    /// Functions of the driver's kernel modules.
    pub kernel_calls: u64,
    pub kernel_ns: u64,
    /// GPU work that its calls started.
    pub gpu_operations: u64,
    pub gpu_ns: u64,
    /// A call with the most time in system calls.
    pub syscall_op_id: Option<u64>,
}

/// How long work waited between its call and the GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// GPU work whose call is in the trace.
    pub linked: u64,
    /// GPU work of which no call is known.
    pub unlinked: u64,
    /// From the beginning of the call to the beginning of the work.
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub max_op_id: Option<u64>,
}

/// Calls that may yet be found to have started work: each has a place by its correlation, and
/// gives way to a later one with the same place. Numbers that count up so forget the oldest.
const PLACES: usize = 65_536;

#[derive(Default)]
pub(crate) struct CorrelationSweep {
    layers: [(u64, u64); Layer::ALL.len()],
    functions: Vec<Sums>,
    tree: CallTree,
    calls: Vec<Option<CorrelatedCall>>,
    linked: u64,
    unlinked: u64,
    delays: Quantiles,
    max_op: Option<u64>,
}

#[derive(Default, Clone)]
struct Sums {
    calls: u64,
    total_ns: u64,
    below: Below,
    gpu_operations: u64,
    gpu_ns: u64,
    most: u64,
    most_op: Option<u64>,
}

/// A call that names a correlation.
#[derive(Clone, Copy)]
struct CorrelatedCall {
    pid: u32,
    correlation: u64,
    symbol: SymbolId,
    /// The API call it was made from, if it was.
    outer: SymbolId,
    node: NodeId,
    start: u64,
}

impl CorrelationSweep {
    /// A span on the host begins; `nesting` has it already.
    #[inline]
    pub fn begin(&mut self, event: &Event, symbol: SymbolId, nesting: &mut Nesting, thread: u32) {
        let open = nesting.open(thread);
        let around = open.len().checked_sub(2).and_then(|at| open.get(at));
        let parent = around.map_or(NO_NODE, |open| open.node);
        // Under a caller that has no place in the tree there is none either.
        let node = if around.is_some() && parent == NO_NODE {
            NO_NODE
        } else {
            self.tree.enter(parent, symbol)
        };
        if let Some(correlation) = event.correlation
            && is_call(event.layer)
        {
            let outer = open.iter().find(|open| is_call(open.layer));
            let outer = outer.map_or(symbol, |open| open.symbol);
            self.remember(CorrelatedCall {
                pid: event.pid,
                correlation,
                symbol,
                outer,
                node,
                start: event.start,
            });
        }
        nesting.set_node(thread, event.id, node);
    }

    fn remember(&mut self, call: CorrelatedCall) {
        if self.calls.is_empty() {
            self.calls.resize(PLACES, None);
        }
        let place = place_of(call.pid, call.correlation);
        self.calls[place] = Some(call);
    }

    fn call_of(&self, pid: u32, correlation: u64) -> Option<CorrelatedCall> {
        let call = (*self.calls.get(place_of(pid, correlation))?)?;
        (call.pid == pid && call.correlation == correlation).then_some(call)
    }

    /// A span on the host ended, or will not.
    #[inline]
    pub fn end(&mut self, ended: &Ended) {
        let layer = &mut self.layers[ended.layer as usize];
        let first = ended.known != crate::SpanHistory::GivenUp;
        layer.0 += u64::from(first);
        layer.1 = layer.1.saturating_add(ended.self_ns);
        self.tree.add(
            ended.node,
            ended.further_ns(),
            ended.self_ns,
            u64::from(first),
        );
        let Some(duration) = ended.duration_ns else {
            return;
        };
        if !is_call(ended.layer) || ended.recursive {
            return;
        }
        let sums = self.sums(ended.symbol);
        sums.calls += 1;
        sums.total_ns = sums.total_ns.saturating_add(duration);
        let below = &ended.below;
        if below.syscalls > 0 {
            sums.below.syscalls += below.syscalls;
            // What was given up may seem to last longer than the call around it.
            let syscall_ns = below.syscall_ns.min(duration);
            sums.below.syscall_ns = sums.below.syscall_ns.saturating_add(syscall_ns);
            if syscall_ns > sums.most {
                (sums.most, sums.most_op) = (syscall_ns, Some(ended.id));
            }
        }
        if below.kernel_calls > 0 {
            sums.below.kernel_calls += below.kernel_calls;
            let kernel_ns = below.kernel_ns.min(duration);
            sums.below.kernel_ns = sums.below.kernel_ns.saturating_add(kernel_ns);
        }
    }

    #[inline]
    fn sums(&mut self, symbol: SymbolId) -> &mut Sums {
        let place = symbol as usize;
        if place >= self.functions.len() {
            self.functions.resize(place + 1, Sums::default());
        }
        &mut self.functions[place]
    }

    /// When the call began that caused this work.
    pub fn called(&self, event: &Event) -> Option<u64> {
        let call = self.call_of(event.pid, event.correlation?)?;
        Some(call.start)
    }

    /// The function whose call caused this work.
    pub fn cause(&self, event: &Event) -> Option<SymbolId> {
        let call = self.call_of(event.pid, event.correlation?)?;
        Some(call.symbol)
    }

    /// GPU work has ended.
    pub fn gpu(&mut self, event: &Event, symbol: SymbolId, duration: u64) {
        let call = event
            .correlation
            .and_then(|correlation| self.call_of(event.pid, correlation));
        let Some(call) = call else {
            self.unlinked += 1;
            return;
        };
        self.linked += 1;
        let delay = event.start.saturating_sub(call.start);
        if self.max_op.is_none() || delay > self.delays.greatest() {
            self.max_op = Some(event.id);
        }
        self.delays.add(delay);
        let outer = Some(call.outer).filter(|&outer| outer != call.symbol);
        for function in [Some(call.symbol), outer].into_iter().flatten() {
            let sums = self.sums(function);
            sums.gpu_operations += 1;
            sums.gpu_ns = sums.gpu_ns.saturating_add(duration);
        }
        if call.node != NO_NODE {
            let node = self.tree.enter(call.node, symbol);
            self.tree.add(node, duration, duration, 1);
        }
    }

    pub fn finish(self, symbols: &Symbols) -> Correlation {
        let mut functions: Vec<FunctionBelow> = (self.functions.iter().enumerate())
            .filter(|(_, sums)| sums.calls > 0)
            .map(|(id, sums)| sums.row(symbols, id as SymbolId))
            .collect();
        functions.sort_by(|a, b| {
            (b.total_ns, b.calls)
                .cmp(&(a.total_ns, a.calls))
                .then_with(|| a.name.cmp(&b.name))
        });
        let layers: Vec<LayerTime> = (Layer::ALL.iter().zip(self.layers))
            .filter(|(_, (calls, _))| *calls > 0)
            .map(|(&layer, (calls, self_ns))| LayerTime {
                layer,
                calls,
                self_ns,
            })
            .collect();
        let (tree, tree_left_out) = self.tree.finish(symbols);
        Correlation {
            host_ns: (layers.iter()).fold(0, |sum: u64, layer| sum.saturating_add(layer.self_ns)),
            layers,
            functions,
            tree,
            tree_left_out,
            queue: Queue {
                linked: self.linked,
                unlinked: self.unlinked,
                p50_ns: self.delays.quantile(0.5),
                p99_ns: self.delays.quantile(0.99),
                max_ns: self.delays.greatest(),
                max_op_id: self.max_op,
            },
        }
    }
}

/// Numbers that count up lie side by side; those of several processes are set apart.
fn place_of(pid: u32, correlation: u64) -> usize {
    let apart = u64::from(pid).wrapping_mul(0x9e37_79b9);
    (correlation.wrapping_add(apart) % PLACES as u64) as usize
}

impl Sums {
    fn row(&self, symbols: &Symbols, id: SymbolId) -> FunctionBelow {
        let symbol = symbols.get(id);
        FunctionBelow {
            name: symbol.name.clone(),
            layer: symbol.layer,
            category: symbol.category,
            calls: self.calls,
            total_ns: self.total_ns,
            user_ns: self.total_ns.saturating_sub(self.below.syscall_ns),
            syscalls: self.below.syscalls,
            syscall_ns: self.below.syscall_ns,
            kernel_calls: self.below.kernel_calls,
            kernel_ns: self.below.kernel_ns,
            gpu_operations: self.gpu_operations,
            gpu_ns: self.gpu_ns,
            syscall_op_id: self.most_op,
        }
    }
}
