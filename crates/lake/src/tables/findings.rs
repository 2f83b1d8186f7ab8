//! The table `findings`: one row a finding of `cutrace report findings`.

use super::{TableColumns, texts};
use crate::{Result, layout::unix_ns};
use analyse::findings::Finding;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array,
    builder::{ListBuilder, UInt64Builder},
};
use event::Meta;
use std::sync::Arc;

pub fn findings(recording: &str, meta: &Meta, findings: &[Finding]) -> Result<RecordBatch> {
    let text = |of: fn(&Finding) -> &str| texts(findings.iter().map(|finding| Some(of(finding))));
    let number = |of: fn(&Finding) -> Option<u64>| {
        let numbers = findings.iter().map(of);
        Arc::new(numbers.collect::<UInt64Array>())
    };
    let time = |of: fn(&Finding) -> u64| {
        // Not every finding has a place.
        let times = findings
            .iter()
            .map(|finding| (finding.to_ns > 0).then(|| unix_ns(meta, of(finding))));
        Arc::new(times.collect::<Int64Array>())
    };
    let mut op_ids = ListBuilder::new(UInt64Builder::new());
    for finding in findings {
        op_ids.values().append_slice(&finding.op_ids);
        op_ids.append(true);
    }
    let op_ids: ArrayRef = Arc::new(op_ids.finish());
    let numbers = findings.iter().map(|finding| {
        let numbers = finding.numbers.iter();
        let numbers: serde_json::Map<_, _> = numbers
            .map(|number| (number.name.to_string(), number.value.into()))
            .collect();
        Some(serde_json::Value::Object(numbers).to_string())
    });
    TableColumns::of(recording, findings.len())?
        .with("id", text(|finding| &finding.id))
        .with("severity", text(|finding| finding.severity.as_str()))
        .with("title", text(|finding| &finding.title))
        .with("detail", text(|finding| &finding.detail))
        .with("advice", text(|finding| &finding.advice))
        .with("confidence", text(|finding| finding.confidence.as_str()))
        .with(
            "share",
            Arc::new(Float64Array::from_iter_values(
                findings.iter().map(|finding| finding.share),
            )),
        )
        .with("cost_ns", number(|finding| finding.cost_ns))
        .with("cost_bytes", number(|finding| finding.cost_bytes))
        .with(
            "cost_per_step_ns",
            number(|finding| finding.cost_per_step_ns),
        )
        .with("from_ns", time(|finding| finding.from_ns))
        .with("to_ns", time(|finding| finding.to_ns))
        .with("op_ids", op_ids)
        .with("numbers", texts(numbers))
        .batch()
}
