//! The timeline's data, gathered in one pass and bounded memory: lanes with their rows, the flame
//! graph and the histograms of durations.

use super::{
    cells::CATEGORIES,
    durations::Durations,
    flame::{self, Flame},
    lanes::{Ended, Lanes, MAX_DEPTH, Open},
    names::Names,
    rows::{Detail, ExactSpan, Rows},
};
use event::{Direction, Event, Extent, Frame, Kind, Layer, Meaning, MemoryOp, Name, Record, What};

/// Frames of a stack the flame graph follows, from the outermost.
const MAX_FRAMES: usize = 48;

pub struct Timeline {
    /// What all times count from.
    origin: Option<u64>,
    pub names: Names,
    pub lanes: Lanes,
    pub rows: Rows,
    pub flame: Flame,
    pub durations: Durations,
    /// The latest moment of all, from the origin.
    pub end: u64,
    /// Where events were lost: when, how many.
    pub lost: Vec<(u64, u64)>,
    pub lost_total: u64,
    pub unplaced: u64,
}

/// Places of losses the page marks.
const MAX_LOSSES: usize = 500;

impl Timeline {
    /// `start` is the trace's own beginning; 0 where it does not say, and the first record decides.
    pub fn new(start: u64) -> Self {
        Timeline {
            origin: (start > 0).then_some(start),
            names: Names::new(),
            lanes: Lanes::new(),
            rows: Rows::new(),
            flame: Flame::new(),
            durations: Durations::new(),
            end: 0,
            lost: Vec::new(),
            lost_total: 0,
            unplaced: 0,
        }
    }

    pub fn origin(&self) -> u64 {
        self.origin.unwrap_or(0)
    }

    pub fn add(&mut self, record: &Record) {
        let ts = match record {
            Record::Event(event) => event.start,
            other => other.ts(),
        };
        let origin = *self.origin.get_or_insert(ts);
        match record {
            Record::Event(event) => self.event(event, event.start.saturating_sub(origin)),
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(lost) => {
                let at = ts.saturating_sub(origin);
                self.end = self.end.max(at);
                self.lost_total = self.lost_total.saturating_add(lost.count);
                if self.lost.len() < MAX_LOSSES {
                    self.lost.push((at, lost.count));
                }
            }
        }
    }

    fn event(&mut self, event: &Event, start: u64) {
        // Samples are numbers, and lanes hold spans; of contexts and waits there are lanes in other
        // viewers, and the calls that wait are here.
        if matches!(event.kind, Kind::Counter | Kind::GpuContext | Kind::GpuWait) {
            return;
        }
        let index = self.lanes.of(event);
        match event.extent {
            Extent::Open => self.begin(index, event, start),
            Extent::Closed(duration) => self.close(index, event, start, duration),
            Extent::Instant => self.instant(index, event, start),
        }
    }

    fn begin(&mut self, index: u32, event: &Event, start: u64) {
        self.end = self.end.max(start);
        let lane = &mut self.lanes.list[index as usize];
        let Some(depth) = lane.free_depth() else {
            self.unplaced += 1;
            return;
        };
        let name = name_of(&mut self.names, event);
        let category = event.category as u8;
        let gpu = lane.owner.is_gpu();
        let parent = match lane.enclosing(depth) {
            _ if gpu => flame::GPU,
            Some(open) => open.node,
            None => stack_node(&mut self.flame, &mut self.names, &event.stack),
        };
        let node = self.flame.child(parent, name, category);
        lane.begin(
            depth,
            Open {
                id: event.id,
                start,
                inside: 0,
                name,
                category,
                layer: event.layer as u8,
                node,
            },
        );
    }

    fn close(&mut self, index: u32, event: &Event, start: u64, duration: u64) {
        let lane = &mut self.lanes.list[index as usize];
        let (depth, open) = match lane.end(event.id) {
            Some((depth, open)) => (depth, Some(open)),
            // Its beginning was not seen, or lay too deep. A call says itself how deep it lies.
            None if lane.owner.is_gpu() => (lane.free_since(start), None),
            None => ((event.depth as usize).min(MAX_DEPTH - 1), None),
        };
        let gpu = lane.owner.is_gpu();
        if open.is_some()
            && !gpu
            && let Some(parent) = lane.enclosing(depth)
        {
            parent.inside = parent.inside.saturating_add(duration);
        }
        let (name, inside) = match &open {
            Some(open) => (open.name, open.inside.min(duration)),
            None => (name_of(&mut self.names, event), 0),
        };
        if let Some(open) = &open {
            self.flame.add(open.node, duration - inside);
        }
        self.durations.add(gpu, event.category as u8, duration);
        let status = event.status.as_ref().map(|status| status.code);
        self.place(
            index,
            depth,
            ExactSpan {
                start,
                duration,
                inside,
                id: event.id,
                correlation: event.correlation.unwrap_or(0),
                name,
                category: event.category as u8,
                layer: event.layer as u8,
                open: false,
                status,
                detail: Detail::None,
            },
        );
    }

    fn instant(&mut self, index: u32, event: &Event, start: u64) {
        let name = name_of(&mut self.names, event);
        let depth = self.lanes.list[index as usize].open.len();
        self.place(
            index,
            depth.min(MAX_DEPTH - 1),
            ExactSpan {
                start,
                duration: 0,
                inside: 0,
                id: event.id,
                correlation: event.correlation.unwrap_or(0),
                name,
                category: event.category as u8,
                layer: event.layer as u8,
                open: false,
                status: event.status.as_ref().map(|status| status.code),
                detail: Detail::None,
            },
        );
    }

    fn place(&mut self, index: u32, depth: usize, span: ExactSpan) {
        let end = span.start.saturating_add(span.duration);
        self.end = self.end.max(end);
        let lane = &mut self.lanes.list[index as usize];
        lane.spans += 1;
        lane.failed += u64::from(span.status.is_some_and(|code| code != 0));
        lane.first = lane.first.min(span.start);
        lane.last = lane.last.max(end);
        if depth == 0 {
            lane.busy = lane.busy.saturating_add(span.duration);
        }
        let own = span.duration - span.inside;
        let by_category = &mut lane.by_category[usize::from(span.category).min(CATEGORIES - 1)];
        *by_category = by_category.saturating_add(own);
        if span.duration >= lane.longest.0 {
            lane.longest = (span.duration, span.name);
        }
        lane.ends_at(depth, end);
        let row = lane.row(index, depth, &mut self.rows);
        let id = span.id;
        let kept = self.rows.add(row, span);
        self.lanes.list[index as usize].ended = Some(Ended { id, row, kept });
    }

    /// What the span that ended last on the thread meant.
    fn meaning(&mut self, meaning: &Meaning) {
        let index = self.lanes.of_thread(meaning.pid, meaning.tid);
        let Some(ended) = self.lanes.list[index as usize].ended else {
            return;
        };
        if ended.id != meaning.op || !ended.kept {
            return;
        }
        let detail = match &meaning.what {
            What::Launch(launch) => Detail::Kernel(self.names.kernel(&launch.kernel)),
            What::Transfer(transfer) => {
                let direction = Direction::ALL
                    .iter()
                    .position(|&direction| direction == transfer.direction);
                Detail::Moved(direction.unwrap_or(0) as u8, transfer.size)
            }
            What::Memory(memory) => match (memory.op, memory.size) {
                (MemoryOp::Alloc, Some(size)) => Detail::Allocated(size),
                (MemoryOp::Free, Some(size)) => Detail::Freed(size),
                (_, None) => Detail::None,
            },
        };
        let row = &mut self.rows.rows[ended.row as usize];
        // The row may have been pruned by another lane's spans since.
        if let Some(span) = row.kept.last_mut().filter(|span| span.id == ended.id) {
            span.detail = detail;
        }
    }

    /// No more records: what is still open reaches to the end.
    pub fn finish(&mut self, end: u64) {
        self.end = self.end.max(end);
        for index in 0..self.lanes.list.len() {
            while let Some(open) = self.lanes.list[index].open.pop() {
                let Some(open) = open else { continue };
                let lane = &mut self.lanes.list[index];
                let (depth, gpu) = (lane.open.len(), lane.owner.is_gpu());
                let duration = self.end.saturating_sub(open.start);
                let inside = open.inside.min(duration);
                if !gpu && let Some(parent) = lane.enclosing(depth) {
                    parent.inside = parent.inside.saturating_add(duration);
                }
                self.flame.add(open.node, duration - inside);
                self.place(
                    index as u32,
                    depth,
                    ExactSpan {
                        start: open.start,
                        duration,
                        inside,
                        id: open.id,
                        correlation: 0,
                        name: open.name,
                        category: open.category,
                        layer: open.layer,
                        open: true,
                        status: None,
                        detail: Detail::None,
                    },
                );
            }
        }
    }
}

fn name_of(names: &mut Names, event: &Event) -> u32 {
    if event.layer == Layer::Gpu {
        names.kernel(&event.name)
    } else {
        names.index(&event.name)
    }
}

/// The flame graph's node of a stack, outermost frame first.
fn stack_node(flame: &mut Flame, names: &mut Names, stack: &[Frame]) -> u32 {
    let mut node = flame::HOST;
    for frame in stack.iter().rev().take(MAX_FRAMES) {
        let name = match (&frame.symbol, &frame.module) {
            (Some(symbol), _) => names.index(symbol),
            (None, Some(module)) => names.index(module),
            (None, None) => names.index(&Name::from(format!("{:#x}", frame.address))),
        };
        node = flame.child(node, name, flame::FRAME);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Launch, Lost};

    fn open(id: u64, name: &str, start: u64) -> Event {
        let mut event = Event::new(id, Layer::Driver, Category::Memory, name, start);
        event.extent = Extent::Open;
        (event.pid, event.tid) = (1, 2);
        event
    }

    fn closed(mut event: Event, duration: u64) -> Event {
        event.extent = Extent::Closed(duration);
        event
    }

    fn feed(timeline: &mut Timeline, records: impl IntoIterator<Item = Event>) {
        for event in records {
            timeline.add(&event.into());
        }
    }

    #[test]
    fn nested_calls_have_rows_and_their_own_time() {
        let mut timeline = Timeline::new(1_000);
        let (outer, inner) = (open(1, "outer", 1_100), open(2, "inner", 1_110));
        feed(
            &mut timeline,
            [
                outer.clone(),
                inner.clone(),
                closed(inner, 30),
                closed(outer, 100),
            ],
        );
        timeline.finish(0);
        let [first, second] = &timeline.rows.rows[..] else {
            panic!("two rows")
        };
        // Inner spans end first: their row was made with the one above it.
        let outer = &first.kept[0];
        assert_eq!((first.depth, outer.start, outer.duration), (0, 100, 100));
        assert_eq!((outer.inside, second.kept[0].inside), (30, 0));
        let lane = &timeline.lanes.list[0];
        assert_eq!((lane.spans, lane.busy, timeline.end), (2, 100, 200));
        assert_eq!(lane.by_category[Category::Memory as usize], 100);
    }

    #[test]
    fn what_never_ended_reaches_to_the_end() {
        let mut timeline = Timeline::new(0);
        feed(&mut timeline, [open(1, "a", 50), open(2, "b", 60)]);
        timeline.finish(100);
        let spans: Vec<_> = (timeline.rows.rows.iter())
            .flat_map(|row| &row.kept)
            .map(|span| (span.start, span.duration, span.inside, span.open))
            .collect();
        assert_eq!(spans, [(0, 100, 90, true), (10, 90, 0, true)]);
    }

    #[test]
    fn a_launch_says_what_it_launched() {
        let mut timeline = Timeline::new(0);
        let call = closed(open(7, "cuLaunchKernel", 10), 5);
        let launch = Launch {
            kernel: "add".into(),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
        };
        let meaning = Meaning::of(&call, What::Launch(launch));
        timeline.add(&call.into());
        timeline.add(&meaning.into());
        let Detail::Kernel(name) = timeline.rows.rows[0].kept[0].detail else {
            panic!("a launch")
        };
        assert_eq!(&*timeline.names.list()[name as usize], "add");
    }

    #[test]
    fn times_before_the_start_and_losses_do_no_harm() {
        let mut timeline = Timeline::new(1_000);
        feed(&mut timeline, [closed(open(1, "early", 5), u64::MAX)]);
        let lost = Lost {
            ts: 1_500,
            count: 9,
            source: None,
            layer: None,
            pid: None,
            tid: None,
        };
        timeline.add(&lost.into());
        timeline.finish(0);
        assert_eq!((timeline.lost_total, timeline.lost[0]), (9, (500, 9)));
    }
}
