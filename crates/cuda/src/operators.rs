//! A framework's operators as the injected library records them: two calls of our own making for each. The injected
//! library writes by these, the tracer reads by them.
//!
//! Words of a beginning: 0 what identifies it until its end (the address of PyTorch's RecordFunction), 1 the name, 2 the
//! sequence number that a forward operator shares with its backward one (-1: none), 3 [`Scope`] and flags above it,
//! 4 the thread that ran the forward operator (0: none), 5 the overload. An end has word 0 only.

use crate::capture::{Item, Plan, When};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorStep {
    Begin,
    End,
}

/// How much of a name is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRoom {
    /// In one slot with the rest.
    Short,
    Medium,
    Long,
}

/// Bytes of an overload's name, and the NUL after it.
pub const OVERLOAD_TEXT: u16 = 20;
const PAYLOAD: u16 = event::ring::PAYLOAD_BYTES as u16;

impl NameRoom {
    pub const ALL: [NameRoom; 3] = [NameRoom::Short, NameRoom::Medium, NameRoom::Long];

    /// Bytes of the name, and the NUL after it.
    pub const fn bytes(self) -> u16 {
        match self {
            NameRoom::Short => PAYLOAD - 8 - OVERLOAD_TEXT,
            NameRoom::Medium => 2 * PAYLOAD - 8 - OVERLOAD_TEXT,
            NameRoom::Long => crate::capture::TEXT_BYTES,
        }
    }
}

/// How a function of this module is called in the process's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: &'static str,
    pub step: OperatorStep,
    pub room: NameRoom,
}

const fn function(name: &'static str, step: OperatorStep, room: NameRoom) -> Function {
    Function { name, step, room }
}

/// All of them; the injected library numbers them so, after NVTX's.
pub const FUNCTIONS: [Function; 4] = [
    function(
        "frameworkOperator.short",
        OperatorStep::Begin,
        NameRoom::Short,
    ),
    function(
        "frameworkOperator.medium",
        OperatorStep::Begin,
        NameRoom::Medium,
    ),
    function(
        "frameworkOperator.long",
        OperatorStep::Begin,
        NameRoom::Long,
    ),
    function("frameworkOperatorEnd", OperatorStep::End, NameRoom::Short),
];

/// The number of a function, its place in [`FUNCTIONS`].
pub const fn number(step: OperatorStep, room: NameRoom) -> usize {
    match step {
        OperatorStep::Begin => room as usize,
        OperatorStep::End => 3,
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
            OperatorStep::End => Plan::of(&[]),
            OperatorStep::Begin => Plan::of(&[
                Item::Arg { index: 4 },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_needs_one_slot_more() {
        let slots = |name| by_name(name).expect("known").plan().payload_slots();
        assert_eq!(slots("frameworkOperator.short"), 1);
        assert_eq!(slots("frameworkOperator.medium"), 2);
        assert_eq!(slots("frameworkOperatorEnd"), 0);
        for (place, function) in FUNCTIONS.iter().enumerate() {
            assert_eq!(number(function.step, function.room), place);
        }
        assert!(by_name("nvtxMark").is_none());
    }
}
