//! Why the kernel's view could not be had.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    #[error(
        "eBPF needs root, or the capabilities CAP_BPF and CAP_PERFMON: {what}: {source}\ntype: sudo cutrace …"
    )]
    NotAllowed { what: String, source: io::Error },
    #[error(
        "the kernel is locked down ({0}), so BPF programs may not read memory; boot with lockdown=none or without Secure Boot"
    )]
    LockedDown(String),
    #[error("this kernel has no BPF: {0}")]
    NoBpf(io::Error),
    #[error("cannot create the BPF map {name}: {source}")]
    Map {
        name: &'static str,
        source: libbpf_rs::Error,
    },
    #[error(
        "the kernel rejected the BPF programs in {object}: {source}{}{}",
        refused(source),
        shown(log)
    )]
    Load {
        object: &'static str,
        source: libbpf_rs::Error,
        log: String,
    },
    #[error("cannot attach to {what}: {source}{}", rights(source))]
    Attach {
        what: String,
        source: libbpf_rs::Error,
    },
    #[error("cannot read {} as a library: {why}", path.display())]
    Library { path: PathBuf, why: String },
    #[error("{0}")]
    NothingToTrace(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

fn refused(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "\nthis needs CAP_PERFMON as well as CAP_BPF; type: sudo cutrace …"
        }
        _ => "",
    }
}

/// What is missing where something is refused.
fn rights(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "\nonly root may read /sys/kernel/tracing; without it, this needs kernel BTF and CAP_PERFMON; type: sudo \
             cutrace …"
        }
        _ => "",
    }
}

/// The verifier's words, at the end of the line they belong to.
fn shown(log: &str) -> String {
    let tail: Vec<&str> = log.lines().rev().take(12).collect();
    let lines = tail.iter().rev().map(|line| format!("\n  {line}"));
    lines.collect()
}
