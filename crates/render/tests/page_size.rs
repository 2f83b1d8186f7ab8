//! A page keeps to its size, whatever the trace's.

use event::{Arg, Category, Event, Extent, Layer, Meta, Record};
use render::{Html, Output};

const START: u64 = 1_000_000_000;

/// A loop of launches and waits, so many calls in all; none is like the other.
fn records(calls: u64) -> impl Iterator<Item = Record> {
    (1..=calls).flat_map(|id| {
        let (name, category) = match id % 10 {
            0 => ("cuStreamSynchronize", Category::Sync),
            _ => ("cuLaunchKernel", Category::Kernel),
        };
        let mut call = Event::new(id, Layer::Driver, category, name, START + id * 5_000);
        (call.pid, call.tid) = (1, 1);
        call.args = vec![
            Arg::new("address", 0x7f00_0000_0000 + id * 7_919),
            Arg::new("number", id.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ];
        call.extent = Extent::Open;
        let begin = Record::from(call.clone());
        call.extent = Extent::Closed(1_000 + id.wrapping_mul(7_919) % 3_000);
        [begin, call.into()]
    })
}

fn page(calls: u64, size: u64) -> (String, bool) {
    let meta = Meta {
        start_ns: START,
        ..Meta::default()
    };
    let mut out = Vec::new();
    let mut html = Html::new(&mut out, &meta).with_size(size);
    records(calls).for_each(|record| html.record(&record).expect("taken"));
    let is_cut = html.is_cut();
    if is_cut {
        html.again(None);
        records(calls).for_each(|record| html.record(&record).expect("taken"));
    }
    html.finish(None).expect("written");
    drop(html);
    (String::from_utf8(out).expect("text"), is_cut)
}

#[test]
fn pages_keep_to_their_size() {
    let (small, is_cut) = page(500, 5_000_000);
    assert!(!is_cut && small.contains("\"whole\":null"));
    let (large, is_cut) = page(40_000, 1_000_000);
    assert!(is_cut && large.len() <= 1_000_000, "{} bytes", large.len());
    assert!(
        large.len() > 500_000,
        "the room is used: {} bytes",
        large.len()
    );
    let whole = large.split("\"whole\":").nth(1).expect("said");
    assert!(
        whole.starts_with('['),
        "a turn of the loop is kept whole: {whole:.60}"
    );
}
