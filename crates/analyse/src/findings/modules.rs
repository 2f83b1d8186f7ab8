//! Modules of many small kernels, and modules whose tensors are never given back.

use super::framework::{Loop, at};
use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::operators::Operator;
use crate::tensors::Growth;
use std::collections::BTreeMap;

pub fn look(seen: &FindingInput<'_>, of: &Loop, found: &mut Vec<Finding>) {
    let mut groups: Vec<Finding> = (groups(seen).into_iter())
        .filter_map(|(name, rows)| small_kernels(seen, of, &name, &rows))
        .collect();
    groups.sort_by_key(|finding| std::cmp::Reverse(finding.cost_ns));
    found.extend(groups.into_iter().take(MOST_GROUPS));
    let growing = &seen.report.tensors.growing;
    let grows = growing.first().and_then(|first| growth(seen, of, first));
    if grows.is_some() {
        // Who it is says more than that there is one; and a pool that still has room says nothing.
        found.retain(|finding| !finding.is(&[Id::Leak, Id::Pool]));
    }
    found.extend(grows);
}

/// Groups that get a finding of their own.
const MOST_GROUPS: usize = 2;

/// Modules that hold no others, those of one place in every layer together.
fn groups<'a>(seen: &'a FindingInput<'_>) -> BTreeMap<String, Vec<&'a Operator>> {
    let rows = || seen.report.operators.operators.iter();
    let mut groups: BTreeMap<String, Vec<&Operator>> = BTreeMap::new();
    let mut names: Vec<&str> = rows().filter_map(Operator::module).collect();
    names.sort_unstable();
    for row in rows() {
        let Some(name) = row.module().filter(|_| row.own.kernels > 0) else {
            continue;
        };
        let inner = format!("{name}.");
        let after = names.partition_point(|other| *other < inner.as_str());
        let holds_others = (names.get(after)).is_some_and(|other| other.starts_with(&inner));
        if !holds_others {
            groups.entry(pattern(name)).or_default().push(row);
        }
    }
    groups
}

/// `Model.layers.3.norm` → `Model.layers.*.norm`
fn pattern(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split('.');
    let parts: Vec<&str> = parts
        .map(|part| if is_number(part) { "*" } else { part })
        .collect();
    parts.join(".")
}

fn small_kernels(
    seen: &FindingInput<'_>,
    of: &Loop,
    name: &str,
    rows: &[&Operator],
) -> Option<Finding> {
    let sum = |of: fn(&Operator) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
    let (kernels, fusible) = (sum(|row| row.own.kernels), sum(|row| row.own.fusible));
    let calls = sum(|row| row.own.calls);
    // A fused one has a kernel or two each way.
    if fusible < limits::FUSIBLE_PER_CALL * calls.max(1) || 10 * fusible < 9 * kernels {
        return None;
    }
    let host = sum(|row| row.own.host_ns);
    let gpu = sum(|row| row.own.fusible_ns).min(of.length_ns);
    let cost = of.lost(host).max(gpu);
    let share = of.share_of(cost)?;
    let each = fusible / of.steps.max(1);
    if each < limits::FUSIBLE_PER_STEP {
        return None;
    }
    let longest = rows.iter().max_by_key(|row| row.total_ns)?;
    let line = longest.line.as_deref();
    Some(
        Draft::new(Id::SmallKernelsInModule, seen)
            .in_steps()
            .costs(cost)
            .shown_by(longest.max_op_id)
            .number("kernels_per_step", each)
            .number("gpu_ns", gpu)
            .number("host_ns", host)
            .between(of.from, of.to)
            .say(
                seen,
                format!(
                    "{name}{}: {:.0} % of each step in {each} small kernels: compile or fuse",
                    at(line),
                    100.0 * share
                ),
                format!(
                    "{} of {name} launch {each} elementwise kernels and reductions in each step, {} for each call, forward \
                     and backward; that takes the host {} in {} steps, and the GPU {}.",
                    words::counted(rows.len() as u64, "module", "modules"),
                    fusible / calls.max(1),
                    words::time(host),
                    of.steps,
                    words::time(gpu),
                ),
                "Use a fused implementation (torch.nn.LayerNorm, torch.nn.RMSNorm, torch.nn.functional), or torch.compile the \
                 module: one kernel then does the work of many.",
            ),
    )
}

fn growth(seen: &FindingInput<'_>, of: &Loop, growth: &Growth) -> Option<Finding> {
    let peak = seen.report.tensors.peak_bytes;
    let all = seen.report.tensors.growing.iter();
    let bytes: u64 = all.map(|one| one.bytes).sum();
    // A loss that is kept for a log is no leak that anybody minds.
    if bytes < limits::GROWTH_BYTES || (bytes as f64) < limits::GROWTH_SHARE * peak as f64 {
        return None;
    }
    let name = &growth.name;
    let who = match (&name.module, &name.operator) {
        (Some(module), _) => module.to_string(),
        (None, Some(operator)) => operator.to_string(),
        (None, None) => "The program".to_owned(),
    };
    let line = name.line.as_deref();
    let by = match &name.operator {
        Some(operator) => format!("allocated by {operator}"),
        None => "allocated in no operator".to_owned(),
    };
    Some(
        Draft::new(Id::TensorLeak, seen)
            .at_least(Severity::Medium)
            .sure(Confidence::Likely)
            .costs_bytes(bytes)
            .shown_by(growth.op_id)
            .number("bytes_per_step", growth.bytes_per_step)
            .number("steps", growth.steps)
            .between(of.from, of.to)
            .say(
                seen,
                format!(
                    "{who}{}: {} of GPU memory stay allocated with each step",
                    at(line),
                    words::bytes(growth.bytes_per_step)
                ),
                format!(
                    "Tensors {by} in {} steps, {} in all, were still there when the last step ended.",
                    growth.steps,
                    words::bytes(growth.bytes),
                ),
                "Something keeps them: a list of outputs or losses, a buffer that grows, a cache. Keep loss.item() or \
                 x.detach() instead of tensors that hold a graph, and clear what is collected.",
            ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_place() {
        assert_eq!(pattern("Model.layers.12.norm"), "Model.layers.*.norm");
        assert_eq!(pattern("Model.h2.0.1"), "Model.h2.*.*");
        assert_eq!(pattern("Model"), "Model");
    }
}
