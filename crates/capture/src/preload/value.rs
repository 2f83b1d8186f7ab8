//! Bits and bytes of a known C type as values of an event.

use cuda::{Kind, Type};
use event::{Arg, Value};

/// Structs in structs, at most: real ones go three deep.
const MOST_DEPTH: u32 = 6;
/// Elements kept of an array.
const MOST_ELEMENTS: usize = 16;

/// A value in a register.
pub fn in_word(kind: &'static Type, word: u64) -> Value {
    in_bytes(kind, &word.to_le_bytes())
}

/// A value in memory. What the bytes are too short for is null.
pub fn in_bytes(kind: &'static Type, bytes: &[u8]) -> Value {
    at_depth(kind, bytes, MOST_DEPTH)
}

fn at_depth(kind: &'static Type, bytes: &[u8], depth: u32) -> Value {
    if let (Kind::Struct, Some(layout)) = (kind.kind, kind.structure()) {
        return match depth {
            0 => Value::Null,
            _ => structure(layout, bytes, depth),
        };
    }
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

fn structure(layout: &'static cuda::Struct, bytes: &[u8], depth: u32) -> Value {
    // Sizes of grids and blocks are read as lists everywhere else.
    if matches!(layout.name, "dim3" | "uint3") {
        let sizes = bytes.chunks_exact(4).take(3);
        return Value::List(
            sizes
                .map(|size| little_endian(size, 4).unwrap_or(0).into())
                .collect(),
        );
    }
    // Which arm of a union is meant is not known here; where there are only arms, show them.
    let only_arms = layout.fields.iter().all(|field| field.shared);
    let mut fields = Vec::new();
    for field in layout.fields {
        let size = field.kind.size as usize;
        let bytes = bytes.get(field.offset as usize..).unwrap_or_default();
        if size == 0
            || bytes.len() < size
            || (field.shared && !only_arms)
            || field.name.contains("reserved")
        {
            continue;
        }
        let value = if field.count == 1 {
            at_depth(field.kind, bytes, depth - 1)
        } else if field.kind.text.ends_with("char") {
            text(&bytes[..bytes.len().min(field.count as usize)])
        } else {
            let shown = MOST_ELEMENTS.min(field.count as usize);
            let elements = bytes.chunks_exact(size).take(shown);
            Value::List(
                elements
                    .map(|bytes| at_depth(field.kind, bytes, depth - 1))
                    .collect(),
            )
        };
        fields.push(Arg::new(field.name, value));
    }
    Value::Map(fields)
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
