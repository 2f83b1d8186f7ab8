//! Records that a source learns of late, held until those before them have come.

use crate::{Deadline, Sink, SinkError};
use event::{Event, Extent, Record, Reorder};

/// Records that wait, at most.
const MOST: usize = 1 << 20;

enum Waiting {
    Record(Record),
    /// A span by its end, whose beginning comes first.
    Whole(Record),
}

/// Holds records and writes them in the order of time.
pub(crate) struct OrderedWriter<S> {
    pub sink: S,
    deadline: Deadline,
    waiting: Reorder<Waiting>,
    /// Spans and instants that were written.
    pub events: u64,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

impl<S: Sink> OrderedWriter<S> {
    pub fn new(sink: S, deadline: Deadline) -> Self {
        OrderedWriter {
            sink,
            deadline,
            waiting: Reorder::new(MOST),
            events: 0,
            unwritten: 0,
            failure: None,
        }
    }

    pub fn push(&mut self, record: Record) {
        self.waiting.push(record.ts(), Waiting::Record(record));
    }

    /// An event; of a span that is over, its beginning too. What it says of itself is reported at its end.
    /// What begins when nothing is recorded is left out.
    pub fn push_whole(&mut self, event: Event) {
        if self.deadline.leaves_out(event.start) {
            return;
        }
        let start = event.start;
        if !matches!(event.extent, Extent::Closed(_)) {
            self.push(Record::Event(event));
        } else if self.sink.splits_spans() {
            self.waiting
                .push(start, Waiting::Whole(Record::Event(event)));
        } else {
            let mut beginning = event.clone();
            (beginning.extent, beginning.outputs) = (Extent::Open, Vec::new());
            self.push(Record::Event(beginning));
            self.push(Record::Event(event));
        }
    }

    /// Writes what is not newer than that, and what there is no room for.
    pub fn release(&mut self, until: u64) {
        while let Some((_, waiting)) = self.waiting.next(until) {
            let (record, is_whole) = match waiting {
                Waiting::Record(record) => (record, false),
                Waiting::Whole(record) => (record, true),
            };
            let ends = matches!(&record, Record::Event(event) if event.extent != Extent::Open);
            self.events += u64::from(ends);
            // A span is two records.
            let records = 1 + u64::from(is_whole);
            if self.failure.is_some() {
                self.unwritten += records;
                continue;
            }
            let given = match is_whole {
                true => self.sink.give_whole(record),
                false => self.sink.give(record),
            };
            if let Err(why) = given {
                self.unwritten += records;
                self.failure = Some(why);
            }
        }
        self.sink.until(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Backend, Category, Layer};

    #[derive(Default)]
    struct Recorded {
        times: Vec<u64>,
        until: u64,
    }

    impl Sink for Recorded {
        fn begin(&mut self, _: Backend) -> Result<(), SinkError> {
            Ok(())
        }

        fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
            self.times.push(record.ts());
            Ok(())
        }

        fn until(&mut self, ns: u64) {
            self.until = ns;
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            Ok(())
        }
    }

    #[test]
    fn what_comes_late_finds_its_place() {
        let mut held = OrderedWriter::new(Recorded::default(), Deadline::default());
        let mut span = Event::new(1, Layer::Gpu, Category::Memory, "migration", 50);
        span.extent = Extent::Closed(30);
        held.push_whole(span);
        held.push_whole(Event::new(2, Layer::Gpu, Category::Memory, "fault", 60));
        held.release(70);
        assert_eq!(
            (held.sink.times.as_slice(), held.sink.until),
            (&[50, 60][..], 70)
        );
        held.release(u64::MAX);
        assert_eq!((held.sink.times.last(), held.events), (Some(&80), 2));
    }

    #[test]
    fn what_begins_after_the_deadline_is_left_out() {
        let deadline = Deadline::default();
        let mut held = OrderedWriter::new(Recorded::default(), deadline.clone());
        let fault = |at| Event::new(at, Layer::Gpu, Category::Memory, "fault", at);
        held.push_whole(fault(60));
        deadline.set(70);
        held.push_whole(fault(70));
        held.push_whole(fault(71));
        held.release(u64::MAX);
        assert_eq!(
            (held.sink.times.as_slice(), held.events),
            (&[60, 70][..], 2)
        );
    }
}
