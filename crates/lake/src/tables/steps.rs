//! The table `steps`: one row a step of a training loop.

use super::{TableColumns, texts};
use crate::{Result, layout::unix_ns};
use analyse::{StepRow, Steps};
use arrow_array::{Int64Array, RecordBatch, UInt64Array};
use event::Meta;
use std::sync::Arc;

pub fn steps(recording: &str, meta: &Meta, steps: &Steps) -> Result<RecordBatch> {
    let rows = &steps.steps;
    let number =
        |of: fn(&StepRow) -> u64| Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)));
    TableColumns::of(recording, rows.len())?
        .with(
            "step",
            Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64)),
        )
        .with(
            "start_ns",
            Arc::new(Int64Array::from_iter_values(
                rows.iter().map(|row| unix_ns(meta, row.start_ns)),
            )),
        )
        .with("duration_ns", number(|row| row.length_ns))
        .with("operators", number(|row| row.operators))
        .with("gpu_operations", number(|row| row.gpu_operations))
        .with("gpu_ns", number(|row| row.gpu_ns))
        .with("copies", number(|row| row.copies))
        .with("copy_ns", number(|row| row.copy_ns))
        .with("communication_ns", number(|row| row.communication_ns))
        .with("data_ns", number(|row| row.data_ns))
        .with("mark", texts(rows.iter().map(|_| steps.mark.as_deref())))
        .batch()
}
