//! `cutrace replay`: the calls of a trace, one decoded line each.

use super::{input::Input, style::style};
use crate::{arguments::Replay, say::say};
use anyhow::Result;
use capture::preload::Filter;
use event::Selection;
use render::replay::Options;
use std::{
    io::{self, BufWriter},
    process::ExitCode,
};
use trace::Parts;

pub fn run(options: Replay) -> Result<ExitCode> {
    let parts = Parts {
        stack: false,
        ..Parts::ALL
    };
    let input = Input::open(options.traces, parts)?.streaming();
    let (from, to) = options.window.since_start();
    let shown = Options {
        name_of: None,
        full: options.full,
        style: style(&options.look),
        selection: Selection::new(options.filter.clone().unwrap_or_default()),
        pid: options.pid,
        tid: options.tid,
        from,
        to,
    };
    let out = BufWriter::new(io::stdout().lock());
    let mut replay = render::Replay::new(out, input.meta(), shown);
    input.show(&mut replay)?;
    if replay.is_empty() {
        say!("cutrace: no events to show");
        let filter = options.filter.as_deref().map(Filter::parse);
        for item in filter.iter().flat_map(Filter::meaningless) {
            say!("cutrace: -e {item}: not a category, layer or function that cutrace knows");
        }
    }
    Ok(ExitCode::SUCCESS)
}
