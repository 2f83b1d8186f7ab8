//! Frames of a stack.

use crate::{Name, named::named_enum};

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
