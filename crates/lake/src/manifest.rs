//! The list of what belongs to a lake: an entry a recording, in a file of its own, and for each compaction one file with the
//! entries of all recordings whose events it put together.
//!
//! A file appears whole, by renaming. An entry in a compaction's file stands for the one of its own file, so a
//! compaction takes effect at one moment: until then readers see the old files, from then on the new one.

use crate::{Entry, Error, Lake, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
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
        match read(&self.entry_path(name))? {
            Some(entry) => Ok(Some(entry)),
            None if !fs::exists(self.manifest()).unwrap_or(false) => Ok(None),
            // A compaction may have it.
            None => Ok(self.listed()?.entries.remove(name)),
        }
    }

    pub(crate) fn listed(&self) -> Result<Listed> {
        loop {
            // What is compacted while this reads is in one of the two: entries are removed after their compaction is there.
            let entries = self.read_all::<Entry>(&self.listed_files(false)?)?;
            let files = self.listed_files(true)?;
            let compactions = self.read_all::<Compaction>(&files)?;
            // One that was replaced meanwhile may have been missed, and so its successor.
            if self.listed_files(true)? == files {
                return Ok(self.together(entries, compactions));
            }
        }
    }

    /// Those of these files that are still there.
    fn read_all<T: DeserializeOwned>(&self, files: &[PathBuf]) -> Result<Vec<(PathBuf, T)>> {
        let found = files.iter().map(|path| {
            let found = read(path).transpose()?;
            Some(found.map(|found| (path.clone(), found)))
        });
        found.flatten().collect()
    }

    fn together(
        &self,
        entries: Vec<(PathBuf, Entry)>,
        mut compactions: Vec<(PathBuf, Compaction)>,
    ) -> Listed {
        let entries = entries.into_iter();
        let mut listed = Listed {
            entries: entries
                .map(|(_, entry)| (entry.name.clone(), entry))
                .collect(),
            ..Listed::default()
        };
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
        listed
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

/// None: it is not there, or no longer.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::read(path))?,
    };
    let found = serde_json::from_slice(&text).map_err(io::Error::from);
    found.map(Some).map_err(Error::read(path))
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
