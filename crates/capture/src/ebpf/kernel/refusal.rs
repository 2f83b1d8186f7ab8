//! Why a hook is not attached, or not in one of its places.

use super::shape::ShapeError;
use crate::{ebpf::EbpfError, library::not_found};
use std::{fs, io};

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Of a map.
    #[error(transparent)]
    Map(#[from] libbpf_rs::Error),
    #[error("{}", in_words(.0))]
    Kernel(io::Error),
    #[error("tracefs is not mounted")]
    NoTracefs,
    #[error("it has no field {0}")]
    NoField(&'static str),
    #[error("no tracepoint {group}:{name}: {why}")]
    NoTracepoint {
        group: String,
        name: String,
        why: String,
    },
    #[error("{0}")]
    Tracepoint(io::Error),
    /// As it was with another function.
    #[error("{0}")]
    NoFentry(String),
    #[error("its module has no BTF")]
    NoModuleBtf,
    #[error("the kernel has no BTF")]
    NoKernelBtf,
    #[error("it is not in the module's BTF")]
    NotInBtf,
    #[error("{}", not_found(.0))]
    NoLibrary(String),
    #[error("{file}: {why}")]
    File { file: String, why: io::Error },
    #[error("no function of {library} matches {function}")]
    NoFunction { library: String, function: String },
    #[error("conditions on a library function's return value cannot be evaluated in the kernel")]
    ConditionAtReturn,
    #[error("{file} can throw C++ exceptions, and a return probe would kill the program")]
    Throws { file: String },
    #[error(
        "{function}: {file} can throw C++ exceptions, and a return probe would kill the program: only count and \
         hist(argN) work there"
    )]
    ThrowsWhenCounted { function: String, file: String },
    #[error(
        "{count} {what} in {file} match, and this kernel attaches them one by one: choose fewer than {most}"
    )]
    OneByOne {
        count: usize,
        what: &'static str,
        file: String,
        most: usize,
    },
    #[error("{count} markers in {file} match: choose fewer")]
    TooManyMarkers { count: usize, file: String },
    #[error("no marker of {library} matches {provider}:{name}")]
    NoMarker {
        library: String,
        provider: String,
        name: String,
    },
    #[error("{marker}: its condition cannot be evaluated: {why}")]
    Undecidable { marker: String, why: String },
    #[error("{marker}: {why}")]
    Uncountable { marker: String, why: String },
    #[error("cannot attach to markers of {file}: {why}")]
    Markers { file: String, why: libbpf_rs::Error },
    #[error("the markers pass their arguments in more than {0} different ways: choose fewer")]
    TooManySites(usize),
    #[error("too many hooks")]
    TooManyDescriptions,
    #[error("more than {0} functions to count in the kernel: choose fewer")]
    TooManyCounted(u32),
    /// Of several places none was left, for these reasons.
    #[error("{}", .0.join("; "))]
    Everywhere(Vec<String>),
}

/// What the kernel's refusal of a probe means.
fn in_words(error: &io::Error) -> String {
    let locked = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let locked = locked.contains("[integrity]") || locked.contains("[confidentiality]");
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if locked => {
            "the kernel is locked down (/sys/kernel/security/lockdown)".to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => {
            "not permitted: the kernel is locked down, or this user lacks CAP_PERFMON".to_owned()
        }
        Some(libc::EINVAL) => "the kernel refuses to probe it (notrace)".to_owned(),
        Some(libc::ENOENT) => "this kernel has no kprobes (CONFIG_KPROBES)".to_owned(),
        Some(libc::EOPNOTSUPP) => "not supported by this kernel".to_owned(),
        _ => error.to_string(),
    }
}
