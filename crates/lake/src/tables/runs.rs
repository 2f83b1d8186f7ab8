//! The table `runs`: one row a recording.

use super::{TableColumns, texts};
use crate::{Entry, Result};
use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array,
    builder::{ListBuilder, StringBuilder},
};
use std::sync::Arc;

pub fn runs(entry: &Entry) -> Result<RecordBatch> {
    let number = |number: u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values([number])) };
    let time = |time: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values([time])) };
    let text = |text: Option<&str>| texts(std::iter::once(text));
    let meta = &entry.meta;
    TableColumns::of(&entry.name, 1)?
        .with(
            "world_size",
            Arc::new(UInt32Array::from(vec![entry.world_size])),
        )
        .with(
            "local_rank",
            Arc::new(UInt32Array::from(vec![meta.identity.local_rank])),
        )
        .with("start_ns", time(entry.start_ns))
        .with("end_ns", time(entry.end_ns))
        .with("rows", number(entry.rows))
        .with("events", number(entry.events))
        .with("lost", number(entry.lost))
        .with("exit", Arc::new(Int32Array::from(vec![entry.exit])))
        .with("command", text(Some(&entry.command)))
        .with("boot_id", text(entry.boot_id.as_deref()))
        .with("container", text(entry.container.as_deref()))
        .with("driver", text(entry.driver.as_deref()))
        .with("cuda", text(meta.cuda.as_deref()))
        .with("gpu_names", list(&entry.gpu_names))
        .with("gpu_uuids", list(&entry.gpu_uuids))
        .with(
            "simulated",
            Arc::new(BooleanArray::from(vec![entry.simulated])),
        )
        .with("cutrace", text(Some(&entry.cutrace)))
        .with("added_ns", time(entry.added_ns))
        .batch()
}

fn list(texts: &[String]) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for text in texts {
        builder.values().append_value(text);
    }
    builder.append(true);
    Arc::new(builder.finish())
}
