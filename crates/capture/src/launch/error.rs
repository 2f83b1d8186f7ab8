//! Why a command could not be run, and what a shell would exit with.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{}: command not found{}", .0.display(), advice(.0))]
    NotFound(OsString),
    #[error(
        "{name}: the interpreter or loader it names is missing; see which with: file {name}",
        name = .0.display()
    )]
    NoInterpreter(OsString),
    #[error("{}: a folder, not a command", .0.display())]
    Folder(OsString),
    #[error("{name}: not executable; if it is a program, type: chmod +x {name}", name = .0.display())]
    NotExecutable(OsString),
    #[error("{}: cannot be started: {source}", program.display())]
    Start {
        program: OsString,
        source: io::Error,
    },
    #[error("{}: cannot be waited for: {source}", program.display())]
    Wait {
        program: OsString,
        source: io::Error,
    },
    #[error(
        "{}: LD_LIBRARY_PATH cannot take a folder with ':' or ';' in its name; rename or move it",
        .0.display()
    )]
    UnusableFolder(PathBuf),
    #[error(
        "{}: LD_PRELOAD cannot take a path with ':' or a space in it; set XDG_CACHE_HOME to another folder",
        .0.display()
    )]
    UnusableLibrary(PathBuf),
}

impl LaunchError {
    /// Our own failure, distinguished from the command's.
    pub const OWN_FAILURE: u8 = 125;

    /// What to exit with: 127 and 126 as shells do, else our own failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) | Self::NoInterpreter(_) => 127,
            Self::NotExecutable(_) | Self::Folder(_) => 126,
            Self::Start { .. }
            | Self::Wait { .. }
            | Self::UnusableFolder(_)
            | Self::UnusableLibrary(_) => Self::OWN_FAILURE,
        }
    }

    pub(super) fn from_spawn(program: &OsStr, source: io::Error) -> Self {
        let path = Path::new(program);
        let named_by_path = path.components().count() > 1 || path.is_absolute();
        let program = program.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT) if named_by_path && path.exists() => Self::NoInterpreter(program),
            Some(libc::ENOENT | libc::ENOTDIR) => Self::NotFound(program),
            Some(libc::EACCES) if path.is_dir() => Self::Folder(program),
            Some(libc::EACCES) => Self::NotExecutable(program),
            _ => Self::Start { program, source },
        }
    }
}

/// A program of the current folder is the usual one that PATH does not have.
fn advice(program: &OsStr) -> String {
    let path = Path::new(program);
    if path.components().count() == 1 && path.is_file() {
        format!("; for the one in this folder, type: ./{}", path.display())
    } else {
        String::new()
    }
}
