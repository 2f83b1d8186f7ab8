//! The table `stacks`: one row a frame.

use super::{TableColumns, texts};
use crate::Result;
use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use event::Frame;
use std::sync::Arc;

/// Frames after which it is time to write them.
const MANY: usize = 64 * 1024;

/// Frames that are not written yet.
#[derive(Default)]
pub struct Frames {
    frames: Vec<(u32, u32, Frame)>,
}

impl Frames {
    pub fn add(&mut self, stack: u32, frames: &[Frame]) {
        let frames = (0..).zip(frames);
        self.frames
            .extend(frames.map(|(level, frame)| (stack, level, frame.clone())));
    }

    pub fn are_many(&self) -> bool {
        self.frames.len() >= MANY
    }

    pub fn take(&mut self, recording: &str) -> Result<RecordBatch> {
        let frames = std::mem::take(&mut self.frames);
        let all = || frames.iter().map(|(_, _, frame)| frame);
        TableColumns::of(recording, frames.len())?
            .with(
                "stack_id",
                Arc::new(UInt32Array::from_iter_values(
                    frames.iter().map(|(stack, _, _)| *stack),
                )),
            )
            .with(
                "level",
                Arc::new(UInt32Array::from_iter_values(
                    frames.iter().map(|(_, level, _)| *level),
                )),
            )
            .with("kind", texts(all().map(|frame| Some(frame.kind.as_str()))))
            .with("symbol", texts(all().map(|frame| frame.symbol.as_deref())))
            .with(
                "offset",
                Arc::new(all().map(|frame| frame.offset).collect::<UInt64Array>()),
            )
            .with("module", texts(all().map(|frame| frame.module.as_deref())))
            .with("file", texts(all().map(|frame| frame.file.as_deref())))
            .with(
                "line",
                Arc::new(all().map(|frame| frame.line).collect::<UInt32Array>()),
            )
            .with(
                "address",
                Arc::new(UInt64Array::from_iter_values(
                    all().map(|frame| frame.address),
                )),
            )
            .batch()
    }
}
