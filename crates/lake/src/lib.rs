//! Many traces as one: Parquet folders that DuckDB, Spark, Polars and pandas read, and the views and queries that go
//! with them.
//!
//! A lake is a folder: docs/LAKE.md says what is in it. The manifest says what belongs; files appear by renaming, whole; a
//! name follows from the recording itself, so adding it again changes nothing. A lake in an object store is read and written
//! through a folder on this machine (`remote`).
#![forbid(unsafe_code)]

mod add;
mod address;
mod aside;
mod bounds;
mod check;
mod columns;
mod compact;
mod dialect;
mod duckdb;
mod error;
mod expire;
mod files;
pub mod fleet;
mod gather;
mod layout;
mod manifest;
mod merge;
mod named;
mod program;
#[cfg(feature = "object-stores")]
mod remote;
#[cfg(not(feature = "object-stores"))]
#[path = "without_remote.rs"]
mod remote;
mod rows;
mod sorter;
mod spark;
mod sql_columns;
mod stacks;
mod tables;
mod views;

pub use add::{Added, add, add_with};
pub use address::Address;
pub use bounds::Bounds;
pub use check::{Checked, check};
pub use compact::{Compacted, compact};
pub use dialect::{Dialect, fill};
pub use duckdb::DuckDb;
pub use error::{BrokenFile, Error, QueryError, Result};
pub use expire::{Expired, expire};
pub use layout::{Entry, Lake, Sizes};
pub use named::{NamedQuery, named, named_queries};
pub use remote::{Moved, Remote};
pub use spark::{Spark, SparkFormat};
pub use tables::Table;
pub use views::{files_are_there, views};

/// The lake in which `query` keeps what it converted, beside the traces.
pub const CACHE: &str = ".cutrace-lake";
