//! `cutrace export`: a trace in another format, or several made one.

use super::{
    input::{Input, Progress, or_newest},
    named_output,
    unfinished::Unfinished,
};
use crate::{
    arguments::{Destination, Export, Format, Weight},
    say::say,
};
use anyhow::Result;
use render::{Chrome, FlameSvg, Folded, Html, Output, Perfetto, Stacks};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use trace::Parts;

pub fn run(options: Export) -> Result<ExitCode> {
    match trace_format(options.format) {
        Some(format) => convert(options, format),
        None => draw(options),
    }
}

/// Formats that hold a trace as it is.
fn trace_format(format: Format) -> Option<trace::Format> {
    match format {
        Format::Jsonl => Some(trace::Format::Jsonl),
        Format::Arrow => Some(trace::Format::Arrow),
        Format::Parquet => Some(trace::Format::Parquet),
        Format::Csv => Some(trace::Format::Csv),
        _ => None,
    }
}

fn convert(options: Export, format: trace::Format) -> Result<ExitCode> {
    let traces = or_newest(options.traces)?;
    let (report, place) = match &options.destination {
        Destination::File(path) => {
            let file = Unfinished::create(path)?;
            let mut progress = Progress::new(false);
            let mut tick = |count, share| progress.add(count, || share);
            let report = trace::convert_with(&traces, file.writer()?, format, &mut tick)
                .map_err(|why| named_output(why.into(), &path.display()))?;
            drop(progress);
            file.finish()?;
            (report, format!(" to {}", path.display()))
        }
        Destination::Stdout => {
            let mut progress = Progress::new(true);
            let mut tick = |count, share| progress.add(count, || share);
            let report = trace::convert_with(&traces, io::stdout(), format, &mut tick)?;
            drop(progress);
            (report, String::new())
        }
    };
    for warning in &report.warnings {
        say!("cutrace: warning: {warning}");
    }
    let lost = match report.lost {
        0 => String::new(),
        lost => format!(", {lost} lost when they were recorded"),
    };
    say!("cutrace: {} events written{place}{lost}", report.events);
    Ok(ExitCode::SUCCESS)
}

fn draw(options: Export) -> Result<ExitCode> {
    let baseline = (options.baseline.as_ref())
        .map(|path| folded(path, options.weight))
        .transpose()?;
    let flame = Flame {
        weight: render_weight(options.weight),
        baseline,
    };
    match options.destination {
        Destination::Stdout => {
            let input = Input::open(options.traces, parts(options.format))?.streaming();
            let writer = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            let mut output = output(writer, options.format, flame, &input);
            input.show(&mut *output)?;
        }
        Destination::File(path) => {
            draw_to(options.traces, options.format, flame, &path)?;
            say!("cutrace: written to {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws traces into a file.
pub fn write(traces: Vec<PathBuf>, format: Format, path: &Path) -> Result<()> {
    draw_to(traces, format, Flame::default(), path)
}

fn draw_to(traces: Vec<PathBuf>, format: Format, flame: Flame, path: &Path) -> Result<()> {
    let input = Input::open(traces, parts(format))?;
    let file = Unfinished::create(path)?;
    let writer = BufWriter::with_capacity(BUFFER, file.writer()?);
    let mut output = output(writer, format, flame, &input);
    let shown = input.show(&mut *output);
    shown.map_err(|why| named_output(why, &path.display()))?;
    drop(output);
    file.finish()
}

/// What flame graphs want to know.
#[derive(Default)]
struct Flame {
    weight: render::Weight,
    baseline: Option<Vec<(String, u64)>>,
}

/// What of its events an output shows.
fn parts(format: Format) -> Parts {
    match format {
        Format::Html | Format::Folded | Format::Svg => Parts {
            stack: true,
            ..Parts::NONE
        },
        _ => Parts {
            stack: false,
            ..Parts::ALL
        },
    }
}

const BUFFER: usize = 1 << 20;

fn output<'a>(
    writer: impl Write + 'a,
    format: Format,
    flame: Flame,
    input: &Input,
) -> Box<dyn Output + 'a> {
    let meta = input.meta();
    match format {
        Format::Html => Box::new(Html::new(writer, meta)),
        Format::Perfetto => Box::new(Perfetto::new(writer, meta)),
        Format::Folded => Box::new(Folded::new(writer, flame.weight, flame.baseline)),
        Format::Svg => {
            let title = meta.command.join(" ");
            Box::new(FlameSvg::new(writer, title, flame.weight, flame.baseline))
        }
        _ => Box::new(Chrome::new(writer, meta)),
    }
}

fn render_weight(weight: Weight) -> render::Weight {
    match weight {
        Weight::Time => render::Weight::Time,
        Weight::Gpu => render::Weight::GpuTime,
        Weight::Bytes => render::Weight::Bytes,
    }
}

/// The stacks of a trace to compare with.
fn folded(path: &Path, weight: Weight) -> Result<Vec<(String, u64)>> {
    let mut stacks = Stacks::new(render_weight(weight));
    Input::open(vec![path.to_owned()], parts(Format::Folded))?.each(|record| {
        stacks.record(record);
        Ok(())
    })?;
    Ok(stacks.folded())
}
