//! Looking for a text in a trace, and for the instances of a name. Bounded in time: the answer says where to go on.

use super::indexed::{Indexed, PLACED, each, readers};
use crate::commands::http::BadRequest;
use event::{Event, Record, Status, Value, What};
use render::detail::{Placed, Span};
use serde_json::{Value as Json, json};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};
use trace::Parts;

/// After which no more of the trace is read for one answer.
const TIME: Duration = Duration::from_millis(50);
/// Matches of one segment at most, as far as cursors are concerned.
const CURSOR: u64 = 1 << 22;
/// Of an answer.
pub const MOST_MATCHES: u64 = 1_000;

/// A text that is looked for, whatever its case.
struct Needle {
    lower: String,
    /// It could be a number or a pointer.
    is_number: bool,
}

impl Needle {
    fn new(text: &str) -> Self {
        let lower = text.to_lowercase();
        let is_number = lower
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b"x.-+ena".contains(&byte));
        Needle { lower, is_number }
    }

    fn is_in(&self, text: &str) -> bool {
        let needle = self.lower.as_bytes();
        if self.lower.is_ascii() {
            let mut windows = text.as_bytes().windows(needle.len());
            return windows.any(|window| window.eq_ignore_ascii_case(needle));
        }
        text.to_lowercase().contains(&self.lower)
    }

    // Readers bound the nesting of values.
    fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::Str(text) => self.is_in(text),
            Value::List(list) => list.iter().any(|value| self.is_in_value(value)),
            Value::Map(args) => args.iter().any(|arg| self.is_in_value(&arg.value)),
            Value::Null => false,
            Value::Bool(flag) => self.is_in(if *flag { "true" } else { "false" }),
            _ if !self.is_number => false,
            Value::Int(number) => self.is_in(&number.to_string()),
            Value::Uint(number) => self.is_in(&number.to_string()),
            Value::Float(number) => self.is_in(&number.to_string()),
            Value::Pointer(address) => self.is_in(&format!("{address:#x}")),
        }
    }

    fn is_in_status(&self, status: Option<&Status>) -> bool {
        status.is_some_and(|status| match &status.name {
            Some(name) => self.is_in(name),
            None => self.is_number && self.is_in(&status.code.to_string()),
        })
    }

    /// In what a record says of an event, besides its name.
    fn is_in_event(&self, event: &Event) -> bool {
        let mut values = event.args.iter().chain(&event.outputs);
        let mut decoded = event.ioctl.iter().flat_map(|ioctl| &ioctl.decoded);
        values.any(|arg| self.is_in_value(&arg.value))
            || self.is_in_status(event.status.as_ref())
            || decoded.any(|arg| self.is_in_value(&arg.value))
    }
}

/// A match, or an instance.
pub fn found(trace: &Indexed, span: &Span, placed: Option<&Placed>) -> Json {
    let (name, label) = match placed {
        Some(placed) => placed.names(&trace.detail, span),
        None => trace.detail.names(span),
    };
    json!({
        "id": render::detail::number(span.id),
        "start_ns": render::detail::number(span.start),
        "duration_ns": render::detail::number(span.duration),
        "lane": span.lane, "depth": span.depth, "name": name, "label": label,
        "status": span.status, "open": span.open,
    })
}

/// Where the next answer begins, and what this one found.
struct Progress {
    matches: Vec<Json>,
    next: Option<u64>,
    from: u64,
    max: usize,
    began: Instant,
}

impl Progress {
    fn new(from: u64, max: usize) -> Self {
        Progress {
            matches: Vec::new(),
            next: None,
            from,
            max,
            began: Instant::now(),
        }
    }

    /// Segment by segment, several at once, until there is enough.
    fn each_segment(
        &mut self,
        segments: &[usize],
        look: impl Fn(usize) -> anyhow::Result<Vec<Json>> + Sync,
    ) -> anyhow::Result<()> {
        let first = (self.from / CURSOR) as usize;
        let mut skip = (self.from % CURSOR) as usize;
        let rest: Vec<usize> = { segments.iter().copied() }
            .filter(|&segment| segment >= first)
            .collect();
        for group in rest.chunks(readers()) {
            if !self.matches.is_empty() && self.matches.len() >= self.max
                || self.began.elapsed() > TIME
            {
                self.next = Some(group[0] as u64 * CURSOR);
                return Ok(());
            }
            let done = each(group, &look);
            for (&segment, found) in group.iter().zip(done) {
                let found = found?;
                // The cursor is of the first segment only.
                let skipped = if segment == first {
                    std::mem::take(&mut skip)
                } else {
                    0
                };
                let room = self.max - self.matches.len();
                let left = found.len().saturating_sub(skipped);
                self.matches
                    .extend(found.into_iter().skip(skipped).take(room));
                if left > room {
                    self.next = Some(segment as u64 * CURSOR + (skipped + room) as u64);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn searched(&self, segments: usize) -> f64 {
        match self.next {
            Some(next) => (next / CURSOR) as f64 / segments.max(1) as f64,
            None => 1.0,
        }
    }
}

/// `api/search`. `by_name`: only what is called so, which is found at once wherever it is.
pub fn search(
    trace: &Indexed,
    text: &str,
    by_name: bool,
    from: u64,
    max: usize,
) -> anyhow::Result<String> {
    if text.is_empty() {
        return Err(BadRequest::new("q: empty").into());
    }
    let needle = Needle::new(text);
    let count = trace.index.segments().len();
    let segments: Vec<usize> = match by_name {
        false => (0..count).collect(),
        true => trace.detail.having(|name| needle.is_in(name)),
    };
    let mut progress = Progress::new(from, max);
    progress.each_segment(&segments, |segment| {
        let parts = if by_name { PLACED } else { SEARCHED };
        matches_in(trace, &needle, segment, parts)
    })?;
    let mut answer = json!({
        "q": text,
        "matches": progress.matches,
        "next": progress.next,
        "searched": progress.searched(count),
        "by_name": trace.detail.count(|name| needle.is_in(name)),
    });
    let key = if from == 0 && progress.next.is_none() {
        "total"
    } else {
        "at_least"
    };
    answer[key] = progress.matches.len().into();
    Ok(answer.to_string())
}

/// What is looked through.
const SEARCHED: Parts = Parts {
    stack: false,
    ..Parts::ALL
};

fn matches_in(
    trace: &Indexed,
    needle: &Needle,
    segment: usize,
    parts: Parts,
) -> anyhow::Result<Vec<Json>> {
    let records = trace.records(segment, parts)?;
    let placed = trace.detail.place(segment as u32, &records);
    let mut said: HashSet<u64> = HashSet::new();
    for record in &records {
        match record {
            Record::Event(event) if needle.is_in_event(event) => {
                said.insert(event.id);
            }
            Record::Meaning(meaning) => {
                if let What::Launch(launch) = &meaning.what
                    && needle.is_in(&launch.kernel)
                {
                    said.insert(meaning.op);
                }
            }
            _ => {}
        }
    }
    let mut known: HashMap<(u32, u32), bool> = HashMap::new();
    let mut spans: Vec<(&Span, Option<&Placed>)> = Vec::new();
    for span in &placed.spans {
        let named = *known.entry((span.name, span.label)).or_insert_with(|| {
            let (name, label) = placed.names(&trace.detail, span);
            needle.is_in(name) || needle.is_in(label)
        });
        if named || said.contains(&span.id) {
            spans.push((span, Some(&placed)));
        }
    }
    for (span, first, last) in trace.detail.touching(segment) {
        let (name, label) = trace.detail.names(span);
        let named = needle.is_in(name) || needle.is_in(label);
        // By its name it is found where it begins; so is what was said there.
        let here = if named {
            first
        } else {
            said.contains(&span.id)
        };
        if here && (first || last) {
            spans.push((span, None));
        }
    }
    spans.sort_by_key(|(span, _)| (span.start, span.id));
    Ok({ spans.into_iter() }
        .map(|(span, placed)| found(trace, span, placed))
        .collect())
}

/// `api/instances`
pub fn instances(
    trace: &Indexed,
    name: &str,
    by_time: bool,
    from: u64,
    max: usize,
) -> anyhow::Result<String> {
    let total = trace.detail.count(|known| known == name);
    if !by_time {
        let longest = trace.detail.longest(name).iter().take(max);
        let matches: Vec<Json> = longest.map(|span| found(trace, span, None)).collect();
        return Ok(
            json!({"name": name, "total": total, "matches": matches, "next": null}).to_string(),
        );
    }
    let segments = trace.detail.having(|known| known == name);
    let mut progress = Progress::new(from, max);
    progress.each_segment(&segments, |segment| {
        let placed = trace.placed(&[segment as u32])?;
        let local = placed
            .values()
            .flat_map(|placed| placed.spans.iter().map(move |span| (span, Some(&**placed))));
        let ending = trace.detail.ending_in(segment).map(|span| (span, None));
        let is_it = |(span, placed): &(&Span, Option<&Placed>)| {
            let (known, label) = match placed {
                Some(placed) => placed.names(&trace.detail, span),
                None => trace.detail.names(span),
            };
            known == name || label == name
        };
        let mut spans: Vec<_> = local.chain(ending).filter(is_it).collect();
        spans.sort_by_key(|(span, _)| (span.end(), span.id));
        Ok({ spans.into_iter() }
            .map(|(span, placed)| found(trace, span, placed))
            .collect())
    })?;
    Ok(
        json!({"name": name, "total": total, "matches": progress.matches, "next": progress.next})
            .to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_whatever_their_case() {
        let needle = Needle::new("rm_Alloc");
        assert!(needle.is_in("NV_ESC_RM_ALLOC") && !needle.is_in("RM_CONTROL"));
        assert!(!needle.is_number);
        assert!(Needle::new("É").is_in("café"));
        let pointer = Needle::new("7F32");
        assert!(pointer.is_in_value(&Value::Pointer(0x7f32_0010_0000)));
        let list = Value::List(vec![Value::Uint(3), Value::Str("x7f32y".into())]);
        assert!(pointer.is_in_value(&list) && !needle.is_in_value(&list));
    }
}
