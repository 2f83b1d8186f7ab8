//! The rows of the picture: which lanes, in which order, and the sign of each column.

use super::{
    lanes::{Lane, Lanes, Who},
    signs::{self, SIGNS, Sign},
};
use crate::Style;
use analyse::bins::Cell;
use event::Category;
use std::{collections::HashMap, ops::Range};

/// Columns of the share at a row's end.
pub const SHARE: usize = 6;

/// Below this labels are short.
const NARROW: usize = 60;

/// Several lanes may be shown as one row: those that would be too many.
pub struct Row {
    lanes: Vec<Lane>,
    name: Name,
}

enum Name {
    Thread {
        pid: Option<u32>,
        tid: u32,
    },
    Stream {
        device: u32,
        stream: u64,
    },
    Probes {
        device: u32,
        sm: Option<u32>,
    },
    Depth(usize),
    /// So many threads, streams or multiprocessors.
    Rest(usize, &'static str),
}

/// The busiest threads first, then the busiest streams, then multiprocessors by their number.
pub fn rows(lanes: &Lanes, most: usize) -> Vec<Row> {
    let mut busy: HashMap<Who, (u64, usize), ahash::RandomState> = HashMap::default();
    for (lane, cells) in lanes.lanes() {
        let (time, depth) = busy.entry(lane.who).or_default();
        if lane.depth == 0 {
            *time = cells
                .iter()
                .map(Cell::busy)
                .fold(*time, u64::saturating_add);
        }
        *depth = (*depth).max(lane.depth);
    }
    let mut who: Vec<(Who, u64, usize)> = busy
        .into_iter()
        .map(|(who, (time, depth))| (who, time, depth))
        .collect();
    who.sort_by_key(|&(who, time, _)| (std::cmp::Reverse(time), who));
    let (threads, others): (Vec<_>, Vec<_>) =
        { who.into_iter() }.partition(|(who, ..)| matches!(who, Who::Thread { .. }));
    let (streams, mut probes): (Vec<_>, Vec<_>) =
        { others.into_iter() }.partition(|(who, ..)| matches!(who, Who::Stream { .. }));
    probes.sort_by_key(|&(who, ..)| who);
    let mut pids = { threads.iter() }.filter_map(|(who, ..)| match who {
        Who::Thread { pid, .. } => Some(*pid),
        Who::Stream { .. } | Who::Probes { .. } => None,
    });
    let first = pids.next();
    let several = pids.any(|pid| Some(pid) != first);
    let mut rows = Vec::new();
    let groups = [(threads, "threads"), (streams, "streams"), (probes, "SMs")];
    for (group, what) in groups {
        // One more lane takes no more room than a line that says so.
        let shown = if group.len() == most + 1 {
            most + 1
        } else {
            most
        };
        for &(who, _, deepest) in group.iter().take(shown) {
            for depth in 0..=deepest {
                let name = match who {
                    _ if depth > 0 => Name::Depth(depth),
                    Who::Thread { pid, tid } => Name::Thread {
                        pid: several.then_some(pid),
                        tid,
                    },
                    Who::Stream { device, stream } => Name::Stream { device, stream },
                    Who::Probes { device, sm } => Name::Probes { device, sm },
                };
                let lanes = vec![Lane { who, depth }];
                rows.push(Row { lanes, name });
            }
        }
        if group.len() > shown {
            let rest = &group[shown..];
            rows.push(Row {
                lanes: { rest.iter() }
                    .map(|&(who, ..)| Lane { who, depth: 0 })
                    .collect(),
                name: Name::Rest(rest.len(), what),
            });
        }
    }
    rows
}

/// What a column of a row adds up to.
#[derive(Clone, Default)]
struct Column {
    time: [f64; SIGNS.len()],
    spans: u64,
    instants: u64,
}

impl Row {
    /// Whose threads are in it.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.lanes.iter().filter_map(|lane| match lane.who {
            Who::Thread { pid, .. } => Some(pid),
            Who::Stream { .. } | Who::Probes { .. } => None,
        })
    }

    pub fn label(&self, style: Style) -> String {
        let dots = if style.unicode { "…" } else { "~" };
        match self.name {
            Name::Thread { pid: None, tid } if style.width < NARROW => format!("t{tid}"),
            Name::Thread { pid: None, tid } => format!("thread {tid}"),
            Name::Thread {
                pid: Some(pid),
                tid,
            } if pid == tid => format!("{pid}"),
            Name::Thread {
                pid: Some(pid),
                tid,
            } => format!("{pid}/{tid}"),
            Name::Stream { device, stream } if stream < 10_000 => {
                format!("GPU {device} #{stream}")
            }
            Name::Stream { device, stream } => {
                format!("GPU {device} {dots}{:04x}", stream & 0xffff)
            }
            Name::Probes {
                device,
                sm: Some(sm),
            } => format!("GPU {device} SM {sm}"),
            Name::Probes { device, sm: None } => format!("GPU {device} probes"),
            Name::Depth(depth) => format!(
                "{}{} {depth}",
                " ".repeat(depth.min(4)),
                if style.unicode { "└" } else { "`" }
            ),
            Name::Rest(count, what) => format!("{count} more {what}"),
        }
    }

    pub fn line(
        &self,
        lanes: &Lanes,
        range: &Range<u64>,
        label: usize,
        columns: usize,
        style: Style,
    ) -> String {
        let cells = self.columns(lanes, range, columns);
        let width = (range.end - range.start) as f64 / columns as f64 * self.lanes.len() as f64;
        let signs: Vec<Sign> = cells.iter().map(|cell| sign(cell, width)).collect();
        let busy: f64 = cells.iter().flat_map(|cell| cell.time).sum();
        let share = busy / (width * columns as f64) * 100.0;
        let mut name = self.label(style);
        if name.chars().count() > label {
            name = { name.chars() }.take(label.saturating_sub(1)).collect();
            name.push(if style.unicode { '…' } else { '~' });
        }
        let share = if share > 0.0 && share < 0.5 {
            "<1".to_owned()
        } else {
            // Spans that overlap on one stream are not more than all of the time.
            format!("{:.0}", share.min(100.0))
        };
        format!("{name:label$} {}{share:>4} %", signs::text(&signs, style))
    }

    /// Cells become columns: a cell that two columns share is divided between them.
    fn columns(&self, lanes: &Lanes, range: &Range<u64>, columns: usize) -> Vec<Column> {
        let mut sums = vec![Column::default(); columns];
        let width = lanes.cell_width() as f64;
        let column = (range.end - range.start) as f64 / columns as f64;
        let mine: std::collections::HashSet<&Lane, ahash::RandomState> =
            self.lanes.iter().collect();
        for (_, cells) in lanes.lanes().filter(|(lane, _)| mine.contains(lane)) {
            for cell in cells {
                let (from, to) = (cell.index as f64 * width, (cell.index + 1) as f64 * width);
                let first = ((from / column) as usize).min(columns - 1);
                let last = ((to / column).ceil() as usize).clamp(first + 1, columns);
                for (place, sum) in sums[first..last].iter_mut().enumerate() {
                    let (begin, end) = (
                        (first + place) as f64 * column,
                        (first + place + 1) as f64 * column,
                    );
                    // The last cell may reach behind the range: what is in it does not.
                    let to = to.min(columns as f64 * column).max(from + 1.0);
                    let part = ((end.min(to) - begin.max(from)) / (to - from)).clamp(0.0, 1.0);
                    for &category in Category::ALL {
                        sum.time[Sign::of(category) as usize] += cell.time(category) as f64 * part;
                    }
                    if place == 0 {
                        sum.instants += cell.instants;
                        sum.spans += cell.spans;
                    }
                }
            }
        }
        sums
    }
}

/// What took most of a column. Many short spans that leave nearly all of it idle are shown as
/// little; a few are shown by their sign, or short traces would be blank.
fn sign(column: &Column, width: f64) -> Sign {
    let busy: f64 = column.time.iter().sum();
    if busy <= 0.0 {
        return if column.instants > 0 {
            Sign::Other
        } else {
            Sign::Idle
        };
    }
    if busy * 16.0 < width && column.spans > 4 {
        return Sign::Other;
    }
    let mut most = Sign::Other;
    for sign in SIGNS.into_iter().rev() {
        // Nearly nothing of a category outweighs calls that are about none.
        if column.time[sign as usize] > 0.0
            && (column.time[sign as usize] >= column.time[most as usize])
        {
            most = sign;
        }
    }
    most
}
