//! Which function calls which, as a tree of names: API calls, the system calls inside them, the
//! driver's functions inside those, and the GPU work that calls started.

use crate::{SymbolId, Symbols};
use event::{Layer, Name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A function under a chain of callers, and everything under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallNode {
    pub name: Name,
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    pub calls: u64,
    pub total_ns: u64,
    /// On the host: without what was called from here. On the GPU: all of it.
    pub self_ns: u64,
    /// Most time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<CallNode>,
}

/// A place in the tree.
pub(crate) type NodeId = u32;

pub(crate) const NO_NODE: NodeId = NodeId::MAX;

#[derive(Default)]
pub(crate) struct CallTree {
    nodes: Vec<Node>,
    children: HashMap<(NodeId, SymbolId), NodeId, ahash::RandomState>,
    /// The last ones found, by caller and function: programs call the same from the same place.
    recent: Vec<(NodeId, SymbolId, NodeId)>,
}

const RECENT: usize = 256;

struct Node {
    parent: NodeId,
    symbol: SymbolId,
    calls: u64,
    total_ns: u64,
    self_ns: u64,
}

/// Paths beyond these are counted with their callers only.
const MOST_NODES: usize = 65_536;
/// What of it goes into a report.
const MOST_SHOWN: usize = 2_000;
const DEEPEST_SHOWN: u32 = 32;

impl CallTree {
    /// The node of a function called from another node.
    #[inline]
    pub fn enter(&mut self, parent: NodeId, symbol: SymbolId) -> NodeId {
        let place = (symbol.wrapping_add(parent.wrapping_mul(31))) as usize % RECENT;
        if let Some(&(of, called, node)) = self.recent.get(place)
            && (of, called) == (parent, symbol)
        {
            return node;
        }
        let node = self.find(parent, symbol);
        if node != NO_NODE {
            self.recent
                .resize(RECENT, (NO_NODE, SymbolId::MAX, NO_NODE));
            self.recent[place] = (parent, symbol, node);
        }
        node
    }

    fn find(&mut self, parent: NodeId, symbol: SymbolId) -> NodeId {
        if let Some(&node) = self.children.get(&(parent, symbol)) {
            return node;
        }
        if self.nodes.len() >= MOST_NODES {
            return NO_NODE;
        }
        let node = self.nodes.len() as NodeId;
        self.nodes.push(Node {
            parent,
            symbol,
            calls: 0,
            total_ns: 0,
            self_ns: 0,
        });
        self.children.insert((parent, symbol), node);
        node
    }

    #[inline]
    pub fn add(&mut self, node: NodeId, total_ns: u64, self_ns: u64, calls: u64) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.calls += calls;
            node.total_ns = node.total_ns.saturating_add(total_ns);
            node.self_ns = node.self_ns.saturating_add(self_ns);
        }
    }

    /// The parts of the tree that took most time, and how many functions are left out.
    pub fn finish(self, symbols: &Symbols) -> (Vec<CallNode>, u64) {
        // GPU work runs beside the host: it must not push host functions out of their order.
        let mut order: Vec<NodeId> = (0..self.nodes.len() as NodeId).collect();
        order.sort_by_key(|&node| std::cmp::Reverse(self.nodes[node as usize].total_ns));
        let mut below: HashMap<NodeId, Vec<NodeId>, ahash::RandomState> = HashMap::default();
        for node in order {
            below
                .entry(self.nodes[node as usize].parent)
                .or_default()
                .push(node);
        }
        let mut room = MOST_SHOWN;
        let shown = self.shown(NO_NODE, &below, symbols, DEEPEST_SHOWN, &mut room);
        let left_out = self.nodes.len() - (MOST_SHOWN - room);
        (shown, left_out as u64)
    }

    fn shown(
        &self,
        parent: NodeId,
        below: &HashMap<NodeId, Vec<NodeId>, ahash::RandomState>,
        symbols: &Symbols,
        depth: u32,
        room: &mut usize,
    ) -> Vec<CallNode> {
        let Some(nodes) = below.get(&parent).filter(|_| depth > 0) else {
            return Vec::new();
        };
        let kept: Vec<NodeId> = nodes.iter().copied().take(*room).collect();
        *room -= kept.len();
        kept.into_iter()
            .map(|id| {
                let node = &self.nodes[id as usize];
                let symbol = symbols.get(node.symbol);
                CallNode {
                    name: symbol.name.clone(),
                    layer: symbol.layer,
                    calls: node.calls,
                    total_ns: node.total_ns,
                    self_ns: node.self_ns,
                    children: self.shown(id, below, symbols, depth - 1, room),
                }
            })
            .collect()
    }
}
