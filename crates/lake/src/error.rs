//! What can go wrong with a lake.

use std::{io, path::PathBuf, time::Duration};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Trace { path: PathBuf, source: trace::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{0}: not a lake: it has no _manifest; add a trace with cutrace lake add {0} TRACE")]
    NotALake(PathBuf),
    #[error(
        "{0}: the trace is not whole: {1}; add it when it is finished, or export the readable part first: \
         cutrace export -o whole.arrows {0}"
    )]
    Damaged(PathBuf, String),
    #[error(
        "{0}: merged from traces of different runs, hosts or ranks: add those, so that each keeps its own"
    )]
    Merged(PathBuf),
    #[error("{0}: not a file of this lake: {1}")]
    Foreign(PathBuf, String),
    #[error("{0}: another compaction or expiry is running")]
    Busy(PathBuf),
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    #[error(
        "SQL needs DuckDB, and no program duckdb was found on the PATH or in the Python environment: \
         pip install duckdb-cli (or 'cutrace[query]'), or set DUCKDB to its path"
    )]
    NoDuckDb,
    #[error(
        "--spark needs Spark's program spark-sql: set SPARK_HOME to Spark's folder, or pip install pyspark of the cluster's \
         version (it needs Java 17 or newer)"
    )]
    NoSpark,
    #[error("SPARK_HOME is {0}, which has no bin/spark-sql")]
    NotSpark(PathBuf),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{0} belongs to the lake and is not there; see what is wrong: cutrace lake check")]
    FileGone(PathBuf),
    #[error("cannot start {path}: {source}")]
    Start { path: PathBuf, source: io::Error },
    #[error(
        "{0}: this cutrace was built without object stores; build one that has them: \
         cargo install --locked --path crates/cli --features object-stores"
    )]
    NoObjectStores(String),
    #[error(
        "{0}: not the address of a lake: {1}; expected s3://BUCKET/FOLDER, gs://, az:// or file:///FOLDER"
    )]
    NotAnAddress(String, String),
    #[error("cannot {verb} {url}: {source}")]
    Store {
        verb: &'static str,
        url: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{url}: not a lake's entry: {why}; remove it if cutrace did not write it")]
    BadEntry { url: String, why: String },
    #[error("{0} belongs to the lake and is not there; see what is wrong: cutrace lake check {1}")]
    ObjectGone(String, String),
    #[error("{0}: the lake has no such recording; see which there are: cutrace lake list {1}")]
    NoSuchPart(String, String),
    #[error("there is no named query {name}; there are {all}")]
    NoNamedQuery { name: String, all: String },
}

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the query took more than {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("the answer is longer than {0} bytes: ask for fewer rows or columns")]
    TooLong(u64),
    /// In the words of the program that was asked.
    #[error("{0}")]
    Refused(String),
}

/// What is wrong with a file that the manifest lists.
#[derive(Debug, thiserror::Error)]
pub enum BrokenFile {
    #[error(transparent)]
    Gone(#[from] io::Error),
    #[error("not a whole Parquet file: {0}")]
    NotWhole(trace::Error),
    #[error(transparent)]
    Unreadable(trace::Error),
    #[error("it cannot be fetched: {0}")]
    Unfetched(Box<Error>),
    #[error("{read} rows could be read of {total}")]
    Rows { read: u64, total: u64 },
}

impl Error {
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Write { path, source }
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Read { path, source }
    }

    pub(crate) fn trace(path: impl Into<PathBuf>) -> impl FnOnce(trace::Error) -> Error {
        let path = path.into();
        move |source| Error::Trace { path, source }
    }
}
