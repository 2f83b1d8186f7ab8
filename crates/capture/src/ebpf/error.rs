//! Why the kernel's view could not be had.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    #[error(
        "eBPF needs root, or the capabilities CAP_BPF and CAP_PERFMON: {what}: {source}\ntype: sudo cutrace …"
    )]
    NotAllowed { what: String, source: io::Error },
    #[error("this kernel has no BPF: {0}")]
    NoBpf(io::Error),
    #[error("cannot make the BPF map {name}: {source}")]
    Map {
        name: &'static str,
        source: libbpf_rs::Error,
    },
    #[error(
        "the kernel does not take the BPF programs of {object}: {source}{}",
        shown(log)
    )]
    Load {
        object: &'static str,
        source: libbpf_rs::Error,
        log: String,
    },
    #[error("cannot attach to {what}: {source}")]
    Attach {
        what: String,
        source: libbpf_rs::Error,
    },
    #[error("{} is no library that can be read: {why}", path.display())]
    Library { path: PathBuf, why: String },
    #[error("{0}")]
    NothingToTrace(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The verifier's words, at the end of the line they belong to.
fn shown(log: &str) -> String {
    let tail: Vec<&str> = log.lines().rev().take(12).collect();
    let lines = tail.iter().rev().map(|line| format!("\n  {line}"));
    lines.collect()
}
