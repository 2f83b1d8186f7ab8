//! `export -f html`: one self-contained page, with what `analyse` found and a timeline to look
//! around in. Nothing is written before the end: the page needs the whole.

mod allocations;
pub(crate) mod callers;
mod cells;
pub(crate) mod colour;
mod details;
mod durations;
mod encode;
pub(crate) mod flame;
pub(crate) mod label;
pub(crate) mod lane_head;
pub(crate) mod lanes;
mod limits;
mod names;
mod page;
mod payload;
pub(crate) mod placing;
pub(crate) mod rows;
mod shapes;
mod stored;
pub(crate) mod timeline;
mod trim;
mod wanted;

use crate::Output;
use analyse::{Analysis, Report};
use event::{Meta, Record, Summary};
use page::Part;
use rows::Rows;
use std::io::{self, Write};
use timeline::Timeline;
use wanted::Wanted;

/// The HTML report.
pub struct Html<W: Write> {
    out: W,
    meta: Meta,
    /// Taken by the end.
    analysis: Option<Analysis>,
    /// What it came to.
    report: Option<Report>,
    timeline: Timeline,
    size: usize,
}

/// Bytes of a page at most, where nothing else is said.
pub const PAGE_SIZE: u64 = 5_000_000;
/// Bytes that a span takes in the page, with its details, as a rule.
const SPAN_SIZE: usize = 40;
/// Spans in memory, whatever the page's size.
const MOST_SPANS: usize = 400_000;
/// What is left for the timeline however small the page is to be: less shows nothing.
const LEAST: usize = 200_000;

impl<W: Write> Html<W> {
    pub fn new(out: W, meta: &Meta) -> Self {
        Html {
            out,
            meta: meta.clone(),
            analysis: Some(Analysis::new(meta)),
            report: None,
            timeline: Timeline::new(meta.start_ns),
            size: 0,
        }
        .with_size(PAGE_SIZE)
    }

    /// For a page of so many bytes, or as many as it takes to show anything.
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.timeline = self.timeline_with(Wanted::default());
        self
    }

    /// Spans that are kept one by one, at most.
    fn room(&self) -> usize {
        (self.size / SPAN_SIZE).clamp(1_000, MOST_SPANS)
    }

    fn timeline_with(&self, wanted: Wanted) -> Timeline {
        Timeline::keeping(self.meta.start_ns, Rows::with_room(self.room()), wanted)
    }

    /// Whether the page may not have room for everything. Then the choice is better if all records are given once more after
    /// [`Html::again`].
    pub fn is_cut(&self) -> bool {
        // Compressed, it takes less; as text, a third more.
        let details = self.timeline.details.bytes() / 3 * 4;
        self.timeline.rows.aggregated() > 0 || details > self.size
    }

    /// All records were given: what they come to is known, and from here on they are given once more. What people look for
    /// first is kept then.
    pub fn again(&mut self, summary: Option<&Summary>) {
        self.analyse(summary);
        if let Some(report) = &self.report {
            let rows = &self.timeline.rows;
            let wanted = Wanted::of(report, self.timeline.origin(), rows, self.room());
            self.timeline = self.timeline_with(wanted);
        }
    }

    fn analyse(&mut self, summary: Option<&Summary>) {
        if let Some(analysis) = self.analysis.take() {
            self.report = Some(analysis.finish(summary));
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
        self.analyse(summary);
        let report = self.report.take();
        let (trimmed, watched) = match &report {
            Some(report) => {
                let gpu = report.gpu_watched() && report.idle_unknown().is_none();
                let watched = [report.calls_watched(), gpu];
                (trim::trimmed(serde_json::to_value(report)?), watched)
            }
            None => (serde_json::Value::Null, [true; 2]),
        };
        let mut head = serde_json::json!({
            "meta": self.meta,
            "summary": summary,
            "report": trimmed,
            // Where nobody looked, that nothing was seen says nothing.
            "watched": { "calls": watched[0], "gpu": watched[1] },
            "origin_ns": self.timeline.origin(),
            // The loop's iterations: when each begins, and how long it takes.
            "steps": report.as_ref().map(|report| steps(report, self.timeline.origin())),
            // The stretch that has every event, where others have lost some.
            "whole": self.timeline.whole(),
        });
        let rest = page::fixed_size() + serde_json::to_string(&head)?.len();
        let budget = self.size.saturating_sub(rest).max(LEAST);
        let timeline = payload::payload(&mut self.timeline, budget)?;
        // It may have had to go after all, or be no different from the rest.
        head["whole"] = serde_json::json!(self.timeline.whole());
        Ok(HtmlPage {
            head,
            timeline,
            report,
        })
    }
}

fn steps(report: &Report, origin: u64) -> Vec<(u64, u64)> {
    let turns = (report.phases.loops.first()).map_or(&[][..], |found| &found.turns);
    let turns = turns.iter();
    turns
        .map(|&(from, to)| (from.saturating_sub(origin), to.saturating_sub(from)))
        .collect()
}

/// Writes a page about one trace, or about two with what changed between them. `served`: so many of them can be asked about
/// where the page comes from.
pub fn write_pages(
    out: &mut impl Write,
    pages: &[HtmlPage],
    diff: Option<&serde_json::Value>,
    served: usize,
) -> io::Result<()> {
    let mut parts = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        // The first has the names it has had all along.
        let suffix = match number {
            0 => String::new(),
            number => format!("-{number}"),
        };
        let mut head = serde_json::to_string(&page.head)?;
        if served > 0 {
            head = with_server(&head, served);
        }
        parts.push(Part::json(format!("data-report{suffix}"), &head));
        parts.push(Part::packed(
            format!("data-timeline{suffix}"),
            &page.timeline,
        ));
    }
    if let Some(diff) = diff {
        parts.push(Part::json("data-diff", &diff.to_string()));
    }
    page::write(out, &parts, served > 0)
}

/// Writes the page of a trace that is still being read: `early` is what its index says ([`crate::detail::Detail::early`]),
/// None if that is not known yet either. The page asks for the rest.
pub fn write_early(out: &mut impl Write, early: Option<&str>) -> io::Result<()> {
    let part = match early {
        Some(early) => Part::json("data-early", &with_server(early, 1)),
        None => Part::json("data-waiting", "{}"),
    };
    page::write(out, &[part], true)
}

/// An object, and who can be asked about it.
fn with_server(json: &str, traces: usize) -> String {
    let rest = json.strip_prefix('{').unwrap_or("}");
    let comma = if rest == "}" { "" } else { "," };
    format!("{{\"server\":{{\"api\":1,\"traces\":{traces}}}{comma}{rest}")
}
