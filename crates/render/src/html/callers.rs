//! Which stacks GPU work came from: the frames of the call that has the same correlation, below the GPU's root.

use super::flame::{self, Flame};
use ahash::RandomState;
use std::collections::HashMap;

/// Calls remembered, until there are more: GPU work comes soon after its call.
const MAX_CALLS: usize = 500_000;

#[derive(Default)]
pub struct Callers {
    /// The innermost frame of the call with this correlation.
    frames: HashMap<u64, u32, RandomState>,
    /// Where a host frame is below the GPU's root.
    mirrored: HashMap<u32, u32, RandomState>,
}

impl Callers {
    /// A call of the host, at this node, has a correlation.
    pub fn called(&mut self, flame: &Flame, correlation: u64, node: u32) {
        let Some(frame) = flame.frame_of(node) else {
            return;
        };
        if self.frames.len() >= MAX_CALLS {
            self.frames.clear();
        }
        self.frames.insert(correlation, frame);
    }

    /// The node below which GPU work of a correlation goes.
    pub fn of(&mut self, flame: &mut Flame, correlation: Option<u64>) -> u32 {
        let frame = correlation.and_then(|correlation| self.frames.get(&correlation).copied());
        self.below(flame, frame)
    }

    /// The same, of a call at this node.
    pub fn of_call(&mut self, flame: &mut Flame, node: u32) -> u32 {
        let frame = flame.frame_of(node);
        self.below(flame, frame)
    }

    fn below(&mut self, flame: &mut Flame, frame: Option<u32>) -> u32 {
        frame.map_or(flame::GPU, |frame| self.mirror(flame, frame))
    }

    fn mirror(&mut self, flame: &mut Flame, frame: u32) -> u32 {
        if frame == flame::HOST {
            return flame::GPU;
        }
        if let Some(&known) = self.mirrored.get(&frame) {
            return known;
        }
        // Stacks have a bounded number of frames.
        let (parent, name) = flame.parent_and_name(frame);
        let above = self.mirror(flame, parent);
        let node = flame.child(above, name, flame::FRAME);
        self.mirrored.insert(frame, node);
        node
    }
}
