//! Lines of Python that wait for the GPU: calls that synchronise, with the line that they come from and the operator that made
//! them (`.item()`, `.cpu()`, a tensor in a condition).

use event::{Event, Extent, Name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Waits of one line, in one operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineWait {
    /// `train.py:57`
    pub line: Name,
    /// The outermost operator around the wait; none where the program waits itself.
    pub operator: Option<Name>,
    /// What was called.
    pub function: Name,
    /// The module whose forward it is in.
    pub module: Option<Name>,
    pub count: u64,
    pub total_ns: u64,
    /// Steps of the program's loop that had one.
    pub steps: u64,
    pub max_ns: u64,
    pub max_op_id: Option<u64>,
}

const MOST_ROWS: usize = 1024;
const MOST_THREADS: usize = 65_536;

#[derive(Default)]
pub(crate) struct LineWaitSweep {
    rows: Vec<Row>,
    index: HashMap<(Name, Option<Name>), usize, ahash::RandomState>,
    /// The outermost wait of each thread.
    open: HashMap<(u32, u32), (u64, usize), ahash::RandomState>,
}

struct Row {
    wait: LineWait,
    latest_step: Option<u64>,
}

/// What is around a wait.
pub(crate) struct Around {
    pub operator: Option<Name>,
    pub module: Option<Name>,
    /// Steps that are over.
    pub step: u64,
}

impl LineWaitSweep {
    /// Whether a call that begins here is one to be noted.
    #[inline]
    pub fn concerns(event: &Event) -> bool {
        !event.stack.is_empty() && event.name.contains("Synchronize")
    }

    pub fn begin(&mut self, event: &Event, around: Around) {
        let key = (event.pid, event.tid);
        // A runtime call and the driver's call in it are one wait.
        if self.open.contains_key(&key) || self.open.len() >= MOST_THREADS {
            return;
        }
        let Some(line) = crate::places::line_of(&event.stack) else {
            return;
        };
        let name = (line, around.operator);
        let place = match self.index.get(&name) {
            Some(&place) => place,
            None if self.rows.len() >= MOST_ROWS => return,
            None => {
                self.index.insert(name.clone(), self.rows.len());
                let (line, operator) = name;
                self.rows.push(Row {
                    wait: LineWait {
                        line,
                        operator,
                        function: event.name.clone(),
                        module: around.module,
                        count: 0,
                        total_ns: 0,
                        steps: 0,
                        max_ns: 0,
                        max_op_id: None,
                    },
                    latest_step: None,
                });
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[place];
        if row.latest_step != Some(around.step) {
            row.latest_step = Some(around.step);
            row.wait.steps += 1;
        }
        self.open.insert(key, (event.id, place));
    }

    pub fn end(&mut self, event: &Event) {
        let Extent::Closed(duration) = event.extent else {
            return;
        };
        let key = (event.pid, event.tid);
        let Some(&(id, place)) = self.open.get(&key) else {
            return;
        };
        if id != event.id {
            return;
        }
        self.open.remove(&key);
        let wait = &mut self.rows[place].wait;
        wait.count += 1;
        wait.total_ns = wait.total_ns.saturating_add(duration);
        if duration >= wait.max_ns {
            (wait.max_ns, wait.max_op_id) = (duration, Some(event.id));
        }
    }

    /// Most time first.
    pub fn finish(self) -> Vec<LineWait> {
        let rows = self.rows.into_iter().map(|row| row.wait);
        let mut waits: Vec<LineWait> = rows.filter(|wait| wait.count > 0).collect();
        waits.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.line.cmp(&b.line)));
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Frame, FrameKind, Layer};

    fn call(id: u64, name: &str, extent: Extent) -> Event {
        let mut event = Event::new(id, Layer::Runtime, Category::Sync, name, 10);
        (event.pid, event.tid, event.extent) = (1, 1, extent);
        event.stack = [Frame {
            kind: FrameKind::Python,
            file: Some("/me/train.py".into()),
            line: Some(57),
            ..Frame::default()
        }]
        .into();
        event
    }

    #[test]
    fn waits_are_counted_by_line_and_once_for_both_layers() {
        let mut sweep = LineWaitSweep::default();
        for step in 0..3u64 {
            let around = |step| Around {
                operator: Some("aten::item".into()),
                module: None,
                step,
            };
            let ids = (2 * step, 2 * step + 1);
            sweep.begin(
                &call(ids.0, "cudaStreamSynchronize", Extent::Open),
                around(step / 2),
            );
            sweep.begin(
                &call(ids.1, "cuStreamSynchronize", Extent::Open),
                around(step / 2),
            );
            sweep.end(&call(ids.1, "cuStreamSynchronize", Extent::Closed(5)));
            sweep.end(&call(
                ids.0,
                "cudaStreamSynchronize",
                Extent::Closed(7 + step),
            ));
        }
        let found = sweep.finish();
        assert_eq!(found.len(), 1);
        let wait = &found[0];
        assert_eq!(
            (&*wait.line, wait.count, wait.total_ns),
            ("train.py:57", 3, 24)
        );
        assert_eq!((wait.steps, wait.max_op_id), (2, Some(4)));
        assert!(!LineWaitSweep::concerns(&call(
            1,
            "cudaMalloc",
            Extent::Open
        )));
    }
}
