//! Adding a trace: written aside, made durable, renamed into place, and then listed.
//!
//! A crash leaves a file aside, which the next addition removes, or files in place that are not listed yet, which adding
//! the same trace again replaces. Two writers of one trace write the same files.

use crate::{
    Error, Lake, Result,
    layout::{Entry, entry_of, name_of, partition},
    rows::Rows,
};
use event::Meta;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use trace::{Groups, Tables};

/// A file is ended when it has this many bytes: large enough for few files, small enough to be read by several workers.
const FILE_BYTES: u64 = 192 << 20;
/// What was left aside by somebody who is surely gone.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Adds one trace. `tick` gets the rows read so far.
pub fn add(lake: &Lake, path: &Path, tick: &mut dyn FnMut(u64)) -> Result<Added> {
    let meta = trace::open(path)
        .map_err(Error::trace(path))?
        .meta()
        .clone();
    let name = name_of(&meta);
    if let Some(entry) = lake.entry(&name)? {
        return Ok(Added::Known(entry));
    }
    let aside = lake.unfinished();
    for folder in [&aside, &lake.manifest()] {
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
    }
    sweep(&aside);
    let work = Aside::new(&aside, &name)?;
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
    let (entry, files) = write(&work, path, &meta, &name, tables, tick)?;
    place(lake, &work, &meta, entry, files).map(Added::New)
}

/// Writes the files of a trace aside.
fn write(
    work: &Aside,
    path: &Path,
    meta: &Meta,
    name: &str,
    mut tables: Tables,
    tick: &mut dyn FnMut(u64),
) -> Result<(Entry, Vec<PathBuf>)> {
    let base = meta.start_unix_ns.unwrap_or(0).cast_signed();
    let mut rows = Rows::new(&tables.schema(), base)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut open: Option<Part> = None;
    let mut count = 0;
    let mut put = |batch: arrow_array::RecordBatch, rows: &Rows| -> Result<()> {
        let part = match open.take().filter(|part| part.bytes() < FILE_BYTES) {
            Some(part) => part,
            None => {
                // The one that is full, if there is one, was finished below.
                let file = work.folder.join(format!("{name}.{}.parquet", files.len()));
                files.push(file.clone());
                Part::create(&file, rows, meta).map_err(|why| in_trace(path, why))?
            }
        };
        count += batch.num_rows() as u64;
        let mut part = part;
        part.groups.write(batch).map_err(Error::trace(path))?;
        if part.bytes() >= FILE_BYTES {
            part.finish().map_err(|why| in_trace(path, why))?;
        } else {
            open = Some(part);
        }
        Ok(())
    };
    while let Some(batch) = tables.next_batch().map_err(Error::trace(path))? {
        let batch = rows.take(&batch)?;
        tick(batch.num_rows() as u64);
        if batch.num_rows() > 0 {
            put(batch, &rows)?;
        }
    }
    if let Some(rest) = rows.rest()? {
        put(rest, &rows)?;
    }
    if let Some(warning) = tables.warning() {
        return Err(Error::Damaged(path.into(), warning.to_owned()));
    }
    if let Some(part) = open {
        part.finish().map_err(|why| in_trace(path, why))?;
    }
    let mut entry = entry_of(meta, &tables.summary());
    entry.rows = count;
    Ok((entry, files))
}

fn in_trace(path: &Path, why: trace::Error) -> Error {
    Error::Trace {
        path: path.into(),
        source: why,
    }
}

/// One file being written.
struct Part {
    groups: Groups,
    written: Arc<AtomicU64>,
    path: PathBuf,
}

impl Part {
    fn create(path: &Path, rows: &Rows, meta: &Meta) -> trace::Result<Self> {
        let written = Arc::new(AtomicU64::new(0));
        let file = Counted {
            file: File::create(path)?,
            written: written.clone(),
        };
        let groups = Groups::new(file, rows.schema(), vec![trace::parquet_head(meta)?])?;
        Ok(Part {
            groups,
            written,
            path: path.into(),
        })
    }

    fn bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn finish(mut self) -> trace::Result<()> {
        self.groups.finish(Vec::new())?;
        File::open(&self.path)?.sync_all()?;
        Ok(())
    }
}

/// Counts what goes to a file.
struct Counted {
    file: File,
    written: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Files go to their places first, then the list says that they belong.
fn place(
    lake: &Lake,
    work: &Aside,
    meta: &Meta,
    mut entry: Entry,
    files: Vec<PathBuf>,
) -> Result<Entry> {
    let partition = partition(meta);
    let folder = lake.root().join(&partition);
    fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    for file in files {
        let name = file.file_name().unwrap_or_default();
        let bytes = fs::metadata(&file).map_err(Error::read(&file))?.len();
        let to = folder.join(name);
        fs::rename(&file, &to).map_err(Error::write(&to))?;
        entry.bytes += bytes;
        entry.files.push(partition.join(name));
    }
    sync_folder(&folder)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    entry.added_ns = i64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(0);
    let text = serde_json::to_vec(&entry).map_err(io::Error::from);
    let text = text.map_err(Error::write(lake.manifest()))?;
    let listed = lake.entry_path(&entry.name);
    let aside = work.folder.join("entry.json");
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&aside, &listed)
    };
    write().map_err(Error::write(&listed))?;
    sync_folder(&lake.manifest())?;
    Ok(entry)
}

fn sync_folder(folder: &Path) -> Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(Error::write(folder))
}

/// A folder of this writer's own; gone when this is dropped.
struct Aside {
    folder: PathBuf,
}

impl Aside {
    fn new(parent: &Path, name: &str) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{name}.{}.{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        Ok(Aside { folder })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what writers that were killed have left, once nobody can be writing there.
fn sweep(aside: &Path) {
    for found in fs::read_dir(aside).into_iter().flatten().flatten() {
        let age = found.metadata().and_then(|data| data.modified()).ok();
        let age = age.and_then(|changed| changed.elapsed().ok());
        if age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_dir_all(found.path());
        }
    }
}
