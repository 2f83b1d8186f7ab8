//! The flame graph of a stretch of time, made of the segments that have something of it, one after the other. Calls count with
//! the part of them that is in the stretch, bytes by where their call begins.

use super::{Detail, Placed, Reaching, Span, json, texts::Texts};
use crate::html::{
    callers::Callers,
    colour::OFF_CPU,
    flame::{Flame, Node, Weight},
    lanes::MAX_DEPTH,
};
use event::{Category, Event, Frame, Layer, MemoryOp, Name, Record, Value, What};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Segments before the stretch that are read for the stacks of calls that reach into it, or whose GPU work does.
const MOST_BEFORE: usize = 8;
/// And behind it, for what the calls that begin in it meant.
const MOST_AFTER: usize = 8;
/// Of those before, so many just before it.
const JUST_BEFORE: u32 = 2;

type Map<K, V> = HashMap<K, V, ahash::RandomState>;

pub struct StretchFlame {
    from: u64,
    to: u64,
    flame: Flame,
    callers: Callers,
    texts: Texts,
    /// What kernels are shown as.
    short: Map<u32, Name>,
    /// The nodes of spans that reach across segments: they count once.
    reached: Map<u64, u32>,
    /// Copies on the GPU whose bytes were counted: their beginning says how many, and perhaps their end.
    weighed: HashSet<u64, ahash::RandomState>,
    /// The nodes of the segment before: what its last calls meant is in this one.
    before: Map<u64, u32>,
}

/// The spans around the one that is looked at, by depth: where they end, and their nodes.
type Path = Vec<Option<(u64, u32)>>;

impl StretchFlame {
    pub fn new(from: u64, to: u64) -> Self {
        StretchFlame {
            from,
            to,
            flame: Flame::new(),
            callers: Callers::default(),
            texts: Texts::default(),
            short: Map::default(),
            reached: Map::default(),
            weighed: HashSet::default(),
            before: Map::default(),
        }
    }

    /// The next segment, with its stacks and arguments. Those before the stretch come first.
    pub fn add(&mut self, detail: &Detail, segment: u32, records: &[Record]) {
        let placed = detail.place(segment, records);
        let stacks = stacks_of(records);
        let across = (detail.reaching.iter())
            .filter(|reaching| reaching.first <= segment && segment <= reaching.last)
            .map(|reaching| (&reaching.span, None));
        let here = placed.spans.iter().map(|span| (span, Some(&placed)));
        let mut spans: Vec<(&Span, Option<&Placed>)> = across
            .chain(here)
            .filter(|(span, _)| span.duration > 0 && span.category != OFF_CPU)
            .collect();
        let owner = |span: &Span| detail.owners.get(span.lane as usize);
        let is_gpu = |span: &Span| owner(span).is_some_and(|owner| owner.is_gpu());
        // GPU work after the calls that it came from.
        spans.sort_by_key(|(span, _)| (is_gpu(span), span.lane, span.start, span.depth));
        let mut nodes: Map<u64, u32> = Map::default();
        let mut numbers: Map<u32, u32> = Map::default();
        let mut path = Path::new();
        let mut lane = u32::MAX;
        for (span, placed) in spans {
            if lane != span.lane {
                (lane, path) = (span.lane, Path::new());
            }
            path.resize((span.depth as usize).min(MAX_DEPTH), None);
            let around = (path.iter().rev().flatten())
                .find(|(end, _)| *end > span.start)
                .map(|(_, node)| *node);
            let inside = self.part(span);
            let known = placed.is_none().then(|| self.reached.get(&span.id));
            let node = if let Some(&node) = known.flatten() {
                node
            } else if is_gpu(span) && inside == 0 {
                continue;
            } else {
                let name = *numbers
                    .entry(span.name)
                    .or_insert_with(|| self.name(detail, span, placed));
                let stack = stacks.get(&span.id).copied().unwrap_or_default();
                let node = self.node(span, (name, inside), around, is_gpu(span), stack);
                if placed.is_none() {
                    self.reached.insert(span.id, node);
                }
                node
            };
            path.push(Some((span.end(), node)));
            if (self.from..self.to).contains(&span.start) {
                nodes.insert(span.id, node);
            }
        }
        self.weigh(records, &nodes);
        self.before = nodes;
    }

    /// How much of a span is in the stretch.
    fn part(&self, span: &Span) -> u64 {
        let end = span.end().min(self.to);
        end.saturating_sub(span.start.max(self.from))
    }

    /// Counts a span that was not counted yet; its node. Without a part in the stretch, the node that it would be below.
    fn node(
        &mut self,
        span: &Span,
        (name, inside): (u32, u64),
        around: Option<u32>,
        gpu: bool,
        stack: &[Frame],
    ) -> u32 {
        let correlation = (span.correlation != 0).then_some(span.correlation);
        let parent = match around {
            _ if gpu => self.callers.of(&mut self.flame, correlation),
            Some(node) => node,
            None => self.flame.stack(stack, |name| self.texts.index(name)),
        };
        let node = if inside == 0 {
            parent
        } else {
            let node = self.flame.child(parent, name, span.category);
            self.flame.add(node, inside);
            if let Some(around) = around.filter(|_| !gpu) {
                self.flame.spent_inside(around, inside);
            }
            node
        };
        if let Some(correlation) = correlation.filter(|_| !gpu) {
            self.callers.called(&self.flame, correlation, node);
        }
        node
    }

    fn name(&mut self, detail: &Detail, span: &Span, placed: Option<&Placed>) -> u32 {
        let (name, shown) = match placed {
            Some(placed) => placed.names(detail, span),
            None => detail.names(span),
        };
        let number = self.texts.index(&name.into());
        if span.layer == Layer::Gpu as u8 && name != shown {
            self.short.insert(number, shown.into());
        }
        number
    }

    /// What the calls of a segment allocated and moved.
    fn weigh(&mut self, records: &[Record], nodes: &Map<u64, u32>) {
        for record in records {
            let (id, weight, size) = match record {
                Record::Meaning(meaning) => match &meaning.what {
                    What::Transfer(transfer) => (meaning.op, Weight::Moved, transfer.size),
                    What::Memory(memory) if memory.op == MemoryOp::Alloc => {
                        (meaning.op, Weight::Allocated, memory.size.unwrap_or(0))
                    }
                    _ => continue,
                },
                Record::Event(event) => match moved_on_gpu(event) {
                    Some(bytes) if self.weighed.insert(event.id) => {
                        (event.id, Weight::Moved, bytes)
                    }
                    _ => continue,
                },
                Record::Lost(_) => continue,
            };
            if let Some(&node) = nodes.get(&id).or_else(|| self.before.get(&id)) {
                self.flame.weigh(node, weight, size);
            }
        }
    }

    /// `{"share":1,"names":…}`, as docs/VIEW-API.md describes it.
    pub fn finish(self) -> String {
        let nodes = self.flame.finish();
        let mut text = String::from("{\"share\":1");
        let names = [self.texts.get(0)].into_iter().chain(self.texts.list());
        let names: Vec<&Name> = names.collect();
        json::column(&mut text, "names", &names, |out, name| {
            json::text(out, name)
        });
        let mut short: Vec<(u32, Name)> = self.short.into_iter().collect();
        short.sort_unstable();
        json::column(&mut text, "short", &short, |out, (number, name)| {
            out.push_str(&serde_json::json!([number, &**name]).to_string());
        });
        let mut column = |name: &str, of: &dyn Fn(&Node) -> u64| {
            json::column(&mut text, name, &nodes, |out, node| {
                json::number(out, of(node))
            });
        };
        column("parent", &|node| u64::from(node.parent.wrapping_add(1)));
        column("name", &|node| node.name.into());
        column("category", &|node| node.category.into());
        column("count", &|node| node.count);
        for (weight, name) in ["time", "allocated", "moved"].into_iter().enumerate() {
            column(name, &|node| node.total[weight]);
            column(&format!("own_{name}"), &|node| node.own[weight]);
        }
        text.push('}');
        text
    }
}

/// The stacks of a segment's calls.
fn stacks_of(records: &[Record]) -> Map<u64, &[Frame]> {
    let mut stacks = Map::default();
    for record in records {
        if let Record::Event(event) = record
            && !event.stack.is_empty()
        {
            stacks.entry(event.id).or_insert(&event.stack[..]);
        }
    }
    stacks
}

/// Bytes that a copy on the GPU moves.
fn moved_on_gpu(event: &Event) -> Option<u64> {
    let is_copy = event.layer == Layer::Gpu && event.category == Category::Transfer;
    let bytes = || event.arg("bytes").and_then(Value::as_u64);
    is_copy.then(bytes).flatten()
}

impl Detail {
    /// The segments that the flame graph of a stretch is made of, in order.
    pub fn flame_segments(&self, from: u64, to: u64) -> Vec<u32> {
        let within = (self.segments.iter().zip(0..))
            .filter(|(picture, _)| picture.is_in(from, to))
            .map(|(_, number)| number);
        let within: BTreeSet<u32> = within.collect();
        let first = within.first().copied().unwrap_or(u32::MAX);
        let mut before: BTreeSet<u32> = (self.reaching.iter())
            .filter(|reaching| reaching.first < first && reaching.span.overlaps(from, to))
            .map(|reaching| reaching.first)
            .collect();
        if first != u32::MAX {
            before.extend(first.saturating_sub(JUST_BEFORE)..first);
        }
        let skipped = before.len().saturating_sub(MOST_BEFORE);
        // What a call meant is said after its end, which may be in a later segment.
        let begun = |reaching: &&Reaching| (from..to).contains(&reaching.span.start);
        let ends = (self.reaching.iter())
            .filter(begun)
            .flat_map(|reaching| [reaching.last, reaching.last + 1]);
        let next = within.last().map(|last| last + 1);
        let after: BTreeSet<u32> = (ends.chain(next))
            .filter(|&segment| (segment as usize) < self.segments.len())
            .filter(|segment| within.last().is_none_or(|last| segment > last))
            .collect();
        { before.into_iter().skip(skipped) }
            .chain(within)
            .chain(after.into_iter().take(MOST_AFTER))
            .collect()
    }
}
