//! What verification learns of each instruction, true on every path: what the translation builds on.

use std::collections::BTreeMap;

use super::text::MOST_CHOICES;

/// Why what two paths say of a call cannot be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallConflict {
    #[error("this call gets formats with different numbers of values")]
    ValueCounts,
    #[error("this call gets a string on one path and a number on another")]
    TextAndNumber,
    #[error("this call gets too many different strings")]
    TooManyTexts,
}

/// Facts of a whole program, by an instruction's position.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Whether any path reaches it.
    pub reached: Vec<bool>,
    pub accesses: BTreeMap<usize, Access>,
    pub calls: BTreeMap<usize, HelperCall>,
    /// The operand of an atomic, where it is always the same number.
    pub operands: BTreeMap<usize, Option<u64>>,
    /// By function: what its frame is used for.
    pub frames: Vec<FrameUse>,
}

/// Where a load, store or atomic goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub place: AccessedMemory,
    /// What the address is a multiple of, at least: 1, 2, 4 or 8.
    pub alignment: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessedMemory {
    /// The function's own frame; the offset from the frame pointer if it is always the same.
    Stack { offset: Option<i16> },
    /// The frame of a function further up.
    CallersStack,
    /// A map's value.
    Value {
        /// Whether other threads use it, too.
        shared: bool,
        /// The one address it always is, for all threads.
        fixed: Option<Fixed>,
        /// The map it is of, if it is always the same.
        map: Option<usize>,
    },
    /// The context; the offset from its start if it is always the same.
    Context { offset: Option<u32> },
    /// Different ones on different paths.
    Mixed,
}

/// An address that is the same for all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    pub map: usize,
    pub key: u64,
    pub offset: u64,
}

/// How a call of a helper is made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HelperCall {
    /// The map it is about, if it is always the same.
    pub map: Option<usize>,
    /// Memory arguments, by number from 0.
    pub memory: [Option<Memory>; 5],
    /// Constant texts, in place of arguments.
    pub texts: [Option<Texts>; 5],
    /// How many arguments it is given.
    pub arguments: usize,
    /// What the key is, if it is always the same.
    pub key: Option<u64>,
}

/// A constant text, or one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Their numbers, and whether a NUL ends each where it is.
    pub choices: Vec<(u32, bool)>,
    pub memory: Memory,
    /// Bytes of the text that tell which one it is, if there are several.
    pub telling: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub place: AccessedMemory,
    pub alignment: u8,
    /// If it is always the same.
    pub bytes: Option<u32>,
    pub written: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameUse {
    /// The lowest byte used, below the frame pointer.
    pub bytes: u32,
    /// Whether an address of it is used other than at constant offsets in the function itself.
    pub addressed: bool,
}

impl AccessedMemory {
    fn meet(self, other: AccessedMemory) -> AccessedMemory {
        match (self, other) {
            (AccessedMemory::Stack { offset: a }, AccessedMemory::Stack { offset: b }) => {
                AccessedMemory::Stack {
                    offset: if a == b { a } else { None },
                }
            }
            (
                AccessedMemory::Value {
                    shared: a,
                    fixed: c,
                    map: e,
                },
                AccessedMemory::Value {
                    shared: b,
                    fixed: d,
                    map: f,
                },
            ) => AccessedMemory::Value {
                shared: a || b,
                fixed: if c == d { c } else { None },
                map: if e == f { e } else { None },
            },
            (AccessedMemory::Context { offset: a }, AccessedMemory::Context { offset: b }) => {
                AccessedMemory::Context {
                    offset: if a == b { a } else { None },
                }
            }
            (a, b) if a == b => a,
            _ => AccessedMemory::Mixed,
        }
    }
}

impl Facts {
    pub fn note_access(&mut self, at: usize, access: Access) {
        self.accesses
            .entry(at)
            .and_modify(|known| {
                known.place = known.place.meet(access.place);
                known.alignment = known.alignment.min(access.alignment);
            })
            .or_insert(access);
    }

    pub fn note_operand(&mut self, at: usize, operand: Option<u64>) {
        self.operands
            .entry(at)
            .and_modify(|known| {
                if *known != operand {
                    *known = None;
                }
            })
            .or_insert(operand);
    }

    /// Joins what another path says about a call; or says why that cannot be.
    pub fn note_call(&mut self, at: usize, call: HelperCall) -> Result<(), CallConflict> {
        let Some(known) = self.calls.get_mut(&at) else {
            self.calls.insert(at, call);
            return Ok(());
        };
        if known.map != call.map {
            known.map = None;
        }
        if known.key != call.key {
            known.key = None;
        }
        for (known, memory) in known.memory.iter_mut().zip(call.memory) {
            if let (Some(known), Some(memory)) = (known.as_mut(), memory) {
                known.meet(&memory);
            }
        }
        if known.arguments != call.arguments {
            return Err(CallConflict::ValueCounts);
        }
        for (known, found) in known.texts.iter_mut().zip(call.texts) {
            match (known, found) {
                (Some(known), Some(found)) => known.join(found)?,
                (None, None) => {}
                _ => return Err(CallConflict::TextAndNumber),
            }
        }
        Ok(())
    }
}

impl Memory {
    fn meet(&mut self, other: &Memory) {
        self.place = self.place.meet(other.place);
        self.alignment = self.alignment.min(other.alignment);
        if self.bytes != other.bytes {
            self.bytes = None;
        }
    }
}

impl Texts {
    fn join(&mut self, other: Texts) -> Result<(), CallConflict> {
        // Where texts are told apart, their first bytes are looked at, as many as all have.
        let bytes = self.memory.bytes.min(other.memory.bytes);
        self.memory.meet(&other.memory);
        self.memory.bytes = bytes;
        for (number, has_end) in other.choices {
            let is_full = self.choices.len() == MOST_CHOICES;
            match self.choices.iter_mut().find(|(known, _)| *known == number) {
                Some((_, known_end)) => *known_end &= has_end,
                None if is_full => {
                    return Err(CallConflict::TooManyTexts);
                }
                None => self.choices.push((number, has_end)),
            }
        }
        Ok(())
    }
}
