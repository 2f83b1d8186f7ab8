//! `export -f html`: one self-contained page, with what `analyse` found and a timeline to look
//! around in. Nothing is written before the end: the page needs the whole.

pub(crate) mod cells;
mod durations;
mod encode;
mod flame;
pub(crate) mod label;
pub(crate) mod lanes;
mod names;
mod page;
mod payload;
pub(crate) mod placing;
pub(crate) mod rows;
mod timeline;
mod trim;

use crate::Output;
use analyse::Analysis;
use event::{Meta, Record, Summary};
use std::io::{self, Write};
use timeline::Timeline;

/// The HTML report.
pub struct Html<W: Write> {
    out: W,
    meta: Meta,
    /// Taken by the end.
    analysis: Option<Analysis>,
    timeline: Timeline,
}

impl<W: Write> Html<W> {
    pub fn new(out: W, meta: &Meta) -> Self {
        Html {
            out,
            meta: meta.clone(),
            analysis: Some(Analysis::new(meta)),
            timeline: Timeline::new(meta.start_ns),
        }
    }
}

impl<W: Write> Output for Html<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        if let Some(analysis) = &mut self.analysis {
            analysis.add(record);
        }
        self.timeline.add(record);
        Ok(())
    }

    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        let end = summary.map_or(0, |summary| summary.end_ns);
        self.timeline
            .finish(end.saturating_sub(self.timeline.origin()));
        let (report, watched) = match self.analysis.take() {
            Some(analysis) => {
                let report = analysis.finish(summary);
                let gpu = report.gpu_watched() && report.idle_unknown().is_none();
                let watched = [report.calls_watched(), gpu];
                (trim::trimmed(serde_json::to_value(report)?), watched)
            }
            None => (serde_json::Value::Null, [true; 2]),
        };
        let head = serde_json::json!({
            "meta": self.meta,
            "summary": summary,
            "report": report,
            // Where nobody looked, that nothing was seen says nothing.
            "watched": { "calls": watched[0], "gpu": watched[1] },
            "origin_ns": self.timeline.origin(),
        });
        let timeline = payload::payload(&mut self.timeline)?;
        page::write(&mut self.out, &head, &timeline)?;
        self.out.flush()
    }
}
