//! The list of what belongs to a lake: an entry a recording, in a file of its own, and for each compaction one file with the
//! entries of all recordings whose events it put together.
//!
//! A file appears whole, by renaming. An entry in a compaction's file stands for the one of its own file, so a
//! compaction takes effect at one moment: until then readers see the old files, from then on the new one.

use crate::{Entry, Error, Lake, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

pub const COMPACTION: &str = "compact-";

/// A compaction's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Of its recordings, with the files as they are now.
    pub entries: Vec<Entry>,
    /// Files that it stands for. Readers that began before may still read them.
    pub replaced: Vec<PathBuf>,
    /// When it took effect, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Of its files; older versions did not write it.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl Compaction {
    pub fn names(&self) -> HashSet<String> {
        (self.entries.iter())
            .map(|entry| entry.name.clone())
            .collect()
    }

    /// Whether all its recordings are among these.
    pub fn is_covered(&self, names: &HashSet<String>) -> bool {
        self.entries.iter().all(|entry| names.contains(&entry.name))
    }
}

/// Everything that the manifest says.
#[derive(Debug, Default)]
pub struct Listed {
    /// By name.
    pub entries: BTreeMap<String, Entry>,
    /// By the names of their files.
    pub compactions: BTreeMap<PathBuf, Compaction>,
    /// Files of entries that a compaction stands for.
    pub superseded: Vec<PathBuf>,
}

impl Lake {
    /// What belongs to it, by name.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.listed()?.entries.into_values().collect())
    }

    /// The entry of this name, if it is there.
    pub fn entry(&self, name: &str) -> Result<Option<Entry>> {
        let path = self.entry_path(name);
        match fs::exists(&path).map_err(Error::read(&path))? {
            true => read(&path).map(Some),
            false if !fs::exists(self.manifest()).unwrap_or(false) => Ok(None),
            // A compaction may have it.
            false => Ok(self.listed()?.entries.remove(name)),
        }
    }

    pub(crate) fn listed(&self) -> Result<Listed> {
        // What is compacted while this reads is in one of the two: entries are removed after their compaction is there.
        let mut listed = Listed::default();
        for path in self.listed_files(false)? {
            match read::<Entry>(&path) {
                Ok(entry) => {
                    listed.entries.insert(entry.name.clone(), entry);
                }
                // It was compacted or expired meanwhile.
                Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut compactions: Vec<(PathBuf, Compaction)> = Vec::new();
        for path in self.listed_files(true)? {
            match read(&path) {
                Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => compactions.push((path, other?)),
            }
        }
        // One that puts earlier ones together has all their recordings.
        compactions.sort_by_key(|(_, compaction)| compaction.at_ns);
        for (path, compaction) in compactions {
            for entry in &compaction.entries {
                let name = entry.name.clone();
                if listed.entries.insert(name, entry.clone()).is_some() {
                    listed.superseded.push(self.entry_path(&entry.name));
                }
            }
            listed.compactions.insert(path, compaction);
        }
        Ok(listed)
    }

    pub(crate) fn listed_files(&self, compactions: bool) -> Result<Vec<PathBuf>> {
        let folder = self.manifest();
        let mut files = Vec::new();
        for found in fs::read_dir(&folder).map_err(Error::read(&folder))? {
            let path = found.map_err(Error::read(&folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let wanted = name.is_some_and(|name| {
                name.ends_with(".json") && name.starts_with(COMPACTION) == compactions
            });
            if wanted {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Where a compaction is listed.
    pub(crate) fn compaction_path(&self, name: &str) -> PathBuf {
        self.manifest().join(format!("{COMPACTION}{name}.json"))
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).map_err(Error::read(path))?;
    let entry = serde_json::from_slice(&text).map_err(io::Error::from);
    entry.map_err(Error::read(path))
}

/// Puts a file of the list in its place, whole and durable. `aside` is a folder for it until then.
pub fn list(aside: &Path, path: &Path, what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(what).map_err(io::Error::from);
    let text = text.map_err(Error::write(path))?;
    let unfinished = aside.join("entry.json");
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().map_err(Error::write(path))?;
    match path.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(Error::write(folder))
}

/// Makes a folder, and its name durable, and so on up to the lake's.
pub fn make_folder(root: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    for above in folder.ancestors().skip(1) {
        sync_folder(above)?;
        if above == root {
            break;
        }
    }
    Ok(())
}

/// Now, in nanoseconds since 1970.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(0)
}
