//! What a page holds, as bytes that are kept beside a trace: the next page of the trace needs no second reading. What comes back
//! may be anything.

use super::{HtmlPage, encode};
use std::io;
use trace::index::{Bytes, varint};

/// A change of what pages hold needs another number.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " 2");
/// No report is larger, unpacked.
const LARGEST: usize = 64 << 20;

impl HtmlPage {
    /// `by`: who made it. Another cutrace may come to other findings.
    pub fn to_bytes(&self, by: &str) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let head = encode::deflated(&serde_json::to_vec(&self.head)?)?;
        for part in [
            VERSION.as_bytes(),
            by.as_bytes(),
            &head,
            self.timeline.as_bytes(),
        ] {
            varint(&mut out, part.len() as u64);
            out.extend(part);
        }
        Ok(out)
    }

    /// None if the bytes are no page, or another cutrace's.
    pub fn from_bytes(bytes: &[u8], by: &str) -> Option<HtmlPage> {
        let mut bytes = Bytes::new(bytes);
        if bytes.text().ok()? != VERSION || bytes.text().ok()? != by {
            return None;
        }
        let head = encode::inflated(bytes.block().ok()?, LARGEST)?;
        let head: serde_json::Value = serde_json::from_slice(&head).ok()?;
        let timeline = bytes.text().ok()?;
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if !head.is_object() || !timeline.bytes().all(is_base64) || !bytes.is_empty() {
            return None;
        }
        Some(HtmlPage {
            head,
            timeline: timeline.to_owned(),
            report: None,
        })
    }

    /// For a page that is open already: `{"head": …, "timeline": "…"}`.
    pub fn to_json(&self) -> String {
        serde_json::json!({ "head": self.head, "timeline": self.timeline }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page() -> HtmlPage {
        HtmlPage {
            head: serde_json::json!({ "meta": { "command": ["a", "</script>"] }, "origin_ns": 7 }),
            timeline: "QUJD+/8=".to_owned(),
            report: None,
        }
    }

    #[test]
    fn a_page_comes_back() {
        let bytes = page().to_bytes("me").expect("bytes");
        let back = HtmlPage::from_bytes(&bytes, "me").expect("a page");
        assert_eq!(
            (&back.head, &back.timeline),
            (&page().head, &page().timeline)
        );
        assert!(HtmlPage::from_bytes(&bytes, "another").is_none());
        let markup = HtmlPage {
            timeline: "</script>".to_owned(),
            ..page()
        };
        let bytes = markup.to_bytes("me").expect("bytes");
        assert!(HtmlPage::from_bytes(&bytes, "me").is_none());
    }

    proptest! {
        #[test]
        fn other_bytes_do_no_harm(place in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
            let mut bytes = page().to_bytes("me").expect("bytes");
            let place = place % bytes.len();
            bytes[place] = byte;
            bytes.truncate(cut % (bytes.len() + 1));
            let _ = HtmlPage::from_bytes(&bytes, "me");
        }
    }
}
