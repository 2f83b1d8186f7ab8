//! Many traces as one: Parquet folders that DuckDB, Spark, Polars and pandas read, and the views and queries that go
//! with them.
//!
//! A lake is a folder. `run=R/host=H/rank=N/NAME.parquet` has the events of one recording, one row a span, with
//! absolute times; `_manifest/NAME.json` says what belongs. Files appear by renaming, whole; a name follows
//! from the recording itself, so adding it again changes nothing.
#![forbid(unsafe_code)]

mod add;
mod bounds;
mod check;
mod dialect;
mod duckdb;
mod error;
pub mod fleet;
mod layout;
mod named;
mod program;
mod rows;
mod spark;
mod sql_columns;
mod views;

pub use add::{Added, add};
pub use bounds::Bounds;
pub use check::{Checked, check, expire};
pub use dialect::{Dialect, fill};
pub use duckdb::DuckDb;
pub use error::{Error, Result};
pub use layout::{Entry, Lake};
pub use named::{NamedQuery, named, named_queries};
pub use spark::{Spark, SparkFormat};
pub use views::{files_are_there, views};

/// The lake in which `query` keeps what it converted, beside the traces.
pub const CACHE: &str = ".cutrace-lake";
