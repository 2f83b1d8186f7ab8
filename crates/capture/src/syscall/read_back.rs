//! Frames that a tracer wrote, read back without one: for tests of the reader.

use super::events::Events;
use super::frame::Malformed;
use super::session::{Options, take_all};
use crate::ioctl::Decoder;
use crate::{Sink, SinkError};
use event::{Backend, Record};

/// Counts what it is given.
#[derive(Debug, Default)]
struct Counted(u64);

impl Sink for Counted {
    fn begin(&mut self, _: Backend) -> Result<(), SinkError> {
        Ok(())
    }

    fn write(&mut self, _: &Record) -> Result<(), SinkError> {
        self.0 += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// How many records frames become; what is cut off at their end is left.
pub fn records_of(frames: &[u8], options: Options) -> Result<u64, Malformed> {
    let mut events = Events::new(options, Decoder::new(None), Counted::default());
    take_all(&mut frames.to_vec(), &mut events)?;
    events.finish();
    Ok(events.sink.0)
}

#[cfg(test)]
mod tests {
    use super::super::frame::{self, Frame, SystemCall};
    use super::*;
    use std::time::Duration;

    #[test]
    fn short_calls_become_no_records() {
        let mut frames = Vec::new();
        for (tid, lasts) in [(1, 10), (2, 1_000), (3, 20)] {
            let call = SystemCall::Open {
                name: "openat",
                path: "/dev/nvidiactl".into(),
                flags: 2,
            };
            let begin = Frame::Begin {
                time: 100,
                pid: 1,
                tid,
                call,
            };
            frame::put(&mut frames, &begin);
            let end = Frame::End {
                time: 100 + lasts,
                tid,
                result: 3,
                after: Default::default(),
            };
            frame::put(&mut frames, &end);
        }
        let records = |least| {
            let options = Options {
                min_duration: Duration::from_nanos(least),
                ..Options::default()
            };
            records_of(&frames, options).expect("whole frames")
        };
        assert_eq!([0, 15, 1_000, 1_001].map(records), [6, 4, 2, 0]);
    }
}
