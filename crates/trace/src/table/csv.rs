//! Writing CSV: a line with the columns' names, then a line a row; nothing between two commas is
//! no value. Texts with commas, quotes or line breaks are quoted as RFC 4180 says. One that a spreadsheet
//! would run as a formula (names come from traced programs) gets an apostrophe in front, as OWASP
//! recommends; numbers stay numbers.
//!
//! By hand: arrow-csv writes an empty text and no value alike, and cannot quote the one without quoting all; it
//! takes 2.18 s for rows that this makes of records and writes in 1.15 s (`benches/libraries.rs`).

use crate::{Result, arrow::Rows, sink::WriteTrace};
use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_schema::DataType;
use event::{Event, Meta, Record, Summary};
use std::io::{BufWriter, Write};

pub struct CsvWriter<W: Write> {
    out: BufWriter<W>,
    rows: Rows,
    line: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    pub fn new(out: W, meta: &Meta) -> Result<Self> {
        let rows = Rows::new(meta)?;
        let mut out = BufWriter::with_capacity(256 << 10, out);
        let names: Vec<&str> = (rows.schema().fields().iter())
            .map(|field| field.name().as_str())
            .collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(CsvWriter {
            out,
            rows,
            line: Vec::new(),
        })
    }

    fn write_batch(&mut self) -> Result<()> {
        let Some(batch) = self.rows.take()? else {
            return Ok(());
        };
        let columns = columns(&batch);
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (place, column) in columns.iter().enumerate() {
                if place > 0 {
                    self.line.push(b',');
                }
                column.write(row, &mut self.line);
            }
            self.line.push(b'\n');
            self.out.write_all(&self.line)?;
        }
        Ok(())
    }
}

/// A column as its type has it.
enum Column<'a> {
    U32(&'a arrow_array::UInt32Array),
    U64(&'a arrow_array::UInt64Array),
    I64(&'a arrow_array::Int64Array),
    Text(&'a arrow_array::StringArray),
    Word(&'a arrow_array::Int8Array, &'a arrow_array::StringArray),
    Name(&'a arrow_array::Int32Array, &'a arrow_array::StringArray),
}

fn columns(batch: &RecordBatch) -> Vec<Column<'_>> {
    let column = |array: &'_ arrow_array::ArrayRef| -> DataType { array.data_type().clone() };
    (batch.columns().iter())
        .map(|array| match column(array) {
            DataType::UInt32 => Column::U32(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => Column::U64(array.as_primitive::<UInt64Type>()),
            DataType::Int64 => Column::I64(array.as_primitive::<Int64Type>()),
            DataType::Dictionary(keys, _) if *keys == DataType::Int8 => {
                let array = array.as_dictionary::<Int8Type>();
                Column::Word(array.keys(), array.values().as_string())
            }
            DataType::Dictionary(..) => {
                let array = array.as_dictionary::<Int32Type>();
                Column::Name(array.keys(), array.values().as_string())
            }
            _ => Column::Text(array.as_string()),
        })
        .collect()
}

impl Column<'_> {
    fn write(&self, row: usize, line: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        match self {
            Column::U32(array) if array.is_valid(row) => {
                line.extend_from_slice(digits.format(array.value(row)).as_bytes());
            }
            Column::U64(array) if array.is_valid(row) => {
                line.extend_from_slice(digits.format(array.value(row)).as_bytes());
            }
            Column::I64(array) if array.is_valid(row) => {
                line.extend_from_slice(digits.format(array.value(row)).as_bytes());
            }
            Column::Text(array) if array.is_valid(row) => text(line, array.value(row)),
            Column::Word(keys, words) if keys.is_valid(row) => {
                text(line, words.value(keys.value(row) as usize));
            }
            Column::Name(keys, names) if keys.is_valid(row) => {
                text(line, names.value(keys.value(row) as usize));
            }
            _ => {}
        }
    }
}

fn text(line: &mut Vec<u8>, text: &str) {
    // An empty text in quotes is a text; without them it would be no value.
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let quoted = text.is_empty()
        || formula
        || text
            .bytes()
            .any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if !quoted {
        return line.extend_from_slice(text.as_bytes());
    }
    line.push(b'"');
    if formula {
        line.push(b'\'');
    }
    for &byte in text.as_bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

impl<W: Write + Send> WriteTrace for CsvWriter<W> {
    fn write(&mut self, record: &Record) -> Result<()> {
        self.rows.add(record)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_whole(&mut self, _: &Record, event: &Event, duration: u64) -> Result<()> {
        self.rows.add_whole(event, duration)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_batch()?;
        Ok(self.out.flush()?)
    }

    /// A table has no tail.
    fn finish(&mut self, _: &Summary) -> Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_a_formula() {
        let written = |given: &str| {
            let mut line = Vec::new();
            text(&mut line, given);
            String::from_utf8(line).expect("text")
        };
        for start in ["=", "+", "-", "@", "\t", "\r"] {
            let formula = format!("{start}cmd|' /C calc'!A0");
            assert_eq!(written(&formula), format!("\"'{formula}\""));
        }
        assert_eq!(written("=\"a\""), "\"'=\"\"a\"\"\"");
        for plain in ["cuInit", "a=b", "'quoted", "{\"x\":-1}"] {
            assert!(!written(plain).starts_with("\"'"), "{plain}");
        }
    }
}
