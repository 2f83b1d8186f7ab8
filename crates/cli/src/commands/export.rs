//! `cutrace export`: convert one trace, or merge several into one.

use crate::arguments::{Export, Format, Output};
use anyhow::Result;
use std::{io, process::ExitCode};

pub fn run(options: Export) -> Result<ExitCode> {
    let report = match options.output {
        Output::File(path) => trace::convert(&options.inputs, path)?,
        Output::Stdout(format) => {
            let format = match format {
                Format::Jsonl => trace::Format::Jsonl,
                Format::Arrow => trace::Format::Arrow,
            };
            trace::convert_to(&options.inputs, io::stdout(), format)?
        }
    };
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
