//! A fault on its way out: what happened to which lane, before kernel and place are added.

use crate::fault::FaultKind;

pub struct Trouble {
    pub kind: FaultKind,
    /// The lane it happened to; None if no single one.
    pub lane: Option<usize>,
    pub text: String,
    /// PTX line, filled in by the execution loop.
    pub line: u32,
    /// Warp of the block, filled in likewise.
    pub warp: u32,
}

pub type Outcome<T = ()> = Result<T, Box<Trouble>>;

impl Trouble {
    pub fn new(kind: FaultKind, lane: Option<usize>, text: impl Into<String>) -> Box<Trouble> {
        Box::new(Trouble {
            kind,
            lane,
            text: text.into(),
            line: 0,
            warp: 0,
        })
    }
}
