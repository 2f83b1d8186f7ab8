//! The reader of a trace's index, with what the page's server attaches to it: any bytes are refused, or can be asked about.
#![no_main]

use libfuzzer_sys::fuzz_target;
use render::detail::{Detail, Query};
use std::collections::HashMap;
use trace::index::Index;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = Index::from_body(bytes) {
        ask(&index.attachment, index.segments().len());
        for segment in index.segments() {
            segment.ids.may_contain(7);
        }
        let again = Index::from_bytes(&index.to_bytes());
        assert_eq!(again.as_ref(), Ok(&index));
    }
    // The attachment by itself: a mutation rarely gets that far otherwise.
    if let Some((&segments, attachment)) = bytes.split_first() {
        ask(attachment, segments.into());
    }
});

fn ask(attachment: &[u8], segments: usize) {
    let Ok(detail) = Detail::from_bytes(attachment, segments) else {
        return;
    };
    for (from, to) in [(0, 1_000), (500, u64::MAX), (0, u64::MAX)] {
        let query = Query {
            from,
            to,
            lanes: None,
            limit: 100,
        };
        detail.to_read(&query, 8, |_| false);
        detail.answer(&query, Some(&HashMap::new()));
        detail.answer(&query, None);
    }
    detail.place(1, &[]);
    detail.count(|name| name.len() > 3);
}
