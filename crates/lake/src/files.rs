//! The Parquet files of events: written aside, sorted, each ended when it is large.

use crate::gather::Segment;
use crate::{
    Error, Result,
    columns::sorted_by,
    gather::gather,
    layout::Sizes,
    sorter::{Due, Group, GroupKey, Sorter},
    tables::{Names, sync},
};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use event::{Meta, Summary};
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use trace::SortedGroups;

/// Writes rows that come in the order of time.
pub struct EventFiles {
    sorter: Sorter,
    files: FileWriter,
    pub names: Names,
    /// Files ended before they were large: they must be put together.
    pub runs: bool,
}

impl EventFiles {
    pub fn new(
        folder: &Path,
        name: &str,
        schema: SchemaRef,
        meta: &Meta,
        sizes: Sizes,
    ) -> Result<Self> {
        Ok(EventFiles {
            sorter: Sorter::new(&schema, sizes.group_rows)?,
            files: FileWriter::new(folder, name, schema, Some(meta.clone()), sizes),
            names: Names::default(),
            runs: false,
        })
    }

    pub fn add(&mut self, segment: Segment) -> Result<()> {
        self.sorter.add(segment);
        loop {
            match self.sorter.due()? {
                Due::Nothing => return Ok(()),
                Due::Group(group) => {
                    self.write(group)?;
                    if self.files.is_large() {
                        self.end_file(None)?;
                    }
                }
                Due::File => {
                    self.runs = true;
                    self.end_file(None)?;
                }
            }
        }
    }

    fn write(&mut self, group: Group) -> Result<()> {
        let rows = gather(&self.files.schema, &group.segments)?;
        drop(group.segments);
        self.names.add(&rows);
        self.files.write(group.key, rows)
    }

    fn end_file(&mut self, summary: Option<&Summary>) -> Result<()> {
        for group in self.sorter.drain() {
            self.write(group)?;
        }
        self.files.end_file(summary)?;
        self.sorter.add_late();
        Ok(())
    }

    /// The files, in the order of time, the rows, and what there is of each name.
    pub fn finish(mut self, summary: &Summary) -> Result<(Vec<PathBuf>, u64, Names)> {
        while self.sorter.has_late() {
            self.end_file(None)?;
        }
        self.end_file(Some(summary))?;
        Ok((self.files.files, self.files.rows, self.names))
    }
}

/// Writes row groups, each into the file that is open.
pub struct FileWriter {
    folder: PathBuf,
    name: String,
    pub schema: SchemaRef,
    meta: Option<Meta>,
    pub sizes: Sizes,
    open: Option<(PathBuf, SortedGroups<GroupKey>)>,
    pub files: Vec<PathBuf>,
    pub rows: u64,
}

impl FileWriter {
    /// `meta`: of the recording, if there is one.
    pub fn new(
        folder: &Path,
        name: &str,
        schema: SchemaRef,
        meta: Option<Meta>,
        sizes: Sizes,
    ) -> Self {
        FileWriter {
            folder: folder.into(),
            name: name.into(),
            schema,
            meta,
            sizes,
            open: None,
            files: Vec::new(),
            rows: 0,
        }
    }

    pub fn write(&mut self, key: GroupKey, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if self.open.is_none() {
            let path = (self.folder).join(format!("{}.{}.parquet", self.name, self.files.len()));
            let file = File::create(&path).map_err(Error::write(&path))?;
            let head = self.meta.as_ref().map(trace::parquet_head).transpose();
            let head = head.map_err(Error::trace(&path))?;
            let sorted = sorted_by(&self.schema)?;
            let groups = SortedGroups::new(
                file,
                self.schema.clone(),
                head.into_iter().collect(),
                &sorted,
            );
            self.open = Some((path.clone(), groups.map_err(Error::trace(&path))?));
            self.files.push(path);
        }
        match &mut self.open {
            Some((path, groups)) => groups.write(key, rows).map_err(Error::trace(&*path)),
            None => Ok(()),
        }
    }

    /// Whether the file that is open has enough.
    pub fn is_large(&self) -> bool {
        let bytes = |(_, groups): &(PathBuf, SortedGroups<GroupKey>)| groups.packed_bytes();
        (self.open.as_ref()).is_some_and(|open| bytes(open) >= self.sizes.file_bytes)
    }

    /// Finishes the file that is open, if there is one, and makes it durable.
    pub fn end_file(&mut self, summary: Option<&Summary>) -> Result<()> {
        let Some((path, groups)) = self.open.take() else {
            return Ok(());
        };
        let tail = summary.map(trace::parquet_tail).transpose();
        let tail = tail.map_err(Error::trace(&path))?;
        let pairs = tail.into_iter().collect();
        groups.finish(pairs).map_err(Error::trace(&path))?;
        sync(&path)
    }
}
