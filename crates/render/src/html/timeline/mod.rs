//! The timeline's data, gathered in one pass and bounded memory: lanes with their rows, the flame
//! graph and the histograms of durations.

mod meant;
#[cfg(test)]
mod tests;

use super::{
    allocations::Allocations,
    callers::Callers,
    colour::{self, COLOURS, OFF_CPU},
    details::Details,
    durations::Durations,
    flame::{self, Flame, Weight},
    label::label,
    lanes::{Ended, Lanes},
    limits::Limits,
    names::Names,
    placing,
    rows::{Detail, ExactSpan, Rows},
    shapes::Shapes,
    wanted::Wanted,
};
use crate::captured::Captured;
use event::{Category, Event, Extent, Layer, Record};

pub struct Timeline {
    /// What all times count from.
    origin: Option<u64>,
    pub names: Names,
    pub lanes: Lanes<Begun>,
    pub rows: Rows,
    pub flame: Flame,
    pub durations: Durations,
    pub details: Details,
    pub limits: Limits,
    pub shapes: Shapes,
    pub allocations: Allocations,
    callers: Callers,
    /// Nodes of calls whose work runs when a graph is launched.
    captured: Captured<u32>,
    /// What is kept beside the longest.
    wanted: Wanted,
    /// The latest moment of all, from the origin.
    pub end: u64,
    /// Where events were lost: when, how many.
    pub lost: Vec<(u64, u64)>,
    pub lost_total: u64,
    pub unplaced: u64,
}

/// What is remembered of a span that has begun.
#[derive(Debug)]
pub struct Begun {
    name: u32,
    label: u32,
    category: u8,
    layer: u8,
    /// Its place in the flame graph.
    node: u32,
    /// What is known of it if it never ends.
    event: Box<Event>,
}

/// Places of losses the page marks.
const MAX_LOSSES: usize = 500;

impl Timeline {
    /// `start` is the trace's own beginning; 0 where it does not say, and the first record decides.
    pub fn new(start: u64) -> Self {
        Timeline::keeping(start, Rows::new(), Wanted::default())
    }

    /// The same with room for other spans.
    pub fn keeping(start: u64, rows: Rows, wanted: Wanted) -> Self {
        Timeline {
            origin: (start > 0).then_some(start),
            names: Names::new(),
            lanes: Lanes::new(),
            rows,
            flame: Flame::new(),
            durations: Durations::new(),
            details: Details::default(),
            limits: Limits::default(),
            shapes: Shapes::default(),
            allocations: Allocations::default(),
            callers: Callers::default(),
            captured: Captured::default(),
            wanted,
            end: 0,
            lost: Vec::new(),
            lost_total: 0,
            unplaced: 0,
        }
    }

    /// The stretch of which everything is kept; None if everything is anyhow.
    pub fn whole(&self) -> Option<(u64, u64)> {
        let is_cut = self.rows.aggregated() > 0;
        (self.wanted.whole()).filter(|_| is_cut && self.rows.has_pinned())
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
        if !placing::is_shown(event) {
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
        let (names, flame) = (&mut self.names, &mut self.flame);
        let captured = &mut self.captured;
        let begun = self.lanes.begin(index, event.id, start, |lane, depth| {
            let (name, label) = names_of(names, event);
            let category = colour::of(event);
            let gpu = lane.owner.is_gpu();
            let node = match lane.enclosing(depth) {
                // The call that it came from may end later than it begins.
                _ if gpu => flame::GPU,
                Some(open) => flame.child(open.more.node, name, category),
                None => {
                    let parent = flame.stack(&event.stack, |name| names.index(name));
                    flame.child(parent, name, category)
                }
            };
            if !gpu {
                captured.call(event, node);
            }
            Begun {
                name,
                label,
                category,
                layer: event.layer as u8,
                node,
                event: Box::new(event.clone()),
            }
        });
        self.unplaced += u64::from(!begun);
    }

    fn close(&mut self, index: u32, event: &Event, start: u64, duration: u64) {
        let closed = self.lanes.close(index, event, start, duration);
        let inside = closed.inside;
        let (name, label) = match &closed.open {
            // What an ioctl asks for may be known at its end only.
            Some(open) if event.ioctl.is_none() => (open.more.name, open.more.label),
            _ => names_of(&mut self.names, event),
        };
        let gpu = self.lanes.list[index as usize].owner.is_gpu();
        let node = match &closed.open {
            _ if gpu => self.gpu_node(name, event),
            Some(open) => open.more.node,
            None => flame::HOST,
        };
        if closed.open.is_some() || gpu {
            self.flame.add(node, duration - inside);
        }
        match event.correlation {
            _ if gpu => self.of_gpu(name, node, event, duration),
            Some(correlation) => self.callers.called(&self.flame, correlation, node),
            None => {}
        }
        self.limits.add(event);
        self.durations.add(gpu, colour::of(event), duration);
        let status = event.status.as_ref().map(|status| status.code);
        self.place(
            index,
            closed.depth,
            ExactSpan {
                start,
                duration,
                inside,
                id: event.id,
                correlation: event.correlation.unwrap_or(0),
                name,
                label,
                category: colour::of(event),
                layer: event.layer as u8,
                open: false,
                status,
                detail: Detail::None,
                details: String::new(),
                pinned: false,
            },
            event,
            node,
        );
    }

    /// Where in the flame graph GPU work goes: below the stack that it came from; a graph's, below that of its capture.
    fn gpu_node(&mut self, name: u32, event: &Event) -> u32 {
        let parent = match self.captured.of(event) {
            Some(call) => self.callers.of_call(&mut self.flame, call),
            None => self.callers.of(&mut self.flame, event.correlation),
        };
        self.flame.child(parent, name, colour::of(event))
    }

    fn of_gpu(&mut self, name: u32, node: u32, event: &Event, duration: u64) {
        match event.category {
            Category::Kernel => self.shapes.ran(name, event, duration),
            Category::Transfer => {
                let bytes = event.arg("bytes").and_then(event::Value::as_u64);
                self.flame.weigh(node, Weight::Moved, bytes.unwrap_or(0));
            }
            _ => {}
        }
    }

    fn instant(&mut self, index: u32, event: &Event, start: u64) {
        let (name, label) = names_of(&mut self.names, event);
        let depth = self.lanes.instant(index, start);
        self.place(
            index,
            depth,
            ExactSpan {
                start,
                duration: 0,
                inside: 0,
                id: event.id,
                correlation: event.correlation.unwrap_or(0),
                name,
                label,
                category: colour::of(event),
                layer: event.layer as u8,
                open: false,
                status: event.status.as_ref().map(|status| status.code),
                detail: Detail::None,
                details: String::new(),
                pinned: false,
            },
            event,
            flame::HOST,
        );
    }

    /// `event`: what its details are made of, if it is kept. `node`: its place in the flame graph.
    fn place(&mut self, index: u32, depth: usize, mut span: ExactSpan, event: &Event, node: u32) {
        let end = span.start.saturating_add(span.duration);
        span.pinned = self.wanted.takes(&span);
        self.end = self.end.max(end);
        let lane = &mut self.lanes.list[index as usize];
        lane.spans += 1;
        lane.failed += u64::from(span.status.is_some_and(|code| code != 0));
        lane.first = lane.first.min(span.start);
        lane.last = lane.last.max(end);
        let works = span.category != OFF_CPU;
        if depth == 0 && works {
            lane.busy = lane.busy.saturating_add(span.duration);
        }
        let own = span.duration - span.inside;
        let by_category = &mut lane.by_category[usize::from(span.category).min(COLOURS - 1)];
        *by_category = by_category.saturating_add(own);
        if span.duration >= lane.longest.0 && works {
            lane.longest = (span.duration, span.name);
        }
        let row = lane.row(index, depth, &mut self.rows);
        let (id, name) = (span.id, span.name);
        let kept = self.rows.add(row, span);
        self.details.forget(self.rows.forgotten());
        if kept && let Some(span) = self.rows.rows[row as usize].kept.last_mut() {
            let shown = &self.names.list()[span.label as usize];
            span.details = self.details.of(event, shown, span.pinned);
        }
        let stack = self.stack_of(index, event);
        self.lanes.list[index as usize].ended = Some(Ended {
            id,
            row,
            kept,
            name,
            node,
            stack,
        });
    }

    /// No more records: what is still open reaches to the end.
    pub fn finish(&mut self, end: u64) {
        self.end = self.end.max(end);
        for unfinished in self.lanes.unfinished(self.end) {
            let (open, duration, inside) = (
                unfinished.open.more,
                unfinished.duration,
                unfinished.open.inside,
            );
            let gpu = self.lanes.list[unfinished.lane as usize].owner.is_gpu();
            let node = match gpu {
                true => self.gpu_node(open.name, &open.event),
                false => open.node,
            };
            self.flame.add(node, duration - inside);
            self.place(
                unfinished.lane,
                unfinished.depth,
                ExactSpan {
                    start: unfinished.open.start,
                    duration,
                    inside,
                    id: unfinished.open.id,
                    correlation: 0,
                    name: open.name,
                    label: open.label,
                    category: open.category,
                    layer: open.layer,
                    open: true,
                    status: None,
                    detail: Detail::None,
                    details: String::new(),
                    pinned: false,
                },
                &open.event,
                node,
            );
        }
    }
}

/// The event's name, and what its bar shows.
fn names_of(names: &mut Names, event: &Event) -> (u32, u32) {
    if event.layer == Layer::Gpu {
        let name = names.kernel(&event.name);
        return (name, name);
    }
    let name = names.index(&event.name);
    let label = label(event).map_or(name, |label| names.index(&label));
    (name, label)
}
