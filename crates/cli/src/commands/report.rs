//! `cutrace report`: what a trace says, as tables or as JSON.

use super::{input::Input, style::style};
use crate::arguments::{Part, Report};
use analyse::Analysis;
use anyhow::Result;
use render::{Style, tables};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};
use trace::Parts;

/// How many findings a summary ends with.
const FINDINGS: usize = 3;

pub fn run(options: Report) -> Result<ExitCode> {
    // Only these need arguments: which pointer a free was refused, which context was destroyed, how
    // much of managed memory moved, which domain a range is of.
    let args = matches!(
        options.part,
        Part::Memory | Part::Contexts | Part::Transfers | Part::Findings | Part::Gpu
    );
    let report = read(options.traces, args)?;
    let mut out = io::stdout().lock();
    if options.json {
        let part = of_part(options.part, &report)?;
        serde_json::to_writer_pretty(&mut out, &part).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(table(options.part, &report, &style(&options.look)).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn table(part: Part, report: &analyse::Report, style: &Style) -> String {
    match part {
        Part::Summary => {
            let findings = tables::top_findings(report, FINDINGS, style);
            let heading = if findings.is_empty() {
                ""
            } else {
                "\nFindings (more with: cutrace report findings):\n"
            };
            format!("{}{heading}{findings}", tables::summary(report, style))
        }
        Part::Top => tables::top(report, style),
        Part::Calls => tables::calls(report, style),
        Part::Categories => tables::categories(report, style),
        Part::Idle => tables::idle(report, style),
        Part::Memory => tables::memory(report, style),
        Part::Transfers => tables::transfers(report, style),
        Part::Contexts => tables::contexts(report, style),
        Part::Ioctls => tables::ioctls(report, style),
        Part::Gpu => tables::gpu(report, style),
        Part::Findings => tables::findings(report, style),
        Part::Coverage => tables::coverage(report, style),
    }
}

/// The same as data: the report's parts, under their names.
fn of_part(part: Part, report: &analyse::Report) -> Result<Value> {
    let all = serde_json::to_value(report)?;
    let wanted: &[&str] = match part {
        Part::Summary => return Ok(all),
        Part::Top => &["functions"],
        Part::Calls => {
            let found = &report.correlation;
            return Ok(json!({"calls": found.tree, "left_out": found.tree_left_out}));
        }
        Part::Categories => &["categories"],
        Part::Idle => &["idle"],
        Part::Memory => &["memory", "managed"],
        Part::Transfers => &["transfers"],
        Part::Contexts => &["contexts", "driver_objects"],
        Part::Ioctls => &["ioctls", "driver_objects", "correlation"],
        Part::Gpu => &["gpu", "functions", "ranges", "blocks"],
        Part::Findings => &["findings"],
        Part::Coverage => &["meta", "summary", "overview"],
    };
    let Value::Object(mut parts) = all else {
        return Ok(all);
    };
    parts.retain(|name, _| wanted.contains(&name.as_str()));
    Ok(Value::Object(parts))
}

/// What is in these traces.
pub fn analysed(traces: Vec<PathBuf>) -> Result<analyse::Report> {
    read(traces, false)
}

fn read(traces: Vec<PathBuf>, args: bool) -> Result<analyse::Report> {
    // Stacks say where leaks come from; what ioctls ask for is in what they were decoded to.
    let parts = Parts { args, ..Parts::ALL };
    let input = Input::open(traces, parts)?;
    let mut analysis = Analysis::new(input.meta());
    let summary = input.each(|record| {
        analysis.add(record);
        Ok(())
    })?;
    Ok(analysis.finish(summary.as_ref()))
}
