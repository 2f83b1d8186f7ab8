//! Nothing is lost on the way through either format, or from one to the other.

mod common;

use common::{FORMATS, Trace, any_trace};
use event::{Arg, Category, Event, Extent, Layer, Meta, Record};
use proptest::prelude::*;
use trace::Format;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_survive_both_formats(trace in any_trace()) {
        let mut current = trace.clone();
        for format in FORMATS {
            let (back, warnings) = Trace::read(&current.write(format)).expect("readable");
            prop_assert_eq!(&back, &trace);
            prop_assert_eq!(warnings, Vec::<String>::new());
            current = back;
        }
    }

    #[test]
    fn files_survive_each_other(trace in any_trace()) {
        let jsonl = trace.write(Format::Jsonl);
        let arrow = Trace::read(&jsonl).expect("readable").0.write(Format::Arrow);
        let jsonl_again = Trace::read(&arrow).expect("readable").0.write(Format::Jsonl);
        let arrow_again = Trace::read(&jsonl_again).expect("readable").0.write(Format::Arrow);
        prop_assert_eq!(String::from_utf8(jsonl), String::from_utf8(jsonl_again));
        prop_assert_eq!(arrow, arrow_again);
    }

    #[test]
    fn every_line_is_json(trace in any_trace()) {
        let text = String::from_utf8(trace.write(Format::Jsonl)).expect("UTF-8");
        prop_assert_eq!(text.lines().count(), trace.records.len() + 2);
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            prop_assert!(value["type"].is_string());
        }
    }
}

#[test]
fn a_span_handed_in_whole_gets_its_beginning_written() {
    let mut event = Event::new(7, Layer::Gpu, Category::Kernel, "vectorAdd", 1_000);
    event.extent = Extent::Closed(250);
    event.args = vec![Arg::new("grid", 64u64)];
    event.outputs = vec![Arg::new("registers", 32u64)];
    for format in FORMATS {
        let records = vec![Record::Event(event.clone())];
        let trace = Trace {
            meta: Meta::default(),
            records,
            summary: None,
        };
        let (back, _) = Trace::read(&trace.write(format)).expect("readable");
        let begin = Event {
            extent: Extent::Open,
            outputs: vec![],
            ..event.clone()
        };
        assert_eq!(
            back.records,
            [Record::Event(begin), Record::Event(event.clone())]
        );
    }
}

/// In files every launch is called cuLaunchKernel, and the function that was called is beside it. Traces of old
/// have that function's name alone.
#[test]
fn launches_have_one_name_in_files_and_their_own_in_the_model() {
    let old = concat!(
        r#"{"type":"meta","version":1,"start_ns":0}"#,
        "\n",
        r#"{"event_id":1,"ts":0.5,"pid":1,"tid":1,"type":"kernel","layer":"runtime","op":"launch","kernel":"k","#,
        r#""grid":[1,1,1],"block":[32,1,1],"shared":0,"threads":32,"name":"cudaLaunchKernelExC","op_id":7}"#,
        "\n",
    );
    let called = |trace: &Trace| match &*trace.records {
        [Record::Meaning(launch)] => launch.name.clone(),
        other => panic!("{other:?}"),
    };
    let (trace, warnings) = Trace::read(old.as_bytes()).expect("readable");
    assert!(
        warnings.iter().all(|warning| !warning.contains("field")),
        "{warnings:?}"
    );
    assert_eq!(&*called(&trace), "cudaLaunchKernelExC");
    for format in FORMATS {
        let bytes = trace.write(format);
        if format == Format::Jsonl {
            let text = String::from_utf8(bytes.clone()).expect("UTF-8");
            let both = r#""name":"cuLaunchKernel","call":"cudaLaunchKernelExC""#;
            assert!(text.contains(both), "{text}");
        }
        let (back, _) = Trace::read(&bytes).expect("readable");
        assert_eq!(back.records, trace.records);
    }
}
