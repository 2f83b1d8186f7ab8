//! Steps of a training loop, by what PyTorch says of itself: an optimizer's step, `zero_grad`, the profiler's own steps, in
//! this order of trust. Each step is a row with the operators that ran in it and the GPU work that it started.
//!
//! Loops that say nothing are found by their work (`phases`).

use event::{Category, Event, Name};
use serde::{Deserialize, Serialize};

/// The steps, by the best mark that the program sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The operator whose end is a step's end.
    pub mark: Option<Name>,
    pub steps: Vec<StepRow>,
    /// Steps that came when there were too many rows.
    pub left_out: u64,
}

/// From the end of one mark to the end of the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    pub start_ns: u64,
    pub length_ns: u64,
    pub operators: u64,
    /// Work that calls made in the step started, and the sum of its times.
    pub gpu_operations: u64,
    pub gpu_ns: u64,
    pub copies: u64,
    pub copy_ns: u64,
    /// Kernels of NCCL.
    pub communication_ns: u64,
    /// In the DataLoader's `__next__`.
    pub data_ns: u64,
}

impl Steps {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// All of them but the first, which warms up.
    pub fn steady(&self) -> &[StepRow] {
        self.steps.get(1..).unwrap_or_default()
    }
}

const MARKS: [&str; 3] = ["Optimizer.step#", "Optimizer.zero_grad#", "ProfilerStep#"];
/// What PyTorch calls waiting for a batch.
pub(crate) const DATA: &str = "enumerate(DataLoader)#";
const MOST_STEPS: usize = 16_384;

#[derive(Default)]
pub(crate) struct StepSweep {
    /// By [`MARKS`].
    marks: [Marked; MARKS.len()],
    operators: u64,
    data_ns: u64,
}

#[derive(Default)]
struct Marked {
    /// The first of this kind: a program may have several optimizers.
    name: Option<(u32, Name)>,
    ends: Vec<Boundary>,
    rows: Vec<StepRow>,
    left_out: u64,
}

#[derive(Clone, Copy)]
struct Boundary {
    at: u64,
    operators: u64,
    data_ns: u64,
}

impl StepSweep {
    pub fn begun(&mut self) {
        self.operators += 1;
    }

    pub fn ended(&mut self, event: &Event, duration: u64) {
        if event.name.starts_with(DATA) {
            self.data_ns = self.data_ns.saturating_add(duration);
            return;
        }
        let Some(kind) = MARKS.iter().position(|mark| event.name.starts_with(mark)) else {
            return;
        };
        let marked = &mut self.marks[kind];
        // The profiler numbers its steps.
        let name: Name = match kind {
            2 => MARKS[2].into(),
            _ => event.name.clone(),
        };
        let known = marked.name.get_or_insert_with(|| (event.pid, name.clone()));
        if *known != (event.pid, name) {
            return;
        }
        if marked.ends.len() >= MOST_STEPS {
            marked.left_out += 1;
            return;
        }
        let end = Boundary {
            at: event.start.saturating_add(duration),
            operators: self.operators,
            data_ns: self.data_ns,
        };
        if let Some(before) = marked.ends.last() {
            marked.rows.push(StepRow {
                start_ns: before.at,
                length_ns: end.at.saturating_sub(before.at),
                operators: end.operators - before.operators,
                data_ns: end.data_ns - before.data_ns,
                ..StepRow::default()
            });
        }
        marked.ends.push(end);
    }

    /// Work of the GPU, whose call was made then.
    pub fn gpu(&mut self, event: &Event, called: u64, duration: u64) {
        for marked in &mut self.marks {
            // The row between two ends has the number of the first.
            let before = marked.ends.partition_point(|end| end.at <= called);
            let row = before.checked_sub(1).and_then(|at| marked.rows.get_mut(at));
            let Some(row) = row else {
                continue;
            };
            row.gpu_operations += 1;
            row.gpu_ns = row.gpu_ns.saturating_add(duration);
            if event.category == Category::Transfer {
                row.copies += 1;
                row.copy_ns = row.copy_ns.saturating_add(duration);
            } else if event.name.contains("nccl") {
                row.communication_ns = row.communication_ns.saturating_add(duration);
            }
        }
    }

    pub fn finish(self) -> Steps {
        let mut best = self
            .marks
            .into_iter()
            .filter(|marked| !marked.rows.is_empty());
        let Some(best) = best.next() else {
            return Steps::default();
        };
        Steps {
            mark: best.name.map(|(_, name)| name),
            steps: best.rows,
            left_out: best.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Extent, Layer};

    fn operator(name: &str, start: u64, duration: u64) -> Event {
        let mut event = Event::new(1, Layer::Framework, Category::Other, name, start);
        (event.pid, event.extent) = (1, Extent::Closed(duration));
        event
    }

    #[test]
    fn the_most_trusted_mark_makes_the_steps() {
        let mut sweep = StepSweep::default();
        for step in 0..4u64 {
            let at = step * 100;
            sweep.ended(&operator("Optimizer.zero_grad#SGD.zero_grad", at, 5), 5);
            let data = format!("{DATA}_SingleProcessDataLoaderIter.__next__");
            sweep.ended(&operator(&data, at + 10, 20), 20);
            sweep.begun();
            sweep.begun();
            sweep.ended(&operator("Optimizer.step#SGD.step", at + 60, 30), 30);
            // Another optimizer of the same program is no mark of its own.
            sweep.ended(&operator("Optimizer.step#AdamW.step", at + 91, 2), 2);
        }
        let mut copy = Event::new(9, Layer::Gpu, Category::Transfer, "memcpy H2D", 500);
        copy.pid = 1;
        sweep.gpu(&copy, 195, 7);
        sweep.gpu(&operator("ncclDevKernel_AllReduce", 501, 3), 200, 3);
        // Before the first end, and after the last.
        sweep.gpu(&copy, 20, 7);
        sweep.gpu(&copy, 395, 7);
        let found = sweep.finish();
        assert_eq!(found.mark.as_deref(), Some("Optimizer.step#SGD.step"));
        assert_eq!(found.steps.len(), 3);
        let row = &found.steps[1];
        assert_eq!((row.start_ns, row.length_ns, row.operators), (190, 100, 2));
        assert_eq!((row.data_ns, row.gpu_operations, row.gpu_ns), (20, 2, 10));
        assert_eq!((row.copies, row.copy_ns, row.communication_ns), (1, 7, 3));
        assert_eq!(
            (found.steps[0].gpu_operations, found.steps[2].gpu_operations),
            (0, 0)
        );
    }

    #[test]
    fn numbered_steps_are_one_mark() {
        let mut sweep = StepSweep::default();
        for step in 0..3u64 {
            sweep.ended(
                &operator(&format!("ProfilerStep#{step}"), step * 10, 10),
                10,
            );
        }
        let found = sweep.finish();
        assert_eq!(
            (found.mark.as_deref(), found.steps.len()),
            (Some("ProfilerStep#"), 2)
        );
        assert!(StepSweep::default().finish().is_empty());
    }
}
