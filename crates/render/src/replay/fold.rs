//! Runs of the same query as one line: programs that start ask for hundreds of functions and attributes. So are samples of a
//! GPU's state, one after the other with nothing between them.

use super::{Replay, ThreadKey, text};
use crate::{Paint, units};
use event::{Category, Event, Kind, Status};
use std::io::{self, Write};

/// Calls of one function, one after the other on one thread, with nothing between them.
pub struct Run {
    thread: ThreadKey,
    depth: usize,
    /// The first, which is shown as it is if it stays alone.
    first: Event,
    count: u64,
    total_ns: u64,
}

impl<W: Write> Replay<W> {
    /// Whether a call that has ended is one more of the run.
    pub(super) fn continues(&self, event: &Event, depth: usize) -> bool {
        self.run.as_ref().is_some_and(|run| {
            run.thread == (event.pid, event.tid)
                && run.depth == depth
                && run.first.name == event.name
                && run.first.device == event.device
                && code(run.first.status.as_ref()) == code(event.status.as_ref())
        })
    }

    /// Takes up a call that has ended, if it is a query: its line comes later, perhaps with others'. False if it must be
    /// written now.
    pub(super) fn folds(&mut self, event: &Event, depth: usize) -> bool {
        if self.options.full || event.category != Category::Query && event.kind != Kind::Counter {
            return false;
        }
        let duration = event.duration().unwrap_or(0);
        match &mut self.run {
            // Whoever is not one of the run has ended it.
            Some(run) => {
                run.count += 1;
                run.total_ns = run.total_ns.saturating_add(duration);
            }
            None => {
                self.run = Some(Run {
                    thread: (event.pid, event.tid),
                    depth,
                    first: event.clone(),
                    count: 1,
                    total_ns: duration,
                });
            }
        }
        true
    }

    /// Something else comes: writes what was taken up.
    pub(super) fn end_run(&mut self) -> io::Result<()> {
        let Some(run) = self.run.take() else {
            return Ok(());
        };
        self.open_to(run.thread, run.depth)?;
        self.begin_line(&run.first, run.depth)?;
        let style = self.options.style;
        if run.count == 1 {
            text::call(&mut self.line, &run.first, &style);
        } else {
            let time = format!("<{}>", units::time(run.total_ns, &style));
            let times = if style.unicode { "×" } else { "x" };
            self.line
                .push_str(&style.paint(Paint::Name, &crate::printable(&run.first.name)));
            let words = format!(" {} {times} {}", style.ellipsis(), units::count(run.count));
            self.line.push_str(&words);
            text::status(&mut self.line, &run.first, &style);
            if run.first.kind != Kind::Counter {
                self.line.push(' ');
                self.line.push_str(&style.paint(Paint::Faint, &time));
            }
        }
        self.flush_line()
    }
}

fn code(status: Option<&Status>) -> Option<i64> {
    status.map(|status| status.code)
}
