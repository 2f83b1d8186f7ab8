//! Why a session of injected tracing could not be made.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    #[error("no folder with room for the session:\n  {}\nset TMPDIR to a folder that you can write", .0.join("\n  "))]
    NoFolder(Vec<String>),
    #[error("cannot write {}: {source}", path.display())]
    Options { path: PathBuf, source: io::Error },
    #[error("{what} {text:?} cannot be passed on: it has a line break in it")]
    LineBreak { what: &'static str, text: String },
    #[error(
        "{}: a path with ':' or a space in it cannot be in LD_PRELOAD; set XDG_CACHE_HOME to another folder",
        .0.display()
    )]
    UnusablePath(PathBuf),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
