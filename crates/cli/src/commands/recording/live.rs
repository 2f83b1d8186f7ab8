//! A trace on standard output, as people read it while it comes.

use crate::commands::style::stdout_style;
use capture::trace_file::{MakeShow, Show, destination::STDOUT};
use event::{Meta, Record};
use render::{DeviceLines, Output, Replay, replay::Options};
use std::{
    fs::File,
    io::{self, IsTerminal, LineWriter},
    path::Path,
};

/// How a trace is shown; None if it is written. `device_lines`: what GPU programs send, whoever reads it.
pub fn show(output: Option<&Path>, device_lines: bool) -> Option<MakeShow> {
    if output != Some(Path::new(STDOUT)) {
        return None;
    }
    if device_lines {
        return Some(Box::new(|file, meta| {
            Box::new(Lines(DeviceLines::new(LineWriter::new(file), meta)))
        }));
    }
    let replay = |file: File, meta: &Meta| -> Box<dyn Show> {
        let options = Options {
            style: stdout_style(),
            // Of a whole machine nobody knows the numbers.
            name_of: (meta.command.is_empty() && meta.pid.is_none())
                .then_some(name_of as fn(u32) -> Option<String>),
            // A line that waits for the next is no line as it happens.
            full: true,
            ..Options::default()
        };
        Box::new(Lines(Replay::new(LineWriter::new(file), meta, options)))
    };
    io::stdout()
        .is_terminal()
        .then(|| Box::new(replay) as MakeShow)
}

fn name_of(pid: u32) -> Option<String> {
    let found = capture::process_name::of_running(pid)?;
    Some(render::printable(&found.name))
}

struct Lines<O>(O);

impl<O: Output + Send> Show for Lines<O> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        self.0.record(record)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish(None)
    }
}
