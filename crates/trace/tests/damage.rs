//! Damaged files: a clear error or warning that says where, the rest read, never a panic.

mod common;

use common::{FORMATS, Trace, any_trace};
use event::{Category, Event, Extent, Layer, Meta, Record, Summary};
use proptest::prelude::*;
use trace::{Error, Format, Reader};

fn small_trace() -> Trace {
    let mut records = Vec::new();
    for id in 1..=3 {
        let mut event = Event::new(
            id,
            Layer::Driver,
            Category::Memory,
            "cuMemAlloc_v2",
            id * 1_000,
        );
        event.extent = Extent::Open;
        records.push(event.clone().into());
        event.extent = Extent::Closed(500);
        records.push(event.into());
    }
    Trace {
        meta: Meta::default(),
        records,
        summary: Some(Summary::default()),
    }
}

/// The lines of the small trace, to be damaged.
fn lines() -> Vec<String> {
    let text = String::from_utf8(small_trace().write(Format::Jsonl)).expect("UTF-8");
    text.lines().map(ToOwned::to_owned).collect()
}

fn read_lines(lines: &[String]) -> (Trace, Vec<String>) {
    Trace::read((lines.join("\n") + "\n").as_bytes()).expect("readable")
}

#[test]
fn a_damaged_line_is_skipped_and_named() {
    for damage in [
        "{\"type\":",
        "garbage",
        "{\"type\":\"userspace\"}",
        "[1]",
        "{\"ts\":1,\"type\":\"gpu\",\"name\":\"x\"}}",
    ] {
        let mut lines = lines();
        let offset = lines[..3].iter().map(|line| line.len() + 1).sum::<usize>();
        lines.insert(3, damage.into());
        let (trace, warnings) = read_lines(&lines);
        assert_eq!(trace.records, small_trace().records, "{damage}");
        assert_eq!(warnings.len(), 1, "{damage}: {warnings:?}");
        assert!(
            warnings[0].starts_with(&format!("line 4 (byte {offset}): ")),
            "{warnings:?}"
        );
    }
}

#[test]
fn text_that_is_not_utf_8_is_skipped() {
    let mut bytes = (lines()[..3].join("\n") + "\n").into_bytes();
    bytes.extend_from_slice(b"{\"name\":\"\xff\xfe\"}\n");
    bytes.extend_from_slice((lines()[3..].join("\n") + "\n").as_bytes());
    let (trace, warnings) = Trace::read(&bytes).expect("readable");
    assert_eq!(trace.records, small_trace().records);
    assert!(
        warnings[0].contains("line 4") && warnings[0].contains("not UTF-8"),
        "{warnings:?}"
    );
}

#[test]
fn a_huge_line_is_skipped() {
    let mut lines = lines();
    lines.insert(2, format!("{{\"name\":\"{}\"}}", "x".repeat(17 << 20)));
    let (trace, warnings) = read_lines(&lines);
    assert_eq!(trace.records, small_trace().records);
    assert!(
        warnings[0].contains("line 3") && warnings[0].contains("longer than 16 MiB"),
        "{warnings:?}"
    );
}

#[test]
fn a_cut_off_file_is_read_up_to_the_cut() {
    let whole = small_trace().write(Format::Jsonl);
    let text = String::from_utf8(whole.clone()).expect("UTF-8");
    // In the middle of the last event's end: its beginning is an open span.
    let cut = text.match_indices('\n').nth(5).expect("six lines").0 + 20;
    let (trace, warnings) = Trace::read(&whole[..cut]).expect("readable");
    assert_eq!(trace.records, small_trace().records[..5]);
    assert!(
        warnings[0].starts_with("line 7 (byte ") && warnings[0].contains("cut off"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("no summary"), "{warnings:?}");

    let mut reader = Reader::new(std::io::Cursor::new(whole[..cut].to_vec()), None)
        .expect("readable")
        .whole();
    let events: Vec<Record> = reader
        .by_ref()
        .collect::<trace::Result<_>>()
        .expect("readable");
    let extents: Vec<Extent> = (events.iter())
        .map(|record| match record {
            Record::Event(event) => event.extent,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        extents,
        [Extent::Closed(500), Extent::Closed(500), Extent::Open]
    );
}

#[test]
fn a_cut_off_stream_is_read_up_to_its_last_whole_batch() {
    let mut whole = Vec::new();
    let trace = small_trace();
    {
        let out = common::Shared::default();
        let mut writer =
            trace::Writer::new(out.clone(), Format::Arrow, &trace.meta).expect("a head");
        for record in &trace.records {
            writer.write(record).expect("written");
            writer.flush().expect("a batch of its own");
        }
        writer.finish().expect("a tail");
        whole.append(&mut out.0.lock().expect("not poisoned"));
    }
    let (all, warnings) = Trace::read(&whole).expect("readable");
    assert_eq!((all.records.len(), warnings.len()), (6, 0));
    let mut most = 0;
    // Every byte would take a minute; 13 has no factor in common with Arrow's padding.
    for cut in (0..whole.len()).step_by(13) {
        let Ok((cut_off, warnings)) = Trace::read(&whole[..cut]) else {
            assert_eq!(most, 0, "once the head is whole there is no error");
            continue;
        };
        assert!(
            !warnings.is_empty() || cut_off.summary.is_some(),
            "cut at {cut}"
        );
        assert_eq!(cut_off.records, trace.records[..cut_off.records.len()]);
        assert!(
            cut_off.records.len() >= most,
            "more bytes, fewer records at {cut}"
        );
        most = cut_off.records.len();
    }
    assert!(most >= 5, "{most}");
    let (_, warnings) = Trace::read(&whole[..whole.len() - 100]).expect("readable");
    assert!(
        warnings[0].starts_with("byte ") && warnings[0].contains("cut off"),
        "{warnings:?}"
    );
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    let refused = |bytes: &[u8]| Trace::read(bytes).expect_err("no trace").to_string();
    assert!(matches!(Trace::read(b""), Err(Error::Empty)));
    assert!(matches!(Trace::read(b"\n \n"), Err(Error::Empty)));
    assert!(refused(b"hello\nworld\n").contains("line 1 (byte 0): not a JSON object"));
    assert!(refused(&[0; 5000]).contains("line 1 (byte 0): cut off"));
    assert!(refused(b"\xff\xff\xff\xff\x00\x00\x00\x00").contains("ends before it begins"));
    assert!(refused(b"\xff\xff\xff\xff\xff\xff\xff\x7f").contains("byte 0"));
    assert!(refused(b"\x1f\x8b\x08").contains("gzip"));
    assert!(refused(b"ARROW1\0\0").contains("Arrow file"));
    assert!(refused(b"PAR1").contains("Parquet"));
    assert!(refused(b"[{\"ph\":\"X\"}]").contains("Chrome"));
}

#[test]
fn a_newer_version_is_refused() {
    let mut lines = lines();
    lines[0] = "{\"type\":\"meta\",\"version\":2,\"command\":{\"changed\":true}}".into();
    let error = Trace::read(lines.join("\n").as_bytes()).expect_err("too new");
    assert!(
        matches!(
            error,
            Error::Version {
                found: 2,
                supported: 1
            }
        ),
        "{error}"
    );
    let meta = Meta {
        version: 7,
        ..Meta::default()
    };
    let error = Trace::read(
        &Trace {
            meta,
            ..small_trace()
        }
        .write(Format::Arrow),
    )
    .expect_err("too new");
    assert!(
        matches!(
            error,
            Error::Version {
                found: 7,
                supported: 2
            }
        ),
        "{error}"
    );
}

#[test]
fn fields_of_a_newer_version_are_ignored_with_a_warning() {
    let mut lines = lines();
    for line in &mut lines[1..3] {
        *line = line.replacen('{', "{\"colour\":[{\"a\":null}],", 1);
    }
    lines.insert(
        4,
        "{\"event_id\":9,\"ts\":0.1,\"type\":\"hologram\",\"name\":\"x\"}".into(),
    );
    lines[1] = lines[1].replace("\"category\":\"memory\"", "\"category\":\"quantum\"");
    let (trace, warnings) = read_lines(&lines);
    assert_eq!(trace.records.len(), 6);
    assert!(
        warnings[0].contains("unknown field \"colour\": ignored (and 1 more like it)"),
        "{warnings:?}"
    );
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("unknown category")),
        "{warnings:?}"
    );
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("unknown \"type\"")),
        "{warnings:?}"
    );
}

#[test]
fn a_filtered_or_reordered_trace_is_still_read() {
    // Without its head, as `grep` or `jq select` leave it.
    let (trace, warnings) = read_lines(&lines()[1..]);
    assert_eq!(trace.records, small_trace().records);
    assert!(warnings[0].contains("no \"meta\" line"), "{warnings:?}");
    // Ends without beginnings.
    let ends: Vec<String> = lines()
        .into_iter()
        .filter(|line| !line.contains("\"phase\":\"B\""))
        .collect();
    let (trace, warnings) = read_lines(&ends);
    assert_eq!(trace.records.len(), 3);
    assert!(
        matches!(&trace.records[0], Record::Event(event) if event.start == 1_000 && event.extent == Extent::Closed(500))
    );
    assert!(
        warnings[0].contains("a span ends without a beginning (and 2 more like it)"),
        "{warnings:?}"
    );
    // Out of order.
    let mut swapped = lines();
    swapped.swap(1, 5);
    swapped.swap(2, 6);
    let (trace, warnings) = read_lines(&swapped);
    assert_eq!(trace.records.len(), 6);
    assert!(
        warnings[0].contains("line 4") && warnings[0].contains("not in time order"),
        "{warnings:?}"
    );
}

#[test]
fn two_traces_in_one_file_are_not_mixed() {
    for format in FORMATS {
        let mut bytes = small_trace().write(format);
        bytes.append(&mut small_trace().write(format));
        let (trace, warnings) = Trace::read(&bytes).expect("readable");
        assert_eq!(trace.records, small_trace().records);
        assert!(warnings[0].contains("not read"), "{warnings:?}");
    }
}

#[test]
fn what_cannot_be_written_leaves_the_trace_whole() {
    for format in FORMATS {
        let out = common::Shared::default();
        let mut writer = trace::Writer::new(out.clone(), format, &Meta::default()).expect("a head");
        let good = Record::Event(Event::new(1, Layer::Driver, Category::Init, "cuInit", 5));
        let mut deep = Event::new(2, Layer::Driver, Category::Init, "deep", 6);
        let nested = (0..40).fold(event::Value::Null, |inner, _| {
            event::Value::List(vec![inner])
        });
        deep.args = vec![event::Arg::new("ok", 1u64), event::Arg::new("a", nested)];
        let mut long = Event::new(3, Layer::Driver, Category::Init, "long", 6);
        long.args = vec![event::Arg::new("a", "x".repeat(17 << 20))];
        let late = Event::new(4, Layer::Driver, Category::Init, "late", u64::MAX);
        writer.write(&good).expect("written");
        assert!(matches!(
            writer.write(&deep.into()),
            Err(Error::TooDeep { id: 2, .. })
        ));
        assert!(matches!(
            writer.write(&long.into()),
            Err(Error::TooLong { id: 3, .. })
        ));
        assert!(matches!(
            writer.write(&late.into()),
            Err(Error::Time { .. })
        ));
        writer.write(&good).expect("written");
        writer.finish().expect("a tail");
        let bytes = out.0.lock().expect("not poisoned").clone();
        let (trace, warnings) = Trace::read(&bytes).expect("readable");
        assert_eq!(
            (trace.records, warnings),
            (vec![good.clone(), good], vec![])
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Flip, cut, repeat and overwrite bytes anywhere: reading ends, without a panic.
    #[test]
    fn mutated_files_do_no_harm(
        trace in any_trace(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..8),
    ) {
        for format in FORMATS {
            let mut bytes = trace.write(format);
            for (place, byte, how) in &hits {
                let place = place.index(bytes.len().max(1));
                match how {
                    0 if place < bytes.len() => bytes[place] ^= 1 << (byte % 8),
                    1 if place < bytes.len() => bytes[place] = *byte,
                    2 => bytes.truncate(bytes.len() - usize::from(*byte).min(bytes.len())),
                    _ => bytes.insert(place.min(bytes.len()), *byte),
                }
            }
            let _ = Trace::read(&bytes);
        }
    }
}
