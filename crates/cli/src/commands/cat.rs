//! `cutrace cat`: any trace as JSON lines, on standard output.

use super::input::or_newest;
use crate::{arguments::Cat, say::say};
use anyhow::{Context, Result};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::ExitCode,
};

const BUFFER: usize = 1 << 20;

pub fn run(options: Cat) -> Result<ExitCode> {
    let traces = or_newest(options.traces)?;
    if let [trace] = &*traces {
        one(trace)?;
    } else {
        let report = trace::convert_to(&traces, io::stdout(), trace::Format::Jsonl)?;
        warn(&report.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn one(path: &Path) -> Result<()> {
    if trace::is_recording(path) {
        let out = BufWriter::with_capacity(BUFFER, io::stdout());
        let warnings = trace::print_recording(path, out)?;
        let name = path.display();
        let warnings: Vec<String> = (warnings.iter())
            .map(|warning| format!("{name}: {warning}"))
            .collect();
        warn(&warnings);
        return Ok(());
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut input = BufReader::with_capacity(BUFFER, file);
    let is_text = input.fill_buf()?.first().is_some_and(|byte| *byte == b'{');
    if is_text {
        // As they are, damaged ones too.
        let mut out = io::stdout().lock();
        io::copy(&mut input, &mut out)?;
        return Ok(out.flush()?);
    }
    let out = BufWriter::with_capacity(BUFFER, io::stdout());
    let warnings = trace::print_lines(input, out).with_context(|| path.display().to_string())?;
    let name = path.display();
    let warnings: Vec<String> = (warnings.iter())
        .map(|warning| format!("{name}: {warning}"))
        .collect();
    warn(&warnings);
    Ok(())
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        say!("cutrace: warning: {warning}");
    }
}
