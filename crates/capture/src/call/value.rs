//! Bits and bytes of a known C type as values of an event.

use cuda::attributes::{Held, held};
use cuda::unions::is_meant;
use cuda::{Enum, Field, Kind, Struct, Type};
use event::{Arg, Value};
use std::fmt::Write as _;

/// Structs in structs, at most: real ones go three deep.
const MOST_DEPTH: u32 = 6;
/// Elements kept of an array.
const MOST_ELEMENTS: usize = 16;

/// A value in a register.
pub fn in_word(kind: &'static Type, word: u64) -> Value {
    // What most parameters are.
    match (kind.kind, kind.size) {
        (Kind::Handle | Kind::DevicePointer | Kind::Pointer, 8) => return Value::Pointer(word),
        (Kind::Unsigned, 8) => return Value::Uint(word),
        (Kind::Unsigned, 4) => return Value::Uint(word & u64::from(u32::MAX)),
        _ => {}
    }
    in_bytes(kind, &word.to_le_bytes())
}

/// A value in memory. What the bytes are too short for is null.
pub fn in_bytes(kind: &'static Type, bytes: &[u8]) -> Value {
    in_parts(kind, &[(0, bytes)], None)
}

/// A value of which parts are there, each with the place where it begins. `tag` says which arm of
/// a union is used where the value itself does not.
pub fn in_parts(kind: &'static Type, parts: &[Part<'_>], tag: Option<u32>) -> Value {
    at_depth(kind, parts, MOST_DEPTH, tag)
}

/// The elements of an array, one after the other.
pub fn list(kind: &'static Type, bytes: &[u8], stride: usize) -> Value {
    let elements = bytes.chunks_exact(stride.max(1)).take(MOST_ELEMENTS);
    Value::List(elements.map(|bytes| in_bytes(kind, bytes)).collect())
}

pub type Part<'a> = (usize, &'a [u8]);

fn at_depth(kind: &'static Type, parts: &[Part<'_>], depth: u32, tag: Option<u32>) -> Value {
    if let (Kind::Struct, Some(layout)) = (kind.kind, kind.structure()) {
        return match depth {
            0 => Value::Null,
            _ => structure(layout, parts, depth, tag),
        };
    }
    let bytes = parts.first().map_or(&[][..], |part| part.1);
    let Some(raw) = little_endian(bytes, kind.size as usize) else {
        return Value::Null;
    };
    match kind.kind {
        Kind::Void => Value::Null,
        Kind::Signed => Value::from(sign_extended(raw, kind.size)),
        Kind::Unsigned => Value::Uint(raw),
        Kind::Float if kind.size == 4 => Value::Float(f32::from_bits(raw as u32).into()),
        Kind::Float => Value::Float(f64::from_bits(raw)),
        Kind::Enum => enumerated(kind, raw),
        Kind::Handle | Kind::DevicePointer | Kind::Pointer | Kind::Text | Kind::Callback => {
            Value::Pointer(raw)
        }
        Kind::Struct => Value::Null,
    }
}

/// The value of an attribute, by which attribute it is.
pub fn attribute(names: &'static Enum, key: u32, bytes: &[u8]) -> Value {
    let number = |size| little_endian(bytes, size);
    let value = match held(names, key) {
        Held::Flag => number(1).map(|flag| Value::Bool(flag != 0)),
        Held::Signed32 => number(4).map(|raw| Value::from(raw as i32)),
        Held::Unsigned64 => number(8).map(Value::Uint),
        Held::Pointer => number(8).map(Value::Pointer),
        Held::Enum(name) => number(4).map(|raw| {
            let known = cuda::enum_name(name, i64::from(raw as i32));
            known.map_or(Value::from(raw as i32), Value::from)
        }),
        Held::Other => None,
    };
    value.unwrap_or(Value::Null)
}

/// By name; by number where it has none.
fn enumerated(kind: &'static Type, raw: u64) -> Value {
    let name = kind
        .enumeration()
        .and_then(|names| names.name_of(raw as u32));
    if let Some(name) = name {
        return name.into();
    }
    let text = cuda::Value { kind, raw }.to_string();
    match text.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) => text.into(),
    }
}

fn structure(layout: &'static Struct, parts: &[Part<'_>], depth: u32, tag: Option<u32>) -> Value {
    let whole = parts.first().map_or(&[][..], |part| part.1);
    // Sizes of grids and blocks are read as lists everywhere else.
    if matches!(layout.name, "dim3" | "uint3") {
        let sizes = whole.chunks_exact(4).take(3);
        return Value::List(
            sizes
                .map(|size| little_endian(size, 4).unwrap_or(0).into())
                .collect(),
        );
    }
    let held = |field: &Field| {
        let at = field.offset as usize;
        parts
            .iter()
            .filter_map(|(start, bytes)| bytes.get(at.checked_sub(*start)?..))
            .find(|bytes| !bytes.is_empty())
    };
    let number = |field: &Field| little_endian(held(field)?, 4).map(|raw| raw as u32);
    let tag = |name: Option<&str>| match name {
        Some(name) => number(layout.field(name)?),
        None => tag,
    };
    // What the unions of inner structs go by.
    let own = || layout.fields.iter().find(|one| one.kind.kind == Kind::Enum);
    let mut fields = Vec::new();
    for field in layout.fields {
        let size = field.kind.size as usize;
        let Some(bytes) = held(field).filter(|_| size > 0) else {
            continue;
        };
        // A struct may be cut short: its own fields see to that. So may text.
        let cut = bytes.len() < size && field.kind.kind != Kind::Struct;
        if cut || field.is_filler() || !is_meant(layout, field, tag) {
            continue;
        }
        let value = if field.count == 1 {
            at_depth(field.kind, &[(0, bytes)], depth - 1, own().and_then(number))
        } else if field.kind.size == 1 {
            let bytes = &bytes[..bytes.len().min(field.count as usize)];
            match field.name.ends_with("name") {
                true => text(bytes),
                false => hexadecimal(bytes),
            }
        } else {
            let shown = MOST_ELEMENTS.min(field.count as usize);
            let elements = bytes.chunks_exact(size).take(shown);
            Value::List(
                elements
                    .map(|bytes| at_depth(field.kind, &[(0, bytes)], depth - 1, None))
                    .collect(),
            )
        };
        fields.push(Arg::new(field.name, value));
    }
    // Handles that go between processes: nothing but bytes, and the same there.
    if fields.is_empty() && layout.size <= 64 && layout.fields.iter().all(Field::is_filler) {
        return hexadecimal(&whole[..whole.len().min(layout.size as usize)]);
    }
    Value::Map(fields)
}

fn hexadecimal(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

/// Characters up to a NUL.
pub fn text(bytes: &[u8]) -> Value {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned().into()
}

/// The first `size` bytes as a number; None if there are fewer.
pub fn little_endian(bytes: &[u8], size: usize) -> Option<u64> {
    let mut word = [0; 8];
    let size = size.min(8);
    word[..size].copy_from_slice(bytes.get(..size)?);
    Some(u64::from_le_bytes(word))
}

fn sign_extended(raw: u64, size: u32) -> i64 {
    match size {
        1 => (raw as i8).into(),
        2 => (raw as i16).into(),
        4 => (raw as i32).into(),
        _ => raw as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(function: &str, index: usize) -> &'static Type {
        cuda::function(function).expect("known").parameters[index].kind
    }

    #[test]
    fn registers_carry_rubbish_above_the_types_size() {
        let device = parameter("cuCtxCreate_v2", 2);
        assert_eq!(in_word(device, 0xdead_0000_0001), Value::Uint(1));
        assert_eq!(in_word(device, 0xffff_ffff), Value::Int(-1));
        assert_eq!(
            in_word(parameter("cuMemFree_v2", 0), 0x7f00),
            Value::Pointer(0x7f00)
        );
    }

    #[test]
    fn enums_are_names_and_unknown_ones_numbers() {
        let kind = parameter("cudaMemcpy", 3);
        assert_eq!(in_word(kind, 1), "cudaMemcpyHostToDevice".into());
        assert_eq!(in_word(kind, 77), Value::Uint(77));
        let flags = parameter("cuMemHostAlloc", 2);
        let both = "CU_MEMHOSTALLOC_DEVICEMAP|CU_MEMHOSTALLOC_PORTABLE";
        assert_eq!(in_word(flags, 3), both.into());
    }

    #[test]
    fn structs_are_nested_and_may_be_cut_short() {
        let copy = parameter("cuMemcpy2D_v2", 0).pointee().expect("a struct");
        let mut bytes = [0; 128];
        bytes[16] = 2;
        bytes[112] = 64;
        bytes[120] = 4;
        let Value::Map(fields) = in_bytes(copy, &bytes) else {
            panic!("a map");
        };
        let field = |name: &str| {
            &fields
                .iter()
                .find(|arg| &*arg.name == name)
                .expect("there")
                .value
        };
        assert_eq!(*field("srcMemoryType"), "CU_MEMORYTYPE_DEVICE".into());
        assert_eq!(
            (field("WidthInBytes"), field("Height")),
            (&Value::Uint(64), &Value::Uint(4))
        );
        for length in 0..128 {
            in_bytes(copy, &bytes[..length]);
        }
        let dim3 = parameter("cudaLaunchKernel", 1);
        let list = Value::List(vec![Value::Uint(2), Value::Uint(1), Value::Uint(1)]);
        assert_eq!(
            in_bytes(dim3, &[2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9]),
            list
        );
    }
}
