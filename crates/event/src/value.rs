//! Decoded arguments: an ordered list of names and values.

use alloc::{string::String, sync::Arc, vec::Vec};

/// A shared string: function names, parameter names and kernel names repeat without end.
pub type Name = Arc<str>;

/// One decoded value.
///
/// `Int` is for negative numbers: [`Value::from`] an `i64` keeps to that, so that a number has
/// one form only and survives a file that knows no signedness.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Pointer(u64),
    Str(Name),
    List(Vec<Value>),
    Map(Vec<Arg>),
}

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    pub name: Name,
    pub value: Value,
}

impl Arg {
    pub fn new(name: impl Into<Name>, value: impl Into<Value>) -> Self {
        Arg {
            name: name.into(),
            value: value.into(),
        }
    }
}

impl Value {
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Uint(number) | Value::Pointer(number) => Some(number),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }
}

// Floats are compared by their bits, with one NaN: a trace is equal to itself.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Uint(a), Value::Uint(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            (Value::Pointer(a), Value::Pointer(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Uint(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Uint(number.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        u64::try_from(number).map_or(Value::Int(number), Value::Uint)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        i64::from(number).into()
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Str(text.into())
    }
}

impl From<Name> for Value {
    fn from(text: Name) -> Self {
        Value::Str(text)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Self {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_form() {
        assert_eq!(Value::from(5i64), Value::Uint(5));
        assert_eq!(Value::from(-5i32), Value::Int(-5));
        assert_ne!(Value::Uint(5), Value::Pointer(5));
    }

    #[test]
    fn floats_equal_themselves() {
        assert_eq!(Value::Float(f64::NAN), Value::Float(-f64::NAN));
        assert_ne!(Value::Float(0.0), Value::Float(-0.0));
    }
}
