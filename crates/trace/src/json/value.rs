//! Decoded values as JSON and back, without loss.
//!
//! JSON has fewer types than `Value`: pointers are strings like `"0x7f"`, and doubles that JSON
//! cannot write are the strings `"NaN"`, `"Infinity"`, `"-Infinity"`. Whole numbers that are no
//! doubles, beyond 2^53, are strings of their digits: jq and JavaScript compute with doubles, and
//! would give back other numbers. A text that happens to look like one of these is written with its
//! first letter escaped, which every JSON reader takes for the same text, and ours for a text only.

use super::{
    MOST_NESTING,
    parse::{Cursor, Parsed, Text, parse_uint},
    write,
};
use crate::names::Names;
use event::{Arg, Frame, FrameKind, Stack, Value};

/// Arguments are nested deeper than [`MOST_NESTING`].
pub struct TooDeep;

/// Append arguments as a JSON object.
pub fn write_args(out: &mut Vec<u8>, args: &[Arg]) -> Result<(), TooDeep> {
    write_map(out, args, 0)
}

/// Append arguments, inputs and what came back, as one JSON object.
fn write_map(out: &mut Vec<u8>, args: &[Arg], depth: usize) -> Result<(), TooDeep> {
    if depth >= MOST_NESTING {
        return Err(TooDeep);
    }
    let mut separator = b'{';
    for arg in args {
        out.push(separator);
        separator = b',';
        write::string(out, &arg.name);
        out.push(b':');
        write_value(out, &arg.value, depth + 1)?;
    }
    out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
    Ok(())
}

fn write_value(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), TooDeep> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) if number.unsigned_abs() > MOST_EXACT => quoted(out, number),
        Value::Int(number) => write::int(out, *number),
        Value::Uint(number) if *number > MOST_EXACT => quoted(out, number),
        Value::Uint(number) => write::uint(out, *number),
        Value::Float(number) if number.is_nan() => out.extend_from_slice(b"\"NaN\""),
        Value::Float(f64::INFINITY) => out.extend_from_slice(b"\"Infinity\""),
        Value::Float(f64::NEG_INFINITY) => out.extend_from_slice(b"\"-Infinity\""),
        Value::Float(number) => {
            out.extend_from_slice(ryu::Buffer::new().format_finite(*number).as_bytes());
        }
        Value::Pointer(address) => write::hex(out, *address),
        Value::Str(text) if unescaped_meaning(text).is_some() => write::disguised_string(out, text),
        Value::Str(text) => write::string(out, text),
        Value::List(list) => {
            if depth >= MOST_NESTING {
                return Err(TooDeep);
            }
            out.push(b'[');
            for (place, item) in list.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_value(out, item, depth + 1)?;
            }
            out.push(b']');
        }
        Value::Map(args) => write_map(out, args, depth)?,
    }
    Ok(())
}

/// Up to here every whole number is a double: 2^53.
const MOST_EXACT: u64 = 1 << 53;

/// A number as a string.
fn quoted(out: &mut Vec<u8>, number: &impl std::fmt::Display) {
    out.extend_from_slice(format!("\"{number}\"").as_bytes());
}

/// A number that is written as a string, and only as it is written.
fn beyond_exact(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_written =
        digits.len() >= 16 && digits[0] != b'0' && digits.iter().all(u8::is_ascii_digit);
    if !is_written {
        return None;
    }
    match text.starts_with('-') {
        true => (text.parse::<i64>().ok())
            .filter(|number| number.unsigned_abs() > MOST_EXACT)
            .map(Value::Int),
        false => (text.parse::<u64>().ok())
            .filter(|number| *number > MOST_EXACT)
            .map(Value::Uint),
    }
}

/// What a string without escapes means, if not itself.
fn unescaped_meaning(text: &str) -> Option<Value> {
    match text.as_bytes() {
        [b'0', b'x', b'0'] => Some(Value::Pointer(0)),
        [b'0', b'x', first, rest @ ..] if *first != b'0' && rest.len() < 16 => {
            let mut address = 0;
            for &digit in &text.as_bytes()[2..] {
                let digit = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return None,
                };
                address = address << 4 | u64::from(digit);
            }
            Some(Value::Pointer(address))
        }
        b"NaN" => Some(Value::Float(f64::NAN)),
        b"Infinity" => Some(Value::Float(f64::INFINITY)),
        b"-Infinity" => Some(Value::Float(f64::NEG_INFINITY)),
        [b'-' | b'1'..=b'9', ..] => beyond_exact(text),
        _ => None,
    }
}

/// Read a JSON object as arguments.
pub fn parse_args(cursor: &mut Cursor<'_>, names: &mut Names) -> Parsed<Vec<Arg>> {
    parse_map(cursor, names, 0)
}

fn parse_map(cursor: &mut Cursor<'_>, names: &mut Names, depth: usize) -> Parsed<Vec<Arg>> {
    cursor.expect(b'{', "expected an object")?;
    if depth >= MOST_NESTING {
        return cursor.problem("arguments nested too deep");
    }
    let mut args = Vec::new();
    while cursor.another(b'}', args.is_empty())? {
        let key = cursor.key()?;
        let name = names.get(&key.text);
        args.push(Arg {
            name,
            value: parse_value(cursor, names, depth + 1)?,
        });
    }
    Ok(args)
}

fn parse_value(cursor: &mut Cursor<'_>, names: &mut Names, depth: usize) -> Parsed<Value> {
    Ok(match cursor.peek() {
        b'"' => {
            let Text { text, escaped } = cursor.string()?;
            match unescaped_meaning(&text).filter(|_| !escaped) {
                Some(value) => value,
                None => Value::Str(names.get(&text)),
            }
        }
        b'{' => Value::Map(parse_map(cursor, names, depth)?),
        b'[' => {
            cursor.expect(b'[', "expected a list")?;
            if depth >= MOST_NESTING {
                return cursor.problem("arguments nested too deep");
            }
            let mut list = Vec::new();
            while cursor.another(b']', list.is_empty())? {
                list.push(parse_value(cursor, names, depth + 1)?);
            }
            Value::List(list)
        }
        b't' if cursor.word("true") => Value::Bool(true),
        b'f' if cursor.word("false") => Value::Bool(false),
        b'n' if cursor.word("null") => Value::Null,
        _ => {
            let token = cursor.number()?;
            match parse_number(token) {
                Some(value) => value,
                None => return cursor.problem("expected a value"),
            }
        }
    })
}

fn parse_number(token: &str) -> Option<Value> {
    if let Some(number) = parse_uint(token.as_bytes()) {
        return Some(Value::Uint(number));
    }
    if let Ok(number) = token.parse::<i64>() {
        return Some(Value::from(number));
    }
    token
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .map(Value::Float)
}

/// Append a stack as a list of frames, innermost first.
pub fn write_stack(out: &mut Vec<u8>, stack: &[Frame]) {
    let mut separator = b'[';
    for frame in stack {
        out.push(separator);
        separator = b',';
        out.extend_from_slice(b"{\"addr\":");
        write::hex(out, frame.address);
        if frame.kind != FrameKind::Native {
            out.extend_from_slice(b",\"kind\":");
            write::string(out, frame.kind.as_str());
        }
        if let Some(symbol) = &frame.symbol {
            out.extend_from_slice(b",\"sym\":");
            write::string(out, symbol);
        }
        if let Some(offset) = frame.offset {
            out.extend_from_slice(b",\"off\":");
            write::uint(out, offset);
        }
        if let Some(module) = &frame.module {
            out.extend_from_slice(b",\"lib\":");
            write::string(out, module);
        }
        if let Some(file) = &frame.file {
            out.extend_from_slice(b",\"file\":");
            write::string(out, file);
        }
        if let Some(line) = frame.line {
            out.extend_from_slice(b",\"line\":");
            write::uint(out, line.into());
        }
        out.push(b'}');
    }
    out.extend_from_slice(if separator == b'[' { b"[]" } else { b"]" });
}

pub fn parse_stack(cursor: &mut Cursor<'_>, names: &mut Names) -> Parsed<Stack> {
    cursor.expect(b'[', "expected a list of frames")?;
    let mut stack = Vec::new();
    while cursor.another(b']', stack.is_empty())? {
        cursor.expect(b'{', "expected a frame")?;
        let mut frame = Frame::default();
        let mut first = true;
        while cursor.another(b'}', first)? {
            first = false;
            match &*cursor.key()?.text {
                "addr" => frame.address = cursor.handle()?,
                "sym" => frame.symbol = Some(names.get(&cursor.string()?.text)),
                "off" => frame.offset = Some(cursor.uint()?),
                "lib" => frame.module = Some(names.get(&cursor.string()?.text)),
                "file" => frame.file = Some(names.get(&cursor.string()?.text)),
                "line" => frame.line = u32::try_from(cursor.uint()?).ok(),
                // A kind of tomorrow's is still a frame.
                "kind" => frame.kind = cursor.string()?.text.parse().unwrap_or_default(),
                _ => cursor.skip()?,
            }
        }
        stack.push(frame);
    }
    Ok(stack.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through_json(args: &[Arg]) -> (String, Vec<Arg>) {
        let mut out = Vec::new();
        write_args(&mut out, args).unwrap_or_else(|TooDeep| panic!("nested too deep"));
        let json = String::from_utf8(out).expect("UTF-8");
        let back = parse_args(&mut Cursor::new(&json), &mut Names::default()).expect("JSON");
        (json, back)
    }

    #[test]
    fn look_alikes_stay_what_they_are() {
        let words = [
            "0x1f",
            "0x0",
            "0x01",
            "0x",
            "NaN",
            "Infinity",
            "-Infinity",
            "0xABC",
            "true",
        ];
        let mut args: Vec<Arg> = words.iter().map(|&word| Arg::new("a", word)).collect();
        args.push(Arg {
            name: "p".into(),
            value: Value::Pointer(0x1f),
        });
        args.extend([0.0, -0.0, 1.0, 1e300, f64::NAN, f64::INFINITY].map(|n| Arg::new("f", n)));
        let (json, back) = through_json(&args);
        assert_eq!(back, args);
        let generic: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(generic["p"], "0x1f");
    }

    #[test]
    fn numbers_that_are_no_doubles_are_strings() {
        let numbers = [
            Value::Uint(MOST_EXACT),
            Value::Uint(MOST_EXACT + 1),
            Value::Uint(u64::MAX),
            Value::Int(-(MOST_EXACT as i64)),
            Value::Int(-(MOST_EXACT as i64) - 1),
            Value::Int(i64::MIN),
            Value::List(vec![Value::Uint(u64::MAX)]),
        ];
        let texts = [
            "9007199254740993",
            "-9007199254740993",
            "18446744073709551615",
        ];
        let others = [
            "9007199254740992",
            "09007199254740993",
            "99999999999999999999",
            "-1",
        ];
        let mut args: Vec<Arg> = (numbers.into_iter())
            .map(|number| Arg::new("n", number))
            .collect();
        args.extend((texts.iter().chain(&others)).map(|&text| Arg::new("t", text)));
        let (json, back) = through_json(&args);
        assert_eq!(back, args, "{json}");
        let start = "{\"n\":9007199254740992,\"n\":\"9007199254740993\",\
            \"n\":\"18446744073709551615\",\"n\":-9007199254740992,\"n\":\"-9007199254740993\",\
            \"n\":\"-9223372036854775808\",\"n\":[\"18446744073709551615\"],\"t\":\"\\u0039007199254740993\"";
        assert!(json.starts_with(start), "{json}");
        // As older versions wrote them.
        let old = "{\"n\":18446744073709551615}";
        let read = parse_args(&mut Cursor::new(old), &mut Names::default()).expect("JSON");
        assert_eq!(read, [Arg::new("n", u64::MAX)]);
    }

    #[test]
    fn nesting_is_bounded_both_ways() {
        let nested =
            |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::List(vec![inner]));
        let args = [Arg::new("a", nested(MOST_NESTING - 1))];
        assert_eq!(through_json(&args).1, args);
        let args = [Arg::new("a", nested(MOST_NESTING))];
        assert!(write_args(&mut Vec::new(), &args).is_err());
        let json = format!("{{\"a\":{}", "[".repeat(100_000));
        let problem = parse_args(&mut Cursor::new(&json), &mut Names::default());
        assert_eq!(
            problem.expect_err("too deep").what,
            "arguments nested too deep"
        );
    }
}
