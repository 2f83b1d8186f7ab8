//! Lakes by address: `s3://BUCKET/FOLDER` where others have a folder's path.

use super::input::Progress;
use crate::embedded;
use anyhow::{Result, bail};
use lake::{Address, Remote};
use std::path::{Path, PathBuf};

/// Where a lake is.
pub enum Place {
    Folder(PathBuf),
    Store(Box<Remote>),
}

impl Place {
    pub fn of(path: &Path) -> Result<Self> {
        if !Address::is_one(path) {
            return Ok(Place::Folder(path.to_owned()));
        }
        let address = Address::of(path)?;
        if let Some(folder) = address.folder() {
            return Ok(Place::Folder(folder));
        }
        let cache = embedded::lake_cache(&Remote::identity(&address)?)?;
        let mut progress = None;
        let moved = move |bytes, of| {
            let progress = progress.get_or_insert_with(|| Progress::new(false));
            progress.moved(bytes, of);
            // What comes next has a line of its own.
            if bytes >= of {
                progress.clear();
            }
        };
        let remote = Remote::open(&address, &cache, Box::new(moved))?;
        Ok(Place::Store(Box::new(remote)))
    }
}

/// What an address names, as a path of this machine: its files are fetched. A path is as it was.
pub fn brought(path: PathBuf) -> Result<PathBuf> {
    Ok(match Place::of(&path)? {
        Place::Folder(folder) => folder,
        Place::Store(remote) => remote.bring()?,
    })
}

/// A cluster's workers cannot read what was fetched to this machine.
pub fn refuse_for_spark(over: &[PathBuf]) -> Result<()> {
    for path in over {
        if let Place::Store(_) = Place::of(path)? {
            bail!(
                "{}: cutrace fetches a lake to this machine, which Spark's workers cannot read: copy the lake to a file system \
                 that they share, and name its folder",
                path.display()
            );
        }
    }
    Ok(())
}
