//! Stacks and their frames.

use crate::{Name, named::named_enum};
use alloc::{sync::Arc, vec::Vec};
use core::ops::Deref;

named_enum! {
    /// What a frame is.
    FrameKind, "kind of frame",
        /// Machine code that was called.
        Native = "native",
        /// A function that the compiler put into the one after it, which is next in the stack.
        Inlined = "inlined",
        /// A function of an interpreter's language.
        Python = "python",
        /// No frame: here some are missing, and the symbol says why.
        Cut = "cut",
}

#[allow(clippy::derivable_impls)] // the macro derives for all
impl Default for FrameKind {
    fn default() -> Self {
        FrameKind::Native
    }
}

/// One frame of a stack, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    pub kind: FrameKind,
    /// 0 where the kind has none.
    pub address: u64,
    pub symbol: Option<Name>,
    /// Distance from the symbol's start.
    pub offset: Option<u64>,
    /// The mapped file it is in.
    pub module: Option<Name>,
    /// The source file, and the line in it, where they are known.
    pub file: Option<Name>,
    pub line: Option<u32>,
}

/// The frames that something was called through, innermost first. What came from the same place shares them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stack(Arc<[Frame]>);

impl Stack {
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            *self = Stack::default();
        }
    }

    /// Of stacks that are held, only those that share their frames have the same.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<Frame>() as usize
    }

    /// The frames, to be changed: a copy if others share them.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        Arc::make_mut(&mut self.0)
    }
}

impl Deref for Stack {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.0
    }
}

impl From<Vec<Frame>> for Stack {
    fn from(frames: Vec<Frame>) -> Self {
        if frames.is_empty() {
            return Stack::default();
        }
        Stack(frames.into())
    }
}

impl<const N: usize> From<[Frame; N]> for Stack {
    fn from(frames: [Frame; N]) -> Self {
        Stack::from(Vec::from(frames))
    }
}

impl FromIterator<Frame> for Stack {
    fn from_iter<I: IntoIterator<Item = Frame>>(frames: I) -> Self {
        Stack::from(Vec::from_iter(frames))
    }
}
