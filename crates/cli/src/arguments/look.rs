//! The verbs that look at a trace.

use super::times;
use clap::ValueEnum;
use std::{path::PathBuf, time::Duration};

/// How text is to look.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Look {
    /// Colours: when the output is a terminal, always, or never
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Letters and signs of ASCII only
    #[arg(long)]
    pub ascii: bool,
    /// Columns to fill; by default the terminal's
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub width: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// A stretch of a trace.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Window {
    /// Begin so long after the trace's start: 12.5ms, 1.2s
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    pub from: Option<Duration>,
    /// End so long after the trace's start
    #[arg(long, value_name = "TIME", value_parser = times::with_unit)]
    pub to: Option<Duration>,
}

pub struct Timeline {
    pub traces: Vec<PathBuf>,
    pub window: Window,
    /// An event to look at, by its op_id.
    pub around: Option<u64>,
    pub depth: Option<u32>,
    pub look: Look,
}

pub struct View {
    pub traces: Vec<PathBuf>,
    /// On 127.0.0.1; 0 is any that is free.
    pub port: u16,
    /// Start a browser.
    pub open: bool,
}

impl Window {
    /// Its ends, nanoseconds since the trace's start.
    pub fn since_start(self) -> (Option<u64>, Option<u64>) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (self.from.map(nanoseconds), self.to.map(nanoseconds))
    }
}

#[derive(clap::Args)]
pub struct TimelineLine {
    /// Traces to read; by default the newest in traces/
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    window: Window,
    /// Show the neighbourhood of this event, by its op_id
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["from", "to"])]
    around: Option<u64>,
    /// Show calls down to this depth, a row each
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    #[command(flatten)]
    look: Look,
}

#[derive(clap::Args)]
pub struct ViewLine {
    /// Traces to read; by default the newest in traces/
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The port on 127.0.0.1; by default any that is free
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Start no browser: only say the address
    #[arg(long)]
    no_open: bool,
}

impl TimelineLine {
    pub fn options(self) -> Timeline {
        Timeline {
            traces: self.traces,
            window: self.window,
            around: self.around,
            depth: self.depth,
            look: self.look,
        }
    }
}

impl ViewLine {
    pub fn options(self) -> View {
        View {
            traces: self.traces,
            port: self.port,
            open: !self.no_open,
        }
    }
}
