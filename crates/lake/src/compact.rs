//! Small files of one run, host and rank become large ones.
//!
//! The new files are written aside, made durable and renamed, then one file of the list puts them in the place of the old ones, at
//! one moment. The old files stay for readers that began before; the next compaction removes them.

use crate::{
    Entry, Error, Lake, Result, Table,
    add::{into_place, table_path},
    aside::{Aside, Held},
    files::FileWriter,
    manifest::{Compaction, list, now, sync_folder},
    merge::{merge, schema_of},
    tables::TableFile,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};
use trace::ParquetRows;

/// Files that are put together at once.
const MOST_FILES: usize = 64;
/// For how long readers may go on with files that were replaced.
pub const GRACE_NS: i64 = 60 * 60 * 1_000_000_000;

/// What a compaction did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    pub files_before: usize,
    pub files_after: usize,
    pub rows: u64,
    /// Files that earlier compactions had replaced.
    pub removed: usize,
}

/// Puts small files together. `at_once`: removes the old files now, and does not wait for readers.
pub fn compact(lake: &Lake, at_once: bool) -> Result<Compacted> {
    let Some(_held) = Held::try_now(lake, "compact")? else {
        return Err(Error::Busy(lake.root().into()));
    };
    let mut done = Compacted {
        removed: remove_replaced(lake, at_once)?,
        ..Compacted::default()
    };
    let size = |file: &Path| fs::metadata(lake.root().join(file)).map_or(0, |found| found.len());
    for (partition, entries) in worth_it(lake.listed()?.entries, lake.sizes.file_bytes, &size) {
        let (before, after, rows) = put_together(lake, &partition, &entries, &HashSet::new())?;
        done.files_before += before;
        done.files_after += after;
        done.rows += rows;
    }
    if at_once {
        done.removed += remove_replaced(lake, true)?;
    }
    Ok(done)
}

/// Groups of recordings that are worth putting together, each with its folder.
pub fn worth_it(
    entries: BTreeMap<String, Entry>,
    file_bytes: u64,
    size: &dyn Fn(&Path) -> u64,
) -> Vec<(PathBuf, Vec<Entry>)> {
    let mut partitions: BTreeMap<PathBuf, Vec<Entry>> = BTreeMap::new();
    for entry in entries.into_values() {
        let folder = entry.files.first().and_then(|file| file.parent());
        if let Some(folder) = folder.map(Path::to_owned) {
            partitions.entry(folder).or_default().push(entry);
        }
    }
    let groups = partitions.into_iter().flat_map(|(folder, entries)| {
        let groups = together(entries, file_bytes, size);
        groups.into_iter().map(move |group| (folder.clone(), group))
    });
    groups.collect()
}

/// Recordings whose files are small, in groups worth putting together.
fn together(entries: Vec<Entry>, file_bytes: u64, size: &dyn Fn(&Path) -> u64) -> Vec<Vec<Entry>> {
    // Files with at least so many bytes are left as they are.
    let large = file_bytes / 2;
    let mut groups: Vec<(BTreeSet<PathBuf>, u64, Vec<Entry>)> = Vec::new();
    // Recordings that share a file stay together.
    let mut by_file: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut clusters: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        let known = entry
            .files
            .iter()
            .find_map(|file| by_file.get(file))
            .copied();
        let place = known.unwrap_or_else(|| {
            clusters.push(Vec::new());
            clusters.len() - 1
        });
        for file in &entry.files {
            by_file.insert(file.clone(), place);
        }
        clusters[place].push(entry);
    }
    for cluster in clusters {
        let files: BTreeSet<PathBuf> = cluster
            .iter()
            .flat_map(|entry| entry.files.clone())
            .collect();
        let bytes: u64 = files.iter().map(|file| size(file)).sum();
        if bytes >= large && bytes / files.len() as u64 >= large {
            continue;
        }
        match groups.last_mut() {
            Some((known, total, entries))
                if known.len() + files.len() <= MOST_FILES && *total < file_bytes =>
            {
                known.extend(files);
                *total += bytes;
                entries.extend(cluster);
            }
            _ => groups.push((files, bytes, cluster)),
        }
    }
    let worth = groups.into_iter().filter(|(files, ..)| files.len() > 1);
    worth.map(|(_, _, entries)| entries).collect()
}

/// Files before and after, and rows.
pub type Counts = (usize, usize, u64);

/// Makes the files of these recordings new ones, but for the recordings to leave out, and lists them in a new compaction.
fn put_together(
    lake: &Lake,
    partition: &Path,
    entries: &[Entry],
    without: &HashSet<String>,
) -> Result<Counts> {
    let at_ns = later_than_all(lake)?;
    let name = format!("{at_ns:x}-{}", std::process::id());
    let path = lake.compaction_path(&name);
    let (mut compaction, counts) = rewrite(lake, partition, entries, without, &name, at_ns)?;
    let names = compaction.names();
    for old in lake.listed()?.compactions.into_values() {
        if old.is_covered(&names) {
            compaction.replaced.extend(old.replaced);
        }
    }
    let work = Aside::new(lake, &name)?;
    list(&work.folder, &path, &compaction)?;
    // From here on the new files are the lake's. What follows may be done by the next compaction, too.
    forget_superseded(lake, &path)?;
    Ok(counts)
}

/// A compaction's time: later than those there are, whatever this machine's clock says.
pub fn later_than_all(lake: &Lake) -> Result<i64> {
    let listed = lake.listed()?;
    let latest = listed.compactions.values().map(|one| one.at_ns).max();
    Ok(now().max(latest.unwrap_or(0).saturating_add(1)))
}

/// Writes the files and puts them in their places.
pub fn rewrite(
    lake: &Lake,
    partition: &Path,
    entries: &[Entry],
    without: &HashSet<String>,
    name: &str,
    at_ns: i64,
) -> Result<(Compaction, Counts)> {
    let work = Aside::new(lake, name)?;
    let old = lake.files(entries);
    let schema = match old.first() {
        Some(first) => schema_of(first)?,
        None => return Err(Error::NotALake(lake.root().into())),
    };
    let file_name = format!("compact-{name}");
    let mut out = FileWriter::new(&work.folder, &file_name, schema, None, lake.sizes);
    merge(&old, without, &mut out)?;
    let mut files = Vec::new();
    let mut bytes = 0;
    for file in &out.files {
        let to = partition.join(file.file_name().unwrap_or_default());
        bytes += into_place(lake, file, &to)?;
        files.push(to);
    }
    let mut tables = BTreeMap::new();
    for table in Table::ALL {
        let to = table_path(table, partition, &file_name);
        if let Some(file) = table_together(lake, entries, table, &work.folder, without)? {
            bytes += into_place(lake, &file, &to)?;
            tables.insert(table, to);
        }
    }
    let placed = files.iter().chain(tables.values());
    let folders: BTreeSet<&Path> = placed.filter_map(|file| file.parent()).collect();
    for folder in folders {
        sync_folder(&lake.root().join(folder))?;
    }
    let mut replaced: Vec<PathBuf> = Vec::new();
    for entry in entries {
        replaced.extend(entry.files.iter().chain(entry.tables.values()).cloned());
    }
    replaced.sort();
    replaced.dedup();
    let counts = (old.len(), files.len(), out.rows);
    let kept = entries
        .iter()
        .filter(|entry| !without.contains(&entry.name));
    let compaction = Compaction {
        entries: kept
            .map(|entry| Entry {
                files: files.clone(),
                tables: tables.clone(),
                ..entry.clone()
            })
            .collect(),
        replaced,
        at_ns,
        bytes: Some(bytes),
    };
    Ok((compaction, counts))
}

/// The rows of a side table of these recordings, in one file.
fn table_together(
    lake: &Lake,
    entries: &[Entry],
    table: Table,
    folder: &Path,
    without: &HashSet<String>,
) -> Result<Option<PathBuf>> {
    let mut out = TableFile::new(folder.join(format!("{}.parquet", table.as_str())));
    for path in lake.tables(entries, table) {
        let mut rows = ParquetRows::open(&path, 8_192).map_err(Error::trace(&path))?;
        while let Some(batch) = rows.next_batch().map_err(Error::trace(&path))? {
            out.write(crate::tables::without(&batch, without)?)?;
        }
    }
    out.finish()
}

/// Removes entries, and compactions, that a newer compaction stands for.
fn forget_superseded(lake: &Lake, newest: &Path) -> Result<()> {
    let listed = lake.listed()?;
    for path in &listed.superseded {
        remove(path)?;
    }
    let Some(new) = listed.compactions.get(newest) else {
        return Ok(());
    };
    let names = new.names();
    for (path, old) in &listed.compactions {
        if path != newest && old.is_covered(&names) {
            remove(path)?;
        }
    }
    Ok(())
}

/// Removes files that compactions replaced long enough ago; how many.
pub fn remove_replaced(lake: &Lake, at_once: bool) -> Result<usize> {
    if !lake.manifest().is_dir() {
        return Ok(0);
    }
    let listed = lake.listed()?;
    let (mut removed, now) = (0, now());
    for path in &listed.superseded {
        remove(path)?;
    }
    let used: HashSet<&PathBuf> = (listed.entries.values())
        .flat_map(|entry| entry.files.iter().chain(entry.tables.values()))
        .collect();
    for (path, compaction) in &listed.compactions {
        let is_old = at_once || compaction.at_ns.saturating_add(GRACE_NS) < now;
        if !is_old || compaction.replaced.is_empty() {
            continue;
        }
        for file in compaction
            .replaced
            .iter()
            .filter(|file| !used.contains(file))
        {
            removed += usize::from(remove(&lake.root().join(file))?);
        }
        let work = Aside::new(lake, "compact")?;
        let done = Compaction {
            replaced: Vec::new(),
            ..compaction.clone()
        };
        list(&work.folder, path, &done)?;
    }
    Ok(removed)
}

/// Whether it was there.
pub fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::write(path)(error)),
    }
}
