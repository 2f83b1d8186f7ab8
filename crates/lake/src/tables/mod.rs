//! The side tables: what is asked of recordings without reading their events. docs/LAKE.md has their columns.

mod findings;
mod frames;
mod names;
mod runs;
mod steps;

pub use findings::findings;
pub use frames::Frames;
pub use names::Names;
pub use runs::runs;
pub use steps::steps;

use crate::Result;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, cast::AsArray,
    types::Int32Type,
};
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat_batches;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};
use trace::Groups;

/// One of the side tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    Stacks,
    Names,
    Steps,
    Findings,
    Runs,
}

impl Table {
    pub const ALL: [Table; 5] = [
        Table::Stacks,
        Table::Names,
        Table::Steps,
        Table::Findings,
        Table::Runs,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Table::Stacks => "stacks",
            Table::Names => "names",
            Table::Steps => "steps",
            Table::Findings => "findings",
            Table::Runs => "runs",
        }
    }
}

/// The columns of some rows, as they are gathered.
#[derive(Default)]
pub struct TableColumns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl TableColumns {
    /// Of so many rows of one recording.
    pub fn of(recording: &str, rows: usize) -> Result<Self> {
        let texts = Arc::new(StringArray::from_iter_values([recording]));
        let keys = Int32Array::from(vec![0; rows]);
        let recordings = DictionaryArray::try_new(keys, texts)?;
        Ok(TableColumns::default().with(crate::columns::RECORDING, Arc::new(recordings)))
    }

    #[must_use]
    pub fn with(mut self, name: &str, array: ArrayRef) -> Self {
        self.fields
            .push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
        self
    }

    pub fn batch(self) -> Result<RecordBatch> {
        let schema = Arc::new(Schema::new(self.fields));
        Ok(RecordBatch::try_new(schema, self.arrays)?)
    }
}

/// Texts that repeat.
pub fn texts<T: AsRef<str>>(texts: impl Iterator<Item = Option<T>>) -> ArrayRef {
    let mut builder =
        arrow_array::builder::StringDictionaryBuilder::<arrow_array::types::Int32Type>::new();
    for text in texts {
        builder.append_option(text);
    }
    Arc::new(builder.finish())
}

/// A table that is being written; there is no file before it has rows.
pub struct TableFile {
    path: PathBuf,
    groups: Option<Groups>,
    pub rows: u64,
}

impl TableFile {
    pub fn new(path: PathBuf) -> Self {
        TableFile {
            path,
            groups: None,
            rows: 0,
        }
    }

    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows() as u64;
        let groups = match &mut self.groups {
            Some(groups) => groups,
            none => {
                let file = File::create(&self.path).map_err(crate::Error::write(&self.path))?;
                none.insert(
                    Groups::new(file, batch.schema(), Vec::new())
                        .map_err(crate::Error::trace(&self.path))?,
                )
            }
        };
        groups.write(batch).map_err(crate::Error::trace(&self.path))
    }

    /// Makes it durable; None: it has no rows.
    pub fn finish(self) -> Result<Option<PathBuf>> {
        let Some(mut groups) = self.groups else {
            return Ok(None);
        };
        (groups.finish(Vec::new())).map_err(crate::Error::trace(&self.path))?;
        sync(&self.path)?;
        Ok(Some(self.path))
    }
}

/// Makes a file durable.
pub fn sync(path: &Path) -> Result<()> {
    let sync = || File::open(path)?.sync_all();
    sync().map_err(crate::Error::write(path))
}

/// The rows but for those of these recordings.
pub fn without(rows: &RecordBatch, recordings: &HashSet<String>) -> Result<RecordBatch> {
    if recordings.is_empty() {
        return Ok(rows.clone());
    }
    let column = rows.column_by_name(crate::columns::RECORDING);
    let column = column.and_then(|column| column.as_dictionary_opt::<Int32Type>());
    let Some(column) = column else {
        return Ok(rows.clone());
    };
    let names = column.values().as_string::<i32>();
    let is_kept = |row: usize| match column.key(row) {
        Some(key) => !recordings.contains(names.value(key)),
        None => true,
    };
    // They are few, and stretches of them belong together.
    let mut kept: Vec<RecordBatch> = Vec::new();
    let mut row = 0;
    while row < rows.num_rows() {
        let first = row;
        while row < rows.num_rows() && is_kept(row) {
            row += 1;
        }
        if row > first {
            kept.push(rows.slice(first, row - first));
        }
        row += 1;
    }
    Ok(concat_batches(&rows.schema(), &kept)?)
}
