//! The flame graph's tree: call paths with their times, over all threads. Paths are host stacks
//! where the trace has them, and spans inside spans. A path has time, bytes that it allocated and bytes that it moved.

use ahash::RandomState;
use event::{Frame, Name};
use std::collections::HashMap;

/// Paths kept apart at most; later ones count for the path they begin with.
const MAX_NODES: usize = 30_000;
/// Paths the page shows: the heaviest.
const MAX_SHOWN: usize = 4_000;

/// Frames of a stack that are followed, from the outermost.
const MAX_FRAMES: usize = 48;

/// What a node stands for: a category of a span, or a frame of a stack.
pub const FRAME: u8 = u8::MAX;

pub struct Node {
    pub parent: u32,
    pub name: u32,
    pub category: u8,
    pub count: u64,
    /// Of each [`Weight`], with everything inside.
    pub total: [u64; WEIGHTS],
    /// Of each, in itself.
    pub own: [u64; WEIGHTS],
}

/// What the width of a path may mean.
#[derive(Clone, Copy)]
pub enum Weight {
    Time,
    Allocated,
    Moved,
}

pub const WEIGHTS: usize = 3;

pub struct Flame {
    nodes: Vec<Node>,
    children: HashMap<(u32, u32, u8), u32, RandomState>,
}

/// The two roots: time of host threads, and time of GPU streams.
pub const HOST: u32 = 0;
pub const GPU: u32 = 1;
const ROOTS: usize = 2;

impl Flame {
    pub fn new() -> Self {
        let root = || Node {
            parent: u32::MAX,
            name: 0,
            category: FRAME,
            count: 0,
            total: [0; WEIGHTS],
            own: [0; WEIGHTS],
        };
        Flame {
            nodes: vec![root(), root()],
            children: HashMap::default(),
        }
    }

    /// The node of `name` below `parent`; the parent itself where there is no room for more.
    pub fn child(&mut self, parent: u32, name: u32, category: u8) -> u32 {
        let key = (parent, name, category);
        if let Some(&node) = self.children.get(&key) {
            return node;
        }
        if self.nodes.len() >= MAX_NODES {
            return parent;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node {
            parent,
            name,
            category,
            count: 0,
            total: [0; WEIGHTS],
            own: [0; WEIGHTS],
        });
        self.children.insert(key, node);
        node
    }

    /// The node of a stack's innermost frame, outermost frames first; `number` gives their names numbers.
    pub fn stack(&mut self, stack: &[Frame], mut number: impl FnMut(&Name) -> u32) -> u32 {
        let mut node = HOST;
        for frame in stack.iter().rev().take(MAX_FRAMES) {
            node = self.child(node, number(&function(frame)), FRAME);
        }
        node
    }

    /// The innermost frame of a stack at or above a node; None if there is no stack.
    pub fn frame_of(&self, mut node: u32) -> Option<u32> {
        while let Some(found) = self.nodes.get(node as usize) {
            if found.parent == u32::MAX {
                return None;
            }
            if found.category == FRAME {
                return Some(node);
            }
            node = found.parent;
        }
        None
    }

    /// What is above a node, and what it is called.
    pub fn parent_and_name(&self, node: u32) -> (u32, u32) {
        (self.nodes.get(node as usize)).map_or((HOST, 0), |node| (node.parent, node.name))
    }

    /// One span more at a node: `own` of its time was its own.
    pub fn add(&mut self, node: u32, own: u64) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.count += 1;
            node.own[Weight::Time as usize] = node.own[Weight::Time as usize].saturating_add(own);
        }
    }

    /// So much of the time at a node was spent in spans inside.
    pub fn spent_inside(&mut self, node: u32, time: u64) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            let own = &mut node.own[Weight::Time as usize];
            *own = own.saturating_sub(time);
        }
    }

    /// The span at a node allocated or moved so many bytes.
    pub fn weigh(&mut self, node: u32, weight: Weight, amount: u64) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            let own = &mut node.own[weight as usize];
            *own = own.saturating_add(amount);
        }
    }

    /// The heaviest paths, parents before children, with their totals; parents by their new place.
    pub fn finish(mut self) -> Vec<Node> {
        // Children come after their parents.
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            add(&mut node.total, node.own);
            let (total, parent) = (node.total, node.parent);
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                add(&mut parent.total, total);
            }
        }
        // A path is as heavy as its largest share of anything. No child is heavier than its parent.
        let mut whole = [0; WEIGHTS];
        (self.nodes.iter().take(ROOTS)).for_each(|root| add(&mut whole, root.total));
        let heavy = |node: &Node| {
            let share = |weight: usize| node.total[weight] as f64 / whole[weight].max(1) as f64;
            (0..WEIGHTS).map(share).fold(0.0, f64::max)
        };
        let mut shares: Vec<f64> = self.nodes.iter().map(heavy).collect();
        let least = if shares.len() > MAX_SHOWN {
            shares.sort_unstable_by(|a, b| b.total_cmp(a));
            shares[MAX_SHOWN]
        } else {
            -1.0
        };
        let mut places = vec![u32::MAX; self.nodes.len()];
        let mut shown = Vec::new();
        for (index, mut node) in self.nodes.into_iter().enumerate() {
            let is_root = node.parent == u32::MAX;
            if !is_root {
                node.parent = places[node.parent as usize];
            }
            if is_root || (heavy(&node) > least && node.parent != u32::MAX) {
                places[index] = shown.len() as u32;
                shown.push(node);
            }
        }
        shown
    }
}

/// What a frame is called in the graph: one box for a function, whichever its line.
pub fn function(frame: &Frame) -> Name {
    match (&frame.symbol, &frame.module) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => format!("{:#x}", frame.address).into(),
    }
}

fn add(sum: &mut [u64; WEIGHTS], more: [u64; WEIGHTS]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_of_own_times() {
        let mut flame = Flame::new();
        let outer = flame.child(HOST, 1, 0);
        let inner = flame.child(outer, 2, 3);
        flame.add(inner, 30);
        flame.add(inner, 30);
        flame.add(outer, 40);
        flame.weigh(inner, Weight::Allocated, 7);
        assert_eq!(flame.child(HOST, 1, 0), outer);
        let nodes = flame.finish();
        assert_eq!(nodes[HOST as usize].total, [100, 7, 0]);
        let times = nodes.iter().map(|n| (n.total[0], n.own[0], n.count));
        let totals: Vec<_> = times.collect();
        assert_eq!(totals, [(100, 0, 0), (0, 0, 0), (100, 40, 1), (60, 60, 2)]);
    }

    #[test]
    fn paths_without_end_are_bounded_and_the_heaviest_are_shown() {
        let mut flame = Flame::new();
        for name in 0..100_000u32 {
            let node = flame.child(HOST, name, 0);
            flame.add(node, u64::from(name));
        }
        let whole: u64 = (0..100_000u64).sum();
        let nodes = flame.finish();
        assert!(nodes.len() <= MAX_SHOWN + 2);
        assert_eq!(nodes[HOST as usize].total[0], whole);
        assert!(nodes.iter().skip(2).all(|node| node.parent == HOST));
    }
}
