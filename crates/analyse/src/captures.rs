//! Streams that are being captured into a graph: what is launched there runs when the graph does, and not now.

use event::{Category, Event, Extent, Meaning};
use std::collections::HashMap;

/// A stream of a process.
type Stream = (u32, u64);
/// An event of a process.
type Mark = (u32, u64);

/// Which streams are being captured, each with the stream whose capture it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Captures {
    streams: HashMap<Stream, Stream, ahash::RandomState>,
    /// Events recorded in captured streams: a stream that waits for one joins the capture.
    marks: HashMap<Mark, Stream, ahash::RandomState>,
}

/// More is nobody's program: a trace may claim anything.
const MOST: usize = 65_536;

impl Captures {
    pub fn event(&mut self, event: &Event) {
        match event.category {
            Category::Graph => self.graph(event),
            _ if self.streams.is_empty() => {}
            _ if event.name.contains("EventRecord") => {
                let origin = self.origin(event.pid, event.stream);
                if let (Some(origin), Some(mark)) = (origin, mark(event))
                    && self.marks.len() < MOST
                {
                    self.marks.insert((event.pid, mark), origin);
                }
            }
            _ if event.name.contains("StreamWaitEvent") => {
                let origin = match mark(event) {
                    Some(mark) => self.marks.get(&(event.pid, mark)).copied(),
                    // Arguments were not read: whoever waits while one capture goes on joins it, as a rule.
                    None if event.args.is_empty() => self.only_capture(event.pid),
                    None => None,
                };
                if let (Some(origin), Some(stream)) = (origin, event.stream)
                    && self.streams.len() < MOST
                {
                    self.streams.insert((event.pid, stream), origin);
                }
            }
            _ => {}
        }
    }

    fn graph(&mut self, event: &Event) {
        let Some(stream) = event.stream.map(|stream| (event.pid, stream)) else {
            return;
        };
        if event.extent == Extent::Open || event.status.as_ref().is_some_and(|it| it.code != 0) {
            return;
        }
        if event.name.contains("StreamBeginCapture") && self.streams.len() < MOST {
            self.streams.insert(stream, stream);
        } else if event.name.contains("StreamEndCapture") {
            self.streams.retain(|_, origin| *origin != stream);
            self.marks.retain(|_, origin| *origin != stream);
        }
    }

    /// Whether a launch went into a graph.
    pub fn has(&self, meaning: &Meaning) -> bool {
        !self.streams.is_empty() && self.origin(meaning.pid, meaning.stream).is_some()
    }

    /// The process's capture, if it has just one.
    fn only_capture(&self, pid: u32) -> Option<Stream> {
        let mut origins = (self.streams.iter())
            .filter(|((of, _), _)| *of == pid)
            .map(|(_, origin)| *origin);
        let first = origins.next()?;
        origins.all(|origin| origin == first).then_some(first)
    }

    fn origin(&self, pid: u32, stream: Option<u64>) -> Option<Stream> {
        self.streams.get(&(pid, stream?)).copied()
    }
}

/// The CUDA event that a call names.
fn mark(event: &Event) -> Option<u64> {
    let named = |name: &str| matches!(name, "event" | "hEvent");
    let found = event.args.iter().find(|arg| named(&arg.name))?;
    found.value.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Launch, Layer, Status, Value, What};

    fn call(name: &str, category: Category, stream: u64, mark: u64, code: i64) -> Event {
        let mut event = Event::new(1, Layer::Driver, category, name, 10);
        event.extent = Extent::Closed(1);
        (event.pid, event.stream) = (7, Some(stream));
        event.args = vec![Arg::new("hEvent", Value::Pointer(mark))];
        event.status = Some(Status { code, name: None });
        event
    }

    fn goes_into_a_graph(captures: &Captures, stream: u64) -> bool {
        let launch = Launch {
            kernel: "k".into(),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
        };
        let made = call("cuLaunchKernel", Category::Kernel, stream, 0, 0);
        captures.has(&Meaning::of(&made, What::Launch(launch)))
    }

    /// Reports that read no arguments count the same.
    #[test]
    fn a_stream_joins_the_only_capture_where_arguments_were_not_read() {
        let mut captures = Captures::default();
        captures.event(&call("cuStreamBeginCapture_v2", Category::Graph, 1, 0, 0));
        let mut wait = call("cuStreamWaitEvent", Category::Event, 2, 0, 0);
        wait.args.clear();
        captures.event(&wait);
        assert!(goes_into_a_graph(&captures, 2));
        captures.event(&call("cuStreamBeginCapture_v2", Category::Graph, 5, 0, 0));
        wait.stream = Some(6);
        captures.event(&wait);
        assert!(!goes_into_a_graph(&captures, 6), "there are two");
    }

    #[test]
    fn a_capture_spreads_by_events_and_ends_with_its_stream() {
        let mut captures = Captures::default();
        captures.event(&call("cuEventRecord", Category::Event, 1, 0xe, 0));
        captures.event(&call("cuStreamWaitEvent", Category::Event, 2, 0xe, 0));
        assert!(!goes_into_a_graph(&captures, 2), "nothing is captured yet");
        captures.event(&call("cuStreamBeginCapture_v2", Category::Graph, 3, 0, 900));
        assert!(!goes_into_a_graph(&captures, 3), "it was refused");
        captures.event(&call("cuStreamBeginCapture_v2", Category::Graph, 1, 0, 0));
        captures.event(&call("cuEventRecord", Category::Event, 1, 0xe, 0));
        captures.event(&call("cuStreamWaitEvent", Category::Event, 2, 0xe, 0));
        captures.event(&call("cuStreamWaitEvent", Category::Event, 4, 0xf, 0));
        assert!(goes_into_a_graph(&captures, 1));
        assert!(goes_into_a_graph(&captures, 2));
        assert!(
            !goes_into_a_graph(&captures, 4),
            "it waits for something else"
        );
        captures.event(&call("cuStreamEndCapture", Category::Graph, 1, 0, 0));
        assert!(!goes_into_a_graph(&captures, 1));
        assert!(!goes_into_a_graph(&captures, 2));
    }
}
