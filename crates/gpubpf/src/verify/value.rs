//! What a register or a stack cell may hold.

use super::scalar::Scalar;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Never written.
    Nothing,
    Number(Scalar),
    Pointer(Pointer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    pub region: Region,
    /// From the region's start (for a stack: from the frame pointer, so negative).
    pub offset: Scalar,
    /// Set while it may be NULL: which lookup it came from.
    pub lookup: Option<u32>,
    /// The key it was looked up by, if that is known and all threads find the same value with it.
    pub key: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    Context,
    /// The frame of a function in the chain of calls, the program's own being 0.
    Stack {
        frame: usize,
    },
    /// The map itself, to hand to helpers.
    Map(usize),
    /// A value of a map.
    Value {
        map: usize,
    },
}

impl Pointer {
    pub fn new(region: Region, offset: i64) -> Pointer {
        Pointer {
            region,
            offset: Scalar::known(offset as u64),
            lookup: None,
            key: Some(0),
        }
    }
}

impl Value {
    pub const UNKNOWN: Value = Value::Number(Scalar::UNKNOWN);

    pub fn constant(&self) -> Option<u64> {
        match self {
            Value::Number(scalar) => scalar.constant(),
            _ => None,
        }
    }

    /// Whether whatever was proven with `self` holds with `other`, too. Lookups are matched by
    /// where they stand: `lookups` collects which corresponds to which.
    pub fn covers(&self, other: &Value, lookups: &mut Vec<(u32, u32)>) -> bool {
        match (self, other) {
            (Value::Nothing, _) => true,
            (Value::Number(old), Value::Number(new)) => old.contains(new),
            (Value::Pointer(old), Value::Pointer(new)) => {
                let same = old.region == new.region
                    && old.offset.contains(&new.offset)
                    && (old.key.is_none() || old.key == new.key);
                same && match (old.lookup, new.lookup) {
                    (None, None) => true,
                    (Some(old), Some(new)) => {
                        match lookups.iter().find(|(a, b)| *a == old || *b == new) {
                            Some(&pair) => pair == (old, new),
                            None => {
                                lookups.push((old, new));
                                true
                            }
                        }
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    pub fn describe(&self) -> &'static str {
        match self {
            Value::Nothing => "nothing",
            Value::Number(_) => "a number",
            Value::Pointer(pointer) => match (pointer.region, pointer.lookup) {
                (Region::Context, _) => "the context",
                (Region::Stack { .. }, _) => "an address of the stack",
                (Region::Map(_), _) => "a map",
                (Region::Value { .. }, Some(_)) => "an address that may be NULL",
                (Region::Value { .. }, None) => "an address of a map's value",
            },
        }
    }
}
