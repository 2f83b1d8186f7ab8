//! Calls that last long enough to be recorded (`--min-duration`): a record of a beginning waits until
//! its call has ended or has lasted, and those that come after it wait with it.

use event::Record;
use std::collections::BTreeMap;

/// Records that wait, in their order.
#[derive(Debug, Default)]
pub struct Lasting {
    /// Shorter calls are left out, nanoseconds; 0 is none.
    least: u64,
    next: u64,
    records: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    record: Record,
    /// It is to be written.
    wanted: bool,
}

impl Lasting {
    pub fn new(least: u64) -> Self {
        Lasting {
            least,
            ..Lasting::default()
        }
    }

    /// Whether anything is left out at all.
    pub fn matters(&self) -> bool {
        self.least > 0
    }

    /// A call has begun; its place is reported when it ends.
    pub fn begun(&mut self, record: Record) -> u64 {
        self.push(record, false)
    }

    /// The call at a place has ended.
    pub fn ended(&mut self, place: u64, record: Record, duration: u64) {
        if duration < self.least && self.records.remove(&place).is_some() {
            return;
        }
        if let Some(begun) = self.records.get_mut(&place) {
            begun.wanted = true;
        }
        self.push(record, true);
    }

    /// Calls that have not ended by now.
    pub fn passed(&mut self, now: u64) {
        for waiting in self.records.values_mut() {
            waiting.wanted |= waiting.record.ts().saturating_add(self.least) <= now;
        }
    }

    /// The next record that nothing earlier has to wait for.
    pub fn next(&mut self) -> Option<Record> {
        let first = self.records.first_entry()?;
        first.get().wanted.then(|| first.remove().record)
    }

    /// Of what waits.
    pub fn earliest(&self) -> Option<u64> {
        let (_, first) = self.records.first_key_value()?;
        Some(first.record.ts())
    }

    fn push(&mut self, record: Record, wanted: bool) -> u64 {
        let place = self.next;
        self.next += 1;
        self.records.insert(place, Waiting { record, wanted });
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Extent};

    fn record(id: u64, start: u64, extent: Extent) -> Record {
        let mut event = crate::ioctl::plain(id, start, "ioctl", Category::Other);
        event.extent = extent;
        Record::Event(event)
    }

    fn written(lasting: &mut Lasting) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| lasting.next())
            .map(|record| match record {
                Record::Event(Event { id, extent, .. }) => (id, extent == Extent::Open),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn short_calls_leave_nothing_behind() {
        let mut lasting = Lasting::new(100);
        let long = lasting.begun(record(1, 0, Extent::Open));
        let short = lasting.begun(record(2, 10, Extent::Open));
        assert_eq!(
            (lasting.earliest(), written(&mut lasting)),
            (Some(0), vec![])
        );
        lasting.ended(short, record(2, 10, Extent::Closed(99)), 99);
        // It has lasted, and has not ended: what comes is its end.
        lasting.passed(100);
        assert_eq!(written(&mut lasting), [(1, true)]);
        let other = lasting.begun(record(3, 110, Extent::Open));
        lasting.ended(long, record(1, 0, Extent::Closed(150)), 150);
        // Its place is behind the beginning of the third.
        assert_eq!(written(&mut lasting), []);
        lasting.ended(other, record(3, 110, Extent::Closed(100)), 100);
        assert_eq!(written(&mut lasting), [(3, true), (1, false), (3, false)]);
        assert_eq!(lasting.earliest(), None);
    }
}
