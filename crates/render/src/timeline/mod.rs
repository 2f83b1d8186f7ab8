//! The terminal timeline: a lane for each thread and GPU stream, a column for each stretch of
//! time, in it the sign of what took most of it.

mod axis;
mod lanes;
mod rows;
mod signs;

pub use axis::around;

use crate::{Output, Style, processes, units};
use event::{Meta, ProcessName, Record, Summary};
use lanes::Lanes;
use rows::Row;
use std::io::{self, Write};

/// What part of a trace is shown, and how.
#[derive(Debug, Clone)]
pub struct Options {
    pub style: Style,
    /// Nanoseconds since the trace's start.
    pub from: Option<u64>,
    pub to: Option<u64>,
    /// Rows a thread: one for each depth of nesting; 1 shows the innermost call of each moment.
    pub depth: usize,
    /// Threads, and GPU streams, that get a lane of their own; the others share one.
    pub lanes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            style: Style::default(),
            from: None,
            to: None,
            depth: 1,
            lanes: 16,
        }
    }
}

/// Narrower than this nothing can be told.
const NARROWEST: usize = 40;

pub struct Timeline<W: Write> {
    out: W,
    options: Options,
    start: u64,
    lanes: Lanes,
    lost: u64,
    processes: Vec<ProcessName>,
}

impl<W: Write> Timeline<W> {
    pub fn new(out: W, meta: &Meta, options: Options) -> Self {
        let start = meta.start_ns;
        let moment = |since: u64| start.saturating_add(since);
        Timeline {
            lanes: Lanes::new(
                options.from.map(moment),
                options.to.map(moment),
                options.depth.max(1),
            ),
            out,
            options,
            start,
            lost: 0,
            processes: Vec::new(),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let style = self.options.style;
        let Some(range) = self.lanes.range() else {
            let what = match (self.options.from, self.options.to) {
                (None, None) => "no events in this trace",
                _ => "no events in this part of the trace",
            };
            return writeln!(self.out, "{what}");
        };
        let width = style.width.max(NARROWEST);
        // Without a head times count from wherever the clock stood: show them from the first.
        let zero = if self.start == 0 || self.start > range.start {
            range.start
        } else {
            self.start
        };
        let rows = rows::rows(&self.lanes, self.options.lanes.max(1));
        let label = { rows.iter() }.map(|row| row.label(style).chars().count());
        let label = label.max().unwrap_or(0).min(width / 4);
        let columns = width - label - 1 - rows::SHARE;
        for line in axis::lines(&range, zero, columns, style) {
            writeln!(self.out, "{:label$} {line}", "")?;
        }
        for row in &rows {
            writeln!(
                self.out,
                "{}",
                row.line(&self.lanes, &range, label, columns, style)
            )?;
        }
        writeln!(self.out)?;
        for line in signs::legend(width, style) {
            writeln!(self.out, "{line}")?;
        }
        let length = range.end - range.start;
        let column = units::time((length / columns as u64).max(1), &style);
        let all = units::time(length, &style);
        let mut line = format!("{all} in total, {column} per column");
        if line.chars().count() > width {
            line = format!("{all} in total");
        }
        writeln!(self.out, "{line}")?;
        let pids = rows.iter().flat_map(Row::processes);
        for line in processes::legend(pids, &self.processes) {
            writeln!(self.out, "{line}")?;
        }
        if self.lost > 0 {
            let lost = units::count(self.lost);
            writeln!(self.out, "{lost} events lost, not shown")?;
        }
        Ok(())
    }
}

impl<W: Write> Output for Timeline<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Event(event) => self.lanes.event(event),
            Record::Lost(lost) => self.lost = self.lost.saturating_add(lost.count),
            Record::Meaning(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        self.lanes.finish(summary.map(|summary| summary.end_ns));
        self.processes = summary.map_or_else(Vec::new, |summary| summary.processes.clone());
        self.write()?;
        self.out.flush()
    }
}
