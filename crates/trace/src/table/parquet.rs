//! Writing Parquet. The trace's head and tail are among the file's key-value pairs.

use crate::{Error, Result, arrow::Rows, sink::WriteTrace};
use event::{Meta, Record, Summary};
use parquet::{
    arrow::ArrowWriter,
    basic::Compression,
    file::{metadata::KeyValue, properties::WriterProperties},
};
use std::io::Write;

/// Rows of a group: what is in memory until it is written.
const GROUP_ROWS: usize = 8 * 32_768;

pub struct ParquetWriter<W: Write + Send> {
    /// None once the file is finished.
    out: Option<ArrowWriter<W>>,
    rows: Rows,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(out: W, meta: &Meta) -> Result<Self> {
        let rows = Rows::new(meta)?;
        let head = serde_json::to_string(meta).map_err(std::io::Error::from)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_key_value_metadata(Some(vec![KeyValue::new("cutrace".to_owned(), head)]))
            .build();
        let schema = rows.schema().clone();
        Ok(ParquetWriter {
            out: Some(ArrowWriter::try_new(out, schema, Some(properties))?),
            rows,
        })
    }

    fn write_batch(&mut self) -> Result<()> {
        if let Some(batch) = self.rows.take()?
            && let Some(out) = &mut self.out
        {
            out.write(&batch)?;
        }
        Ok(())
    }
}

impl<W: Write + Send> WriteTrace for ParquetWriter<W> {
    fn write(&mut self, record: &Record) -> Result<()> {
        self.rows.add(record)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_batch()
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.write_batch()?;
        if let Some(mut out) = self.out.take() {
            let tail = serde_json::to_string(summary).map_err(std::io::Error::from)?;
            out.append_key_value_metadata(KeyValue::new("cutrace_summary".to_owned(), tail));
            out.close()?;
        }
        Ok(())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            // A broken pipe must still be seen as one.
            parquet::errors::ParquetError::External(source) => {
                match source.downcast::<std::io::Error>() {
                    Ok(source) => Error::Io(*source),
                    Err(source) => Error::Io(std::io::Error::other(source)),
                }
            }
            other => Error::Io(std::io::Error::other(other)),
        }
    }
}
