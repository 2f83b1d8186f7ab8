//! Single events of a long trace, on demand: what `cutrace view` answers when its page asks for a stretch of time.
//!
//! [`Builder`] watches a pass over the trace and makes what is attached to the trace's index: the lanes, the names, a
//! picture of every segment (its longest spans, and cells for the rest), and the spans that reach across segments.
//! With it a segment can be placed on the page's rows by itself ([`Detail::place`]). A stretch of a few segments is answered
//! with all of its spans, a longer one from the pictures, a much longer one from pictures of many segments.
//!
//! Every span is in one place: in the segment in which it both begins and ends, or among those that reach across.

mod answer;
mod build;
mod cells;
mod early;
mod encode;
mod event_json;
mod flame;
mod json;
mod picture;
mod place;
mod pyramid;
#[cfg(test)]
mod tests;
mod texts;

pub use answer::{MOST_READ, Query};
pub use build::{Builder, TooMuchOpen};
pub use event_json::{Around, EventFacts, Relative, event_json};
pub use flame::StretchFlame;
pub use json::value as number;
pub use place::Placed;

use crate::html::lanes::Owner;
use event::{Event, Name};
use picture::Picture;
use std::collections::{BTreeSet, HashMap};
use texts::Texts;

/// One span or instant, on its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub lane: u32,
    pub depth: u32,
    /// From the page's origin.
    pub start: u64,
    pub duration: u64,
    /// Time in spans directly inside.
    pub inside: u64,
    pub id: u64,
    /// 0 where there is none.
    pub correlation: u64,
    pub name: u32,
    pub label: u32,
    pub category: u8,
    pub layer: u8,
    /// It never ended.
    pub open: bool,
    pub status: Option<i64>,
}

impl Span {
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// Whether any of it is in the stretch.
    pub fn overlaps(&self, from: u64, to: u64) -> bool {
        self.start < to && (self.end() > from || self.start >= from)
    }
}

/// A span that does not both begin and end in one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reaching {
    span: Span,
    /// The segments with its beginning and its end.
    first: u32,
    last: u32,
    /// Its row is taken where segments begin in between.
    occupies: bool,
}

/// What is attached to a trace's index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// What all times count from.
    origin: u64,
    end: u64,
    owners: Vec<Owner>,
    texts: Texts,
    /// What kernels are shown as.
    short: HashMap<u32, Name>,
    segments: Vec<Picture>,
    /// Pictures of many segments, coarser and coarser.
    levels: Vec<Vec<Picture>>,
    reaching: Vec<Reaching>,
    /// The longest of each name and label, longest first.
    longest: HashMap<u32, Vec<Span>>,
}

impl Detail {
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The lane of an event; None for one that has none.
    pub fn lane_of(&self, event: &Event) -> Option<u32> {
        let owner = Owner::of(event);
        let place = self.owners.iter().position(|known| *known == owner);
        place.map(|place| place as u32)
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// What a name is shown as.
    fn shown(&self, name: u32, label: u32) -> &Name {
        match self.short.get(&name) {
            Some(short) if name == label => short,
            _ => self.texts.get(label),
        }
    }

    /// A span that reaches across segments, with the segments that it begins and ends in.
    pub fn reaching(&self, id: u64) -> Option<(&Span, u32, u32)> {
        let found = (self.reaching.iter()).find(|reaching| reaching.span.id == id)?;
        Some((&found.span, found.first, found.last))
    }

    /// Which names and labels `wanted` accepts, by number.
    fn wanted(&self, wanted: impl Fn(&str) -> bool) -> impl Fn(u32) -> bool {
        let names: Vec<bool> = (0..self.texts.len() as u32)
            .map(|name| {
                wanted(self.texts.get(name))
                    || self.short.get(&name).is_some_and(|short| wanted(short))
            })
            .collect();
        move |name: u32| names.get(name as usize).copied().unwrap_or(false)
    }

    /// How many events have a name or label that `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let is_wanted = self.wanted(wanted);
        let local = self.segments.iter().flat_map(|segment| &segment.names);
        let local: u64 = (local.filter(|&&(name, label, _)| is_wanted(name) || is_wanted(label)))
            .map(|&(_, _, count)| u64::from(count))
            .sum();
        let reaching = (self.reaching.iter())
            .filter(|reaching| is_wanted(reaching.span.name) || is_wanted(reaching.span.label));
        local + reaching.count() as u64
    }

    /// The segments in which events with such a name or label begin or end.
    pub fn having(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let is_wanted = self.wanted(wanted);
        let mut found: BTreeSet<usize> = (self.segments.iter().enumerate())
            .filter(|(_, segment)| {
                let mut names = segment.names.iter();
                names.any(|&(name, label, _)| is_wanted(name) || is_wanted(label))
            })
            .map(|(number, _)| number)
            .collect();
        for reaching in &self.reaching {
            if is_wanted(reaching.span.name) || is_wanted(reaching.span.label) {
                found.extend([reaching.first as usize, reaching.last as usize]);
            }
        }
        found.into_iter().collect()
    }

    /// The longest spans of a name or label, longest first.
    pub fn longest(&self, name: &str) -> &[Span] {
        let by_short = || {
            let mut short = self.short.iter();
            short
                .find(|(_, text)| &***text == name)
                .map(|(&number, _)| number)
        };
        let number = self.texts.find(name).or_else(by_short);
        number
            .and_then(|number| self.longest.get(&number))
            .map_or(&[], |list| list)
    }

    /// From the beginning of the first span of a segment to the end of the last.
    pub fn extent(&self, segment: usize) -> Option<(u64, u64)> {
        let picture = self.segments.get(segment)?;
        Some((picture.from, picture.to))
    }

    /// The spans that reach across segments.
    pub fn across(&self) -> impl Iterator<Item = &Span> {
        self.reaching.iter().map(|reaching| &reaching.span)
    }

    /// The spans that reach across segments and end in this one.
    pub fn ending_in(&self, segment: usize) -> impl Iterator<Item = &Span> {
        let ending = self
            .reaching
            .iter()
            .filter(move |reaching| reaching.last as usize == segment);
        ending.map(|reaching| &reaching.span)
    }

    /// The spans that reach across segments and begin or end in this one: which of the two.
    pub fn touching(&self, segment: usize) -> impl Iterator<Item = (&Span, bool, bool)> {
        self.reaching.iter().filter_map(move |reaching| {
            let first = reaching.first as usize == segment;
            let last = reaching.last as usize == segment;
            (first || last).then_some((&reaching.span, first, last))
        })
    }

    /// What a span is called, and what it is shown as.
    pub fn names(&self, span: &Span) -> (&str, &str) {
        (self.texts.get(span.name), self.shown(span.name, span.label))
    }
}
