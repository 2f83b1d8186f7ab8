//! `cutrace softgpu`: run a program on the software device, or say what the device can do.

use crate::{arguments::Softgpu, embedded};
use anyhow::Result;
use capture::launch;
use softgpu_driver::Coverage;
use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

pub fn run(options: Softgpu) -> Result<ExitCode> {
    match options {
        Softgpu::List { all } => list(all),
        Softgpu::Unpack { folder } => unpack(&folder),
        Softgpu::Run { program, arguments } => on_softgpu(program, arguments),
    }
}

/// Runs a command with softgpu's libraries in front and takes over its exit status or signal.
pub fn on_softgpu(program: OsString, arguments: Vec<OsString>) -> Result<ExitCode> {
    let mut command = launch::Command {
        program,
        args: arguments,
        environment: Vec::new(),
    };
    add_softgpu(&mut command)?;
    launch::run(&command)?.pass_on()
}

/// Puts softgpu's libraries in front, and preloads the one that serves linked-in runtimes behind whatever else
/// is preloaded.
pub fn add_softgpu(command: &mut launch::Command) -> Result<()> {
    let folder = embedded::softgpu_folder()?;
    let asan = std::env::var_os("ASAN_OPTIONS");
    let asan = launch::sanitizer::environment(&command.program, asan.as_deref());
    let environment = &mut command.environment;
    environment.extend(asan);
    let existing = std::env::var_os("LD_LIBRARY_PATH");
    let path = launch::library_path(existing.as_deref(), &folder)?;
    environment.push(("LD_LIBRARY_PATH".into(), path));
    let set = environment.iter().rfind(|(name, _)| name == "LD_PRELOAD");
    let existing = set.map(|(_, value)| value.clone());
    let mut preload = existing
        .or_else(|| std::env::var_os("LD_PRELOAD"))
        .unwrap_or_default();
    if !preload.is_empty() {
        preload.push(":");
    }
    preload.push(launch::preloadable(&folder.join(embedded::REDIRECT))?);
    environment.push(("LD_PRELOAD".into(), preload));
    Ok(())
}

/// Writes the libraries to a folder of the user's, for programs that run without cutrace.
fn unpack(folder: &Path) -> Result<ExitCode> {
    let names = embedded::write_softgpu(folder)?;
    println!("{} has {}", folder.display(), names.join(", "));
    println!("type: LD_LIBRARY_PATH={} ./your-program", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn list(all: bool) -> Result<ExitCode> {
    let coverage = softgpu_driver::coverage();
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
