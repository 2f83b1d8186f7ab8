//! Placing the records of a trace, or of one of its segments, on the page's rows.

use super::{
    Detail, Span,
    texts::{Texts, cut},
};
use crate::html::{
    colour,
    label::label,
    lanes::{Lanes, Open},
    placing,
};
use ahash::RandomState;
use event::{Event, Extent, Layer, Name, Record};
use std::collections::HashSet;

/// Where names get their numbers.
pub(super) trait Number {
    fn number(&mut self, name: &Name) -> u32;
}

impl Number for Texts {
    fn number(&mut self, name: &Name) -> u32 {
        self.index(name)
    }
}

/// What is remembered of a span that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    /// In which segment.
    pub segment: u32,
    pub name: u32,
    pub label: u32,
    pub category: u8,
    pub layer: u8,
    pub correlation: u64,
}

/// A span that has come to an end, or an instant.
pub(super) struct Ended {
    pub span: Span,
    /// It begins and ends in the segment, and can be placed with what is known of that alone.
    pub local: bool,
    /// The segment in which it took its row, if that was placed.
    pub since: Option<u32>,
}

/// Places records one after the other.
pub(super) struct Placer {
    pub lanes: Lanes<Begun>,
    /// What has begun in the segment and not ended.
    begun: HashSet<u64, RandomState>,
    pub segment: u32,
    pub origin: u64,
}

impl Placer {
    pub fn new(lanes: Lanes<Begun>, segment: u32, origin: u64) -> Self {
        Placer {
            lanes,
            begun: HashSet::default(),
            segment,
            origin,
        }
    }

    /// The next segment begins.
    pub fn cut(&mut self) {
        self.segment += 1;
        self.begun.clear();
    }

    pub fn add(&mut self, event: &Event, names: &mut impl Number) -> Option<Ended> {
        if !placing::is_shown(event) {
            return None;
        }
        let start = event.start.saturating_sub(self.origin);
        let lane = self.lanes.of(event);
        match event.extent {
            Extent::Open => {
                self.begun.insert(event.id);
                let segment = self.segment;
                self.lanes.begin(lane, event.id, start, |_, _| {
                    let (name, label) = names_of(event, names);
                    Begun {
                        segment,
                        name,
                        label,
                        category: colour::of(event),
                        layer: event.layer as u8,
                        correlation: event.correlation.unwrap_or(0),
                    }
                });
                None
            }
            Extent::Closed(duration) => {
                let here = self.begun.remove(&event.id);
                let closed = self.lanes.close(lane, event, start, duration);
                let gpu = self.lanes.list[lane as usize].owner.is_gpu();
                let (name, label) = match &closed.open {
                    // What an ioctl asks for may be known at its end only.
                    Some(open) if event.ioctl.is_none() => (open.more.name, open.more.label),
                    _ => names_of(event, names),
                };
                let mut span = span(event, lane, closed.depth, (name, label));
                (span.start, span.duration, span.inside) = (start, duration, closed.inside);
                Some(Ended {
                    span,
                    // Where on a stream a span is that has no row of its own depends on all before it.
                    local: here
                        && match &closed.open {
                            Some(open) => open.more.segment == self.segment,
                            None => !gpu,
                        },
                    since: closed.open.map(|open| open.more.segment),
                })
            }
            Extent::Instant => {
                let depth = self.lanes.instant(lane, start);
                let mut span = span(event, lane, depth, names_of(event, names));
                span.start = start;
                Some(Ended {
                    span,
                    local: true,
                    since: None,
                })
            }
        }
    }
}

fn span(event: &Event, lane: u32, depth: usize, (name, label): (u32, u32)) -> Span {
    Span {
        lane,
        depth: depth as u32,
        start: 0,
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
    }
}

/// The event's name, and what its bar shows. What kernels are shown as is known at the end.
fn names_of(event: &Event, names: &mut impl Number) -> (u32, u32) {
    let name = names.number(&event.name);
    match label(event) {
        Some(label) if event.layer != Layer::Gpu => (name, names.number(&label)),
        _ => (name, name),
    }
}

/// The spans of one segment that begin and end in it, in the order of their ends.
#[derive(Debug, Default)]
pub struct Placed {
    pub spans: Vec<Span>,
    /// Names that are not in the index: their numbers go on from its.
    more: Vec<Name>,
    known: usize,
}

impl Placed {
    /// What a span is called, and what it is shown as.
    pub fn names<'a>(&'a self, detail: &'a Detail, span: &Span) -> (&'a str, &'a str) {
        let more = |number: u32| {
            (number as usize)
                .checked_sub(self.known)
                .and_then(|place| self.more.get(place))
        };
        let name = more(span.name).unwrap_or_else(|| detail.texts.get(span.name));
        let label = more(span.label).unwrap_or_else(|| detail.shown(span.name, span.label));
        (name, label)
    }
}

/// Names by the index, and those that it does not have.
struct Lookup<'a> {
    texts: &'a Texts,
    more: Texts,
}

impl Number for Lookup<'_> {
    fn number(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.texts.find(name) {
            return number;
        }
        // The first of them is the placeholder.
        self.texts.len() as u32 + self.more.index(&cut(name))
    }
}

impl Detail {
    /// Places the records of a segment, as [`trace::index::Index::read`] gives them.
    pub fn place(&self, segment: u32, records: &[Record]) -> Placed {
        let mut lanes = Lanes::of_owners(&self.owners);
        for reaching in &self.reaching {
            if reaching.occupies && reaching.first < segment && segment <= reaching.last {
                restore(&mut lanes, &reaching.span, reaching.first);
            }
        }
        let mut placer = Placer::new(lanes, segment, self.origin);
        let mut names = Lookup {
            texts: &self.texts,
            more: Texts::default(),
        };
        let events = records.iter().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        });
        let ended = events.filter_map(|event| placer.add(event, &mut names));
        let spans = ended
            .filter(|ended| ended.local)
            .map(|ended| ended.span)
            .collect();
        let mut more = vec![names.more.get(0).clone()];
        more.extend(names.more.list().iter().cloned());
        Placed {
            spans,
            more,
            known: self.texts.len(),
        }
    }
}

/// Puts a span where it was when the segment began.
fn restore(lanes: &mut Lanes<Begun>, span: &Span, segment: u32) {
    let Some(lane) = lanes.list.get_mut(span.lane as usize) else {
        return;
    };
    let depth = span.depth as usize;
    if lane.open.len() <= depth {
        lane.open.resize_with(depth + 1, || None);
    }
    lane.open[depth] = Some(Open {
        id: span.id,
        start: span.start,
        inside: 0,
        more: Begun {
            segment,
            name: span.name,
            label: span.label,
            category: span.category,
            layer: span.layer,
            correlation: span.correlation,
        },
    });
}
