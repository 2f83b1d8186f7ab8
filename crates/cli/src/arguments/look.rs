//! The verbs that look at a trace.

use std::path::PathBuf;

pub struct View {
    pub traces: Vec<PathBuf>,
    /// On 127.0.0.1; 0 is any that is free.
    pub port: u16,
    /// Start a browser.
    pub open: bool,
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

impl ViewLine {
    pub fn options(self) -> View {
        View {
            traces: self.traces,
            port: self.port,
            open: !self.no_open,
        }
    }
}
