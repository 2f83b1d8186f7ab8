//! `cutrace export`: convert one trace, or merge several into one.

use crate::arguments::Export;
use anyhow::Result;
use std::process::ExitCode;

pub fn run(options: Export) -> Result<ExitCode> {
    let report = trace::convert(&options.inputs, options.output.unwrap_or_default())?;
    for warning in &report.warnings {
        eprintln!("cutrace: warning: {warning}");
    }
    let lost = match report.lost {
        0 => String::new(),
        lost => format!(", {lost} lost when they were recorded"),
    };
    eprintln!("cutrace: {} events written{lost}", report.events);
    Ok(ExitCode::SUCCESS)
}
