//! Metrics in Prometheus's protobuf format, the only one that has native histograms: io.prometheus.client.MetricFamily,
//! each behind its length.

use super::collect::Labelling;
use prost::Message;

/// What a client that wants this names, and what it gets.
pub const ASKED_FOR: &str = "application/vnd.google.protobuf";
pub const MEDIA_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
pub struct Family {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub metrics: Vec<Line>,
}

pub const COUNTER: i32 = 0;
pub const GAUGE: i32 = 1;
pub const HISTOGRAM: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub struct Line {
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<BothHistograms>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Label {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

/// A classic one and a native one.
#[derive(Clone, PartialEq, Message)]
pub struct BothHistograms {
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub spans: Vec<Span>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bucket {
    /// Of this and all below.
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub upper: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

impl Line {
    pub fn new(labels: &Labelling) -> Line {
        let label = |(name, value): &(&str, String)| Label {
            name: Some((*name).to_owned()),
            value: Some(value.clone()),
        };
        Line {
            labels: labels.iter().map(label).collect(),
            ..Line::default()
        }
    }
}

impl BothHistograms {
    /// `classic`: each bucket's upper end, and what is in it alone.
    pub fn new(
        (count, sum): (u64, f64),
        classic: &[(f64, u64)],
        schema: i32,
        (spans, deltas): (Vec<(i32, u32)>, Vec<i64>),
    ) -> Self {
        let mut below = 0;
        let bucket = |(upper, alone): &(f64, u64)| {
            below += alone;
            Bucket {
                count: Some(below),
                upper: Some(*upper),
            }
        };
        let buckets = classic.iter().map(bucket).collect();
        let span = |(offset, length): (i32, u32)| Span {
            offset: Some(offset),
            length: Some(length),
        };
        let mut spans: Vec<Span> = spans.into_iter().map(span).collect();
        if spans.is_empty() {
            // Otherwise one that is empty is taken for a classic one.
            spans.push(span((0, 0)));
        }
        BothHistograms {
            count: Some(count),
            sum: Some(sum),
            buckets,
            schema: Some(schema),
            zero_threshold: Some(0.0),
            zero_count: Some(0),
            spans,
            deltas,
        }
    }
}

/// All of them as one body.
pub fn body(families: &[Family]) -> Vec<u8> {
    families
        .iter()
        .filter(|family| !family.metrics.is_empty())
        .flat_map(Message::encode_length_delimited_to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_as_prometheus_reads_it() {
        let mut line = Line::new(&vec![("a", "b".to_owned())]);
        line.counter = Some(Value { value: Some(2.0) });
        let family = Family {
            name: Some("n_total".into()),
            help: Some("h".into()),
            kind: Some(COUNTER),
            metrics: vec![line],
        };
        let bytes = body(&[family.clone(), Family::default()]);
        // Its length, then name, help, type 0 and the line: fields and lengths by hand.
        let expected = b"\x23\x0a\x07n_total\x12\x01h\x18\x00\x22\x13\
                         \x0a\x06\x0a\x01a\x12\x01b\x1a\x09\x09\0\0\0\0\0\0\0\x40";
        assert_eq!(bytes, expected);
        assert_eq!(Family::decode_length_delimited(&bytes[..]), Ok(family));
    }

    #[test]
    fn an_empty_histogram_is_still_a_native_one() {
        let both = BothHistograms::new((0, 0.0), &[(f64::INFINITY, 0)], 2, Default::default());
        assert_eq!(both.spans.len(), 1);
        assert_eq!(both.buckets[0].count, Some(0));
    }
}
