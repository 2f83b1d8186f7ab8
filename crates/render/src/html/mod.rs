//! `export -f html`: one self-contained page, with what `analyse` found and a timeline to look
//! around in. Nothing is written before the end: the page needs the whole.

mod allocations;
mod callers;
pub(crate) mod cells;
mod details;
mod durations;
mod encode;
mod flame;
pub(crate) mod label;
pub(crate) mod lanes;
mod limits;
mod names;
mod page;
mod payload;
pub(crate) mod placing;
pub(crate) mod rows;
mod shapes;
pub(crate) mod timeline;
mod trim;

use crate::Output;
use analyse::{Analysis, Report};
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
        let page = self.page(summary)?;
        write_pages(&mut self.out, &[page], None, 0)?;
        self.out.flush()
    }
}

/// What the page of one trace holds.
pub struct HtmlPage {
    head: serde_json::Value,
    /// Packed.
    timeline: String,
    pub report: Option<Report>,
}

impl<W: Write> Html<W> {
    /// No more records: what the page holds of them.
    pub fn page(&mut self, summary: Option<&Summary>) -> io::Result<HtmlPage> {
        let end = summary.map_or(0, |summary| summary.end_ns);
        self.timeline
            .finish(end.saturating_sub(self.timeline.origin()));
        let report = (self.analysis.take()).map(|analysis| analysis.finish(summary));
        let (trimmed, watched) = match &report {
            Some(report) => {
                let gpu = report.gpu_watched() && report.idle_unknown().is_none();
                let watched = [report.calls_watched(), gpu];
                (trim::trimmed(serde_json::to_value(report)?), watched)
            }
            None => (serde_json::Value::Null, [true; 2]),
        };
        let head = serde_json::json!({
            "meta": self.meta,
            "summary": summary,
            "report": trimmed,
            // Where nobody looked, that nothing was seen says nothing.
            "watched": { "calls": watched[0], "gpu": watched[1] },
            "origin_ns": self.timeline.origin(),
        });
        Ok(HtmlPage {
            head,
            timeline: payload::payload(&mut self.timeline, payload::BUDGET)?,
            report,
        })
    }
}

/// Writes a page about one trace, or about two with what changed between them. `served`: so many of them can be asked about
/// where the page comes from.
pub fn write_pages(
    out: &mut impl Write,
    pages: &[HtmlPage],
    diff: Option<&serde_json::Value>,
    served: usize,
) -> io::Result<()> {
    let mut contents: Vec<(serde_json::Value, &str)> = (pages.iter())
        .map(|page| (page.head.clone(), &*page.timeline))
        .collect();
    for (head, _) in contents.iter_mut().filter(|_| served > 0) {
        head["server"] = serde_json::json!({ "api": 1, "traces": served });
    }
    page::write(out, &contents, diff, served > 0)
}
