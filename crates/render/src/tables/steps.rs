//! Steps of a training loop, as the framework marks them.

use super::section::{Section, since_start};
use crate::{Style, Table, units::count};
use analyse::Report;

/// Steps shown.
const ROWS: usize = 20;

pub fn steps(report: &Report, style: &Style) -> String {
    let found = &report.steps;
    let mut section = Section::new(style);
    section.heading("Steps");
    let Some(mark) = found.mark.as_deref().filter(|_| !found.is_empty()) else {
        section.line(
            "The trace marks no steps: PyTorch's optimizers, zero_grad and the profiler's step() do, if operators are \
             recorded. Loops that are recognised by their work are in the summary.",
        );
        return section.finish();
    };
    section.line(&format!("A step ends with {mark}."));
    // Work that was not assigned to any step is no step without work.
    let assigned = found.steps.iter().any(|step| step.gpu_operations > 0);
    let steady = found.steady();
    if !steady.is_empty() {
        let mut lengths: Vec<u64> = steady.iter().map(|step| step.length_ns).collect();
        lengths.sort_unstable();
        let median = lengths[lengths.len() / 2];
        let average = |of: fn(&analyse::steps::StepRow) -> u64| {
            steady.iter().map(of).sum::<u64>() / steady.len() as u64
        };
        let work = match assigned {
            true => format!(
                " {} pieces of GPU work of {},",
                count(average(|step| step.gpu_operations)),
                section.time(average(|step| step.gpu_ns))
            ),
            false => String::new(),
        };
        section.line(&format!(
            "{} steps without the first: median {}; on average {} operators,{work} {} waiting for data.",
            count(steady.len() as u64),
            section.time(median),
            count(average(|step| step.operators)),
            section.time(average(|step| step.data_ns)),
        ));
    }
    let mut table = Table::new()
        .right("Step")
        .right("Start")
        .right("Time")
        .right("Operators")
        .right("GPU work")
        .right("GPU time")
        .right("Copies")
        .right("Communication")
        .right("Data");
    let most = section.rows(ROWS);
    let known = |text: String| if assigned { text } else { "-".to_owned() };
    for (number, step) in found.steps.iter().enumerate().take(most) {
        table.row([
            count(number as u64 + 1),
            since_start(report, step.start_ns, style),
            section.time(step.length_ns),
            count(step.operators),
            known(count(step.gpu_operations)),
            known(section.time(step.gpu_ns)),
            known(section.time(step.copy_ns)),
            known(section.time(step.communication_ns)),
            section.time(step.data_ns),
        ]);
    }
    section.table(&table);
    section.more(most, found.steps.len() as u64 + found.left_out);
    section.line(match assigned {
        true => {
            "GPU work counts for the step in which it was started. Times of pieces of work are added up."
        }
        false => "GPU work could not be assigned to the steps of this trace.",
    });
    section.finish()
}
