//! ioctls that lie in no API call, and what can be said about why: which thread made them, and when.

use crate::nesting::{ThreadId, Threads};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// ioctls of a trace that has API calls, too, and that lie in none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    pub calls: u64,
    pub reasons: Vec<OutsideRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideRow {
    pub why: Why,
    pub calls: u64,
    pub total_ns: u64,
    /// The first of them.
    pub op_id: u64,
    /// The least time between one of them and the end of a call before it, on its thread: little of
    /// it may be clocks that differ.
    pub closest_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    BeforeTheFirst,
    BetweenCalls,
    AfterTheLast,
    ThreadWithoutCalls,
    ProcessWithoutCalls,
}

impl Why {
    pub fn text(self) -> &'static str {
        match self {
            Why::BeforeTheFirst => "before its thread's first call",
            Why::BetweenCalls => "between two calls",
            Why::AfterTheLast => "after its thread's last call",
            Why::ThreadWithoutCalls => "thread without calls",
            Why::ProcessWithoutCalls => "process without calls",
        }
    }
}

#[derive(Default)]
pub(crate) struct OutsideSweep {
    threads: Vec<Thread>,
}

#[derive(Default, Clone)]
struct Thread {
    /// It has made a call, and the last one that ended did so then.
    called: Option<u64>,
    before: Sums,
    between: Sums,
    /// Since the last call; what comes decides.
    since: Sums,
}

#[derive(Default, Clone, Copy)]
struct Sums {
    calls: u64,
    total_ns: u64,
    op: u64,
    closest: Option<u64>,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        if other.calls == 0 {
            return;
        }
        if self.calls == 0 {
            self.op = other.op;
        }
        self.calls += other.calls;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.closest = match (self.closest, other.closest) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    }
}

impl OutsideSweep {
    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        let at = thread as usize;
        if self.threads.len() <= at {
            self.threads.resize(at + 1, Thread::default());
        }
        &mut self.threads[at]
    }

    /// An API call begins that is in no other.
    pub fn begin(&mut self, thread: ThreadId, start: u64) {
        let thread = self.thread(thread);
        let since = std::mem::take(&mut thread.since);
        match thread.called {
            Some(_) => thread.between.add(since),
            None => thread.before.add(since),
        }
        thread.called.get_or_insert(start);
    }

    /// And ends.
    pub fn end(&mut self, thread: ThreadId, end: u64) {
        self.thread(thread).called = Some(end);
    }

    /// An ioctl in no call has ended.
    pub fn ioctl(&mut self, thread: ThreadId, (start, duration): (u64, u64), op: u64) {
        let thread = self.thread(thread);
        let one = Sums {
            calls: 1,
            total_ns: duration,
            op,
            closest: thread.called.map(|end| start.saturating_sub(end)),
        };
        thread.since.add(one);
    }

    /// Nothing where no API calls were traced: there is nothing to lie in.
    pub fn finish(self, threads: &Threads) -> Outside {
        let known = || threads.iter().zip(&self.threads);
        let processes: HashSet<u32> = known()
            .filter(|(_, thread)| thread.called.is_some())
            .map(|(place, _)| place.pid)
            .collect();
        if processes.is_empty() {
            return Outside::default();
        }
        let mut sums = [(); 5].map(|()| Sums::default());
        for (place, thread) in known() {
            let rest = match thread.called {
                Some(_) => Why::AfterTheLast,
                None if processes.contains(&place.pid) => Why::ThreadWithoutCalls,
                None => Why::ProcessWithoutCalls,
            };
            sums[Why::BeforeTheFirst as usize].add(thread.before);
            sums[Why::BetweenCalls as usize].add(thread.between);
            sums[rest as usize].add(thread.since);
        }
        let all = [
            Why::BeforeTheFirst,
            Why::BetweenCalls,
            Why::AfterTheLast,
            Why::ThreadWithoutCalls,
            Why::ProcessWithoutCalls,
        ];
        let rows = all.into_iter().zip(sums);
        let reasons: Vec<OutsideRow> = rows
            .filter(|(_, sums)| sums.calls > 0)
            .map(|(why, sums)| OutsideRow {
                why,
                calls: sums.calls,
                total_ns: sums.total_ns,
                op_id: sums.op,
                closest_ns: sums.closest,
            })
            .collect();
        Outside {
            calls: reasons.iter().map(|row| row.calls).sum(),
            reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analysis;
    use event::{Category, Event, Extent, Ioctl, Kind, Layer, Meta, Record};

    /// A span of a thread: its number, process, layer, beginning and end.
    fn span(id: u64, (pid, tid): (u32, u32), layer: Layer, start: u64, end: u64) -> [Event; 2] {
        let name = if layer == Layer::Syscall {
            "ioctl"
        } else {
            "cuInit"
        };
        let mut begun = Event::new(id, layer, Category::Other, name, start);
        (begun.pid, begun.tid) = (pid, tid);
        begun.extent = Extent::Open;
        if layer == Layer::Syscall {
            begun.kind = Kind::Ioctl;
            begun.ioctl = Some(Box::new(Ioctl {
                cmd: 7,
                decoded: Vec::new(),
            }));
        }
        let mut ended = begun.clone();
        ended.extent = Extent::Closed(end - start);
        [begun, ended]
    }

    fn found(mut spans: Vec<[Event; 2]>) -> Outside {
        let mut events: Vec<Event> = spans.drain(..).flatten().collect();
        events.sort_by_key(|event| event.end().unwrap_or(event.start));
        let mut analysis = Analysis::new(&Meta::default());
        for event in events {
            analysis.add(&Record::Event(event));
        }
        analysis.finish(None).ioctls.outside
    }

    #[test]
    fn each_has_its_reason() {
        let (main, own, other) = ((1, 1), (1, 2), (9, 9));
        let found = found(vec![
            span(1, main, Layer::Syscall, 10, 20),
            span(2, main, Layer::Driver, 30, 60),
            span(3, main, Layer::Syscall, 40, 50),
            span(4, main, Layer::Syscall, 65, 70),
            span(5, main, Layer::Runtime, 80, 90),
            span(6, main, Layer::Syscall, 95, 99),
            span(7, main, Layer::Syscall, 100, 110),
            span(8, own, Layer::Syscall, 45, 55),
            span(9, other, Layer::Syscall, 46, 56),
        ]);
        let rows: Vec<_> = (found.reasons.iter())
            .map(|row| (row.why, row.calls, row.total_ns, row.op_id, row.closest_ns))
            .collect();
        assert_eq!(
            rows,
            [
                (Why::BeforeTheFirst, 1, 10, 1, None),
                (Why::BetweenCalls, 1, 5, 4, Some(5)),
                (Why::AfterTheLast, 2, 14, 6, Some(5)),
                (Why::ThreadWithoutCalls, 1, 10, 8, None),
                (Why::ProcessWithoutCalls, 1, 10, 9, None),
            ]
        );
        assert_eq!(found.calls, 6);
    }

    #[test]
    fn nothing_is_said_of_a_trace_without_calls() {
        let found = found(vec![span(1, (1, 1), Layer::Syscall, 10, 20)]);
        assert_eq!(found, Outside::default());
    }
}
