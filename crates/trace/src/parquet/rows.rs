//! The rows of a Parquet file as they are, batch by batch.

use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::{fs::File, path::Path};

/// A Parquet file that is being read.
pub struct ParquetRows {
    schema: SchemaRef,
    total: u64,
    reader: ParquetRecordBatchReader,
}

impl ParquetRows {
    pub fn open(path: impl AsRef<Path>, batch: usize) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::Open {
            path: path.into(),
            source,
        })?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let total = builder.metadata().file_metadata().num_rows();
        // What a writer says of itself in the schema is not for the columns.
        let fields = builder.schema().fields().clone();
        Ok(ParquetRows {
            schema: std::sync::Arc::new(arrow_schema::Schema::new(fields)),
            total: u64::try_from(total).unwrap_or(0),
            reader: builder.with_batch_size(batch).build()?,
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Rows of the whole file.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// None at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.reader.next().transpose();
        Ok(next.map_err(std::io::Error::other)?)
    }
}
