//! NVTX's calls, as the injected library records them, become ranges and marks.

use super::calls::Traced;
use cuda::nvtx::{Style, message_type, named};
use event::{Extent, Kind, Record, Value};

fn payload(payload: u64, number: u64, text: &str, room: u16) -> Vec<u8> {
    let mut bytes = [payload.to_le_bytes(), number.to_le_bytes()].concat();
    let mut text = text.as_bytes().to_vec();
    text.resize(room.into(), 0);
    bytes.extend(text);
    bytes
}

fn short(text: &str) -> Vec<u8> {
    payload(0, 0, text, cuda::nvtx::SHORT_TEXT)
}

const TEXT: u64 = message_type::TEXT as u64;

fn push(traced: &mut Traced, thread: usize, at: u64, domain: u64, text: &str) {
    let args = [domain, 0x1000, TEXT, 0];
    traced.call(
        thread,
        "nvtxRangePush.short",
        at..at + 1,
        args,
        &short(text),
        0,
    );
}

/// Every event as `name kind depth parent start end`.
fn shown(records: &[Record]) -> Vec<String> {
    let events = records.iter().filter_map(|record| match record {
        Record::Event(event) if event.extent != Extent::Open => Some(event),
        _ => None,
    });
    events
        .map(|event| {
            let end = event.end().expect("ended");
            let parent = event.parent.map_or(0, |parent| parent);
            let (kind, depth, start) = (event.kind, event.depth, event.start);
            format!("{} {kind} {depth} {parent} {start} {end}", event.name)
        })
        .collect()
}

#[test]
fn calls_lie_inside_ranges_and_ranges_without_their_own_calls_time() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    push(&mut traced, thread, 10, 0, "outer");
    traced.call(thread, "cuInit", 20..30, [0; 4], &[], 0);
    push(&mut traced, thread, 40, 0, "inner");
    traced.call(thread, "cuInit", 50..60, [0; 4], &[], 0);
    traced.call(thread, "nvtxRangePop", 70..72, [0; 4], &[], 0);
    traced.call(thread, "nvtxRangePop", 80..82, [0; 4], &[], 0);
    // One too many.
    traced.call(thread, "nvtxRangePop", 90..92, [0; 4], &[], 0);
    traced.call(thread, "cuInit", 95..96, [0; 4], &[], 0);
    let (records, totals) = traced.finish();
    let expected = [
        "cuInit userspace 1 1 20 30",
        "cuInit userspace 2 3 50 60",
        "inner range 1 1 41 70",
        "outer range 0 0 11 80",
        "cuInit userspace 0 0 95 96",
    ];
    assert_eq!(shown(&records), expected);
    assert_eq!((totals.calls, totals.late), (3, 0));
}

#[test]
fn a_domains_ranges_end_by_themselves() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    push(&mut traced, thread, 10, 0x11, "first");
    push(&mut traced, thread, 20, 0x22, "second");
    traced.call(thread, "nvtxRangePop", 30..31, [0x11, 0, 0, 0], &[], 0);
    traced.call(thread, "nvtxRangePop", 40..41, [0x22, 0, 0, 0], &[], 0);
    let (records, _) = traced.finish();
    let expected = ["first range 0 0 11 30", "second range 1 1 21 40"];
    assert_eq!(shown(&records), expected);
}

#[test]
fn what_a_call_leaves_open_is_closed_by_its_own_pop() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let call = traced.begin(thread, "cuStreamAddCallback", 10, [0; 4], &[]);
    push(&mut traced, thread, 12, 0, "inside a call");
    traced.ring(thread).end(call, 20, 0);
    traced.call(thread, "nvtxRangePop", 30..31, [0; 4], &[], 0);
    let (records, _) = traced.finish();
    let expected = [
        "cuStreamAddCallback userspace 0 0 10 20",
        "inside a call range 1 1 13 30",
    ];
    assert_eq!(shown(&records), expected);
}

#[test]
fn handles_have_texts_and_another_thread_may_end_a_range() {
    let mut traced = Traced::new();
    let (one, other) = (traced.thread(7, 7), traced.thread(7, 8));
    let name = |traced: &mut Traced, at: u64, domain, what: u32, handle, text: &str| {
        let args = [domain, 0x1000, what.into(), handle];
        let payload = payload(0, 0, text, cuda::nvtx::LONG_TEXT);
        traced.call(one, "nvtxName", at..at + 1, args, &payload, 0);
    };
    name(&mut traced, 10, 0, named::DOMAIN, 5, "parts");
    name(&mut traced, 12, 5, named::STRING, 6, "known text");
    name(&mut traced, 14, 5, named::CATEGORY, 3, "third");
    let style = Style {
        color: Some(0x8040_2010),
        payload_type: 3,
    };
    let what = u64::from(message_type::REGISTERED) | 3 << 32;
    let more = payload(1.5f64.to_bits(), 99, "", 0);
    let args = [5, 6, what, style.word()];
    traced.call(one, "nvtxRangeStart", 20..21, args, &more, 0);
    traced.call(other, "nvtxRangeEnd", 50..51, [5, 99, 0, 0], &[], 0);
    traced.call(other, "nvtxRangeEnd", 60..61, [5, 99, 0, 0], &[], 0);
    traced.call(
        one,
        "nvtxMark",
        70..71,
        [0, 77, message_type::REGISTERED.into(), 0],
        &more,
        0,
    );
    let (records, _) = traced.finish();
    assert_eq!(
        shown(&records),
        [
            "known text process_range 0 0 21 50",
            "string 0x4d range 0 0 71 71"
        ]
    );
    let ended = records.iter().find_map(|record| match record {
        Record::Event(event) if matches!(event.extent, Extent::Closed(_)) => Some(event),
        _ => None,
    });
    let event = ended.expect("ended");
    assert_eq!((event.kind, event.tid), (Kind::ProcessRange, 7));
    let text = |name: &str| event.arg(name).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(text("domain").as_deref(), Some("parts"));
    assert_eq!(text("category").as_deref(), Some("third"));
    assert_eq!(text("color").as_deref(), Some("#80402010"));
    assert_eq!(event.arg("payload"), Some(&Value::Float(1.5)));
    assert_eq!(event.arg("ended_by").and_then(Value::as_u64), Some(8));
}

#[test]
fn a_text_without_an_end_is_shown_as_cut() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let long = "x".repeat(300);
    let payload = payload(0, 0, &long, cuda::nvtx::LONG_TEXT);
    traced.call(
        thread,
        "nvtxMark.long",
        10..11,
        [0, 0x1000, TEXT, 0],
        &payload,
        0,
    );
    // A payload that is not there is no text.
    traced.call(
        thread,
        "nvtxMark.long",
        20..21,
        [0, 0x1000, TEXT, 0],
        &[],
        0,
    );
    let (records, _) = traced.finish();
    let names: Vec<String> = shown(&records);
    assert!(
        names[0].starts_with("xxx") && names[0].contains('…'),
        "{names:?}"
    );
    assert_eq!(names[1], " range 0 0 21 21");
}
