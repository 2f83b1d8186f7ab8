//! Why a process cannot be entered.

use std::io;

/// Why the library could not be loaded into a running process, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("process {pid} does not exist")]
    Gone { pid: u32 },
    #[error("process {pid} ended while cutrace was attaching")]
    Ended { pid: u32 },
    #[error("process {pid} belongs to {owner}: run cutrace as that user, or with sudo")]
    OtherUser { pid: u32, owner: String },
    #[error(
        "ptrace is restricted to child processes here (kernel.yama.ptrace_scope={scope}): run cutrace with sudo, or \
         allow it: sudo sysctl kernel.yama.ptrace_scope=0"
    )]
    Yama { scope: u32 },
    #[error(
        "ptrace is disabled on this machine (kernel.yama.ptrace_scope=3, until it is rebooted)"
    )]
    YamaOff,
    #[error(
        "the kernel does not let cutrace ptrace process {pid} (it is setuid, not dumpable, or a container forbids \
         ptrace): run cutrace with sudo; in a container, start it with --cap-add SYS_PTRACE"
    )]
    Forbidden { pid: u32 },
    #[error("process {pid} is already being traced by {tracer}: end that first")]
    Traced { pid: u32, tracer: String },
    #[error("process {pid} is stopped: kill -CONT {pid}")]
    Stopped { pid: u32 },
    #[error("process {pid} is statically linked: no library can be loaded into it")]
    Static { pid: u32 },
    #[error("process {pid} does not use glibc: cutrace can only be loaded into programs that do")]
    OtherLibc { pid: u32 },
    #[error("process {pid} uses glibc without {function}: cutrace cannot be loaded into it")]
    NoFunction { pid: u32, function: &'static str },
    #[error("process {pid} is not a 64-bit x86 program")]
    OtherMachine { pid: u32 },
    #[error(
        "process {pid} restricts its system calls (seccomp): loading a library might get it killed"
    )]
    Filtered { pid: u32 },
    #[error("process {pid} uses shadow stacks (CET), which cutrace does not support")]
    ShadowStack { pid: u32 },
    #[error(
        "process {pid} runs in a container, where cutrace's library is not visible: run cutrace inside it"
    )]
    OtherFiles { pid: u32 },
    #[error("cutrace {tracer} is already attached to process {pid}")]
    Attached { pid: u32, tracer: String },
    #[error(
        "process {pid} has the library of another version of cutrace loaded: restart it, or use that version"
    )]
    OtherVersion { pid: u32 },
    #[error(
        "process {pid}: none of its {threads} threads was at a place where a library can be loaded safely, in \
         {seconds} s: try again"
    )]
    NoSafePlace {
        pid: u32,
        threads: usize,
        seconds: u64,
    },
    #[error("process {pid}: thread {thread} could not be stopped (it is in the kernel): try again")]
    Unstoppable { pid: u32, thread: i32 },
    #[error("process {pid} was loading libraries all the time: try again")]
    Busy { pid: u32 },
    #[error("process {pid}: the library could not be loaded: {why}")]
    NotLoaded { pid: u32, why: String },
    #[error("process {pid}: the loaded library did not answer within {seconds} s")]
    Silent { pid: u32, seconds: u64 },
    #[error("process {pid}: the loaded library could not open the session")]
    Refused { pid: u32 },
    #[error("process {pid}: {what} failed")]
    System {
        pid: u32,
        what: &'static str,
        source: io::Error,
    },
}
