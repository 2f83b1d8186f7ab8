//! The arguments of `cutrace probes` and `cutrace hooks`.

use super::shared::DeviceLine;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What to list.
pub struct Probes {
    /// None: what has to do with the GPU.
    pub glob: Option<String>,
    pub arguments: bool,
    /// With softgpu's libraries.
    pub simulate: bool,
}

pub enum Hooks {
    Check { file: PathBuf, simulate: bool },
}

#[derive(Args)]
pub struct ProbesLine {
    /// Probes to list: a glob of names (nv*sched*), or of whole probes (kprobe:nvidia:*, tracepoint:irq:*,
    /// uprobe:libcuda.so.1:cuMem*). By default those that have to do with the GPU
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Also show arguments: of tracepoints, and of functions if the kernel has BTF
    // As bpftrace -lv. The short ones mean something else in other verbs.
    #[arg(long, short_aliases = ['v', 'a'])]
    arguments: bool,
    #[command(flatten)]
    device: DeviceLine,
}

impl ProbesLine {
    pub fn options(self) -> Probes {
        Probes {
            glob: self.glob,
            arguments: self.arguments,
            simulate: self.device.sim,
        }
    }
}

#[derive(Subcommand)]
pub enum HooksLine {
    /// Check a hooks file, and say what each of its hooks matches on this machine
    ///
    /// With --sim, libraries are looked for as a program under --sim finds them: softgpu's first.
    Check {
        /// The hooks file, in TOML; '-' is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        device: DeviceLine,
    },
}

impl HooksLine {
    pub fn options(self) -> Hooks {
        match self {
            HooksLine::Check { file, device } => Hooks::Check {
                file,
                simulate: device.sim,
            },
        }
    }
}
