//! Calls one after the other, nested and decoded, as strace and uftrace print them.
//!
//! A call is one line, written when it ends, if nothing else is to be written meanwhile. Otherwise it is
//! opened before that, and closed when it ends: lines never go back in time. GPU work has one line in any case; if its beginning
//! is past, the line is of its end and says so. Runs of the same query are one line.

mod driver;
mod fold;
mod text;

use crate::{Output, Paint, Style, processes, units};
use event::{
    Candidate, Event, Extent, Kind, Layer, Lost, Meaning, Meta, Record, Selection, Summary,
};
use fold::Run;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{self, Write},
};

/// What is shown, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub style: Style,
    /// What `-e` asks for.
    pub selection: Selection<String>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    /// Nanoseconds since the trace's start.
    pub from: Option<u64>,
    pub to: Option<u64>,
    /// What a process is called, where lines of many come as they happen.
    pub name_of: Option<fn(u32) -> Option<String>>,
    /// Every query has its line.
    pub full: bool,
}

pub struct Replay<W: Write> {
    out: W,
    options: Options,
    start: u64,
    threads: HashMap<(u32, u32), Vec<Frame>, ahash::RandomState>,
    /// GPU work that has begun.
    work: HashMap<u64, Event, ahash::RandomState>,
    /// Whose line was written last.
    last: Option<(u32, u32)>,
    /// Processes whose lines were written.
    pids: BTreeSet<u32>,
    /// What they are called, where it is known.
    names: HashMap<u32, Option<String>>,
    /// The call whose line is not written yet: its meaning may come next.
    waiting: Option<u64>,
    line: String,
    /// Lines written.
    any: bool,
    /// The time of the last line.
    latest: u64,
    /// Calls that have begun and whose beginnings are not written, by time.
    unopened: BTreeMap<Order, ThreadKey>,
    begun: u64,
    /// Queries that may become one line.
    run: Option<Run>,
}

/// A process and a thread.
type ThreadKey = (u32, u32);
/// When a call began, and its number among those.
type Order = (u64, u64);

/// A call that has begun.
struct Frame {
    event: Event,
    /// Its beginning was written: something was shown meanwhile.
    opened: bool,
    order: Order,
}

/// Deeper calls are indented no further.
const DEEPEST: usize = 24;

impl<W: Write> Replay<W> {
    pub fn new(out: W, meta: &Meta, options: Options) -> Self {
        Replay {
            out,
            options,
            start: meta.start_ns,
            threads: HashMap::default(),
            work: HashMap::default(),
            last: None,
            pids: BTreeSet::new(),
            names: HashMap::new(),
            waiting: None,
            line: String::new(),
            any: false,
            latest: 0,
            unopened: BTreeMap::new(),
            begun: 0,
            run: None,
        }
    }

    /// Whether nothing was shown so far.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Whether it is of the threads and functions asked for.
    fn wanted(&self, event: &Event) -> bool {
        let options = &self.options;
        options.pid.is_none_or(|pid| pid == event.pid)
            && options.tid.is_none_or(|tid| tid == event.tid)
            && options.selection.wants(&Candidate {
                name: event.name.as_bytes(),
                family: analyse::public_name(&event.name).as_bytes(),
                category: event.category,
                layer: event.layer,
            })
    }

    /// Whether any of it is in the time asked for.
    fn in_time(&self, start: u64, end: u64) -> bool {
        let (start, end) = (
            start.saturating_sub(self.start),
            end.saturating_sub(self.start),
        );
        self.options.from.is_none_or(|from| end >= from)
            && self.options.to.is_none_or(|to| start <= to)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.extent == Extent::Open && !self.in_time(event.start, u64::MAX) {
            return Ok(());
        }
        let key = (event.pid, event.tid);
        match event.extent {
            Extent::Open if apart(event) => {
                if self.wanted(event) {
                    self.work.insert(event.id, event.clone());
                }
                Ok(())
            }
            Extent::Open => {
                if self.wanted(event) {
                    self.begun += 1;
                    let order = (event.start, self.begun);
                    self.unopened.insert(order, key);
                    self.threads.entry(key).or_default().push(Frame {
                        event: event.clone(),
                        opened: false,
                        order,
                    });
                }
                Ok(())
            }
            Extent::Closed(_) if apart(event) => {
                self.work.remove(&event.id);
                self.shown_whole(event)
            }
            Extent::Instant => self.shown_whole(event),
            Extent::Closed(_) => self.closed(event),
        }
    }

    /// An instant, GPU work, or a call whose beginning was not seen.
    fn shown_whole(&mut self, event: &Event) -> io::Result<()> {
        let end = event.end().unwrap_or(event.start);
        if !self.wanted(event) || !self.in_time(event.start, end) {
            return Ok(());
        }
        if !self.continues(event, 0) {
            self.end_run()?;
        }
        // A sample of the GPU's state belongs to no call.
        if event.kind == Kind::Counter && self.folds(event, 0) {
            return Ok(());
        }
        self.end_run()?;
        let depth = if apart(event) {
            0
        } else {
            self.open_all((event.pid, event.tid))?
        };
        let is_past = event.start < self.latest && end > event.start;
        let at = if is_past { end } else { event.start };
        self.begin_line_at(event, at, depth)?;
        text::call(&mut self.line, event, &self.options.style);
        if is_past {
            self.line.push_str(" ended");
        }
        self.waiting = Some(event.id);
        Ok(())
    }

    fn closed(&mut self, event: &Event) -> io::Result<()> {
        let key = (event.pid, event.tid);
        let find = |stack: &Vec<Frame>| stack.iter().rposition(|frame| frame.event.id == event.id);
        let Some(place) = self.threads.get(&key).and_then(find) else {
            return self.shown_whole(event);
        };
        let end = event.end().unwrap_or(event.start);
        let continues = self.continues(event, place);
        if !continues {
            self.end_run()?;
        }
        let Some(stack) = self.threads.get_mut(&key) else {
            return Ok(());
        };
        // What is still open inside of it never ended: the thread went on without.
        let inner = stack.split_off(place + 1);
        let Some(frame) = stack.pop() else {
            return Ok(());
        };
        for gone in inner.iter().chain([&frame]) {
            self.unopened.remove(&gone.order);
        }
        let is_leaf = !frame.opened && inner.is_empty() && self.in_time(event.start, end);
        if is_leaf && self.folds(event, place) {
            return Ok(());
        }
        self.end_run()?;
        let mut opened = frame.opened;
        for (number, frame) in inner.into_iter().enumerate() {
            if !opened {
                self.open_all(key)?;
                self.open_line(event, place)?;
                opened = true;
            }
            self.unfinished(&frame, place + 1 + number)?;
        }
        if opened {
            self.begin_line_at(event, end, place)?;
            text::close(&mut self.line, event, &self.options.style);
        } else if self.in_time(event.start, end) {
            self.open_all(key)?;
            self.begin_line(event, place)?;
            text::call(&mut self.line, event, &self.options.style);
        } else {
            return Ok(());
        }
        self.waiting = Some(event.id);
        Ok(())
    }

    /// Write the beginnings of the calls around what comes next. Returns how deep that is.
    fn open_all(&mut self, key: ThreadKey) -> io::Result<usize> {
        self.open_to(key, usize::MAX)
    }

    /// The same for the outermost only.
    fn open_to(&mut self, key: ThreadKey, most: usize) -> io::Result<usize> {
        let Some(mut stack) = self.threads.remove(&key) else {
            return Ok(0);
        };
        for (depth, frame) in stack.iter_mut().enumerate().take(most) {
            if !std::mem::replace(&mut frame.opened, true) {
                self.unopened.remove(&frame.order);
                self.open_line(&frame.event, depth)?;
            }
        }
        let depth = stack.len();
        self.threads.insert(key, stack);
        Ok(depth)
    }

    /// Writes the beginnings of all calls that began before, on any thread.
    fn open_before(&mut self, at: u64) -> io::Result<()> {
        while let Some((&order, &key)) = self.unopened.first_key_value()
            && order.0 < at
        {
            self.unopened.remove(&order);
            let stack = self.threads.get_mut(&key);
            let place = (stack.as_ref())
                .and_then(|stack| stack.iter().position(|frame| frame.order == order));
            if let (Some(stack), Some(depth)) = (stack, place) {
                stack[depth].opened = true;
                let event = stack[depth].event.clone();
                self.open_line(&event, depth)?;
            }
        }
        Ok(())
    }

    fn open_line(&mut self, event: &Event, depth: usize) -> io::Result<()> {
        self.begin_line(event, depth)?;
        text::open(&mut self.line, event, &self.options.style);
        self.flush_line()
    }

    /// A call that never ended.
    fn unfinished(&mut self, frame: &Frame, depth: usize) -> io::Result<()> {
        let at = frame.event.start.max(self.latest);
        self.begin_line_at(&frame.event, at, depth)?;
        text::unfinished(
            &mut self.line,
            &frame.event,
            frame.opened,
            &self.options.style,
        );
        self.flush_line()
    }

    fn begin_line(&mut self, event: &Event, depth: usize) -> io::Result<()> {
        self.begin_line_at(event, event.start, depth)
    }

    /// Time, thread where it is another than the line's before, indentation.
    fn begin_line_at(&mut self, event: &Event, at: u64, depth: usize) -> io::Result<()> {
        self.flush_line()?;
        self.open_before(at)?;
        let who = (event.pid, event.tid);
        let thread = if event.layer == Layer::Gpu {
            self.last = None;
            text::stream(event)
        } else if self.last.replace(who) == Some(who) && self.options.name_of.is_none() {
            String::new()
        } else {
            self.pids.insert(event.pid);
            let number = match event.pid == event.tid {
                true => event.pid.to_string(),
                false => format!("{}/{}", event.pid, event.tid),
            };
            match self.name(event.pid) {
                Some(name) => format!("{name} {number}"),
                None => number,
            }
        };
        self.begin_any(at, &thread);
        let indentation = 2 * depth.min(DEEPEST);
        self.line.extend(std::iter::repeat_n(' ', indentation));
        Ok(())
    }

    /// What a process is called; asked for once, while it is there.
    fn name(&mut self, pid: u32) -> Option<&str> {
        let name_of = self.options.name_of?;
        let name = self.names.entry(pid).or_insert_with(|| name_of(pid));
        name.as_deref()
    }

    fn begin_any(&mut self, at: u64, thread: &str) {
        self.latest = self.latest.max(at);
        let time = text::milliseconds(at, self.start);
        let style = &self.options.style;
        self.line.push_str(&style.paint(Paint::Faint, &time));
        // A name has up to 15 signs in the kernel.
        let width = if self.options.name_of.is_some() {
            24
        } else {
            12
        };
        self.line.push_str(&format!("  {thread:<width$}  "));
    }

    fn flush_line(&mut self) -> io::Result<()> {
        self.waiting = None;
        if self.line.is_empty() {
            return Ok(());
        }
        self.any = true;
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }

    /// Behind its call's line, or, where that is gone, in a line of its own.
    fn meaning(&mut self, meaning: &Meaning) -> io::Result<()> {
        let style = self.options.style;
        if self.waiting == Some(meaning.op) {
            text::meaning(&mut self.line, &meaning.what, &style);
            return Ok(());
        }
        let call = Event {
            pid: meaning.pid,
            tid: meaning.tid,
            ..Event::new(
                meaning.op,
                meaning.layer.unwrap_or(Layer::Driver),
                event::Category::Other,
                meaning.name.clone(),
                meaning.ts,
            )
        };
        // Of a call that is not shown, or whose line others have followed.
        let selective = !self.options.selection.is_empty();
        if selective || !self.wanted(&call) || !self.in_time(meaning.ts, meaning.ts) {
            return Ok(());
        }
        self.end_run()?;
        let stack = self.threads.get(&(meaning.pid, meaning.tid));
        let depth = stack.map_or(0, Vec::len);
        self.begin_line(&call, depth)?;
        let name = crate::printable(&meaning.name);
        self.line.push_str(&style.paint(Paint::Name, &name));
        text::meaning(&mut self.line, &meaning.what, &style);
        self.flush_line()
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let options = &self.options;
        let of_others = |asked: Option<u32>, of: Option<u32>| {
            asked.is_some_and(|asked| of.is_some_and(|of| of != asked))
        };
        if of_others(options.pid, lost.pid)
            || of_others(options.tid, lost.tid)
            || !self.in_time(lost.ts, lost.ts)
        {
            return Ok(());
        }
        self.end_run()?;
        self.flush_line()?;
        self.open_before(lost.ts)?;
        self.last = None;
        self.begin_any(lost.ts, "");
        let source = lost.source.as_ref().map(|source| format!(" by {source}"));
        let text = format!(
            "--- {} events lost{} ---",
            units::count(lost.count),
            crate::printable(&source.unwrap_or_default())
        );
        let text = self.options.style.paint(Paint::Alarm, &text);
        self.line.push_str(&text);
        self.flush_line()
    }
}

/// A request to the driver in words, as a line has it.
pub(crate) fn request_words(ioctl: &event::Ioctl, style: &Style) -> String {
    let mut words = String::new();
    text::decoded(&mut words, ioctl, style);
    words
}

/// What is on no thread's stack.
fn apart(event: &Event) -> bool {
    event.layer == Layer::Gpu || !event.kind.nests()
}

impl<W: Write> Output for Replay<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(lost) => self.lost(lost),
        }
    }

    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        self.end_run()?;
        self.flush_line()?;
        self.unopened.clear();
        let threads = std::mem::take(&mut self.threads).into_values();
        let mut open: Vec<(usize, Frame)> = threads
            .flat_map(|stack| stack.into_iter().enumerate())
            .collect();
        // Those that were opened are where the threads were at the end.
        open.sort_by_key(|(_, frame)| (frame.opened, frame.order));
        for (depth, frame) in open {
            self.unfinished(&frame, depth)?;
        }
        let mut work: Vec<Event> = std::mem::take(&mut self.work).into_values().collect();
        work.sort_by_key(|event| (event.start, event.id));
        for event in work {
            let frame = Frame {
                event,
                opened: false,
                order: (0, 0),
            };
            self.unfinished(&frame, 0)?;
        }
        self.flush_line()?;
        let known = summary.map_or(&[][..], |summary| &summary.processes);
        for line in processes::legend(self.pids.iter().copied(), known) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}
