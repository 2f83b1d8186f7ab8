//! `cutrace timeline`: the trace as a picture in the terminal.

use super::{input::Input, style::style};
use crate::arguments::Timeline;
use anyhow::{Result, bail};
use event::{Extent, Record};
use render::timeline::{self, Options};
use std::{
    io::{self, BufWriter},
    ops::Range,
    path::PathBuf,
    process::ExitCode,
};
use trace::Parts;

pub fn run(options: Timeline) -> Result<ExitCode> {
    let around = (options.around)
        .map(|id| neighbourhood(options.traces.clone(), id))
        .transpose()?;
    let input = Input::open(options.traces, Parts::NONE)?;
    let (from, to) = match around {
        Some(range) => (Some(range.start), Some(range.end)),
        None => options.window.since_start(),
    };
    let mut drawn = Options {
        style: style(&options.look),
        from,
        to,
        ..Options::default()
    };
    if let Some(depth) = options.depth {
        drawn.depth = depth as usize;
    }
    let out = BufWriter::new(io::stdout().lock());
    let mut timeline = render::Timeline::new(out, input.meta(), drawn);
    input.show(&mut timeline)?;
    Ok(ExitCode::SUCCESS)
}

/// The stretch of the trace to look at when looking at one event.
fn neighbourhood(traces: Vec<PathBuf>, id: u64) -> Result<Range<u64>> {
    let input = Input::open(traces, Parts::NONE)?;
    let start = input.meta().start_ns;
    let mut found = None;
    input.each(|record| {
        if let Record::Event(event) = record
            && event.id == id
            && (found.is_none() || event.extent != Extent::Open)
        {
            found = Some(timeline::around(event, start));
        }
        Ok(())
    })?;
    match found {
        Some(range) => Ok(range),
        None => bail!("no event {id} in the trace: --around takes an op_id of it"),
    }
}
