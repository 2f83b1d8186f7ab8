//! Steps of a training or decoding loop, as the framework marks them.

use super::section::{Section, since_start};
use crate::{
    Style, Table,
    units::{bytes, count, counted},
};
use analyse::{
    Report,
    steps::{StepRow, Steps},
};

/// Steps shown.
const ROWS: usize = 20;

pub fn steps(report: &Report, style: &Style) -> String {
    let found = &report.steps;
    let mut section = Section::new(style);
    section.heading("Steps");
    let Some(mark) = found.mark.as_deref().filter(|_| !found.is_empty()) else {
        section.line(
            "The trace marks no steps. These do: PyTorch's optimizers, zero_grad, the profiler's step(), NVTX and \
             record_function ranges called step, iteration or batch, and the choice of a token in a decoding loop. Loops \
             that are recognised by their work are in the summary.",
        );
        return section.finish();
    };
    section.line(&format!("A step ends with {mark}."));
    // Work that was not recorded is no step without work.
    let has_gpu = found.steps.iter().any(|step| step.gpu_operations > 0);
    averages(&mut section, found, has_gpu);
    tokens(&mut section, found);
    let has_memory = found.steps.iter().any(|step| step.memory_bytes > 0);
    let has_tokens = found.steps.iter().any(|step| step.tokens > 0);
    let mut table = Table::new()
        .right("Step")
        .right("Start")
        .right("Time")
        .right("Operators")
        .right("GPU work")
        .right("GPU busy")
        .right("Copies alone")
        .right("Comm. alone");
    if has_memory {
        table = table.right("Memory");
    }
    table = table.right("Data");
    if has_tokens {
        table = table.right("Tokens");
    }
    let most = section.rows(ROWS);
    let known = |text: String| if has_gpu { text } else { "-".to_owned() };
    for (number, step) in found.steps.iter().enumerate().take(most) {
        let mut cells = vec![
            count(number as u64 + 1),
            since_start(report, step.start_ns, style),
            section.time(step.length_ns),
            count(step.operators),
            known(count(step.gpu_operations)),
            known(section.time(step.busy_ns)),
            known(section.time(step.exposed_copy_ns)),
            known(section.time(step.exposed_communication_ns)),
        ];
        if has_memory {
            cells.push(bytes(step.memory_bytes));
        }
        cells.push(section.time(step.data_ns));
        if has_tokens {
            cells.push(count(step.tokens));
        }
        table.row(cells);
    }
    section.table(&table);
    section.more(most, found.steps.len() as u64 + found.left_out);
    legend(&mut section, found, has_gpu, has_memory);
    section.finish()
}

fn legend(section: &mut Section<'_>, found: &Steps, has_gpu: bool, has_memory: bool) {
    if !has_gpu {
        section.line("The trace has no GPU work in these steps.");
        return;
    }
    section.line(
        "GPU work counts for the step in which it was started; GPU busy is the time between the step's start and end in which \
         the GPU ran anything. Alone: with no kernel running beside.",
    );
    if has_memory {
        section.line(match found.of_tensors {
            true => "Memory is the most that tensors had at a time.",
            false => "Memory is the most that was allocated from CUDA at a time, with the framework's pool.",
        });
    }
}

fn averages(section: &mut Section<'_>, found: &Steps, has_gpu: bool) {
    let steady = found.steady();
    if steady.is_empty() {
        return;
    }
    let average = |of: fn(&StepRow) -> u64| {
        let sum = steady.iter().map(of).fold(0, u64::saturating_add);
        sum / steady.len() as u64
    };
    let length = average(|step| step.length_ns).max(1);
    let work = match has_gpu {
        true => format!(
            " {} of GPU work, GPU busy {:.1} %,",
            counted(average(|step| step.gpu_operations), "piece", "pieces"),
            100.0 * average(|step| step.busy_ns) as f64 / length as f64,
        ),
        false => String::new(),
    };
    section.line(&format!(
        "{} without the first: median {}; on average {} operators,{work} {} waiting for data.",
        counted(steady.len() as u64, "step", "steps"),
        section.time(median(steady.iter())),
        count(average(|step| step.operators)),
        section.time(average(|step| step.data_ns)),
    ));
}

fn median<'a>(steps: impl Iterator<Item = &'a StepRow>) -> u64 {
    let mut lengths: Vec<u64> = steps.map(|step| step.length_ns).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// Tokens a second: prompts and the tokens after them apart, where a decoding loop's shapes tell.
fn tokens(section: &mut Section<'_>, found: &Steps) {
    let steady = found.steady();
    let rate = |tokens: u64, ns: u64| {
        let rate = tokens as f64 * 1e9 / ns.max(1) as f64;
        count(rate.round() as u64)
    };
    let time = |steps: &[&StepRow]| steps.iter().map(|step| step.length_ns).sum::<u64>();
    let sum = |steps: &[&StepRow]| steps.iter().map(|step| step.tokens).sum::<u64>();
    let has_tokens = steady.iter().any(|step| step.tokens > 0);
    if !found.decodes {
        if has_tokens {
            let all: Vec<&StepRow> = steady.iter().collect();
            section.line(&format!("{} tokens/s.", rate(sum(&all), time(&all))));
        }
        return;
    }
    if !has_tokens {
        let all: Vec<&StepRow> = steady.iter().collect();
        section.line(&format!(
            "A decoding loop: {} tokens/s for each sequence.",
            rate(all.len() as u64, time(&all))
        ));
        return;
    }
    let (prefill, decode): (Vec<&StepRow>, Vec<&StepRow>) =
        steady.iter().partition(|step| step.is_prefill());
    for (name, steps) in [("Prefill", prefill), ("Decode", decode)] {
        if steps.is_empty() {
            continue;
        }
        section.line(&format!(
            "{name}: {}, median {}, {} tokens/s.",
            counted(steps.len() as u64, "step", "steps"),
            section.time(median(steps.iter().copied())),
            rate(sum(&steps), time(&steps)),
        ));
    }
}
