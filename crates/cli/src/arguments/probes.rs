//! The arguments of `cutrace probes` and `cutrace hooks`.

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
    /// Which: a glob of names (nv*sched*), or of whole probes (kprobe:nvidia:*, tracepoint:irq:*,
    /// uprobe:libcuda.so.1:cuMem*). Without it: whatever has to do with the GPU
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Show arguments, too: of functions where the kernel has BTF, of tracepoints
    #[arg(short, long = "arguments", visible_short_alias = 'v')]
    arguments: bool,
    /// List softgpu's libraries too, which programs under --sim load
    #[arg(long)]
    sim: bool,
}

impl ProbesLine {
    pub fn options(self) -> Probes {
        Probes {
            glob: self.glob,
            arguments: self.arguments,
            simulate: self.sim,
        }
    }
}

#[derive(Subcommand)]
pub enum HooksLine {
    /// Check a hooks file, and tell what each of its hooks is here
    Check {
        /// The hooks file, in TOML; '-' is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Look for libraries where a program under --sim finds them: softgpu's first
        #[arg(long)]
        sim: bool,
    },
}

impl HooksLine {
    pub fn options(self) -> Hooks {
        match self {
            HooksLine::Check { file, sim } => Hooks::Check {
                file,
                simulate: sim,
            },
        }
    }
}
