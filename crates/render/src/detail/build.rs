//! Making what is attached to an index, in one pass over the trace and bounded memory.

use super::{
    Detail, Reaching, Span,
    picture::{self, Picture},
    place::Placer,
    texts::Texts,
};
use crate::html::lanes::Lanes;
use event::{Layer, Name, Record};
use std::collections::{BTreeSet, HashMap};

/// Spans that reach across segments, at most.
const MOST_REACHING: usize = 400_000;
/// Of each name, the longest.
const LONGEST: usize = 16;
/// Of all names together.
const MOST_LONGEST: usize = 100_000;

/// Why there is no detail on demand: too much of a trace reaches from one segment into others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many of its calls are long or lack their beginning")]
pub struct TooMuchOpen;

/// Watches a pass over a trace.
pub struct Builder {
    placer: Placer,
    /// The trace does not say when it began: the first record decides.
    no_start: bool,
    texts: Texts,
    kernels: BTreeSet<u32>,
    /// Of the segment, so far.
    spans: Vec<Span>,
    segments: Vec<Picture>,
    reaching: Vec<Reaching>,
    longest: HashMap<u32, Vec<Span>, ahash::RandomState>,
    longest_count: usize,
    end: u64,
    hopeless: Option<TooMuchOpen>,
}

impl Builder {
    /// `start` is the trace's own beginning; 0 where it does not say.
    pub fn new(start: u64) -> Self {
        Builder {
            placer: Placer::new(Lanes::new(), 0, start),
            no_start: start == 0,
            texts: Texts::default(),
            kernels: BTreeSet::new(),
            spans: Vec::new(),
            segments: Vec::new(),
            reaching: Vec::new(),
            longest: HashMap::default(),
            longest_count: 0,
            end: 0,
            hopeless: None,
        }
    }

    pub fn add(&mut self, record: &Record) {
        let ts = match record {
            Record::Event(event) => event.start,
            other => other.ts(),
        };
        if std::mem::take(&mut self.no_start) {
            self.placer.origin = ts;
        }
        match record {
            Record::Event(event) => {
                if let Some(ended) = self.placer.add(event, &mut self.texts) {
                    if event.layer == Layer::Gpu {
                        self.kernels.insert(ended.span.name);
                    }
                    self.ended(ended.span, ended.local, ended.since);
                }
                if event.duration().is_none() && crate::html::placing::is_shown(event) {
                    self.end = self.end.max(ts.saturating_sub(self.placer.origin));
                }
            }
            // Its thread's lane exists from here on.
            Record::Meaning(meaning) => {
                self.placer.lanes.of_thread(meaning.pid, meaning.tid);
            }
            Record::Lost(_) => {
                self.end = self.end.max(ts.saturating_sub(self.placer.origin));
            }
        }
    }

    fn ended(&mut self, span: Span, local: bool, since: Option<u32>) {
        self.end = self.end.max(span.end());
        let segment = self.placer.segment;
        if !local {
            self.reach(Reaching {
                span: span.clone(),
                first: since.unwrap_or(segment),
                last: segment,
                occupies: since.is_some_and(|since| since < segment),
            });
        }
        self.note_longest(&span);
        if local {
            self.spans.push(span);
        }
    }

    fn reach(&mut self, reaching: Reaching) {
        if self.reaching.len() >= MOST_REACHING {
            self.hopeless = Some(TooMuchOpen);
            return;
        }
        self.reaching.push(reaching);
    }

    fn note_longest(&mut self, span: &Span) {
        self.note_longest_of(span.name, span);
        if span.label != span.name {
            self.note_longest_of(span.label, span);
        }
    }

    fn note_longest_of(&mut self, name: u32, span: &Span) {
        let list = self.longest.entry(name).or_default();
        let full = list.len() >= LONGEST;
        if full
            && list
                .last()
                .is_some_and(|least| least.duration >= span.duration)
        {
            return;
        }
        if !full && self.longest_count >= MOST_LONGEST {
            return;
        }
        let place = list.partition_point(|known| known.duration >= span.duration);
        list.insert(place, span.clone());
        if full {
            list.pop();
        } else {
            self.longest_count += 1;
        }
    }

    /// A segment is over. Called before the records of the next are added.
    pub fn cut(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        self.segments.push(picture::of(spans));
        self.placer.cut();
    }

    /// No more records; `end` is when the trace ended, if it says so. Or why there can be no detail.
    pub fn finish(mut self, end: Option<u64>) -> Result<Detail, TooMuchOpen> {
        let origin = self.placer.origin;
        if let Some(end) = end {
            self.end = self.end.max(end.saturating_sub(origin));
        }
        for unfinished in self.placer.lanes.unfinished(self.end) {
            let open = unfinished.open;
            let span = Span {
                lane: unfinished.lane,
                depth: unfinished.depth as u32,
                start: open.start,
                duration: unfinished.duration,
                inside: open.inside,
                id: open.id,
                correlation: open.more.correlation,
                name: open.more.name,
                label: open.more.label,
                category: open.more.category,
                layer: open.more.layer,
                open: true,
                status: None,
            };
            if span.layer == Layer::Gpu as u8 {
                self.kernels.insert(span.name);
            }
            self.note_longest(&span);
            let segment = self.placer.segment;
            self.reach(Reaching {
                span,
                first: open.more.segment,
                last: segment,
                occupies: open.more.segment < segment,
            });
        }
        let spans = std::mem::take(&mut self.spans);
        self.segments.push(picture::of(spans));
        if let Some(why) = self.hopeless {
            return Err(why);
        }
        let mut detail = Detail {
            origin,
            end: self.end,
            owners: (self.placer.lanes.list.iter())
                .map(|lane| lane.owner)
                .collect(),
            short: short(&self.texts, &self.kernels),
            texts: self.texts,
            segments: self.segments,
            levels: Vec::new(),
            reaching: self.reaching,
            longest: self.longest.into_iter().collect(),
        };
        detail.segments.shrink_to_fit();
        detail.raise();
        Ok(detail)
    }
}

/// What kernels are shown as, where that is not their names.
fn short(texts: &Texts, kernels: &BTreeSet<u32>) -> HashMap<u32, Name> {
    let names: Vec<&str> = kernels.iter().map(|&number| &**texts.get(number)).collect();
    let shown = analyse::distinct(&names, usize::MAX, "…");
    let named = kernels.iter().zip(names).zip(shown);
    named
        .filter(|((_, name), shown)| name != shown)
        .map(|((&number, _), shown)| (number, shown.into()))
        .collect()
}
