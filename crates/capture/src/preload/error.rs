//! Why a session of injected tracing could not be made.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    #[error("no folder has room for the session:\n  {}\nset TMPDIR to a folder that you can write to", .0.join("\n  "))]
    NoFolder(Vec<String>),
    #[error("cannot write {}: {source}", path.display())]
    Options { path: PathBuf, source: io::Error },
    #[error("{what} {text:?} cannot contain a line break")]
    LineBreak { what: &'static str, text: String },
    #[error(
        "{}: LD_PRELOAD cannot take a path with ':' or a space in it; set XDG_CACHE_HOME to another folder",
        .0.display()
    )]
    UnusablePath(PathBuf),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
