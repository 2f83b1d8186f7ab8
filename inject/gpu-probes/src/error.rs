//! Why probes cannot have their memory, and why code cannot be loaded with them.

use crate::driver::error_name;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A context has no memory for maps, or a module could not be given it.
#[derive(Debug, Error)]
pub enum MemoryError {
    #[error("no {what}: {}", error_name(*.error))]
    Driver { what: &'static str, error: i32 },
    #[error("the device cannot reach host memory: {}", error_name(*.0))]
    OutOfReach(i32),
    #[error("map {0} is too large")]
    TooLarge(String),
    #[error("map {map}: {why}")]
    OfMap { map: String, why: Box<MemoryError> },
    #[error("no room for printk")]
    NoRoomForPrintk,
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("no room for {}: {why}", path.display())]
    NoRoom { path: PathBuf, why: io::Error },
    #[error("cannot map {}: {why}", path.display())]
    CannotMap { path: PathBuf, why: io::Error },
    #[error("no memory: {0}")]
    NoMemory(io::Error),
    #[error("the tracer does not answer: {0}")]
    NoAnswer(io::Error),
    #[error("the tracer did not send it")]
    NotSent,
    #[error("cannot map it: {0}")]
    CannotMapHosts(io::Error),
    #[error("there is no memory for maps in this context")]
    NoContext,
}

/// Code could not be loaded with its probes.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("the PTX has a NUL")]
    Nul,
    #[error("the driver refuses it with probes ({}) {log}", error_name(*.error))]
    Refused { error: i32, log: String },
    #[error("its blocks could no longer run as many threads")]
    SmallerBlocks,
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
