//! Why system calls cannot be traced here, and what to do about it.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum SyscallError {
    #[error("cannot start the tracer process: {0}")]
    Start(io::Error),
    #[error(
        "process {pid} is already traced by process {by} ({name}), and can have only one tracer: stop that one first"
    )]
    Taken { pid: u32, by: u32, name: String },
    #[error("process {0} does not exist")]
    NoProcess(u32),
    #[error(
        "no permission to trace process {pid}: {}", advice(.scope)
    )]
    Refused { pid: u32, scope: Option<u32> },
    #[error("no permission to trace anything: {}", advice(&Some(*.0)))]
    Forbidden(u32),
    #[error("process {pid} cannot be traced: {source}")]
    Attach { pid: u32, source: io::Error },
    #[error("the tracer process has died")]
    Gone,
}

fn advice(scope: &Option<u32>) -> &'static str {
    match scope {
        Some(0) | None => {
            "it belongs to another user, or the container forbids ptrace; try as root"
        }
        Some(1) => {
            "kernel.yama.ptrace_scope is 1, which allows only children; start the program with \
             cutrace, or use sudo"
        }
        Some(2) => "kernel.yama.ptrace_scope is 2, which allows only root; use sudo",
        Some(_) => "kernel.yama.ptrace_scope is 3, which allows nobody until the next boot",
    }
}

impl SyscallError {
    /// What the tracer's error means for this process.
    pub(super) fn of_attach(pid: u32, code: i32) -> Self {
        let source = io::Error::from_raw_os_error(code);
        match code {
            libc::ESRCH => SyscallError::NoProcess(pid),
            libc::EPERM | libc::EACCES => match tracer_of(pid) {
                Some((by, name)) => SyscallError::Taken { pid, by, name },
                None => SyscallError::Refused {
                    pid,
                    scope: ptrace_scope(),
                },
            },
            _ => SyscallError::Attach { pid, source },
        }
    }
}

/// The process that traces another one.
pub(super) fn tracer_of(pid: u32) -> Option<(u32, String)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = (status.lines()).find_map(|line| line.strip_prefix("TracerPid:"))?;
    let by: u32 = line.trim().parse().ok().filter(|by| *by != 0)?;
    let name = std::fs::read_to_string(format!("/proc/{by}/comm")).unwrap_or_default();
    Some((by, name.trim().to_owned()))
}

/// What Yama allows, where it is there.
pub(super) fn ptrace_scope() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    text.trim().parse().ok()
}
