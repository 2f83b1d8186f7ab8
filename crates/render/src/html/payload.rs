//! The timeline's data as the page carries it: a JSON head, then columns of numbers.
//! `web/data.js` reads what is written here, in the same order.

use super::{
    allocations::Allocation,
    cells::Cell,
    colour,
    encode::{packed, varint, zigzag},
    flame::Node,
    lane_head::LaneHead,
    rows::{Detail, ExactSpan},
    shapes::ShapeRow,
    timeline::Timeline,
};
use event::{Direction, Kind, Layer, Name};
use serde::Serialize;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    io,
};

#[derive(Serialize)]
struct Head<'a> {
    end_ns: u64,
    /// The width of a cell.
    cell_ns: u64,
    /// Spans that are in cells only.
    aggregated: u64,
    kept: u64,
    /// Spans that were too deep to be placed by their beginning.
    unplaced: u64,
    names_left_out: u64,
    lost: &'a [(u64, u64)],
    lost_total: u64,
    categories: Vec<&'static str>,
    layers: Vec<&'static str>,
    directions: Vec<&'static str>,
    types: Vec<&'static str>,
    names: &'a [Name],
    /// Kernels' names as they are shown, by their places in `names`.
    short_names: Vec<(u32, String)>,
    lanes: Vec<LaneHead>,
    /// What GPUs' multiprocessors hold, by device.
    limits: &'a BTreeMap<u64, BTreeMap<&'static str, u64>>,
    /// Frames of stacks, and stacks of them, innermost first.
    frames: &'a [String],
    functions: &'a [Name],
    stacks: &'a [Vec<u32>],
    /// Texts of details; spans that are kept without, for want of room.
    details: usize,
    without_details: u64,
    shapes: Vec<ShapeRow>,
    shapes_left_out: u64,
    allocations: &'a [Allocation],
    allocations_left_out: (u64, u64),
    durations: Vec<Vec<u64>>,
    rows: usize,
    flame: usize,
}

/// Everything, deflated and in base64. What does not fit is left out, half of it at a time: details of the shortest spans, then the
/// shortest spans, and so on; what was pinned last.
pub fn payload(timeline: &mut Timeline, budget: usize) -> io::Result<String> {
    let flame = std::mem::replace(&mut timeline.flame, super::flame::Flame::new()).finish();
    let allocations = timeline.allocations.finish();
    let mut without_details = true;
    loop {
        for row in &mut timeline.rows.rows {
            // Inner spans of one start lie in other rows: the order within a row is by start alone.
            row.kept.sort_unstable_by_key(|span| (span.start, span.id));
        }
        let packed = attempt(timeline, &flame, &allocations)?;
        if packed.len() <= budget {
            return Ok(packed);
        }
        // By turns, so that the longest have their details.
        without_details = !without_details;
        let dropped = !without_details && drop_details(timeline) > 0;
        if !dropped && !timeline.rows.shrink() {
            return Ok(packed);
        }
    }
}

/// Forgets the details of the shortest half of the spans that have any; how many. Those of pinned spans stay as long as there are
/// others.
fn drop_details(timeline: &mut Timeline) -> usize {
    let only_pinned = (timeline.rows.rows.iter())
        .flat_map(|row| &row.kept)
        .all(|span| span.pinned);
    let all = timeline.rows.rows.iter_mut().flat_map(|row| &mut row.kept);
    let mut spans: Vec<&mut ExactSpan> = all
        .filter(|span| !span.details.is_empty() && span.pinned == only_pinned)
        .collect();
    spans.sort_unstable_by_key(|span| Reverse(span.duration));
    let gone = spans.drain(spans.len() / 2..);
    gone.map(|span| span.details = String::new()).count()
}

fn attempt(timeline: &Timeline, flame: &[Node], allocations: &[Allocation]) -> io::Result<String> {
    let details = Texts::of(timeline);
    let head = Head {
        end_ns: timeline.end,
        cell_ns: 1 << timeline.rows.grid.shift.min(62),
        aggregated: timeline.rows.aggregated(),
        kept: (timeline.rows.rows.iter())
            .map(|row| row.kept.len() as u64)
            .sum(),
        unplaced: timeline.unplaced,
        names_left_out: timeline.names.left_out,
        lost: &timeline.lost,
        lost_total: timeline.lost_total,
        categories: colour::names(),
        layers: Layer::ALL.iter().map(|layer| layer.as_str()).collect(),
        directions: Direction::ALL.iter().map(|d| d.as_str()).collect(),
        types: Kind::ALL.iter().map(|kind| kind.as_str()).collect(),
        names: timeline.names.list(),
        short_names: timeline.names.short(),
        lanes: timeline.lanes.list.iter().map(LaneHead::from).collect(),
        limits: &timeline.limits.0,
        frames: &timeline.details.stacks.frame_list,
        functions: &timeline.details.stacks.functions,
        stacks: &timeline.details.stacks.list,
        details: details.list.len(),
        without_details: details.missing(),
        shapes: timeline.shapes.finish(),
        shapes_left_out: timeline.shapes.left_out,
        allocations,
        allocations_left_out: (
            timeline.allocations.left_out,
            timeline.allocations.left_out_bytes,
        ),
        durations: timeline.durations.finish(),
        rows: timeline.rows.rows.len(),
        flame: flame.len(),
    };
    let json = serde_json::to_vec(&head)?;
    let mut out = Vec::with_capacity(json.len() + 32 * head.kept as usize);
    varint(&mut out, json.len() as u64);
    out.extend(json);
    rows(&mut out, timeline);
    spans(&mut out, timeline);
    cells(&mut out, timeline);
    nodes(&mut out, flame);
    details.write(&mut out);
    packed(&out)
}

/// The texts of details, each once, and which span has which.
struct Texts<'a> {
    list: Vec<&'a str>,
    /// For each span 0, or its text's number from 1.
    of_spans: Vec<u32>,
}

impl<'a> Texts<'a> {
    fn of(timeline: &'a Timeline) -> Self {
        let mut known: HashMap<&str, u32, ahash::RandomState> = HashMap::default();
        let mut texts = Texts {
            list: Vec::new(),
            of_spans: Vec::new(),
        };
        for span in timeline.rows.rows.iter().flat_map(|row| &row.kept) {
            let number = match &*span.details {
                "" => 0,
                text => *known.entry(text).or_insert_with(|| {
                    texts.list.push(text);
                    texts.list.len() as u32
                }),
            };
            texts.of_spans.push(number);
        }
        texts
    }

    /// Spans without a text.
    fn missing(&self) -> u64 {
        self.of_spans.iter().filter(|&&number| number == 0).count() as u64
    }

    /// Most spans have the text after the one before: that is a 1; 0 is none, others are their number plus 1.
    fn write(&self, out: &mut Vec<u8>) {
        let mut last = 0;
        for &number in &self.of_spans {
            let new = number == last + 1;
            varint(
                out,
                if new {
                    1
                } else if number == 0 {
                    0
                } else {
                    u64::from(number) + 1
                },
            );
            last = last.max(number);
        }
        for text in &self.list {
            varint(out, text.len() as u64);
        }
        for text in &self.list {
            out.extend(text.as_bytes());
        }
    }
}

fn rows(out: &mut Vec<u8>, timeline: &Timeline) {
    for row in &timeline.rows.rows {
        varint(out, row.lane.into());
        varint(out, row.depth.into());
        varint(out, row.spans);
        varint(out, row.kept.len() as u64);
        let (first, cells) = row
            .cells
            .as_ref()
            .map_or((0, 0), |cells| (cells.first, cells.cells.len()));
        varint(out, cells as u64);
        varint(out, first);
    }
}

/// A column of all rows' spans after the other: like next to like deflates best.
fn spans(out: &mut Vec<u8>, timeline: &Timeline) {
    let rows = &timeline.rows.rows;
    for row in rows {
        let mut before = 0;
        for span in &row.kept {
            varint(out, span.start - before);
            before = span.start;
        }
    }
    let mut column = |put: fn(&mut Vec<u8>, &ExactSpan)| {
        for span in rows.iter().flat_map(|row| &row.kept) {
            put(out, span);
        }
    };
    column(|out, span| varint(out, span.duration));
    column(|out, span| varint(out, span.inside));
    column(|out, span| varint(out, span.name.into()));
    // 0 where it is the name.
    column(|out, span| match span.label == span.name {
        true => varint(out, 0),
        false => varint(out, u64::from(span.label) + 1),
    });
    column(|out, span| out.push(span.category | u8::from(span.open) << 7));
    column(|out, span| out.push(span.layer));
    column(|out, span| match span.status {
        None => varint(out, 0),
        Some(code) => varint(out, (((code << 1) ^ (code >> 63)) as u64).saturating_add(1)),
    });
    column(|out, span| {
        out.push(match span.detail {
            Detail::None => 0,
            Detail::Kernel(_) => 1,
            Detail::Allocated(_) => 2,
            Detail::Freed(_) => 3,
            Detail::Moved(direction, _) => 4 + direction,
        });
    });
    column(|out, span| match span.detail {
        Detail::None => {}
        Detail::Kernel(name) => varint(out, name.into()),
        Detail::Allocated(size) | Detail::Freed(size) | Detail::Moved(_, size) => varint(out, size),
    });
    differences(out, timeline, |span| span.id);
    differences(out, timeline, |span| span.correlation);
}

/// Ids that mostly count upwards.
fn differences(out: &mut Vec<u8>, timeline: &Timeline, value: fn(&ExactSpan) -> u64) {
    for row in &timeline.rows.rows {
        let mut before = 0;
        for span in &row.kept {
            zigzag(out, value(span).wrapping_sub(before) as i64);
            before = value(span);
        }
    }
}

/// A cell without anything in it has this category.
const EMPTY: u8 = u8::MAX;

fn cells(out: &mut Vec<u8>, timeline: &Timeline) {
    let width = (1u64 << timeline.rows.grid.shift.min(62)) as f32;
    let all = || {
        (timeline.rows.rows.iter())
            .filter_map(|row| row.cells.as_ref())
            .flat_map(|cells| &cells.cells)
    };
    let full = || all().filter(|cell| !cell.is_empty());
    out.extend(all().map(|cell: &Cell| {
        if cell.is_empty() {
            EMPTY
        } else {
            cell.dominant()
        }
    }));
    // Rounded up: what is there at all is seen.
    out.extend(full().map(|cell| (cell.total() / width * 255.0).ceil().min(255.0) as u8));
    full().for_each(|cell| varint(out, cell.most().0.into()));
    full().for_each(|cell| varint(out, cell.count.into()));
    // How many of them are of that name, and whether it may be more.
    full().for_each(|cell| {
        let (_, count, exact) = cell.most();
        varint(out, u64::from(count) << 1 | u64::from(exact));
    });
}

fn nodes(out: &mut Vec<u8>, flame: &[Node]) {
    for node in flame {
        varint(out, node.parent.wrapping_add(1).into());
        varint(out, node.name.into());
        out.push(node.category);
        varint(out, node.count);
        (node.total.iter().chain(&node.own)).for_each(|&amount| varint(out, amount));
    }
}
