//! `cutrace softgpu`: run a program on the software device, or say what the device can do.

use crate::{arguments::Softgpu, embedded};
use anyhow::Result;
use capture::launch;
use softgpu::driver::Coverage;
use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

pub fn run(options: Softgpu) -> Result<ExitCode> {
    match options {
        Softgpu::List { all } => list(all),
        Softgpu::Run { program, arguments } => on_softgpu(program, arguments),
    }
}

/// Runs a command with softgpu's libraries in front and takes over its exit status or signal.
pub fn on_softgpu(program: OsString, arguments: Vec<OsString>) -> Result<ExitCode> {
    let command = launch::Command {
        program,
        args: arguments,
        environment: vec![softgpu_environment()?],
    };
    launch::run(&command)?.pass_on()
}

/// The variable that puts softgpu's libraries in front.
pub fn softgpu_environment() -> Result<(OsString, OsString)> {
    let folder = embedded::softgpu_folder()?;
    let existing = std::env::var_os("LD_LIBRARY_PATH");
    let path = launch::library_path(existing.as_deref(), &folder)?;
    Ok(("LD_LIBRARY_PATH".into(), path))
}

fn list(all: bool) -> Result<ExitCode> {
    let coverage = softgpu::driver::coverage();
    let mut out = io::BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "softgpu implements {} of the {} functions that libcuda of driver 580 exports ({:.1} %).",
        coverage.implemented(),
        coverage.functions.len(),
        coverage.percent()
    )?;
    if all {
        section(&mut out, "Implemented:", &coverage, true)?;
    }
    let title = "Present, answering CUDA_ERROR_NOT_SUPPORTED:";
    section(&mut out, title, &coverage, false)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn section(
    out: &mut impl Write,
    title: &str,
    coverage: &Coverage,
    implemented: bool,
) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    for (name, done) in &coverage.functions {
        if *done == implemented {
            writeln!(out, "  {name}")?;
        }
    }
    Ok(())
}
