//! What PyTorch's operators show: an optimizer of many small kernels, a DataLoader that is waited for, `.item()` in the loop.

use super::{Draft, Finding, FindingInput, limits, words};
use crate::operators::Operator;

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let steps = seen.report.steps.steady();
    if steps.len() < limits::FEWEST_STEPS as usize {
        return;
    }
    let length = steps.iter().map(|step| step.length_ns).sum();
    let loop_ = Loop {
        steps: steps.len() as u64,
        length_ns: length,
        from: steps[0].start_ns,
        to: steps[0].start_ns.saturating_add(length),
    };
    found.extend(unfused_optimizer(seen, &loop_));
    found.extend(slow_data(seen, &loop_));
    found.extend(item_in_loop(seen, &loop_));
}

/// The steps that are judged.
struct Loop {
    steps: u64,
    length_ns: u64,
    from: u64,
    to: u64,
}

impl Loop {
    /// A row's time in the steps, if that is much of them.
    fn share_of(&self, ns: u64) -> Option<f64> {
        let share = ns as f64 / self.length_ns.max(1) as f64;
        (share >= limits::MEDIUM_SHARE).then_some(share.min(1.0))
    }
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
    let cost = row.total_ns / row.count.max(1) * of.steps;
    let share = of.share_of(cost)?;
    if each < limits::OPTIMIZER_KERNELS {
        return None;
    }
    Some(
        Draft::new("unfused-optimizer", seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("kernels_per_step", each)
            .number("optimizer_ns", cost)
            .between(of.from, of.to)
            .say(
                seen,
                format!("The optimizer starts {each} kernels in each step"),
                format!(
                    "{} takes {:.0} % of the time of {} steps and starts {each} pieces of GPU work in each.",
                    row.name,
                    100.0 * share,
                    of.steps
                ),
                "Construct the optimizer with fused=True (Adam, AdamW, SGD, Adagrad) or foreach=True: one kernel then updates \
                 many parameters.",
            ),
    )
}

fn slow_data(seen: &FindingInput<'_>, of: &Loop) -> Option<Finding> {
    let steps = seen.report.steps.steady();
    let cost: u64 = steps.iter().map(|step| step.data_ns).sum();
    let share = of.share_of(cost)?;
    let row = rows(seen, crate::steps::DATA).max_by_key(|row| row.total_ns)?;
    Some(
        Draft::new("slow-data-loading", seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("data_ns", cost)
            .between(of.from, of.to)
            .say(
                seen,
                format!("DataLoader: the program waits {:.0} % of each step for a batch", 100.0 * share),
                format!(
                    "{} of {} in {} steps are spent in the DataLoader.",
                    words::time(cost),
                    words::time(of.length_ns),
                    of.steps
                ),
                "Give the DataLoader more workers (num_workers), pin_memory=True and a larger prefetch_factor, or do less in \
                 the dataset's __getitem__.",
            ),
    )
}

fn item_in_loop(seen: &FindingInput<'_>, of: &Loop) -> Option<Finding> {
    let row = rows(seen, "aten::item").next()?;
    // One that copies nothing is of a tensor on the CPU.
    if row.gpu_operations < of.steps {
        return None;
    }
    let cost = row.total_ns / row.count.max(1) * row.gpu_operations;
    of.share_of(cost)?;
    let each = row.gpu_operations as f64 / of.steps as f64;
    Some(
        Draft::new("item-in-loop", seen)
            .in_steps()
            .costs(cost)
            .shown_by(row.max_op_id)
            .number("items", row.gpu_operations)
            .number("wait_ns", cost)
            .between(of.from, of.to)
            .say(
                seen,
                format!(".item() waits for the GPU {each:.1} times in each step"),
                format!(
                    "aten::item read a tensor of the GPU {} times and took {}: each waits until everything before it is done.",
                    row.gpu_operations,
                    words::time(cost)
                ),
                "Keep the value on the GPU and read it every hundred steps, or copy it with non_blocking=True and look at it a \
                 step later. --stack shows the line that calls it.",
            ),
    )
}
