//! The spans of a stretch of time, as docs/VIEW-API.md describes them.

use super::{
    Detail, Placed, Span,
    cells::Tally,
    json,
    picture::{self, EMPTY, Picture, fair_share_of},
};
use crate::html::colour::COLOURS;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    sync::Arc,
};

/// What is asked for. Times are from the page's origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub from: u64,
    pub to: u64,
    /// None: all.
    pub lanes: Option<Vec<u32>>,
    /// Spans at most.
    pub limit: usize,
}

/// Segments that are read for one answer at most.
pub const MOST_READ: usize = 8;
/// Spans of an answer that is made of pictures: more would be narrower than a pixel.
const COARSE_SPANS: usize = 4_000;
/// Cells of a row at most, and of all rows together.
const MOST_CELLS: u64 = 2_048;
const ALL_CELLS: u64 = 200_000;

/// A row of the answer.
#[derive(Default)]
struct Row<'a> {
    spans: Vec<Shown<'a>>,
    /// Segments that are only known by their cells.
    cells: Vec<(&'a picture::Cells, u32)>,
}

/// A span, and where its names are.
#[derive(Clone, Copy)]
struct Shown<'a> {
    span: &'a Span,
    placed: Option<&'a Placed>,
    /// It is in its segment's cells as well.
    in_cells: bool,
}

/// The names of an answer, each once.
#[derive(Default)]
struct Names<'a> {
    list: Vec<&'a str>,
    known: HashMap<&'a str, u32, ahash::RandomState>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> u32 {
        *self.known.entry(name).or_insert_with(|| {
            self.list.push(name);
            self.list.len() as u32 - 1
        })
    }
}

impl Query {
    fn wants(&self, lane: u32) -> bool {
        (self.lanes.as_ref()).is_none_or(|lanes| lanes.binary_search(&lane).is_ok())
    }
}

impl Detail {
    /// The segments that must be read for a complete answer. None if there are too many: more than `most` of which
    /// `is_known` says that they would have to be read.
    pub fn to_read(
        &self,
        query: &Query,
        most: usize,
        is_known: impl Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        let is_incomplete = |picture: &Picture| {
            let mut rows = picture.rows.iter();
            rows.any(|row| row.cells.is_some() && query.wants(row.lane))
        };
        let (mut needed, mut new) = (Vec::new(), 0);
        for (picture, number) in self.segments.iter().zip(0..) {
            if picture.is_in(query.from, query.to) && is_incomplete(picture) {
                needed.push(number);
                new += usize::from(!is_known(number));
                if new > most || needed.len() > MOST_READ {
                    return None;
                }
            }
        }
        Some(needed)
    }

    /// The answer, as JSON, with those segments that were read; None if there are too many to be read.
    pub fn answer(&self, query: &Query, read: Option<&HashMap<u32, Arc<Placed>>>) -> String {
        let mut rows = self.rows(query, read);
        let total: usize = rows.values().map(|row| row.spans.len()).sum();
        let limit = match read {
            Some(_) => query.limit,
            None => query.limit.min(COARSE_SPANS),
        };
        let share = if total > limit {
            fair_share_of(rows.values().map(|row| row.spans.len()), limit)
        } else {
            usize::MAX
        };
        let is_whole = |row: &Row<'_>| row.cells.is_empty() && row.spans.len() <= share;
        let complete = rows.values().all(is_whole);
        let loose = rows.values().filter(|row| !is_whole(row)).count() as u64;
        let shift = shift_of(query, loose);
        let mut names = Names::default();
        let mut text = String::new();
        for (&(lane, depth), row) in &mut rows {
            if !text.is_empty() {
                text.push(',');
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "{{\"lane\":{lane},\"depth\":{depth}");
            let cells = (!is_whole(row)).then(|| self.cells(query, row, shift));
            if row.spans.len() > share {
                let longest = |shown: &Shown<'_>| std::cmp::Reverse(shown.span.duration);
                if share > 0 {
                    row.spans.select_nth_unstable_by_key(share - 1, longest);
                }
                row.spans.truncate(share);
            }
            (row.spans).sort_unstable_by_key(|shown| (shown.span.start, shown.span.id));
            self.put_spans(&mut text, &row.spans, &mut names);
            match cells {
                None => text.push_str(",\"cells\":null}"),
                Some((first, list)) => self.put_cells(&mut text, first, shift, &list, &mut names),
            }
        }
        let mut answer = String::with_capacity(text.len() + 4_096);
        answer.push_str("{\"from\":");
        json::number(&mut answer, query.from);
        answer.push_str(",\"to\":");
        json::number(&mut answer, query.to);
        let _ = write!(answer, ",\"complete\":{complete}");
        json::column(&mut answer, "names", &names.list, |out, name| {
            json::text(out, name)
        });
        answer.push_str(",\"rows\":[");
        answer.push_str(&text);
        answer.push_str("]}");
        answer
    }

    fn rows<'a>(
        &'a self,
        query: &Query,
        read: Option<&'a HashMap<u32, Arc<Placed>>>,
    ) -> BTreeMap<(u32, u32), Row<'a>> {
        let mut rows: BTreeMap<(u32, u32), Row<'a>> = BTreeMap::new();
        let (from, to) = (query.from, query.to);
        let mut show = |span: &'a Span, placed: Option<&'a Placed>, in_cells: bool| {
            if query.wants(span.lane) && span.overlaps(from, to) {
                let row = rows.entry((span.lane, span.depth)).or_default();
                row.spans.push(Shown {
                    span,
                    placed,
                    in_cells,
                });
            }
        };
        for reaching in &self.reaching {
            show(&reaching.span, None, false);
        }
        let level = match read {
            Some(_) => &self.segments[..],
            None => self.level_for(query),
        };
        let pictures = || (level.iter().zip(0..)).filter(|(picture, _)| picture.is_in(from, to));
        let placed = |number: u32| read.and_then(|read| read.get(&number));
        for (picture, number) in pictures() {
            match placed(number) {
                Some(placed) => {
                    (placed.spans.iter()).for_each(|span| show(span, Some(placed), false))
                }
                None => {
                    for row in picture.rows.iter().filter(|row| query.wants(row.lane)) {
                        let in_cells = row.cells.is_some();
                        row.spans.iter().for_each(|span| show(span, None, in_cells));
                    }
                }
            }
        }
        for (picture, _) in pictures().filter(|(_, number)| placed(*number).is_none()) {
            for row in picture.rows.iter().filter(|row| query.wants(row.lane)) {
                if let Some(cells) = &row.cells
                    && overlap(cells, picture.shift, from, to)
                {
                    let found = rows.entry((row.lane, row.depth)).or_default();
                    found.cells.push((cells, picture.shift));
                }
            }
        }
        rows
    }

    /// The cells of a row, and the number of the first.
    fn cells(&self, query: &Query, row: &Row<'_>, shift: u32) -> (u64, Vec<picture::Cell>) {
        let first = query.from >> shift;
        let last = query.to.saturating_sub(1).max(query.from) >> shift;
        let mut list = vec![Tally::<COLOURS>::default(); (last - first + 1) as usize];
        for shown in row.spans.iter().filter(|shown| !shown.in_cells) {
            // A label that the index does not have is as good as any other such.
            let known = shown.span.label < self.texts.len() as u32;
            let label = if known { shown.span.label } else { 0 };
            let span = Span {
                label,
                ..shown.span.clone()
            };
            picture::add(&mut list, first, shift, &span);
        }
        for &(cells, from_shift) in &row.cells {
            picture::spread(&mut list, (first, shift), cells, from_shift);
        }
        let width = (1u64 << shift) as f64;
        (first, list.iter().map(|tally| tally.cell(width)).collect())
    }

    fn put_spans<'a>(&'a self, text: &mut String, spans: &[Shown<'a>], names: &mut Names<'a>) {
        let named: Vec<(u32, u32)> = (spans.iter())
            .map(|shown| {
                let (name, label) = match shown.placed {
                    Some(placed) => placed.names(self, shown.span),
                    None => self.names(shown.span),
                };
                (names.number(name), names.number(label))
            })
            .collect();
        let mut column = |name: &str, of: fn(&Span) -> u64| {
            json::column(text, name, spans, |out, shown| {
                json::number(out, of(shown.span))
            });
        };
        column("start", |span| span.start);
        column("duration", |span| span.duration);
        column("inside", |span| span.inside);
        column("category", |span| span.category.into());
        column("layer", |span| span.layer.into());
        column("id", |span| span.id);
        column("correlation", |span| span.correlation);
        column("open", |span| span.open.into());
        json::column(text, "name", &named, |out, named| {
            json::number(out, named.0.into())
        });
        json::column(text, "label", &named, |out, named| {
            json::number(out, named.1.into())
        });
        json::column(text, "status", spans, |out, shown| {
            let _ = match shown.span.status {
                None => write!(out, "null"),
                Some(code) => write!(out, "{code}"),
            };
        });
    }

    fn put_cells<'a>(
        &'a self,
        text: &mut String,
        first: u64,
        shift: u32,
        cells: &[picture::Cell],
        names: &mut Names<'a>,
    ) {
        let is_empty = |cell: &&picture::Cell| cell.category == EMPTY;
        let skipped = cells.iter().take_while(is_empty).count();
        let after = cells.iter().rev().take_while(is_empty).count();
        let cells = cells.get(skipped..cells.len() - after).unwrap_or(&[]);
        let labels: Vec<u32> = (cells.iter())
            .map(|cell| names.number(self.shown(cell.label, cell.label)))
            .collect();
        text.push_str(",\"cells\":{\"first\":");
        json::number(text, first + skipped as u64);
        text.push_str(",\"width_ns\":");
        json::number(text, 1 << shift);
        let mut column = |name: &str, of: fn(&picture::Cell) -> u64| {
            json::column(text, name, cells, |out, cell| json::number(out, of(cell)));
        };
        column("count", |cell| cell.count.into());
        column("of_name", |cell| cell.of_label.into());
        column("fill", |cell| cell.fill.into());
        json::column(text, "name", &labels, |out, &label| {
            json::number(out, label.into())
        });
        json::column(text, "category", cells, |out, cell| {
            let _ = match cell.category {
                EMPTY => write!(out, "-1"),
                category => write!(out, "{category}"),
            };
        });
        text.push_str("}}");
    }
}

/// How wide the cells of an answer are.
fn shift_of(query: &Query, rows: u64) -> u32 {
    let cells = (ALL_CELLS / rows.max(1)).clamp(16, MOST_CELLS);
    let width = query.to.saturating_sub(query.from) / cells;
    (u64::BITS - width.leading_zeros()).min(63)
}

fn overlap(cells: &picture::Cells, shift: u32, from: u64, to: u64) -> bool {
    let last = cells.first + (cells.list.len() as u64).saturating_sub(1);
    cells.first << shift < to && last >= from >> shift
}
