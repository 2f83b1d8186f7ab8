//! When the host waited for the GPU, where CUPTI tells: by what was waited for. These are no work of
//! the GPU, and the calls that waited are in the trace as well.

use crate::intervals::LateUnion;
use event::{Event, Extent, Kind, Name};
use serde::{Deserialize, Serialize};

/// Waits of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitRow {
    pub name: Name,
    pub count: u64,
    /// The sum of their times: threads wait beside each other.
    pub sum_ns: u64,
    /// How long at least one thread waited so.
    pub waited_ns: u64,
    pub longest_ns: u64,
    pub longest_op_id: Option<u64>,
}

/// The kinds are CUPTI's few; a damaged trace may have more.
const MOST: usize = 64;

#[derive(Default)]
pub(crate) struct WaitSweep {
    rows: Vec<(WaitRow, LateUnion)>,
}

impl WaitSweep {
    pub fn add(&mut self, event: &Event) {
        let Extent::Closed(duration) = event.extent else {
            return;
        };
        if event.kind != Kind::GpuWait {
            return;
        }
        let known = (self.rows.iter()).position(|(row, _)| row.name == event.name);
        let place = match known {
            Some(place) => place,
            None if self.rows.len() >= MOST => return,
            None => {
                let row = WaitRow {
                    name: event.name.clone(),
                    count: 0,
                    sum_ns: 0,
                    waited_ns: 0,
                    longest_ns: 0,
                    longest_op_id: None,
                };
                self.rows.push((row, LateUnion::default()));
                self.rows.len() - 1
            }
        };
        let (row, union) = &mut self.rows[place];
        union.add(event.start, event.start.saturating_add(duration));
        row.count += 1;
        row.sum_ns = row.sum_ns.saturating_add(duration);
        if row.longest_op_id.is_none() || duration > row.longest_ns {
            (row.longest_ns, row.longest_op_id) = (duration, Some(event.id));
        }
    }

    /// The longest first.
    pub fn finish(self) -> Vec<WaitRow> {
        let rows = self.rows.into_iter().map(|(mut row, union)| {
            row.waited_ns = union.length();
            row
        });
        let mut rows: Vec<WaitRow> = rows.collect();
        rows.sort_by(|a, b| (b.sum_ns, &a.name).cmp(&(a.sum_ns, &b.name)));
        rows
    }
}
