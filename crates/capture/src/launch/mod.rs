//! Starts a command as if we were not there: it has our terminal and our standard streams, and its
//! exit status, fatal signal and stops become ours.
//!
//! What is put into its environment is the caller's business.

mod error;
mod held;
mod outlast;
pub mod sanitizer;
mod signals;
mod softgpu;
pub mod user;
mod wait;

pub use error::LaunchError;
pub use held::{HeldCommand, Preparation, User, hold};
pub use outlast::{outlast, until_enough};
pub use signals::block_signals;
pub use softgpu::add_softgpu;
pub use user::OtherUser;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

/// What to start.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// A path, or a name to look for in PATH.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables set on top of our own environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Exit {
    /// Ends this process as the command ended.
    pub fn pass_on(self) -> ! {
        match self {
            Self::Code(code) => std::process::exit(code),
            Self::Signal(signal) => {
                signals::die_of(signal);
                // Not every signal is fatal to us: what a shell would say then.
                std::process::exit(128 + signal)
            }
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // Stopped or continued: wait() never reports these.
            (None, None) => Self::Code(LaunchError::OWN_FAILURE.into()),
        }
    }
}

/// Runs the command to its end. Meanwhile, signals that someone sends to us go to the command, and
/// when it stops, we stop.
pub fn run(command: &Command) -> Result<Exit, LaunchError> {
    run_with(command, |_| ())
}

/// The same; `started` hears its process id.
pub fn run_with(command: &Command, started: impl FnOnce(u32)) -> Result<Exit, LaunchError> {
    let forwarding = signals::Forwarding::start();
    let mut child = spawn(command)?;
    started(child.id());
    let pid = child.id() as libc::pid_t;
    forwarding.to(pid);
    let ended = wait::until_ended(pid);
    // From here on the process id may become someone else's.
    drop(forwarding);
    ended
        .and_then(|()| child.wait())
        .map(Exit::from)
        .map_err(|source| LaunchError::Wait {
            program: command.program.clone(),
            source,
        })
}

fn spawn(command: &Command) -> Result<Child, LaunchError> {
    let mask = signals::mask();
    let mut start = std::process::Command::new(&command.program);
    start.args(&command.args).envs(
        command
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    // SAFETY: the closure only makes async-signal-safe system calls.
    unsafe {
        // The standard library empties the mask; the program must find the one we were given.
        start.pre_exec(move || {
            crate::files::restore_limit();
            signals::set_mask(&mask)
        });
    }
    start
        .spawn()
        .map_err(|source| LaunchError::from_spawn(&command.program, source))
}

/// A library's path as it can be in LD_PRELOAD.
pub fn preloadable(library: &Path) -> Result<&OsStr, LaunchError> {
    // The loader splits at both and knows no way to quote them.
    let splits = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    if library.as_os_str().as_bytes().iter().any(splits) {
        return Err(LaunchError::UnusableLibrary(library.to_owned()));
    }
    Ok(library.as_os_str())
}

/// The value of LD_LIBRARY_PATH that puts a folder before those already named.
pub fn library_path(existing: Option<&OsStr>, first: &Path) -> Result<OsString, LaunchError> {
    // The loader splits at both and knows no way to quote them.
    if first
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b":;".contains(byte))
    {
        return Err(LaunchError::UnusableFolder(first.to_owned()));
    }
    let mut path = first.as_os_str().to_owned();
    // An empty variable is none to the loader, but an empty entry is the current folder.
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        path.push(":");
        path.push(existing);
    }
    Ok(path)
}

/// The file that a command's first word leads to.
pub fn found_in_path(program: &OsStr) -> Option<PathBuf> {
    let path = PathBuf::from(program);
    if path.components().count() > 1 {
        return path.is_file().then_some(path);
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
