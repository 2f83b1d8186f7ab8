//! Events of GPU programs as lines, while they come: `[event] ts=1 block=(0,0,0) thread=(3,0,0)`, and how many
//! there were at the end.

use crate::{Output, Style, fields::grouped_fields, printable, units};
use event::{Event, Extent, Layer, Meta, Name, Record, Summary};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write},
};

/// Names that are counted each for themselves; the rest together.
const MOST_NAMES: usize = 64;

pub struct DeviceLines<W> {
    to: W,
    start: u64,
    counts: BTreeMap<Name, u64>,
    others: u64,
}

impl<W: Write> DeviceLines<W> {
    pub fn new(to: W, meta: &Meta) -> Self {
        DeviceLines {
            to,
            start: meta.start_ns,
            counts: BTreeMap::new(),
            others: 0,
        }
    }

    fn count(&mut self, name: &Name) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
        } else if self.counts.len() < MOST_NAMES {
            self.counts.insert(name.clone(), 1);
        } else {
            self.others += 1;
        }
    }

    fn line(&self, event: &Event) -> String {
        let mut line = format!("[{}]", title(&event.name));
        if let Extent::Closed(duration) = event.extent {
            let start = event.start.saturating_sub(self.start);
            let _ = write!(
                line,
                " start={:.6}ms duration={}",
                start as f64 / 1e6,
                units::time(duration, &Style::default()).replace(' ', "")
            );
        }
        for (name, value) in grouped_fields(&event.args) {
            let _ = write!(line, " {name}={value}");
        }
        line
    }
}

/// What an event is called: `struct kernel_trace_event` is of kernel_trace.
fn title(name: &str) -> &str {
    name.strip_suffix("_event").unwrap_or(name)
}

impl<W: Write> Output for DeviceLines<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Event(event)
                if event.layer == Layer::Device && event.extent != Extent::Open =>
            {
                self.count(&event.name);
                let line = self.line(event);
                writeln!(self.to, "{}", printable(&line))
            }
            Record::Lost(lost) if lost.layer == Some(Layer::Device) => {
                let source = lost.source.as_deref().unwrap_or("the GPU");
                writeln!(
                    self.to,
                    "[lost] {} events of {}",
                    lost.count,
                    printable(source)
                )
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _: Option<&Summary>) -> io::Result<()> {
        for (name, count) in &self.counts {
            writeln!(
                self.to,
                "[{}] total events: {count}",
                printable(title(name))
            )?;
        }
        if self.others > 0 {
            writeln!(self.to, "[other] total events: {}", self.others)?;
        }
        if self.counts.is_empty() {
            writeln!(self.to, "[gpu] total events: 0")?;
        }
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category};

    fn lines(records: &[Record]) -> String {
        let mut out = Vec::new();
        let mut lines = DeviceLines::new(&mut out, &Meta::default());
        for record in records {
            lines.record(record).expect("written");
        }
        lines.finish(None).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn one_line_an_event_and_the_total_at_the_end() {
        let mut event = Event::new(1, Layer::Device, Category::Kernel, "kernel_trace_event", 5);
        event.args = vec![
            Arg::new("ts", 809635273301344u64),
            Arg::new("block_x", 0u64),
            Arg::new("block_y", 0u64),
            Arg::new("block_z", 0u64),
            Arg::new("thread_x", 1u64),
            Arg::new("thread_y", 0u64),
            Arg::new("thread_z", 0u64),
        ];
        let call = Event::new(2, Layer::Driver, Category::Kernel, "cuLaunchKernel", 5);
        let mut block = Event::new(3, Layer::Device, Category::Kernel, "block", 2_000_000);
        block.args = vec![Arg::new("sm", 3u64)];
        block.extent = Extent::Open;
        let begun = block.clone();
        block.extent = Extent::Closed(1_500);
        let records = [event.clone(), call, event, begun, block].map(Record::from);
        assert_eq!(
            lines(&records),
            "[kernel_trace] ts=809635273301344 block=(0,0,0) thread=(1,0,0)\n\
             [kernel_trace] ts=809635273301344 block=(0,0,0) thread=(1,0,0)\n\
             [block] start=2.000000ms duration=1.50µs sm=3\n\
             [block] total events: 1\n\
             [kernel_trace] total events: 2\n"
        );
        assert_eq!(lines(&[]), "[gpu] total events: 0\n");
    }
}
