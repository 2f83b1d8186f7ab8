//! One file a subcommand.

mod cat;
mod completions;
mod demo;
mod diff;
mod doctor;
mod export;
mod fleet;
mod gpu;
mod hooks;
mod http;
mod input;
mod ioctl;
mod lake;
mod live;
mod manual;
mod mcp;
mod probes;
mod query;
mod record;
mod recording;
mod replay;
mod report;
mod serve;
mod snap;
mod softgpu;
mod stores;
mod style;
mod timeline;
mod top;
mod view;
mod welcome;

use crate::arguments::Command;
use anyhow::Result;
use capture::SinkError;
use std::{fmt::Display, io, process::ExitCode};

pub fn run(command: Command) -> Result<ExitCode> {
    started(command).map_err(|why| named_output(why, &"to standard output"))
}

fn started(command: Command) -> Result<ExitCode> {
    match command {
        Command::Welcome => welcome::run(),
        Command::Record(options) => record::run(*options),
        Command::Top(options) => top::run(*options),
        Command::Serve(options) => serve::run(*options),
        Command::Demo(options) => demo::run(options),
        Command::Softgpu(options) => softgpu::run(options),
        Command::Snap(options) => snap::run(options),
        Command::Export(options) => export::run(options),
        Command::Cat(options) => cat::run(options),
        Command::Report(options) => report::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Diff(options) => diff::run(options),
        Command::Timeline(options) => timeline::run(options),
        Command::View(options) => view::run(options),
        Command::Query(options) => query::run(options),
        Command::Lake(options) => lake::run(options),
        Command::Mcp => mcp::run(),
        Command::Ioctl(options) => ioctl::run(options),
        Command::Probes(options) => probes::run(options),
        Command::Hooks(options) => hooks::run(options),
        Command::Doctor => doctor::run(),
        Command::Gpu(options) => gpu::run(*options),
        Command::Completions(options) => completions::run(options),
        Command::Manual(options) => manual::run(options),
    }
}

/// On standard output. Whoever has read enough of it gets the same exit status as all others.
fn print(text: &[u8]) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    match io::Write::write_all(&mut out, text).and_then(|()| io::Write::flush(&mut out)) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(why.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// An error of writing says by itself only that the disk is full: with the output's name. Errors of
/// traces come with theirs.
fn named_output(error: anyhow::Error, output: &dyn Display) -> anyhow::Error {
    let Some(first) = error.chain().next() else {
        return error;
    };
    // With words around it, it is of another type here.
    let of_writing = first.is::<io::Error>()
        || matches!(
            first.downcast_ref(),
            Some(trace::Error::Io(_) | trace::Error::Arrow(_))
        );
    if of_writing {
        return error.context(format!("cannot write {output}"));
    }
    error
}

/// `cutrace … | head` is no error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let trace = cause.downcast_ref::<trace::Error>();
        let sink = cause.downcast_ref::<SinkError>();
        io.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
            || trace.is_some_and(trace::Error::is_broken_pipe)
            || sink.is_some_and(SinkError::is_broken_pipe)
    })
}
