//! Whether a lake is whole: what the manifest lists is there and can be read, and what is there is listed.

use crate::{Entry, Lake, Result, error::BrokenFile, layout::TABLES, manifest::Listed};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};
use trace::ParquetRows;

/// What is wrong with a lake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    pub traces: usize,
    pub files: usize,
    pub bytes: u64,
    pub rows: u64,
    /// Listed, and not there or not whole: what is wrong with each.
    pub broken: Vec<String>,
    /// There, and not listed: what a crash left. Adding the trace again replaces them.
    pub unlisted: Vec<PathBuf>,
    /// There, not listed, and not written by `lake add`.
    pub foreign: Vec<PathBuf>,
    /// Replaced by a compaction, and not removed yet.
    pub replaced: usize,
}

impl Checked {
    /// Whether nothing is missing or broken.
    pub fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }
}

/// Compares the list with what is there. `rows`: reads every row, which finds damage inside of files, too.
pub fn check(lake: &Lake, rows: bool) -> Result<Checked> {
    let listed = lake.listed()?;
    let mut there = Vec::new();
    for folder in [PathBuf::new(), PathBuf::from(TABLES)] {
        for file in partition_files(&lake.root().join(&folder), folder.as_os_str().is_empty()) {
            there.push(file.strip_prefix(lake.root()).unwrap_or(&file).to_owned());
        }
    }
    Ok(compare(&listed, there, &mut |file| {
        rows_of(&lake.root().join(file), rows)
    }))
}

/// What was found of a file.
pub struct Looked {
    /// None if nobody looked into it.
    pub rows: Option<u64>,
    pub bytes: u64,
}

/// How a file that is listed is looked at.
pub type Look<'a> = dyn FnMut(&Path) -> std::result::Result<Looked, BrokenFile> + 'a;

/// Compares a list with the files that are there; both by names relative to the lake.
pub fn compare(listed: &Listed, there: Vec<PathBuf>, look: &mut Look<'_>) -> Checked {
    let mut checked = Checked::default();
    let entries: Vec<&Entry> = listed.entries.values().collect();
    checked.traces = entries.len();
    // Rows that the files of events should have: recordings that share files, together.
    let mut wanted: BTreeMap<&[PathBuf], u64> = BTreeMap::new();
    for entry in &entries {
        checked.rows = checked.rows.saturating_add(entry.rows);
        let rows = wanted.entry(entry.files.as_slice()).or_default();
        *rows = rows.saturating_add(entry.rows);
    }
    for (files, wanted) in wanted {
        let mut found = Some(0);
        for file in files {
            let whole = checked.file(file, look);
            found = found.zip(whole).map(|(sum, rows)| sum + rows);
        }
        if let Some(found) = found.filter(|found| *found != wanted) {
            let name = files.first().map(|file| file.display().to_string());
            checked.broken.push(format!(
                "{}: {found} rows, {wanted} were written",
                name.unwrap_or_default()
            ));
        }
    }
    let tables: BTreeSet<&PathBuf> = (entries.iter())
        .flat_map(|entry| entry.tables.values())
        .collect();
    for file in tables {
        checked.file(file, look);
    }
    let known: HashSet<&PathBuf> = (entries.iter())
        .flat_map(|entry| entry.all_files())
        .collect();
    let replaced: HashSet<&PathBuf> = (listed.compactions.values())
        .flat_map(|compaction| &compaction.replaced)
        .collect();
    for file in there {
        if known.contains(&file) {
            continue;
        }
        if replaced.contains(&file) {
            checked.replaced += 1;
        } else if is_ours(&file) {
            checked.unlisted.push(file);
        } else {
            checked.foreign.push(file);
        }
    }
    checked.unlisted.sort();
    checked.foreign.sort();
    checked
}

impl Checked {
    /// The rows of a file that is whole, if they were counted.
    fn file(&mut self, file: &Path, look: &mut Look<'_>) -> Option<u64> {
        self.files += 1;
        match look(file) {
            Ok(looked) => {
                self.bytes += looked.bytes;
                looked.rows
            }
            Err(why) => {
                self.broken.push(format!("{}: {why}", file.display()));
                None
            }
        }
    }
}

/// Its rows and bytes, if it can be read.
pub fn rows_of(path: &Path, every_row: bool) -> std::result::Result<Looked, BrokenFile> {
    let bytes = fs::metadata(path)?.len();
    let mut rows = ParquetRows::open(path, 65_536).map_err(BrokenFile::NotWhole)?;
    let total = rows.total();
    if every_row {
        let mut count = 0;
        while let Some(batch) = rows.next_batch().map_err(BrokenFile::Unreadable)? {
            count += batch.num_rows() as u64;
        }
        if count != total {
            return Err(BrokenFile::Rows { read: count, total });
        }
    }
    Ok(Looked {
        rows: Some(total),
        bytes,
    })
}

/// Whether a file has a name that `lake add` or `lake compact` gives.
pub fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| name.strip_suffix(".parquet"));
    stem.is_some_and(|stem| {
        let words: Vec<&str> = stem.split(['-', '.']).collect();
        stem.starts_with("compact-") || words.len() >= 3 && words[1].parse::<u64>().is_ok()
    })
}

/// Everything in the folders of runs.
pub fn partition_files(root: &Path, at_root: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // The lake's own folders.
            let is_own =
                at_root && folder == root && entry.file_name().to_string_lossy().starts_with('_');
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_own => folders.push(path),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    found
}
