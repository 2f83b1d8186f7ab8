//! `cutrace demo`: a CUDA program on the software device, so that anybody can see one run.

use super::softgpu::on_softgpu;
use crate::embedded;
use anyhow::Result;
use std::process::ExitCode;

pub fn run() -> Result<ExitCode> {
    let program = embedded::demo_program()?;
    eprintln!(
        "cutrace demo: a CUDA program on softgpu, cutrace's software device. No GPU is used."
    );
    on_softgpu(program.into_os_string(), Vec::new())
}
