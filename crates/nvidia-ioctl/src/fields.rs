//! The fields of a struct as named values. What is zero is left out: most of most structs is.

use event::{Arg, Value};

use super::layout::{Field, Kind, number};

/// Elements of an array that are kept; the rest is counted.
const LONGEST_LIST: usize = 16;
/// Bytes of an array of bytes that are kept.
const LONGEST_BYTES: usize = 32;
/// UVM's name for the processor that is the CPU.
const CPU: [u8; 16] = [
    0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2, 0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73,
];

/// How a handle is shown.
pub(super) type Label<'a> = dyn Fn(u32) -> Value + 'a;

/// The fields that are not zero, as far as the bytes reach.
pub(super) fn values(fields: &[Field], bytes: &[u8], label: &Label<'_>) -> Vec<Arg> {
    (fields.iter())
        .filter_map(|field| Some(Arg::new(field.name, value(field, bytes, label)?)))
        .collect()
}

fn value(field: &Field, bytes: &[u8], label: &Label<'_>) -> Option<Value> {
    let rest = bytes.get(field.offset..)?;
    let Some(count) = field.count else {
        return one(field, rest, label);
    };
    if field.size == 1 && matches!(field.kind, Kind::Unsigned) {
        return byte_text(rest.get(..count.min(rest.len()))?);
    }
    if field.size == 0 {
        return None;
    }
    let elements: Vec<&[u8]> = rest.chunks_exact(field.size).take(count).collect();
    // Unused elements are zero, or all ones in lists of ids.
    let used = (elements.iter()).rposition(|bytes| {
        bytes.iter().any(|byte| *byte != 0) && bytes.iter().any(|byte| *byte != 0xff)
    });
    let used = match used {
        Some(last) => last + 1,
        None if elements
            .iter()
            .all(|bytes| bytes.iter().all(|byte| *byte == 0)) =>
        {
            return None;
        }
        None => elements.len().min(1),
    };
    let shown = elements.iter().take(used.min(LONGEST_LIST));
    let mut list: Vec<Value> = shown
        .map(|bytes| one(field, bytes, label).unwrap_or_else(|| zero(&field.kind)))
        .collect();
    if used > LONGEST_LIST {
        list.push(format!("… {} more", used - LONGEST_LIST).into());
    }
    Some(Value::List(list))
}

fn one(field: &Field, bytes: &[u8], label: &Label<'_>) -> Option<Value> {
    let bytes = &bytes[..bytes.len().min(field.size)];
    match &field.kind {
        Kind::Struct(fields) => {
            let inner = values(fields, bytes, label);
            return (!inner.is_empty()).then_some(Value::Map(inner));
        }
        Kind::Union(arms) => return union_text(arms, bytes),
        Kind::Text => return text(bytes),
        Kind::Uuid => return uuid(bytes),
        _ => {}
    }
    let raw = number(bytes, 0, field.size)?;
    if raw == 0 {
        return None;
    }
    Some(match field.kind {
        Kind::Handle => label(u32::try_from(raw).ok()?),
        Kind::Pointer => Value::Pointer(raw),
        Kind::Bool => Value::Bool(true),
        Kind::Signed => {
            let unused = 64 - 8 * u32::try_from(field.size.clamp(1, 8)).unwrap_or(8);
            Value::from((raw << unused).cast_signed() >> unused)
        }
        Kind::Float => match field.size {
            4 => Value::Float(f32::from_bits(u32::try_from(raw).ok()?).into()),
            _ => Value::Float(f64::from_bits(raw)),
        },
        _ if is_hexadecimal(field.name) => Value::Pointer(raw),
        _ => Value::Uint(raw),
    })
}

/// Which arm of a union holds is not known here: only a text is shown, which proves itself.
fn union_text(arms: &[Field], bytes: &[u8]) -> Option<Value> {
    let letters = |arm: &&Field| arm.size == 1 && arm.count.is_some() && arm.kind == Kind::Unsigned;
    let arm = arms.iter().find(letters)?;
    let bytes = bytes.get(arm.offset..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    let (text_bytes, rest) = bytes.split_at(end);
    let is_text = text_bytes.len() >= 4 && rest.iter().all(|byte| *byte == 0);
    let printable = text_bytes
        .iter()
        .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    (is_text && printable).then(|| text(text_bytes)).flatten()
}

/// An element among others that are not zero.
fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Struct(_) => Value::Map(Vec::new()),
        Kind::Bool => Value::Bool(false),
        _ => Value::Uint(0),
    }
}

/// Numbers that people read in hexadecimal.
fn is_hexadecimal(name: &str) -> bool {
    let ends = ["flags", "attr", "attr2", "base", "address", "mask", "start"];
    let name = name.to_ascii_lowercase();
    ends.iter().any(|end| name.ends_with(end))
        || name == "dmaoffset"
        || name == "hclass"
        || name == "flags2"
}

fn text(bytes: &[u8]) -> Option<Value> {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    (!text.is_empty()).then(|| text.into_owned().into())
}

/// Bytes are text where they look like it.
fn byte_text(bytes: &[u8]) -> Option<Value> {
    let used = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    let bytes = &bytes[..used];
    if used >= 4
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    {
        return text(bytes);
    }
    let mut shown: String = (bytes.iter().take(LONGEST_BYTES))
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if used > LONGEST_BYTES {
        shown.push('…');
    }
    Some(shown.into())
}

/// As nvidia-smi writes it.
pub(super) fn uuid(bytes: &[u8]) -> Option<Value> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    if *bytes == [0; 16] {
        return None;
    }
    if *bytes == CPU {
        return Some("CPU".into());
    }
    let mut shown = String::from("GPU");
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 0 | 4 | 6 | 8 | 10) {
            shown.push('-');
        }
        shown.push_str(&format!("{byte:02x}"));
    }
    Some(shown.into())
}

#[cfg(test)]
mod tests {
    use super::super::layout::parse;
    use super::*;

    fn show(layout: &'static str, bytes: &[u8]) -> Vec<Arg> {
        values(&parse(layout), bytes, &|handle| {
            Value::Pointer(handle.into())
        })
    }

    #[test]
    fn fields_become_values() {
        let bytes = [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2, 0];
        assert_eq!(
            show(
                "a:0:h4,b:4:i4,c:8:u4,d:12:b1,flags:12:u2,gone:14:u4",
                &bytes
            ),
            [
                Arg::new("a", Value::Pointer(1)),
                Arg::new("b", -1),
                Arg::new("d", true),
                Arg::new("flags", Value::Pointer(2)),
            ]
        );
        assert_eq!(show("t:0:c8", b"abc\0xyz\0"), [Arg::new("t", "abc")]);
        assert_eq!(show("t:0:u1*8", b"abcd\0\0\0\0"), [Arg::new("t", "abcd")]);
        assert_eq!(show("t:0:u1*3", &[1, 0xff, 0]), [Arg::new("t", "01ff")]);
        assert_eq!(
            show(
                "ids:0:u2*4,none:4:u2*2",
                &[7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
            ),
            [
                Arg::new("ids", vec![7u64]),
                Arg::new("none", vec![0xffffu64])
            ]
        );
        let name = b"an H200\0\0\0\0\0";
        let union = "n:0:(ascii:0:u1*12,unicode:0:u2*6)12";
        assert_eq!(show(union, name), [Arg::new("n", "an H200")]);
        assert_eq!(show(union, &[1; 12]), []);
        let list = show("l:0:{i:0:u1,v:1:u1}2*3", &[1, 2, 0, 3, 0, 0]);
        let element = |args: &[(&str, u64)]| {
            Value::Map(
                args.iter()
                    .map(|(name, value)| Arg::new(*name, *value))
                    .collect(),
            )
        };
        let expected = vec![element(&[("i", 1), ("v", 2)]), element(&[("v", 3)])];
        assert_eq!(list, [Arg::new("l", Value::List(expected))]);
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let bytes = [7; 4 * 20];
        let Value::List(list) = &show("l:0:u4*20", &bytes)[0].value else {
            panic!("a list")
        };
        assert_eq!(list.len(), 17);
        assert_eq!(list[16].as_str(), Some("… 4 more"));
    }

    #[test]
    fn processors_are_named() {
        let mut bytes = [0; 16];
        assert!(show("u:0:uuid", &bytes).is_empty());
        bytes[0] = 0xab;
        let gpu = show("u:0:uuid", &bytes);
        assert_eq!(
            gpu[0].value.as_str(),
            Some("GPU-ab000000-0000-0000-0000-000000000000")
        );
        assert_eq!(show("u:0:uuid", &CPU)[0].value.as_str(), Some("CPU"));
    }
}
