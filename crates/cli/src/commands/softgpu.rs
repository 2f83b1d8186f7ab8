//! `cutrace softgpu`: run a program on the software device, or say what the device can do.

use crate::{arguments::Softgpu, embedded};
use anyhow::Result;
use capture::launch;
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
    let softgpu = embedded::softgpu()?;
    launch::add_softgpu(&mut command, &softgpu.folder, softgpu.redirect)?;
    launch::run(&command)?.pass_on()
}

/// Writes the libraries to a folder of the user's, for programs that run without cutrace.
fn unpack(folder: &Path) -> Result<ExitCode> {
    let names = embedded::write_softgpu(folder)?;
    let (folder, names) = (folder.display(), names.join(", "));
    let text = format!("{folder} has {names}\ntype: LD_LIBRARY_PATH={folder} ./your-program\n");
    super::print(text.as_bytes())
}

/// The functions of libcuda, and whether softgpu implements them: written by the build script.
const FUNCTIONS: &[(&str, bool)] = include!(concat!(env!("OUT_DIR"), "/softgpu_functions.rs"));

fn list(all: bool) -> Result<ExitCode> {
    let done = FUNCTIONS.iter().filter(|(_, done)| *done).count();
    let mut out = io::BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "softgpu implements {done} of the {} functions that libcuda of driver 580 exports ({:.1} %).",
        FUNCTIONS.len(),
        100.0 * done as f64 / FUNCTIONS.len() as f64
    )?;
    if all {
        section(&mut out, "Implemented:", true)?;
    }
    let title = "Present, answering CUDA_ERROR_NOT_SUPPORTED:";
    section(&mut out, title, false)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn section(out: &mut impl Write, title: &str, implemented: bool) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    for (name, done) in FUNCTIONS {
        if *done == implemented {
            writeln!(out, "  {name}")?;
        }
    }
    Ok(())
}
