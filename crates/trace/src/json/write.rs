//! Appending JSON to a byte buffer.

/// Which bytes cannot stand in a JSON string as they are.
const NEEDS_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

#[inline]
pub fn uint(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[inline]
pub fn int(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// `"0x7f…"`: a string, because a pointer does not fit the doubles that jq computes with.
#[inline]
pub fn hex(out: &mut Vec<u8>, number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = *b"\"0x0000000000000000\"";
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1) as usize;
    for place in 0..digits {
        text[3 + place] = DIGITS[(number >> (4 * (digits - 1 - place))) as usize & 15];
    }
    text[3 + digits] = b'"';
    out.extend_from_slice(&text[..4 + digits]);
}

#[inline]
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    string_contents(out, text.as_bytes());
    out.push(b'"');
}

/// A string that must not be taken for what the same text without an escape would mean.
pub fn disguised_string(out: &mut Vec<u8>, text: &str) {
    let Some((&first, rest)) = text.as_bytes().split_first() else {
        return string(out, text);
    };
    debug_assert!(
        first.is_ascii(),
        "only words like 0x1f and NaN are disguised"
    );
    out.push(b'"');
    unicode_escape(out, first);
    string_contents(out, rest);
    out.push(b'"');
}

fn string_contents(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(place) = bytes.iter().position(|&byte| NEEDS_ESCAPE[byte as usize]) {
        out.extend_from_slice(&bytes[..place]);
        match bytes[place] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => unicode_escape(out, other),
        }
        bytes = &bytes[place + 1..];
    }
    out.extend_from_slice(bytes);
}

fn unicode_escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\u00");
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn pointers_have_no_leading_zeros() {
        assert_eq!(written(|out| hex(out, 0)), "\"0x0\"");
        assert_eq!(written(|out| hex(out, 0x7f00_dead)), "\"0x7f00dead\"");
        assert_eq!(written(|out| hex(out, u64::MAX)), "\"0xffffffffffffffff\"");
    }

    #[test]
    fn strings_are_escaped_as_json_wants() {
        let text = "a\"b\\c\nd\u{1}é";
        let json = written(|out| string(out, text));
        assert_eq!(json, "\"a\\\"b\\\\c\\nd\\u0001é\"");
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        assert_eq!(
            written(|out| disguised_string(out, "0x1f")),
            "\"\\u0030x1f\""
        );
    }
}
