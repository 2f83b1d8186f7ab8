//! What belongs to a recording: its head, its tail, and its files.

use crate::{Error, Result};
use event::{Meta, Summary};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// What is read as one trace.
pub struct Recording {
    pub meta: Meta,
    pub summary: Option<Summary>,
    pub files: Vec<PathBuf>,
    /// The files may have rows of others, too.
    pub name: Option<String>,
    /// The table of its stacks.
    pub stacks: Option<PathBuf>,
}

/// What is needed of a lake's entry.
#[derive(Deserialize)]
struct Entry {
    name: String,
    meta: Meta,
    summary: Summary,
    files: Vec<PathBuf>,
    #[serde(default)]
    tables: BTreeMap<String, PathBuf>,
}

#[derive(Deserialize)]
struct Compaction {
    entries: Vec<Entry>,
    at_ns: i64,
}

impl Recording {
    /// By a Parquet file. Its name in a lake leads to the table of its stacks.
    pub fn of_file(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
        let pairs = metadata.metadata().file_metadata().key_value_metadata();
        let pair = |key: &str| {
            let found = pairs?.iter().find(|pair| pair.key == key)?;
            found.value.as_deref()
        };
        let Some(head) = pair("cutrace") else {
            let has = |name: &str| metadata.schema().index_of(name).is_ok();
            let what = match has("recording") && has("start_ns") {
                true => {
                    "a file with several recordings of a lake: name the lake's folder, or one of \
                     its recordings, LAKE/_manifest/NAME.json"
                }
                false => "a Parquet file that cutrace has not written",
            };
            return Err(Error::NotATrace(what.into()));
        };
        let meta = serde_json::from_str(head).map_err(io::Error::from)?;
        let summary = pair("cutrace_summary").and_then(|tail| serde_json::from_str(tail).ok());
        Ok(Recording {
            meta,
            summary,
            files: vec![path.into()],
            name: None,
            stacks: stacks_beside(path),
        })
    }

    /// By the path that its entry has, or would have if it had not been put together with others.
    pub fn of_entry(path: &Path) -> Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such recording in the lake");
        let manifest = path.parent().ok_or_else(missing)?;
        let lake = manifest.parent().ok_or_else(missing)?;
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.ok_or_else(missing)?;
        let entry = match compacted(manifest, name)? {
            Some(entry) => entry,
            None => parse(&fs::read(path).map_err(|_| missing())?)?,
        };
        Ok(Recording {
            meta: entry.meta,
            summary: Some(entry.summary),
            files: (entry.files.iter()).map(|file| lake.join(file)).collect(),
            stacks: entry.tables.get("stacks").map(|file| lake.join(file)),
            name: Some(entry.name),
        })
    }
}

fn parse<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T> {
    Ok(serde_json::from_slice(text).map_err(io::Error::from)?)
}

/// The entry in the newest compaction that has it.
fn compacted(manifest: &Path, name: &str) -> Result<Option<Entry>> {
    let mut found: Option<(i64, Entry)> = None;
    for file in fs::read_dir(manifest)?.flatten() {
        let is_compaction = file.file_name().to_string_lossy().starts_with("compact-");
        if !is_compaction {
            continue;
        }
        let compaction: Compaction = parse(&fs::read(file.path())?)?;
        let is_newer = found.as_ref().is_none_or(|(at, _)| compaction.at_ns > *at);
        let mut entries = compaction.entries.into_iter();
        if is_newer && let Some(entry) = entries.find(|entry| entry.name == name) {
            found = Some((compaction.at_ns, entry));
        }
    }
    Ok(found.map(|(_, entry)| entry))
}

/// `LAKE/run=R/host=H/rank=N/NAME.0.parquet` has its stacks in `LAKE/_tables/stacks/run=R/host=H/rank=N/NAME.parquet`.
fn stacks_beside(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    let (name, _) = stem.rsplit_once('.')?;
    let folder = path.parent()?;
    let lake = folder.ancestors().nth(3)?;
    let partition = folder.strip_prefix(lake).ok()?;
    let stacks = lake.join("_tables/stacks").join(partition);
    let stacks = stacks.join(format!("{name}.parquet"));
    stacks.exists().then_some(stacks)
}
