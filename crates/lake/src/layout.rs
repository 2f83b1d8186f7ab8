//! Where things are in a lake, and the list of what belongs to it.

use crate::{Error, Result, tables::Table};
use event::{Gpu, Meta, Summary};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

pub const MANIFEST: &str = "_manifest";
pub const TABLES: &str = "_tables";
/// Files that are being written.
pub const UNFINISHED: &str = "_unfinished";

/// A folder of Parquet files.
#[derive(Debug, Clone)]
pub struct Lake {
    root: PathBuf,
    pub(crate) sizes: Sizes,
}

/// How large what is written becomes.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// A file is ended when it has this many bytes.
    pub file_bytes: u64,
    /// Rows of a row group, at most.
    pub group_rows: usize,
}

impl Default for Sizes {
    /// Files large enough to be few, and small enough to be read by several workers.
    fn default() -> Self {
        Sizes {
            file_bytes: 192 << 20,
            group_rows: 256 * 1024,
        }
    }
}

/// One recording in a lake: a row of the view `runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Follows from the recording: the same recording has the same name, whatever its file is called.
    pub name: String,
    pub run: String,
    pub host: String,
    pub rank: u32,
    pub world_size: Option<u32>,
    /// Parquet files of events, relative to the lake. After a compaction they have other recordings' events, too.
    pub files: Vec<PathBuf>,
    /// Parquet files of the side tables, likewise.
    #[serde(default)]
    pub tables: BTreeMap<Table, PathBuf>,
    pub rows: u64,
    /// Of its files when it was added.
    pub bytes: u64,
    pub events: u64,
    pub lost: u64,
    /// Nanoseconds since 1970.
    pub start_ns: i64,
    pub end_ns: i64,
    pub exit: Option<i32>,
    pub command: String,
    pub boot_id: Option<String>,
    pub container: Option<String>,
    pub driver: Option<String>,
    pub gpu_names: Vec<String>,
    pub gpu_uuids: Vec<String>,
    pub simulated: bool,
    pub cutrace: String,
    /// When it was added, in nanoseconds since 1970.
    pub added_ns: i64,
    /// The trace's head and tail: with them, events can be read back as the trace they were.
    pub meta: Box<Meta>,
    pub summary: Box<Summary>,
}

impl Entry {
    /// Whether the trace was still being recorded, or was cut off: `lake::add` takes such, too.
    pub fn is_unfinished(&self) -> bool {
        self.name.contains(GROWING)
    }

    /// Whether it is in this folder of the lake: all are in the empty one.
    pub(crate) fn is_within(&self, folder: &Path) -> bool {
        folder.as_os_str().is_empty() || self.files.iter().any(|file| file.starts_with(folder))
    }

    /// Its files, of events and of side tables.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(self.tables.values())
    }
}

impl Lake {
    /// A folder that is a lake, or will be one with the first trace.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Lake {
            root: root.into(),
            sizes: Sizes::default(),
        }
    }

    /// Other sizes than the usual: for tests, which would need gigabytes to fill a file.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sizes(self, sizes: Sizes) -> Self {
        Lake { sizes, ..self }
    }

    /// One that has traces already.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let lake = Lake::at(root);
        match lake.manifest().is_dir() {
            true => Ok(lake),
            false => Err(Error::NotALake(lake.root)),
        }
    }

    /// Whether a folder is a lake.
    pub fn is_one(folder: &Path) -> bool {
        folder.join(MANIFEST).is_dir()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join(MANIFEST)
    }

    pub(crate) fn unfinished(&self) -> PathBuf {
        self.root.join(UNFINISHED)
    }

    pub(crate) fn entry_path(&self, name: &str) -> PathBuf {
        self.manifest().join(format!("{name}.json"))
    }

    /// The files with the events of these recordings, each once.
    pub fn files(&self, entries: &[Entry]) -> Vec<PathBuf> {
        self.each_once(entries.iter().flat_map(|entry| &entry.files))
    }

    /// The files of one side table, each once.
    pub fn tables(&self, entries: &[Entry], table: Table) -> Vec<PathBuf> {
        self.each_once(entries.iter().filter_map(|entry| entry.tables.get(&table)))
    }

    /// The recordings of a lake, or of a folder within one (`LAKE/run=R`), each by the path by which every command
    /// reads it; None if the folder is not in a lake.
    pub fn recordings(folder: &Path) -> Option<Result<Vec<PathBuf>>> {
        let part = Lake::part(folder)?;
        Some(part.map(|(lake, entries)| {
            let names = entries.iter().map(|entry| &entry.name);
            names.map(|name| lake.entry_path(name)).collect()
        }))
    }

    /// A lake and its recordings, or those of a folder within it; None if the folder is not in a lake.
    pub fn part(folder: &Path) -> Option<Result<(Self, Vec<Entry>)>> {
        let root = folder
            .ancestors()
            .take(4)
            .find(|above| Lake::is_one(above))?;
        let within = folder.strip_prefix(root).ok()?;
        let is_part = |part: &Path| {
            part.components().all(|name| {
                let name = name.as_os_str().to_string_lossy();
                ["run=", "host=", "rank="]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
            })
        };
        if !is_part(within) {
            return None;
        }
        let lake = Lake::at(root);
        Some(lake.entries().map(|mut entries| {
            entries.retain(|entry| entry.is_within(within));
            (lake, entries)
        }))
    }

    fn each_once<'a>(&self, files: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
        let mut seen = HashSet::new();
        let files = files.filter(|file| seen.insert(file.as_path()));
        files.map(|file| self.root.join(file)).collect()
    }
}

/// A moment of the trace's clock, in nanoseconds since 1970.
pub fn unix_ns(meta: &Meta, at: u64) -> i64 {
    let start = meta.start_unix_ns.unwrap_or(0).cast_signed();
    start.saturating_add(at.wrapping_sub(meta.start_ns).cast_signed())
}

/// What a recording is called in every lake: its boot, when it began, and its process; how long it is, and how many events it
/// has. Snapshots of one process, and traces that were merged, begin alike.
pub fn name_of(meta: &Meta, summary: &Summary) -> String {
    let length = summary.end_ns.saturating_sub(meta.start_ns);
    format!("{}-{length}-{}", beginning_of(meta), summary.events)
}

/// In the names of traces that were not finished when they were read.
const GROWING: &str = "-unfinished-";

/// What the names of a trace begin with that is not finished; its length in bytes follows.
pub fn growing(meta: &Meta) -> String {
    beginning_of(meta) + GROWING
}

/// What the names of all recordings begin with that have this head.
fn beginning_of(meta: &Meta) -> String {
    let boot = meta.host.boot_id.as_deref().unwrap_or(&meta.host.name);
    let boot: String = boot
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    let rank = meta
        .identity
        .rank
        .map_or(String::new(), |rank| format!("-r{rank}"));
    let start = meta.start_unix_ns.unwrap_or(meta.start_ns);
    format!("{boot}-{start}-{}{rank}", meta.pid.unwrap_or(0))
}

/// The run, for a trace that no launcher gave one: each is a run of its own, named after program and time.
pub fn run_of(meta: &Meta) -> String {
    if let Some(run) = &meta.identity.run {
        return folder_name(run);
    }
    let program = meta
        .command
        .first()
        .and_then(|program| program.rsplit('/').next());
    let seconds = meta.start_unix_ns.unwrap_or(0) / 1_000_000_000;
    folder_name(&format!("{}-{seconds}", program.unwrap_or("trace")))
}

/// A value in a folder's name, which every engine reads back as it is.
fn folder_name(text: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let name: String = (text.chars().take(96))
        .map(|sign| if plain(sign) { sign } else { '_' })
        .collect();
    match name.is_empty() {
        true => "unknown".into(),
        false => name,
    }
}

/// The folder of a recording's files, relative to the lake.
pub fn partition(meta: &Meta) -> PathBuf {
    let host = folder_name(&meta.host.name);
    let rank = meta.identity.rank.unwrap_or(0);
    PathBuf::from(format!("run={}/host={host}/rank={rank}", run_of(meta)))
}

/// What is known of a recording but its files.
pub fn entry_of(meta: &Meta, summary: &Summary) -> Entry {
    let start = meta.start_unix_ns.unwrap_or(0).cast_signed();
    let length = summary.end_ns.saturating_sub(meta.start_ns).cast_signed();
    let gpus = |of: fn(&Gpu) -> Option<String>| meta.gpus.iter().filter_map(of).collect();
    Entry {
        name: name_of(meta, summary),
        run: run_of(meta),
        host: folder_name(&meta.host.name),
        rank: meta.identity.rank.unwrap_or(0),
        world_size: meta.identity.world_size,
        files: Vec::new(),
        tables: BTreeMap::new(),
        rows: 0,
        bytes: 0,
        events: summary.events,
        lost: summary.lost,
        start_ns: start,
        end_ns: start.saturating_add(length),
        exit: summary.exit,
        command: meta.command.join(" "),
        boot_id: meta.host.boot_id.clone(),
        container: meta.identity.container.clone(),
        driver: meta.driver.clone(),
        gpu_names: gpus(|gpu| Some(gpu.name.clone())),
        gpu_uuids: gpus(|gpu| gpu.uuid.clone()),
        simulated: meta.gpus.iter().any(|gpu| gpu.simulated),
        cutrace: meta.cutrace.clone(),
        added_ns: 0,
        meta: Box::new(meta.clone()),
        summary: Box::new(summary.clone()),
    }
}
