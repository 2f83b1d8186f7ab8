//! `api/event`: everything known of one event, gathered from the segments that have something of it.

use super::indexed::Indexed;
use event::{Event, Extent, Layer, Record, What};
use render::detail::{Around, EventFacts, Relative, event_json};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Segments that may have an event by the index: most of the time one.
const MOST_CANDIDATES: usize = 32;
/// Segments that are held for one answer.
const MOST_READ: usize = 4;
/// After which nothing more is looked for.
const TIME: Duration = Duration::from_millis(60);
/// What an event caused, at most.
const MOST_CAUSED: usize = 200;
/// Calls inside of a call whose work on the GPU is looked for.
const MOST_FAMILY: usize = 64;
/// Calls around a call, at most.
const MOST_PARENTS: usize = 64;

/// Segments that were read for one answer.
struct Reading<'a> {
    trace: &'a Indexed,
    read: HashMap<usize, Arc<Vec<Record>>>,
    began: Instant,
}

impl<'a> Reading<'a> {
    fn new(trace: &'a Indexed) -> Self {
        Reading {
            trace,
            read: HashMap::new(),
            began: Instant::now(),
        }
    }

    fn may_read(&self, segment: usize) -> bool {
        let is_allowed = self.read.len() < MOST_READ && self.began.elapsed() < TIME;
        self.read.contains_key(&segment) || self.read.is_empty() || is_allowed
    }

    fn segment(&mut self, segment: usize) -> anyhow::Result<&[Record]> {
        if !self.read.contains_key(&segment) {
            let records = self.trace.brief(segment)?;
            self.read.insert(segment, records);
        }
        Ok(self.read.get(&segment).map_or(&[], |records| &records[..]))
    }

    /// Everything of an event that was found in these segments.
    fn filled(&self, event: Event, first: usize, last: usize) -> anyhow::Result<Event> {
        let id = event.id;
        let of = |segment: usize| {
            let records = self.trace.all_of(segment, id)?;
            anyhow::Ok(last_of(&records, id).cloned())
        };
        let ended = of(last)?.unwrap_or(event);
        Ok(match first == last {
            true => ended,
            false => match of(first)? {
                Some(begun) => joined(begun, ended),
                None => ended,
            },
        })
    }

    /// The event, as far as the segments that it begins and ends in know it, without arguments and stack; with these segments.
    fn event(&mut self, id: u64) -> anyhow::Result<Option<(Event, usize, usize)>> {
        if let Some((_, first, last)) = self.trace.detail.reaching(id) {
            let (first, last) = (first as usize, last as usize);
            let begun = last_of(self.segment(first)?, id).cloned();
            let ended = last_of(self.segment(last)?, id).cloned();
            let event = match (begun, ended) {
                (Some(begun), Some(ended)) if first != last => Some(joined(begun, ended)),
                (begun, ended) => ended.or(begun),
            };
            return Ok(event.map(|event| (event, first, last)));
        }
        let segments = self.trace.index.segments().iter().enumerate();
        let candidates = segments.filter(|(_, segment)| segment.ids.may_contain(id));
        for (number, _) in candidates.take(MOST_CANDIDATES) {
            let held = self.read.contains_key(&number);
            if let Some(event) = last_of(self.segment(number)?, id) {
                return Ok(Some((event.clone(), number, number)));
            }
            if !held {
                self.read.remove(&number);
            }
        }
        Ok(None)
    }
}

/// The last that the records say of an event.
fn last_of(records: &[Record], id: u64) -> Option<&Event> {
    records.iter().rev().find_map(|record| match record {
        Record::Event(event) if event.id == id => Some(event),
        _ => None,
    })
}

/// A span whose beginning and end were read apart.
fn joined(begun: Event, ended: Event) -> Event {
    let Extent::Closed(duration) = ended.extent else {
        return begun;
    };
    Event {
        extent: Extent::Closed(duration),
        outputs: ended.outputs,
        status: ended.status.or(begun.status),
        ioctl: ended.ioctl.or(begun.ioctl),
        correlation: ended.correlation.or(begun.correlation),
        device: ended.device.or(begun.device),
        context: ended.context.or(begun.context),
        stream: ended.stream.or(begun.stream),
        ..begun
    }
}

/// None if there is no such event.
pub fn event(trace: &Indexed, id: u64) -> anyhow::Result<Option<String>> {
    let mut reading = Reading::new(trace);
    let Some((event, first, last)) = reading.event(id)? else {
        return Ok(None);
    };
    let event = reading.filled(event, first, last)?;
    let meaning = meaning_of(&mut reading, id, last)?;
    let mut family = HashSet::from([id]);
    let (mut caused, mut caused_more) = children(&mut reading, &mut family, id, (first, last))?;
    if event.layer != Layer::Gpu {
        let correlations: Vec<u64> = event.correlation.into_iter().chain(family).collect();
        let (work, more) = work_of(&mut reading, &correlations, first)?;
        caused.extend(work);
        caused_more |= more;
    }
    caused.sort_by_key(|relative| (relative.start, relative.id));
    caused.dedup_by_key(|relative| relative.id);
    caused_more |= caused.len() > MOST_CAUSED;
    caused.truncate(MOST_CAUSED);
    let call = match event.correlation {
        Some(call) if event.layer == Layer::Gpu && call != id => {
            reading.event(call)?.map(|(call, ..)| call)
        }
        _ => None,
    };
    let facts = EventFacts {
        row: row_of(&mut reading, &event, last)?,
        meaning: meaning.as_ref(),
        parents: parents(&mut reading, call.as_ref().unwrap_or(&event))?,
        caused,
        caused_more,
        caused_by: call.as_ref().and_then(|call| relative(trace, call)),
    };
    Ok(Some(event_json(&trace.detail, &event, &facts)))
}

/// Its meaning comes after its end: perhaps in the next segment.
fn meaning_of(reading: &mut Reading<'_>, id: u64, last: usize) -> anyhow::Result<Option<What>> {
    let find = |records: &[Record]| {
        records.iter().find_map(|record| match record {
            Record::Meaning(meaning) if meaning.op == id => Some(meaning.what.clone()),
            _ => None,
        })
    };
    if let Some(found) = find(reading.segment(last)?) {
        return Ok(Some(found));
    }
    let records = reading.segment(last)?;
    let after = records.iter().rev().take(64);
    let ends_late = after
        .clone()
        .any(|record| matches!(record, Record::Event(event) if event.id == id));
    if !ends_late || last + 1 >= reading.trace.index.segments().len() {
        return Ok(None);
    }
    let records = reading.segment(last + 1)?;
    Ok(find(&records[..records.len().min(64)]))
}

/// What is directly inside of a call. Whatever is inside of that belongs to the `family`, too.
fn children(
    reading: &mut Reading<'_>,
    family: &mut HashSet<u64>,
    id: u64,
    (first, last): (usize, usize),
) -> anyhow::Result<(Vec<Relative>, bool)> {
    let mut found: HashMap<u64, Relative> = HashMap::new();
    for segment in first..=last {
        if !reading.may_read(segment) {
            return Ok((found.into_values().collect(), true));
        }
        let trace = reading.trace;
        for record in reading.segment(segment)? {
            let Record::Event(inner) = record else {
                continue;
            };
            let Some(parent) = inner.parent.filter(|parent| family.contains(parent)) else {
                continue;
            };
            if family.len() < MOST_FAMILY {
                family.insert(inner.id);
            }
            if parent == id
                && inner.id != id
                && let Some(relative) = relative(trace, inner)
            {
                found.insert(inner.id, relative);
                if found.len() > MOST_CAUSED {
                    return Ok((found.into_values().collect(), true));
                }
            }
        }
    }
    Ok((found.into_values().collect(), false))
}

/// GPU work with one of these correlations: mostly soon after its call.
fn work_of(
    reading: &mut Reading<'_>,
    correlations: &[u64],
    first: usize,
) -> anyhow::Result<(Vec<Relative>, bool)> {
    let mut found: HashMap<u64, Relative> = HashMap::new();
    let trace = reading.trace;
    for (number, segment) in trace.index.segments().iter().enumerate().skip(first) {
        let may = |&correlation: &u64| segment.gpu_correlations.may_contain(correlation);
        if !correlations.iter().any(may) {
            continue;
        }
        if !reading.may_read(number) {
            return Ok((found.into_values().collect(), true));
        }
        for record in reading.segment(number)? {
            if let Record::Event(work) = record
                && work.layer == Layer::Gpu
                && work
                    .correlation
                    .is_some_and(|it| correlations.contains(&it))
                && let Some(relative) = relative(trace, work)
            {
                found.insert(work.id, relative);
            }
        }
    }
    Ok((found.into_values().collect(), false))
}

fn relative(trace: &Indexed, event: &Event) -> Option<Relative> {
    let lane = trace.detail.lane_of(event)?;
    // One that reaches into another segment is known whole by the index.
    if let Some((span, ..)) = trace.detail.reaching(event.id) {
        return Some(Relative::of(span, trace.detail.names(span)));
    }
    Some(Relative::of_event(&trace.detail, event, lane))
}

fn row_of(
    reading: &mut Reading<'_>,
    event: &Event,
    last: usize,
) -> anyhow::Result<Option<(u32, u32)>> {
    let trace = reading.trace;
    if let Some((span, ..)) = trace.detail.reaching(event.id) {
        return Ok(Some((span.lane, span.depth)));
    }
    let placed = trace.placed_with(last as u32, reading.segment(last)?);
    let found = placed.spans.iter().find(|span| span.id == event.id);
    Ok(found.map(|span| (span.lane, span.depth)))
}

/// The calls around it, outermost first.
fn parents(reading: &mut Reading<'_>, event: &Event) -> anyhow::Result<Vec<Around>> {
    let mut parents: Vec<Around> = Vec::new();
    let mut next = event.parent;
    while let Some(id) = next
        && parents.len() < MOST_PARENTS
        && !parents.iter().any(|known| known.id == id)
        && let Some((parent, ..)) = reading.event(id)?
    {
        next = parent.parent;
        parents.push(Around {
            id,
            kind: parent.kind,
            name: parent.name,
        });
    }
    parents.reverse();
    Ok(parents)
}
