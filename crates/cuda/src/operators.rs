//! A framework's operators as the injected library records them: two calls of our own making for each. The injected
//! library writes by these, the tracer reads by them.
//!
//! Words of a beginning: 0 what identifies it until its end (the address of PyTorch's RecordFunction), 1 the name, 2 the
//! sequence number that a forward operator shares with its backward one (-1: none), 3 [`Scope`] and flags above it,
//! 4 the thread that ran the forward operator (0: none), 5 the overload. An end has word 0 only. With [`NameRoom::Shapes`]
//! word 4 is a text: the sizes of the inputs, `32,256;256`.
//!
//! A third call tells of the GPU memory that tensors get: 0 the address (0: none was left), 1 the size (negative:
//! given back), 2 what the process's tensors have on this GPU, 3 what its allocator has of CUDA, and above that
//! ([`memory::DEVICE_SHIFT`]) the GPU's number.
//!
//! Calls that are *placed* have a note before them that says which lines of Python they come from.

use crate::capture::{Item, Plan, When};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorStep {
    Begin,
    End,
    Memory,
}

/// How much of a name is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRoom {
    /// In one slot with the rest.
    Short,
    Medium,
    Long,
    /// As long, with the inputs' shapes.
    Shapes,
}

/// Bytes of the shapes' text, and the NUL after it.
pub const SHAPES_TEXT: u16 = 128;
/// Bytes of an overload's name, and the NUL after it.
pub const OVERLOAD_TEXT: u16 = 20;
const PAYLOAD: u16 = event::ring::PAYLOAD_BYTES as u16;

impl NameRoom {
    /// Those that differ in the name's length, shortest first.
    pub const LENGTHS: [NameRoom; 3] = [NameRoom::Short, NameRoom::Medium, NameRoom::Long];

    /// Bytes of what comes before the overload in the payload.
    pub const fn first(self) -> u16 {
        match self {
            NameRoom::Shapes => SHAPES_TEXT,
            _ => 8,
        }
    }

    /// Bytes of the name, and the NUL after it.
    pub const fn bytes(self) -> u16 {
        match self {
            NameRoom::Short => PAYLOAD - 8 - OVERLOAD_TEXT,
            NameRoom::Medium => 2 * PAYLOAD - 8 - OVERLOAD_TEXT,
            NameRoom::Long | NameRoom::Shapes => crate::capture::TEXT_BYTES,
        }
    }
}

/// How a function of this module is called in the process's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    pub step: OperatorStep,
    pub room: NameRoom,
    /// With the lines of Python that it comes from.
    pub placed: bool,
}

const fn function(
    name: &'static str,
    step: OperatorStep,
    room: NameRoom,
    placed: bool,
) -> Function {
    Function {
        name,
        step,
        room,
        placed,
    }
}

/// All of them; the injected library numbers them so, after NVTX's.
#[rustfmt::skip]
pub const FUNCTIONS: [Function; 11] = [
    function("frameworkOperator.short", OperatorStep::Begin, NameRoom::Short, false),
    function("frameworkOperator.medium", OperatorStep::Begin, NameRoom::Medium, false),
    function("frameworkOperator.long", OperatorStep::Begin, NameRoom::Long, false),
    function("frameworkOperator.shapes", OperatorStep::Begin, NameRoom::Shapes, false),
    function("frameworkOperator.short.placed", OperatorStep::Begin, NameRoom::Short, true),
    function("frameworkOperator.medium.placed", OperatorStep::Begin, NameRoom::Medium, true),
    function("frameworkOperator.long.placed", OperatorStep::Begin, NameRoom::Long, true),
    function("frameworkOperator.shapes.placed", OperatorStep::Begin, NameRoom::Shapes, true),
    function("frameworkOperatorEnd", OperatorStep::End, NameRoom::Short, false),
    function("frameworkOperatorMemory", OperatorStep::Memory, NameRoom::Short, false),
    function("frameworkOperatorMemory.placed", OperatorStep::Memory, NameRoom::Short, true),
];

/// The number of a function, its place in [`FUNCTIONS`].
pub const fn number(step: OperatorStep, room: NameRoom, placed: bool) -> usize {
    match step {
        OperatorStep::Begin => room as usize + 4 * placed as usize,
        OperatorStep::End => 8,
        OperatorStep::Memory => 9 + placed as usize,
    }
}

/// The function of that name.
pub fn by_name(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|one| one.name == name)
}

impl Function {
    /// What is kept of a call beyond its first four words.
    pub fn plan(&self) -> Plan {
        let text = |arg, bytes| Item::Text {
            arg,
            bytes,
            at: When::Enter,
        };
        match self.step {
            OperatorStep::End | OperatorStep::Memory => Plan::of(&[]),
            OperatorStep::Begin => Plan::of(&[
                match self.room {
                    NameRoom::Shapes => text(4, SHAPES_TEXT),
                    _ => Item::Arg { index: 4 },
                },
                text(5, OVERLOAD_TEXT),
                text(1, self.room.bytes()),
            ]),
        }
    }
}

/// What kind of a span it is: `at::RecordScope`, and the flags above it.
pub mod scope {
    /// What `at::RecordScope`'s values are called, by number.
    pub const NAMES: [&str; 10] = [
        "operator",
        "backward",
        "torchscript",
        "dtype",
        "custom_class",
        "build_feature",
        "lite_interpreter",
        "user",
        "static_runtime_operator",
        "static_runtime_model",
    ];
    pub const USER: u8 = 7;
    /// It may end on another thread.
    pub const ASYNC: u64 = 1 << 8;
}

/// What is said of tensors' memory.
pub mod memory {
    /// The GPU's number is above this bit of the fourth word; no GPU has so many bytes.
    pub const DEVICE_SHIFT: u32 = 56;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_needs_one_slot_more() {
        let slots = |name| by_name(name).expect("known").plan().payload_slots();
        assert_eq!(slots("frameworkOperator.short"), 1);
        assert_eq!(slots("frameworkOperator.medium"), 2);
        assert_eq!(slots("frameworkOperator.shapes"), 7);
        assert_eq!(slots("frameworkOperatorEnd"), 0);
        assert_eq!(slots("frameworkOperatorMemory.placed"), 0);
        for (place, function) in FUNCTIONS.iter().enumerate() {
            let number = number(function.step, function.room, function.placed);
            assert_eq!(number, place);
        }
        assert!(by_name("nvtxMark").is_none());
    }
}
