//! Adding a trace: written aside, made durable, renamed into place, and then listed.
//!
//! A crash leaves a folder aside, which the next writer removes, or files in place that are not listed yet, which adding
//! the same trace again replaces. Of two writers of one trace, the second waits, and finds it there.

use crate::{
    Error, Lake, Result,
    aside::{Aside, Held},
    compact::GRACE_NS,
    expire::remove_recordings,
    files::{EventFiles, FileWriter},
    layout::{Entry, Sizes, TABLES, entry_of, growing, name_of, partition},
    manifest::{list, make_folder, now, sync_folder},
    merge::merge,
    rows::Rows,
    tables::{self, Table, TableFile},
};
use analyse::Report;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use event::{Meta, Summary};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
};
use trace::Tables;

/// Batches that are read ahead.
const AHEAD: usize = 4;
/// Files that are put together at once.
const MOST_RUNS: usize = 64;

/// What came of adding a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Added {
    New(Entry),
    /// It was there already.
    Known(Entry),
}

impl Added {
    pub fn entry(&self) -> &Entry {
        match self {
            Added::New(entry) | Added::Known(entry) => entry,
        }
    }
}

/// Adds one trace, without steps and findings: any, also one that is still being recorded, or was merged. `tick` gets the rows
/// read since.
pub fn add(lake: &Lake, path: &Path, tick: &mut dyn FnMut(u64)) -> Result<Added> {
    let (meta, summary) = head_and_tail(path)?;
    let growing = growing(&meta);
    let name = match summary {
        Some(summary) => name_of(&meta, &summary),
        None => {
            let found = fs::metadata(path).map_err(Error::read(path))?;
            format!("{growing}{}", found.len())
        }
    };
    let added = add_as(lake, path, &meta, &name, &mut |_| None, tick)?;
    if let Added::New(_) = added {
        // What it was when it was shorter; somebody may be reading it.
        let is_old = |entry: &Entry| {
            entry.name.starts_with(&growing) && entry.added_ns.saturating_add(GRACE_NS) < now()
        };
        let _ = remove_recordings(lake, is_old);
    }
    Ok(added)
}

/// Adds the finished trace of one rank. `report` is asked for what was found in it, if it is new: its steps and findings become
/// tables.
pub fn add_with(
    lake: &Lake,
    path: &Path,
    report: &mut dyn FnMut(&Path) -> Option<Report>,
    tick: &mut dyn FnMut(u64),
) -> Result<Added> {
    let (meta, name) = recording(path)?;
    add_as(lake, path, &meta, &name, report, tick)
}

/// The head and the name of a finished trace of one rank.
pub fn recording(path: &Path) -> Result<(Meta, String)> {
    let (meta, summary) = head_and_tail(path)?;
    let origin = |meta: &Meta| (partition(meta), meta.host.boot_id.clone());
    let mut origins = meta.merged.iter().map(origin);
    let first = origins.next();
    if origins.any(|origin| Some(origin) != first) {
        return Err(Error::Merged(path.into()));
    }
    let summary = summary.ok_or_else(|| {
        let why = "it is still being recorded, or was cut off";
        Error::Damaged(path.into(), why.into())
    })?;
    let name = name_of(&meta, &summary);
    Ok((meta, name))
}

fn head_and_tail(path: &Path) -> Result<(Meta, Option<Summary>)> {
    let reader = trace::open(path).map_err(Error::trace(path))?;
    let meta = reader.meta().clone();
    Ok((meta, trace::summary(path).map_err(Error::trace(path))?))
}

fn add_as(
    lake: &Lake,
    path: &Path,
    meta: &Meta,
    name: &str,
    report: &mut dyn FnMut(&Path) -> Option<Report>,
    tick: &mut dyn FnMut(u64),
) -> Result<Added> {
    if let Some(entry) = lake.entry(name)? {
        return Ok(Added::Known(entry));
    }
    let _held = Held::recording(lake, name)?;
    if let Some(entry) = lake.entry(name)? {
        return Ok(Added::Known(entry));
    }
    let work = Aside::new(lake, name)?;
    // Traces that are not Arrow, or not finished, become so first.
    let rewritten;
    let tables = match Tables::open(path).map_err(Error::trace(path))? {
        Some(tables) => tables,
        None => {
            rewritten = work.folder.join("rewritten.arrows");
            trace::convert(&[path], &rewritten).map_err(Error::trace(path))?;
            let tables = Tables::open(&rewritten).map_err(Error::trace(path))?;
            tables
                .ok_or_else(|| Error::Damaged(path.into(), "it cannot be read as a table".into()))?
        }
    };
    let mut written = write(lake.sizes, &work.folder, path, meta, name, tables, tick)?;
    if let Some(report) = report(path) {
        written.table(Table::Steps, tables::steps(name, meta, &report.steps)?)?;
        let findings = tables::findings(name, meta, &report.findings)?;
        written.table(Table::Findings, findings)?;
    }
    place(lake, &work, written).map(Added::New)
}

/// What is written aside.
struct Written {
    folder: PathBuf,
    entry: Entry,
    events: Vec<PathBuf>,
    tables: Vec<(Table, PathBuf)>,
}

impl Written {
    fn table(&mut self, table: Table, rows: RecordBatch) -> Result<()> {
        let mut file = TableFile::new(self.folder.join(format!("{}.parquet", table.as_str())));
        file.write(rows)?;
        let path = file.finish()?;
        self.tables.extend(path.map(|path| (table, path)));
        Ok(())
    }
}

/// Writes the files of a trace aside.
fn write(
    sizes: Sizes,
    folder: &Path,
    path: &Path,
    meta: &Meta,
    name: &str,
    mut tables: Tables,
    tick: &mut dyn FnMut(u64),
) -> Result<Written> {
    let base = meta.start_unix_ns.unwrap_or(0).cast_signed();
    let mut rows = Rows::new(&tables.schema(), base, name)?;
    let mut files = EventFiles::new(folder, name, rows.schema(), meta, sizes)?;
    let mut stacks = TableFile::new(folder.join("stacks.parquet"));
    thread::scope(|scope| -> Result<()> {
        let (output, batches) = sync_channel(AHEAD);
        let tables = &mut tables;
        scope.spawn(move || {
            loop {
                let next = tables.next_batch().transpose();
                let Some(next) = next else { return };
                let failed = next.is_err();
                if output.send(next).is_err() || failed {
                    return;
                }
            }
        });
        for batch in batches {
            let batch = batch.map_err(Error::trace(path))?;
            tick(batch.num_rows() as u64);
            for segment in rows.take(batch)? {
                files.add(segment)?;
            }
            if rows.stacks.frames.are_many() {
                stacks.write(rows.stacks.frames.take(name)?)?;
            }
        }
        Ok(())
    })?;
    for segment in rows.rest()? {
        files.add(segment)?;
    }
    if let Some(warning) = tables.warning() {
        return Err(Error::Damaged(path.into(), warning.to_owned()));
    }
    stacks.write(rows.stacks.frames.take(name)?)?;
    let summary = tables.summary();
    let mut entry = entry_of(meta, &summary);
    let runs = files.runs;
    let schema = rows.schema();
    let (mut events, count, names) = files.finish(&summary)?;
    if runs {
        events = together(sizes, folder, name, schema, meta, &events)?;
    }
    entry.name = name.to_owned();
    entry.rows = count;
    entry.added_ns = now();
    let mut written = Written {
        folder: folder.into(),
        entry,
        events,
        tables: Vec::new(),
    };
    (written.tables).extend(stacks.finish()?.map(|path| (Table::Stacks, path)));
    written.table(Table::Names, names.table(name)?)?;
    written.table(Table::Runs, tables::runs(&written.entry)?)?;
    Ok(written)
}

/// One sorted file, or a few, of the many that too many threads for the memory made.
fn together(
    sizes: Sizes,
    folder: &Path,
    name: &str,
    schema: SchemaRef,
    meta: &Meta,
    runs: &[PathBuf],
) -> Result<Vec<PathBuf>> {
    let folder = folder.join("together");
    fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    let mut out = FileWriter::new(&folder, name, schema, Some(meta.clone()), sizes);
    for runs in runs.chunks(MOST_RUNS) {
        merge(runs, &HashSet::new(), &mut out)?;
        for run in runs {
            fs::remove_file(run).map_err(Error::write(run))?;
        }
    }
    Ok(out.files)
}

/// Files go to their places first, then the list says that they belong.
fn place(lake: &Lake, work: &Aside, written: Written) -> Result<Entry> {
    let mut entry = written.entry;
    let partition = partition(&entry.meta);
    for file in written.events {
        let to = partition.join(file.file_name().unwrap_or_default());
        entry.bytes += into_place(lake, &file, &to)?;
        entry.files.push(to);
    }
    for (table, file) in written.tables {
        let to = table_path(table, &partition, &entry.name);
        entry.bytes += into_place(lake, &file, &to)?;
        entry.tables.insert(table, to);
    }
    let files = entry.files.iter().chain(entry.tables.values());
    let mut folders: Vec<&Path> = files.filter_map(|file| file.parent()).collect();
    folders.dedup();
    for folder in folders {
        sync_folder(&lake.root().join(folder))?;
    }
    list(&work.folder, &lake.entry_path(&entry.name), &entry)?;
    Ok(entry)
}

/// Where a side table of a recording is, relative to the lake.
pub fn table_path(table: Table, partition: &Path, name: &str) -> PathBuf {
    (Path::new(TABLES).join(table.as_str()))
        .join(partition)
        .join(format!("{name}.parquet"))
}

/// Renames a file into the lake; how large it is.
pub fn into_place(lake: &Lake, file: &Path, to: &Path) -> Result<u64> {
    let to = lake.root().join(to);
    if let Some(folder) = to.parent() {
        make_folder(lake.root(), folder)?;
    }
    let bytes = fs::metadata(file).map_err(Error::read(file))?.len();
    fs::rename(file, &to).map_err(Error::write(&to))?;
    Ok(bytes)
}
