//! From trace files to a trace file: another format, or several made one.

use crate::{
    Error, Format, Reader, Result, Writer,
    arrow::Tables,
    merge::Merge,
    sink::create_file,
    source::open,
    table::{self, Groups},
};
use event::{Record, Summary};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// Records between two ticks.
const TICK: usize = 1 << 14;

/// What came of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertReport {
    /// Spans, instants and meanings written.
    pub events: u64,
    /// What was wrong with the inputs, each with its file's name.
    pub warnings: Vec<String>,
    /// Events that the inputs say were lost when they were recorded.
    pub lost: u64,
}

/// Write the inputs, merged by time if they are several, to `output` in the format its extension
/// names. The output appears when it is whole: it may be one of the inputs.
pub fn convert(inputs: &[impl AsRef<Path>], output: impl AsRef<Path>) -> Result<ConvertReport> {
    let output = output.as_ref();
    let format = Format::of(output).ok_or_else(|| Error::Extension(output.into()))?;
    let unfinished = unfinished_name(output);
    let converted = create_file(&unfinished)
        .and_then(|file| convert_to(inputs, file, format))
        .and_then(|report| {
            let failed = |source| Error::Create {
                path: output.into(),
                source,
            };
            fs::rename(&unfinished, output).map_err(failed)?;
            Ok(report)
        });
    if converted.is_err() {
        // The error in hand says more than one about the leftover would.
        let _ = fs::remove_file(&unfinished);
    }
    converted
}

/// Write the inputs, merged by time if they are several, as a stream.
pub fn convert_to(
    inputs: &[impl AsRef<Path>],
    output: impl io::Write + Send + 'static,
    format: Format,
) -> Result<ConvertReport> {
    convert_with(inputs, output, format, &mut |_, _| {})
}

/// The same; `tick` is called now and then, with how many records were read since, and how much of the whole
/// has been read if that is known.
pub fn convert_with(
    inputs: &[impl AsRef<Path>],
    output: impl io::Write + Send + 'static,
    format: Format,
    tick: &mut dyn FnMut(usize, Option<f64>),
) -> Result<ConvertReport> {
    if let ([input], Format::Parquet) = (inputs, format)
        && let Some(tables) = Tables::open(input)?
    {
        return write_tables(input.as_ref(), tables, output, tick);
    }
    let readers = inputs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut merge = Merge::new(readers)?;
    let writer = Writer::new(output, format, merge.meta())?;
    let (summary, mut warnings) = write(&mut merge, writer, tick)?;
    warnings.extend(merge.warnings().iter().map(ToString::to_string));
    for (path, reader) in inputs.iter().zip(merge.readers()) {
        let name = path.as_ref().display();
        warnings.extend(
            reader
                .warnings()
                .as_slice()
                .iter()
                .map(|warning| format!("{name}: {warning}")),
        );
    }
    Ok(ConvertReport {
        events: summary.events,
        warnings,
        lost: summary.lost,
    })
}

/// Rows that stay as they are.
fn write_tables(
    path: &Path,
    mut tables: Tables,
    output: impl io::Write + Send + 'static,
    tick: &mut dyn FnMut(usize, Option<f64>),
) -> Result<ConvertReport> {
    let mut out = Groups::new(output, tables.schema(), vec![table::head(tables.meta())?])?;
    while let Some(batch) = tables.next_batch()? {
        tick(batch.num_rows(), None);
        out.write(batch)?;
    }
    let summary = tables.summary();
    out.finish(vec![table::tail(&summary)?])?;
    let warnings = tables.warning().into_iter();
    Ok(ConvertReport {
        events: tables.events(),
        warnings: warnings
            .map(|warning| format!("{}: {warning}", path.display()))
            .collect(),
        lost: summary.lost.max(tables.lost()),
    })
}

/// Write a trace as JSON lines, as they would be if it had been recorded so: without a tail if it has none.
/// Returns what was wrong with it.
pub fn print_lines(
    input: impl io::Read + Send + 'static,
    output: impl io::Write + Send + 'static,
) -> Result<Vec<String>> {
    print_all(Reader::new(input, None)?.ahead(), output)
}

/// The same for a recording of a lake, or a Parquet file.
pub fn print_recording(
    path: impl AsRef<Path>,
    output: impl io::Write + Send + 'static,
) -> Result<Vec<String>> {
    print_all(open(path)?, output)
}

fn print_all(mut reader: Reader, output: impl io::Write + Send + 'static) -> Result<Vec<String>> {
    let mut writer = Writer::new(output, Format::Jsonl, reader.meta())?;
    let mut skipped = Vec::new();
    while let Some(records) = reader.next_batch()? {
        for record in records {
            write_or_skip(&mut writer, record, &mut skipped)?;
        }
    }
    match reader.summary() {
        Some(summary) => writer.finish_with(summary)?,
        None => writer.flush()?,
    }
    let warnings = reader.warnings().as_slice().iter();
    skipped.extend(warnings.map(ToString::to_string));
    Ok(skipped)
}

/// What a line cannot hold is left out, and named.
fn write_or_skip(writer: &mut Writer, record: &Record, skipped: &mut Vec<String>) -> Result<()> {
    match writer.write(record) {
        Err(error @ (Error::TooLong { .. } | Error::TooDeep { .. } | Error::Time { .. })) => {
            // Named once each, up to a bound: the list must not grow with the trace.
            if skipped.len() < 100 {
                skipped.push(format!("left out: {error}"));
            }
            Ok(())
        }
        written => written,
    }
}

/// Returns what was really written, and what could not be.
fn write(
    merge: &mut Merge,
    mut writer: Writer,
    tick: &mut dyn FnMut(usize, Option<f64>),
) -> Result<(Summary, Vec<String>)> {
    let mut skipped = Vec::new();
    let mut count = 0;
    while let Some(record) = merge.next() {
        write_or_skip(&mut writer, &record?, &mut skipped)?;
        count += 1;
        if count == TICK {
            tick(count, merge.share());
            count = 0;
        }
    }
    let written = writer.summary();
    // The tracer knows more than can be counted; without its word, counting must do.
    let summary = merge.summary().unwrap_or_else(|| written.clone());
    writer.finish_with(&summary)?;
    Ok((
        Summary {
            lost: summary.lost.max(written.lost),
            ..written
        },
        skipped,
    ))
}

/// Beside the output, so that it can be renamed to it.
pub(crate) fn unfinished_name(output: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".{}.unfinished", std::process::id()));
    output.with_file_name(name)
}
