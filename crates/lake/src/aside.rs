//! Folders for files that are not finished. A writer holds a lock on its folder: one without a lock was left by
//! a writer that was killed.

use crate::{Error, Lake, Result, manifest::make_folder};
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

const LOCK: &str = "lock";

/// A folder of this writer's own; gone when this is dropped.
pub struct Aside {
    pub folder: PathBuf,
    _lock: File,
}

impl Aside {
    pub fn new(lake: &Lake, name: &str) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let parent = lake.unfinished();
        make_folder(lake.root(), &parent)?;
        make_folder(lake.root(), &lake.manifest())?;
        // Nobody removes a folder between its making and its locking.
        let _held = Held::wait(lake, "folders")?;
        sweep(&parent);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{name}.{}.{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let lock = folder.join(LOCK);
        let lock = File::create(&lock).map_err(Error::write(lock))?;
        // Where there are no locks, nothing of others is removed either.
        let _ = lock.try_lock();
        Ok(Aside {
            folder,
            _lock: lock,
        })
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// The lock last: what has none is never looked into again.
fn remove(folder: &Path) {
    for found in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = found.path();
        let _ = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false if found.file_name() == LOCK => Ok(()),
            false => fs::remove_file(path),
        };
    }
    let _ = fs::remove_file(folder.join(LOCK));
    let _ = fs::remove_dir(folder);
}

/// Removes what writers that were killed have left.
fn sweep(aside: &Path) {
    for found in fs::read_dir(aside).into_iter().flatten().flatten() {
        let Ok(lock) = File::options().write(true).open(found.path().join(LOCK)) else {
            // It is empty, if its writer was killed before there was a lock, or after it was gone.
            let _ = fs::remove_dir(found.path());
            continue;
        };
        if lock.try_lock().is_ok() {
            remove(&found.path());
        }
    }
}

/// A lock that one process holds at a time; others wait.
pub struct Held {
    file: File,
    /// A file to remove in the end: there is one for each recording.
    removed: Option<PathBuf>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Somebody may wait for it, and another make a new one: then both add the same recording, which does no harm.
        if let Some(path) = &self.removed {
            let _ = fs::remove_file(path);
        }
    }
}

impl Held {
    /// On adding a recording.
    pub fn recording(lake: &Lake, name: &str) -> Result<Self> {
        let mut held = Held::wait(lake, name)?;
        held.removed = Some(lock_path(lake, name));
        Ok(held)
    }

    /// On this name, among writers of this lake.
    pub fn wait(lake: &Lake, name: &str) -> Result<Self> {
        let held = Held::open(lake, name)?;
        // Where there are no locks, two do the same work, and the second's files take the place of the first's.
        let _ = held.file.lock();
        Ok(held)
    }

    /// The same, but None if another holds it.
    pub fn try_now(lake: &Lake, name: &str) -> Result<Option<Self>> {
        let held = Held::open(lake, name)?;
        match held.file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            _ => Ok(Some(held)),
        }
    }

    fn open(lake: &Lake, name: &str) -> Result<Self> {
        let folder = lake.unfinished();
        make_folder(lake.root(), &folder)?;
        let path = lock_path(lake, name);
        let file = File::create(&path).map_err(Error::write(&path))?;
        Ok(Held {
            file,
            removed: None,
        })
    }
}

fn lock_path(lake: &Lake, name: &str) -> PathBuf {
    lake.unfinished().join(format!("{name}.lock"))
}
