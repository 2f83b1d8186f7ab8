//! The folder in which a lake's files are kept between commands: a lake itself, of which some files are missing.

use super::objects::Found;
use crate::{
    Error, Lake, Result,
    check::partition_files,
    layout::TABLES,
    manifest::{Listed, make_folder},
};
use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// Locks on caches. They are held until the process ends: its engines read files by name, at any time.
static IN_USE: Mutex<BTreeMap<PathBuf, Arc<File>>> = Mutex::new(BTreeMap::new());

pub struct Cache {
    pub lake: Lake,
    /// Shared among readers.
    lock: Arc<File>,
    /// Whether this process has used it before.
    is_known: bool,
}

impl Cache {
    pub fn open(folder: &Path) -> Result<Self> {
        let lake = Lake::at(folder);
        make_folder(folder, &lake.unfinished())?;
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = in_use.get(folder).cloned();
        let is_known = known.is_some();
        let lock = match known {
            Some(lock) => lock,
            None => {
                let path = lake.unfinished().join("cache.lock");
                let file = File::create(&path).map_err(Error::write(&path))?;
                // Where there are no locks, nothing is removed from a cache.
                let _ = file.lock_shared();
                let lock = Arc::new(file);
                in_use.insert(folder.to_owned(), lock.clone());
                lock
            }
        };
        Ok(Cache {
            lake,
            lock,
            is_known,
        })
    }

    /// Whether the object is here as it is there.
    pub fn has(&self, found: &Found) -> bool {
        let here = fs::metadata(self.lake.root().join(&found.file));
        here.is_ok_and(|here| {
            here.len() == found.bytes
                && (here.modified()).is_ok_and(|changed| is_same(changed, found.changed))
        })
    }

    /// Gives a file its name, and the object's time, by which it is known.
    pub fn place(&self, from: &Path, found: &Found) -> Result<()> {
        let to = self.lake.root().join(&found.file);
        let place = || {
            let file = File::options().write(true).open(from)?;
            file.set_modified(found.changed)?;
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::rename(from, &to)
        };
        place().map_err(Error::write(&to))
    }

    /// Removes files that no entry lists any more, unless another process uses the cache.
    pub fn forget_unlisted(&self, listed: &Listed) -> Result<()> {
        if self.is_known || self.lock.try_lock().is_err() {
            let _ = self.lock.lock_shared();
            return Ok(());
        }
        let used: HashSet<PathBuf> = (listed.entries.values())
            .flat_map(|entry| entry.all_files().cloned())
            .collect();
        let root = self.lake.root();
        for folder in [Path::new(""), Path::new(TABLES)] {
            let is_root = folder.as_os_str().is_empty();
            for path in partition_files(&root.join(folder), is_root) {
                let file = path.strip_prefix(root).unwrap_or(&path);
                if file.extension().is_some_and(|it| it == "parquet") && !used.contains(file) {
                    crate::compact::remove(&path)?;
                }
            }
        }
        let _ = self.lock.lock_shared();
        Ok(())
    }
}

/// File systems keep times more or less exactly.
fn is_same(one: SystemTime, other: SystemTime) -> bool {
    let apart = one.duration_since(other).or(other.duration_since(one));
    apart.is_ok_and(|apart| apart < Duration::from_millis(1))
}
