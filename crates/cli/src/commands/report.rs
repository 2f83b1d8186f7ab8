//! `cutrace report`: what a trace says, as tables or as JSON.

use super::{
    input::{Input, Progress, or_newest},
    style::style,
};
use crate::arguments::{Part, ReportOptions};
use analyse::{Analysis, Brief, SymbolId, TopSweep};
use anyhow::Result;
use event::{Category, Extent, Kind, Layer, Name};
use render::{Style, tables};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use trace::{Parts, SpanLine, Spans, SpansRead};

/// How many findings a summary ends with.
const FINDINGS: usize = 3;

pub fn run(options: ReportOptions) -> Result<ExitCode> {
    let report = of_traces(options.part, options.traces)?;
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

/// One section, as text.
pub fn text(part: Part, traces: Vec<PathBuf>, style: &Style) -> Result<String> {
    Ok(table(part, &of_traces(part, traces)?, style))
}

/// What a section is made of.
fn of_traces(part: Part, traces: Vec<PathBuf>) -> Result<analyse::Report> {
    // Only these need arguments: which pointer a free was refused, which context was destroyed, how
    // much of managed memory moved, which domain a range is of.
    let args = matches!(
        part,
        Part::Memory
            | Part::Contexts
            | Part::Transfers
            | Part::Findings
            | Part::Gpu
            | Part::Operators
            | Part::Modules
            | Part::Steps
    );
    let traces = or_newest(traces)?;
    match (kept(&traces), part) {
        (Some(report), _) => Ok(report),
        (None, Part::Top) => top(traces),
        (None, _) => read(traces, args),
    }
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
        Part::Operators => tables::operators(report, style),
        Part::Modules => tables::modules(report, style),
        Part::Steps => tables::steps(report, style),
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
        Part::Operators | Part::Modules => &["operators", "compiled", "kernel_classes"],
        Part::Steps => &["steps"],
        Part::Idle => &["idle"],
        Part::Memory => &["memory", "managed", "tensors"],
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

/// A report as a trace keeps it. What another build found may be something else.
pub fn kept_text(report: &analyse::Report) -> Option<String> {
    let report = serde_json::to_string(report).ok()?;
    Some(format!(
        "{{\"version\":{},\"report\":{report}}}",
        json!(version::BUILD)
    ))
}

/// What is in a trace, as its recorder found it, or by reading it; None if that cannot be read.
pub fn found_in(trace: &Path) -> Option<analyse::Report> {
    let traces = [trace.to_owned()];
    kept(&traces).or_else(|| read(traces.to_vec(), true).ok())
}

/// What was found in a trace when it was recorded.
fn kept(traces: &[PathBuf]) -> Option<analyse::Report> {
    let [trace] = traces else {
        return None;
    };
    let (mut found, _) = trace::found(trace)?;
    // A trace may hold anything. What we find has no such characters, but for names, which reading gives.
    if found.get("version")? != version::BUILD || !is_plain(&found) {
        return None;
    }
    serde_json::from_value(found.get_mut("report")?.take()).ok()
}

/// Whether all its texts can be printed.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.chars().any(char::is_control),
        Value::Array(list) => list.iter().all(is_plain),
        Value::Object(map) => map.values().all(is_plain),
        _ => true,
    }
}

/// Functions and kernels by time. One trace of Arrow rows is read without its texts; whatever is odd about it is found,
/// and said, by reading it as any other.
fn top(traces: Vec<PathBuf>) -> Result<analyse::Report> {
    if let [trace] = &*traces
        && let Some(spans) = Spans::open(trace).ok().flatten()
        && let Some(report) = top_of(spans)?
    {
        return Ok(report);
    }
    read(traces, false)
}

/// None if it must be read as any other.
fn top_of(spans: Spans) -> Result<Option<analyse::Report>> {
    let mut sweep = TopSweep::new(spans.meta());
    let mut progress = Progress::new(false);
    let (mut names, mut kernels) = (Symbols::default(), Symbols::default());
    let read = spans.each(|batch, lines| {
        names.follow(batch.names());
        kernels.follow(batch.kernels());
        batch.each(lines, &mut |line| {
            let (event, extent) = match line {
                SpanLine::Begin(event) => (event, Extent::Open),
                SpanLine::End(event, duration) => (event, Extent::Closed(duration)),
                SpanLine::Instant(event) => (event, Extent::Instant),
                SpanLine::Launch { ts, kernel } => {
                    let symbol = kernels.of(kernel, Layer::Gpu, |name| {
                        sweep.symbol(name, Layer::Gpu, Category::Kernel, Kind::Gpu)
                    });
                    return sweep.launch(ts, symbol);
                }
                SpanLine::Other { ts } => return sweep.other(ts),
            };
            if event.kind.is_around_calls() {
                return sweep.range(event.start, extent);
            }
            let symbol = names.of(event.name, event.layer, |name| {
                sweep.symbol(name, event.layer, event.category, event.kind)
            });
            let brief = Brief {
                id: event.id,
                start: event.start,
                pid: event.pid,
                tid: event.tid,
                parent: event.parent,
                depth: event.depth,
                kind: event.kind,
                layer: event.layer,
                category: event.category,
                status: event.status,
            };
            sweep.event(&brief, extent, symbol, || {
                let result = event
                    .result
                    .and_then(|key| batch.results().get(key as usize));
                let name = batch.names().get(event.name as usize);
                (name.cloned().unwrap_or_default(), result.cloned())
            });
        });
        progress.add(batch.len(), || None);
    })?;
    Ok(match read {
        SpansRead::Whole(summary) => Some(sweep.finish(Some(&summary))),
        SpansRead::Irregular => None,
    })
}

/// Which symbols a dictionary's names are, by layer, as far as it was asked.
#[derive(Default)]
struct Symbols {
    names: Arc<Vec<Name>>,
    known: Vec<[Option<SymbolId>; Layer::ALL.len()]>,
}

impl Symbols {
    fn follow(&mut self, names: &Arc<Vec<Name>>) {
        if !Arc::ptr_eq(&self.names, names) {
            self.names = Arc::clone(names);
            self.known.clear();
            self.known.resize(names.len(), [None; Layer::ALL.len()]);
        }
    }

    #[inline]
    fn of(&mut self, key: u32, layer: Layer, find: impl FnOnce(&Name) -> SymbolId) -> SymbolId {
        let known = &mut self.known[key as usize][layer as usize];
        match known {
            Some(symbol) => *symbol,
            None => *known.insert(find(&self.names[key as usize])),
        }
    }
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
