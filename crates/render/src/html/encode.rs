//! How numbers travel inside the page: columns of variable-length integers, deflated, in base64.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::DeflateEncoder};
use std::io::{self, Write};

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
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// JSON that is inert inside a `<script>` element: nothing in it can end the element, or begin
/// anything else.
pub fn inert_json(value: &impl serde::Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)?
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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
        let deflated = STANDARD
            .decode(packed(&bytes).expect("packs"))
            .expect("base64");
        let mut back = Vec::new();
        flate2::read::DeflateDecoder::new(&deflated[..])
            .read_to_end(&mut back)
            .expect("deflate");
        assert_eq!(back, bytes);
    }

    #[test]
    fn json_cannot_leave_its_element() {
        let hostile = "</script><!--<script>\u{2028}&lt;";
        let json = inert_json(&hostile).expect("json");
        assert!(!json.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(
            serde_json::from_str::<String>(&json).expect("json"),
            hostile
        );
    }
}
