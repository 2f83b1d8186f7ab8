//! From when to when a run is watched. What a program does before its hooks are in place, or after they are
//! removed, is not in the trace: that time is not idle, it is unknown.

use crate::{Deadline, clock::monotonic};
use event::Watched;
use std::time::Duration;

pub struct Window {
    limit: Option<Duration>,
    deadline: Deadline,
    start: Option<u64>,
    attaching: bool,
}

impl Window {
    /// `limit`: how long to watch (`-d`).
    pub fn new(limit: Option<Duration>) -> Self {
        Window {
            limit,
            deadline: Deadline::default(),
            start: None,
            attaching: false,
        }
    }

    /// For programs that run already: nothing is recorded before the last hook is in place.
    pub fn attaching(mut self) -> Self {
        self.deadline.hold();
        self.attaching = true;
        self
    }

    /// What every source stops at.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// Whether watching may end before the program does.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// The last source is in place. Only now the time of `-d` begins: attaching may take longer than that.
    pub fn open(&mut self) {
        let start = monotonic();
        self.start = Some(start);
        if self.attaching {
            self.deadline.begin(start);
        }
        if let Some(limit) = self.limit {
            let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            self.deadline.set(start.saturating_add(limit));
        }
    }

    /// Everybody stops at this moment, however long removing the hooks takes.
    pub fn close(&mut self) {
        let now = monotonic();
        if !self.deadline.is_past(now) {
            self.deadline.set(now);
        }
    }

    /// The time that every source has seen: it begins when the last was in place, and all stop together. Where one
    /// of them saw nothing yet, nobody can say that the program did nothing. None if that is the whole run,
    /// which ended at `ended`.
    pub fn watched(&self, ended: u64) -> Option<Watched> {
        let start_ns = self.start?;
        let end_ns = self.deadline.get().map_or(ended, |end| end.min(ended));
        Some(Watched {
            start_ns,
            end_ns: end_ns.max(start_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_from_when_hooks_are_in_place() {
        let mut window = Window::new(Some(Duration::from_secs(2)));
        assert_eq!(window.watched(5), None);
        window.open();
        let start = window.start.expect("open");
        let late = start + 9_000_000_000;
        let watched = window.watched(late).expect("open");
        assert_eq!(
            (watched.start_ns, watched.end_ns),
            (start, start + 2_000_000_000)
        );
        // The program ended before that.
        assert_eq!(window.watched(start + 7).expect("open").end_ns, start + 7);
        // Ctrl-C.
        window.close();
        assert!(window.watched(late).expect("open").end_ns < start + 2_000_000_000);
        assert!(window.deadline().is_past(late));
    }
}
