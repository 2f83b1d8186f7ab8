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
