//! What PyTorch's operators show, in the program's own words: an optimizer of many small kernels, a DataLoader that is waited
//! for, lines that wait for the GPU.

use super::{Draft, Finding, FindingInput, Id, limits, words};
use crate::line_waits::LineWait;
use crate::operators::Operator;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let Some(of) = Loop::of(seen) else {
        return;
    };
    found.extend(unfused_optimizer(seen, &of));
    found.extend(slow_data(seen, &of));
    let waits = &seen.report.operators.waits;
    let waits = waits
        .iter()
        .filter_map(|wait| line_that_waits(seen, &of, wait));
    found.extend(waits.take(MOST_LINES));
    if !seen.report.operators.waits.iter().any(is_item) {
        found.extend(item_in_loop(seen, &of));
    }
    super::modules::look(seen, &of, found);
}

/// Lines that get a finding of their own.
const MOST_LINES: usize = 3;

/// The steps that are judged.
pub(super) struct Loop {
    pub steps: u64,
    pub length_ns: u64,
    /// How long the GPU had nothing to do: no change on the host saves more.
    pub idle_ns: u64,
    pub from: u64,
    pub to: u64,
}

impl Loop {
    /// By the program's own marks; without them by the work that repeats.
    fn of(seen: &FindingInput<'_>) -> Option<Loop> {
        let steps = seen.report.steps.steady();
        if steps.len() >= limits::FEWEST_STEPS as usize {
            let length = steps.iter().map(|step| step.length_ns).sum();
            let busy: u64 = steps.iter().map(|step| step.busy_ns).sum();
            return Some(Loop {
                steps: steps.len() as u64,
                length_ns: length,
                idle_ns: length.saturating_sub(busy),
                from: steps[0].start_ns,
                to: steps[0].start_ns.saturating_add(length),
            });
        }
        let working = seen.steps()?;
        Some(Loop {
            steps: working.steps() as u64,
            length_ns: working.length_ns,
            idle_ns: working.idle_ns,
            from: working.from_ns,
            to: working.to_ns,
        })
    }

    /// What part of the steps that is, if it is much of them.
    pub fn share_of(&self, ns: u64) -> Option<f64> {
        let share = ns as f64 / self.length_ns.max(1) as f64;
        (share >= limits::MEDIUM_SHARE).then_some(share.min(1.0))
    }

    /// Whether the host stops for the GPU in every step, however busy that keeps the GPU.
    fn synchronises(&self, count: u64, waited_ns: u64) -> bool {
        count as f64 >= limits::EVERY_STEP * self.steps as f64 && self.share_of(waited_ns).is_some()
    }

    /// The host's time in all steps for what it does so often in each, without the longest: that one loaded something.
    pub fn host_ns(&self, row: &Operator) -> u64 {
        let usual = match row.count {
            0 | 1 => row.total_ns,
            count => row.total_ns.saturating_sub(row.max_ns) / (count - 1) * count,
        };
        // The marks are one more than the steps, and the first step is not judged.
        usual.min(self.length_ns)
    }

    /// Time on the host is lost only while the GPU waits.
    pub fn lost(&self, host_ns: u64) -> u64 {
        host_ns.min(self.idle_ns)
    }
}

/// ` in train.py:57`
pub(super) fn at(line: Option<&str>) -> String {
    line.map(|line| format!(" in {line}")).unwrap_or_default()
}

fn rows<'a>(
    seen: &'a FindingInput<'_>,
    begins: &'static str,
) -> impl Iterator<Item = &'a Operator> {
    let rows = seen.report.operators.operators.iter();
    rows.filter(move |row| row.name.starts_with(begins))
}

fn unfused_optimizer(seen: &FindingInput<'_>, of: &Loop) -> Option<Finding> {
    let row = rows(seen, "Optimizer.step#").max_by_key(|row| row.gpu_operations)?;
    let each = row.gpu_operations / row.count.max(1);
    if each < limits::OPTIMIZER_KERNELS {
        return None;
    }
    let host = of.host_ns(row);
    let gpu = row.gpu_ns / row.count.max(1) * of.steps;
    let cost = of.lost(host).max(gpu);
    let share = of.share_of(cost)?;
    let line = row.line.as_deref();
    Some(
        Draft::new(Id::UnfusedOptimizer, seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("kernels_per_step", each)
            .number("optimizer_ns", host)
            .between(of.from, of.to)
            .say(
                seen,
                format!(
                    "The optimizer's step{} launches {each} kernels: {:.0} % of each step",
                    at(line),
                    100.0 * share
                ),
                format!(
                    "{}{} starts {each} pieces of GPU work each time; over {} steps it takes the host {} and the GPU {}.",
                    row.name,
                    at(line),
                    of.steps,
                    words::time(host),
                    words::time(gpu),
                ),
                "Construct the optimizer with fused=True (Adam, AdamW, SGD, Adagrad) or foreach=True: one kernel then updates \
                 many parameters.",
            ),
    )
}

fn slow_data(seen: &FindingInput<'_>, of: &Loop) -> Option<Finding> {
    let steps = seen.report.steps.steady();
    let waited: u64 = steps.iter().map(|step| step.data_ns).sum();
    // Without GPU times nobody knows what the GPU did meanwhile.
    let measured = seen.report.gpu.all.operations > 0;
    let cost = match measured {
        true => steps.iter().map(|step| step.data_idle_ns).sum(),
        false => waited,
    };
    let share = of.share_of(cost)?;
    let row = rows(seen, crate::steps::DATA).max_by_key(|row| row.total_ns)?;
    let who = if measured { "the GPU" } else { "the program" };
    let line = row.line.as_deref();
    Some(
        Draft::new(Id::SlowDataLoading, seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("data_ns", waited)
            .number("wait_ns", cost)
            .between(of.from, of.to)
            .say(
                seen,
                format!(
                    "DataLoader{}: {who} waits {:.0} % of each step for a batch",
                    at(line),
                    100.0 * share
                ),
                format!(
                    "{} of {} in {} steps are spent in the DataLoader; {who} has nothing to do for {} of them.",
                    words::time(waited),
                    words::time(of.length_ns),
                    of.steps,
                    words::time(cost),
                ),
                "Give the DataLoader more workers (num_workers), pin_memory=True and a larger prefetch_factor, or do less in \
                 the dataset's __getitem__.",
            ),
    )
}

/// A line that makes the host wait in most steps, while the GPU runs out of work because of it.
fn line_that_waits(seen: &FindingInput<'_>, of: &Loop, wait: &LineWait) -> Option<Finding> {
    if wait.count < of.steps / 2 || of.steps == 0 {
        return None;
    }
    let waited = wait.total_ns.saturating_sub(wait.max_ns);
    let cost = of.lost(waited);
    let share = of.share_of(cost);
    if share.is_none() && !(wait.operator.is_some() && of.synchronises(wait.count, waited)) {
        return None;
    }
    let each = wait.count as f64 / of.steps as f64;
    let what = what_waits(wait);
    let often = match each {
        ..1.5 => "in each step".to_owned(),
        _ => format!("{each:.0} times in each step"),
    };
    let inside = match &wait.module {
        Some(module) => format!(" (module {module})"),
        None => String::new(),
    };
    Some(
        Draft::new(Id::ItemInLoop, seen)
            .in_steps()
            .costs(cost)
            .shown_by(wait.max_op_id)
            .number("waits", wait.count)
            .number("wait_ns", waited)
            .between(of.from, of.to)
            .say(
                seen,
                match share {
                    Some(share) => format!(
                        "{what} in {}{inside} waits for the GPU {often}: up to {:.0} % of its time",
                        wait.line,
                        100.0 * share
                    ),
                    None => format!("{what} in {}{inside} synchronises {often}", wait.line),
                },
                format!(
                    "{what} waited {} in {}, {} in all. The GPU finishes everything first, and then has nothing to do until \
                     the program has launched more{}.",
                    words::counted(wait.count, "time", "times"),
                    wait.line,
                    words::time(waited),
                    match share {
                        Some(_) => "",
                        None => STILL_BUSY,
                    }
                ),
                "Keep the value on the GPU and read it every hundred steps, or copy it with non_blocking=True and look at it a \
                 step later.",
            ),
    )
}

/// Why a line that costs little is worth a word.
const STILL_BUSY: &str = ". Here its kernels are long enough to hide most of that; a faster GPU or a smaller batch will not";

fn is_item(wait: &LineWait) -> bool {
    let operator = wait.operator.as_deref();
    matches!(operator, Some("aten::item" | "aten::_local_scalar_dense"))
}

/// What a person wrote there.
fn what_waits(wait: &LineWait) -> &str {
    match wait.operator.as_deref() {
        Some("aten::item" | "aten::_local_scalar_dense") => ".item()",
        Some("aten::is_nonzero") => "a tensor in a condition",
        Some("aten::nonzero" | "aten::masked_select" | "aten::index" | "aten::index_put_") => {
            "indexing by a mask"
        }
        Some("aten::to" | "aten::_to_copy" | "aten::copy_" | "aten::cpu") => ".cpu() or .to()",
        Some("aten::equal" | "aten::allclose") => "comparing tensors",
        Some(operator) => operator,
        None => match &*wait.function {
            "cudaDeviceSynchronize" | "cuCtxSynchronize" | "cuCtxSynchronize_v2" => {
                "torch.cuda.synchronize()"
            }
            function => function,
        },
    }
}

/// The same without lines.
fn item_in_loop(seen: &FindingInput<'_>, of: &Loop) -> Option<Finding> {
    let row = rows(seen, "aten::item").next()?;
    // One that copies nothing is of a tensor on the CPU.
    if row.gpu_operations < of.steps {
        return None;
    }
    let waited = of.host_ns(row);
    let cost = of.lost(waited);
    if of.share_of(cost).is_none() && !of.synchronises(row.gpu_operations, waited) {
        return None;
    }
    let each = row.gpu_operations as f64 / of.steps.max(1) as f64;
    Some(
        Draft::new(Id::ItemInLoop, seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("items", row.gpu_operations)
            .number("wait_ns", waited)
            .between(of.from, of.to)
            .say(
                seen,
                format!(".item() waits for the GPU {each:.1} times in each step"),
                format!(
                    "aten::item read a tensor of the GPU {} times and took {}: each waits until everything before it is done.",
                    row.gpu_operations,
                    words::time(waited)
                ),
                "Keep the value on the GPU and read it every hundred steps, or copy it with non_blocking=True and look at it a \
                 step later. --stack shows the line that calls it.",
            ),
    )
}
