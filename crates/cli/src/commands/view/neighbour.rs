//! `api/next`: the nearest event of the same name, before or after a moment, wherever in the trace it is.

use super::{indexed::Indexed, search::found};
use render::detail::{Placed, Span};
use serde_json::{Value as Json, json};

/// Segments that are read for one answer: each that is asked has such an event, so few are enough.
const MOST_SEGMENTS: usize = 8;

/// What is looked for: the first that begins after this one, or the last that begins before it.
pub struct Wanted<'a> {
    pub name: &'a str,
    pub start: u64,
    pub id: u64,
    pub before: bool,
}

impl Wanted<'_> {
    fn is_beyond(&self, span: &Span) -> bool {
        let (own, other) = ((self.start, self.id), (span.start, span.id));
        if self.before {
            other < own
        } else {
            other > own
        }
    }

    fn is_nearer(&self, span: &Span, best: Option<&(u64, u64, Json)>) -> bool {
        best.is_none_or(|&(start, id, _)| {
            let (known, other) = ((start, id), (span.start, span.id));
            if self.before {
                other > known
            } else {
                other < known
            }
        })
    }
}

/// `{"match": …}` as in a search, or null if there is none.
pub fn neighbour(trace: &Indexed, wanted: &Wanted<'_>) -> anyhow::Result<String> {
    let mut best: Option<(u64, u64, Json)> = None;
    let look = |best: &mut Option<(u64, u64, Json)>, span: &Span, placed: Option<&Placed>| {
        if !wanted.is_beyond(span) || !wanted.is_nearer(span, best.as_ref()) {
            return;
        }
        let (name, label) = match placed {
            Some(placed) => placed.names(&trace.detail, span),
            None => trace.detail.names(span),
        };
        if name == wanted.name || label == wanted.name {
            *best = Some((span.start, span.id, found(trace, span, placed)));
        }
    };
    for span in trace.detail.across() {
        look(&mut best, span, None);
    }
    let mut segments: Vec<(u64, u64, usize)> = (trace.detail.having(|name| name == wanted.name))
        .into_iter()
        .filter_map(|segment| {
            let (from, to) = trace.detail.extent(segment)?;
            Some((from, to, segment))
        })
        // Nothing in it begins on the wanted side.
        .filter(|&(from, to, _)| match wanted.before {
            true => from <= wanted.start,
            false => to >= wanted.start,
        })
        .collect();
    match wanted.before {
        true => segments.sort_unstable_by_key(|&(_, to, _)| std::cmp::Reverse(to)),
        false => segments.sort_unstable_by_key(|&(from, ..)| from),
    }
    for &(from, to, segment) in segments.iter().take(MOST_SEGMENTS) {
        // Whatever is in this segment, or in those after it, is farther away.
        let is_farther = |&(start, ..): &(u64, u64, Json)| match wanted.before {
            true => to < start,
            false => from > start,
        };
        if best.as_ref().is_some_and(is_farther) {
            break;
        }
        for placed in trace.placed(&[segment as u32])?.values() {
            for span in &placed.spans {
                look(&mut best, span, Some(&**placed));
            }
        }
    }
    Ok(json!({ "match": best.map(|(.., found)| found) }).to_string())
}
