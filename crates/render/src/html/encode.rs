//! How numbers travel inside the page: columns of variable-length integers, deflated, in base64.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use std::io::{self, Read, Write};

/// Seven bits a byte, low ones first, the high bit set on all but the last.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed numbers near zero are short, too.
pub fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Raw deflate, in base64.
pub fn packed(bytes: &[u8]) -> io::Result<String> {
    Ok(STANDARD.encode(deflated(bytes)?))
}

/// JSON that is inert inside a `<script>` element: nothing in it can end the element, or begin
/// anything else.
pub fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Raw deflate, of which no more than `most` bytes come; None if there is more, or it is none.
pub fn inflated(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut decoder = DeflateDecoder::new(bytes).take(most as u64 + 1);
    decoder.read_to_end(&mut out).ok()?;
    (out.len() <= most).then_some(out)
}

pub fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_their_known_forms() {
        let mut out = Vec::new();
        varint(&mut out, 0);
        varint(&mut out, 300);
        varint(&mut out, u64::MAX);
        zigzag(&mut out, -1);
        zigzag(&mut out, i64::MIN);
        assert_eq!(out[..3], [0, 0xac, 0x02]);
        assert_eq!(out.len(), 1 + 2 + 10 + 1 + 10);
    }

    #[test]
    fn packing_can_be_undone() {
        let bytes: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        let packed = packed(&bytes).expect("packs");
        let deflated = STANDARD.decode(packed).expect("base64");
        assert_eq!(inflated(&deflated, 10_000), Some(bytes));
        assert_eq!(inflated(&deflated, 9_999), None);
    }

    #[test]
    fn json_cannot_leave_its_element() {
        let hostile = "</script><!--<script>\u{2028}&lt;";
        let json = inert(&serde_json::to_string(hostile).expect("json"));
        assert!(!json.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(
            serde_json::from_str::<String>(&json).expect("json"),
            hostile
        );
    }
}
