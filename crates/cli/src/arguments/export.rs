//! `cutrace export`: which traces become what.

use super::{shared::TracesLine, sizes, usage};
use clap::ValueEnum;
use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

pub struct Export {
    pub traces: Vec<PathBuf>,
    pub format: Format,
    pub destination: Destination,
    /// Of flame graphs.
    pub weight: Weight,
    /// The trace that a flame graph is compared with.
    pub baseline: Option<PathBuf>,
    /// Bytes of a page at most.
    pub size: u64,
}

/// What the width of a flame graph's frames means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weight {
    /// Time of the host in the call itself
    Time,
    /// Time of the GPU in the work that the call submitted
    Gpu,
    /// Bytes copied or allocated
    Bytes,
}

pub enum Destination {
    File(PathBuf),
    Stdout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line, made for jq
    Jsonl,
    /// Arrow IPC stream (.arrows): compact, opens in DuckDB, pandas, Polars
    Arrow,
    /// A table (.parquet) with the rows of the Arrow stream
    Parquet,
    /// The same table as text (.csv)
    Csv,
    /// Chrome's trace JSON (.json): chrome://tracing, Perfetto, Speedscope
    Chrome,
    /// Perfetto's own format (.pftrace), with everything in the trace
    Perfetto,
    /// Folded stacks (.folded), for flame graph tools
    Folded,
    /// A flame graph (.svg)
    Svg,
    /// A report in one file (.html)
    Html,
}

impl Format {
    /// The endings a file of it may have, the usual one first.
    const fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Jsonl => &["jsonl"],
            Format::Arrow => &["arrows"],
            Format::Parquet => &["parquet"],
            Format::Csv => &["csv"],
            Format::Chrome => &["json"],
            Format::Perfetto => &["pftrace", "perfetto-trace"],
            Format::Folded => &["folded"],
            Format::Svg => &["svg"],
            Format::Html => &["html", "htm"],
        }
    }

    /// As -f has it.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Not for people to look at.
    const fn is_binary(self) -> bool {
        matches!(self, Format::Arrow | Format::Parquet | Format::Perfetto)
    }

    /// The format that a file's name says.
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        Format::value_variants()
            .iter()
            .copied()
            .find(|format| format.extensions().contains(&extension))
    }
}

/// `cutrace export html a.jsonl`: a format without its -f, in either order.
fn format_among(traces: &mut Vec<PathBuf>) -> Option<Format> {
    let of = |word: &PathBuf| match word.exists() {
        true => None,
        false => Format::from_str(word.to_str()?, false).ok(),
    };
    let place = traces.iter().position(|word| of(word).is_some())?;
    of(&traces.remove(place))
}

#[derive(clap::Args)]
pub struct ExportLine {
    /// The format to write; by default the output file's extension decides
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// The file to write; by default standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What the widths in a flame graph (folded, svg) mean
    #[arg(long, value_enum, default_value_t = Weight::Time)]
    weight: Weight,
    /// Compare a flame graph (folded, svg) with this trace: red grew, blue shrank
    #[arg(long, value_name = "TRACE")]
    baseline: Option<PathBuf>,
    /// How large a page (html) may become; what does not fit is summed up
    #[arg(long, value_name = "SIZE", default_value = "5MB", value_parser = sizes::at_least_1mb)]
    size: u64,
    #[command(flatten)]
    traces: TracesLine,
}

impl ExportLine {
    pub fn options(self) -> Export {
        let mut traces = self.traces.traces;
        let wanted = self.format.or_else(|| format_among(&mut traces));
        // "-" is standard output, as in tar and jq.
        let output = self.output.filter(|path| path.as_os_str() != "-");
        let named = output.as_deref().and_then(Format::of);
        let format = match (wanted, named) {
            (Some(wanted), Some(named)) if wanted != named => {
                let (name, file) = (wanted.name(), output.as_deref().unwrap_or(Path::new("")));
                usage(&format!(
                    "-f {name} contradicts {}: drop one of them",
                    file.display()
                ))
            }
            (Some(format), _) | (None, Some(format)) => format,
            (None, None) if output.is_some() => usage(
                "the output's name says no format: let it end in .html, .pftrace, .json, .jsonl, \
                 .arrows, .parquet, .csv, .folded or .svg, or add -f FORMAT",
            ),
            (None, None) => usage("which format? Add -f html, or an output file: -o FILE.html"),
        };
        if output.is_none() && format.is_binary() && io::stdout().is_terminal() {
            let (name, ending) = (format.name(), format.extensions()[0]);
            usage(&format!(
                "{name} is binary, and standard output is a terminal: add -o trace.{ending}, or pipe it on"
            ));
        }
        if self.baseline.is_some() && !matches!(format, Format::Folded | Format::Svg) {
            usage("--baseline is for flame graphs: -f folded or -f svg");
        }
        Export {
            weight: self.weight,
            baseline: self.baseline,
            size: self.size,
            traces,
            format,
            destination: output.map_or(Destination::Stdout, Destination::File),
        }
    }
}
