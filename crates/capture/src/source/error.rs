//! Why a source could not be started, and why a run could not be watched.

use crate::launch::LaunchError;
use std::{error::Error, io};

/// What went wrong in a source: an error of its own kind, which it says to be one of these.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SourceError(Box<dyn Error + Send + Sync>);

impl SourceError {
    pub fn of(cause: impl Error + Send + Sync + 'static) -> Self {
        SourceError(Box::new(cause))
    }

    /// Where words are all there is.
    pub fn in_words(words: impl Into<String>) -> Self {
        SourceError(words.into().into())
    }

    /// The error of its own kind, if it is of this one.
    pub fn cause<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl From<io::Error> for SourceError {
    fn from(cause: io::Error) -> Self {
        SourceError::of(cause)
    }
}

/// Why a run could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("process {pid}")]
    Process { pid: u32, source: io::Error },
    #[error(transparent)]
    Merge(io::Error),
    #[error("a source lost its trace")]
    NoTrace,
}
