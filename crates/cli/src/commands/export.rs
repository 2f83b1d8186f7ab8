//! `cutrace export`: a trace in another format, or several made one.

use super::{
    input::{Input, Progress, or_newest},
    named_output,
};
use crate::{
    arguments::{Destination, Export, Format, Weight},
    say::say,
};
use anyhow::Result;
use capture::trace_file::Unfinished;
use render::{Chrome, FlameSvg, Folded, Html, Output, Perfetto, Stacks};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use trace::Parts;

pub fn run(options: Export) -> Result<ExitCode> {
    match Shape::of(options.format) {
        Shape::Trace(format) => convert(options, format),
        Shape::Picture(picture) => draw(options, picture),
    }
}

/// What a format is.
enum Shape {
    /// It holds a trace as it is.
    Trace(trace::Format),
    Picture(Picture),
}

/// What is drawn from a trace.
#[derive(Clone, Copy)]
enum Picture {
    Chrome,
    Perfetto,
    Html,
    Folded,
    Svg,
}

impl Shape {
    /// Every format has its line: a new one does not compile without.
    fn of(format: Format) -> Shape {
        match format {
            Format::Jsonl => Shape::Trace(trace::Format::Jsonl),
            Format::Arrow => Shape::Trace(trace::Format::Arrow),
            Format::Parquet => Shape::Trace(trace::Format::Parquet),
            Format::Csv => Shape::Trace(trace::Format::Csv),
            Format::Chrome => Shape::Picture(Picture::Chrome),
            Format::Perfetto => Shape::Picture(Picture::Perfetto),
            Format::Html => Shape::Picture(Picture::Html),
            Format::Folded => Shape::Picture(Picture::Folded),
            Format::Svg => Shape::Picture(Picture::Svg),
        }
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

fn draw(options: Export, picture: Picture) -> Result<ExitCode> {
    if let Picture::Html = picture {
        return page(options);
    }
    let baseline = (options.baseline.as_ref())
        .map(|path| folded(path, options.weight))
        .transpose()?;
    let flame = Flame {
        weight: render_weight(options.weight),
        baseline,
    };
    match options.destination {
        Destination::Stdout => {
            let input = Input::open(options.traces, picture.parts(flame.weight))?.streaming();
            let writer = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            let mut output = picture.output(writer, flame, &input);
            input.show(&mut *output)?;
        }
        Destination::File(path) => {
            draw_to(options.traces, picture, flame, &path)?;
            say!("cutrace: written to {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws traces into a file, for Perfetto.
pub fn write_perfetto(traces: Vec<PathBuf>, path: &Path) -> Result<()> {
    draw_to(traces, Picture::Perfetto, Flame::default(), path)
}

/// Draws traces into a file, as a page.
pub fn write_html(traces: Vec<PathBuf>, path: &Path) -> Result<()> {
    page_to(traces, render::PAGE_SIZE, path)
}

fn page(mut options: Export) -> Result<ExitCode> {
    options.traces = or_newest(options.traces)?;
    match options.destination {
        Destination::Stdout => {
            let writer = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            write_page(options.traces, options.size, writer)?;
        }
        Destination::File(path) => {
            page_to(options.traces, options.size, &path)?;
            say!("cutrace: written to {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page_to(traces: Vec<PathBuf>, size: u64, path: &Path) -> Result<()> {
    let input = Input::open(traces.clone(), html_parts())?;
    let file = Unfinished::create(path)?;
    let writer = BufWriter::with_capacity(BUFFER, file.writer()?);
    let written = write_opened(input, &traces, size, writer);
    written.map_err(|why| named_output(why, &path.display()))?;
    Ok(file.finish()?)
}

fn write_page(traces: Vec<PathBuf>, size: u64, writer: impl Write) -> Result<()> {
    let input = Input::open(traces.clone(), html_parts())?;
    write_opened(input, &traces, size, writer)
}

/// A trace that does not fit into its page is read twice: what people look for first is known only at its end.
fn write_opened(input: Input, traces: &[PathBuf], size: u64, writer: impl Write) -> Result<()> {
    let mut html = Html::new(writer, input.meta()).with_size(size);
    let mut summary = input.each(|record| Ok(html.record(record)?))?;
    if html.is_cut() && traces.iter().all(|path| path.is_file()) {
        html.again(summary.as_ref());
        let input = Input::open(traces.to_vec(), html_parts())?.quiet();
        summary = input.each(|record| Ok(html.record(record)?))?;
    }
    Ok(html.finish(summary.as_ref())?)
}

fn draw_to(traces: Vec<PathBuf>, picture: Picture, flame: Flame, path: &Path) -> Result<()> {
    let input = Input::open(traces, picture.parts(flame.weight))?;
    let file = Unfinished::create(path)?;
    let writer = BufWriter::with_capacity(BUFFER, file.writer()?);
    let mut output = picture.output(writer, flame, &input);
    let shown = input.show(&mut *output);
    shown.map_err(|why| named_output(why, &path.display()))?;
    drop(output);
    Ok(file.finish()?)
}

/// What flame graphs want to know.
#[derive(Default)]
struct Flame {
    weight: render::Weight,
    baseline: Option<Vec<(String, u64)>>,
}

const BUFFER: usize = 1 << 20;

impl Picture {
    /// What of its events it shows.
    fn parts(self, weight: render::Weight) -> Parts {
        match self {
            Picture::Html => html_parts(),
            Picture::Folded | Picture::Svg => Parts {
                stack: true,
                // They say where a graph's work was captured.
                args: weight == render::Weight::GpuTime,
                ..Parts::NONE
            },
            Picture::Chrome | Picture::Perfetto => Parts {
                stack: false,
                ..Parts::ALL
            },
        }
    }

    fn output<'a>(
        self,
        writer: impl Write + 'a,
        flame: Flame,
        input: &Input,
    ) -> Box<dyn Output + 'a> {
        let meta = input.meta();
        match self {
            Picture::Chrome => Box::new(Chrome::new(writer, meta)),
            Picture::Perfetto => Box::new(Perfetto::new(writer, meta)),
            // Written by `page`.
            Picture::Html => Box::new(Html::new(writer, meta)),
            Picture::Folded => Box::new(Folded::new(writer, flame.weight, flame.baseline)),
            Picture::Svg => {
                let title = meta.command.join(" ");
                Box::new(FlameSvg::new(writer, title, flame.weight, flame.baseline))
            }
        }
    }
}

/// What a page shows of events: all of it.
pub fn html_parts() -> Parts {
    Parts::ALL
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
    let weight = render_weight(weight);
    let mut stacks = Stacks::new(weight);
    Input::open(vec![path.to_owned()], Picture::Folded.parts(weight))?.each(|record| {
        stacks.record(record);
        Ok(())
    })?;
    Ok(stacks.folded())
}
