//! Tables for other tools: the rows and columns of the Arrow form, in files that are written and
//! not read again.

mod csv;
mod parquet;
mod sorted;

pub use csv::CsvWriter;
pub use parquet::{Groups, ParquetWriter, head, tail};
pub use sorted::SortedGroups;
