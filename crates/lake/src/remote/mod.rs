//! A lake in an object store, by way of a folder of this machine.
//!
//! Object stores rename nothing and lock nothing. What they do offer: an object appears whole, and can be made only if it is not
//! there yet. So a recording is written here, in a folder of its own, then its files are uploaded under names that nobody
//! else uses, and the entry last, if there is none yet. A writer that is killed leaves objects that no entry lists;
//! compaction removes them a day later.
//!
//! To be read, what the list names is brought into a cache folder, which is a lake like any other. Files never change
//! under their names, so only what is missing is fetched.

mod add;
mod cache;
mod check;
mod compact;
mod entries;
mod expire;
mod fetch;
mod objects;
mod store;

pub use objects::Moved;

use crate::{
    Address, Entry, Error, Lake, Result,
    layout::{MANIFEST, TABLES},
    manifest::Listed,
    tables::Table,
};
use cache::Cache;
use object_store::ObjectStore;
use objects::{Found, Objects};
use std::{
    cell::OnceCell,
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

/// How often the list is read again when files vanish while they are fetched: a compaction was faster.
const ATTEMPTS: usize = 3;

/// A lake in an object store, or a part of one.
pub struct Remote {
    address: Address,
    objects: Objects,
    cache: Cache,
    /// Recordings that compactions list, by name: read once.
    compacted: OnceCell<HashMap<String, Entry>>,
}

impl Remote {
    /// What sets one lake apart from another: its address, and where the store is.
    pub fn identity(address: &Address) -> Result<String> {
        store::identity(address)
    }

    /// `cache`: a folder for this lake's files alone. Settings come from the environment.
    pub fn open(address: &Address, cache: &Path, moved: Moved) -> Result<Self> {
        let (store, prefix) = store::open(address)?;
        Remote::with_store(address, store, &prefix, cache, moved)
    }

    /// The lake under this prefix of a store.
    #[doc(hidden)]
    pub fn with_store(
        address: &Address,
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        cache: &Path,
        moved: Moved,
    ) -> Result<Self> {
        Ok(Remote {
            objects: Objects::new(&address.lake, store, prefix, moved)?,
            address: address.clone(),
            cache: Cache::open(cache)?,
            compacted: OnceCell::new(),
        })
    }

    /// Other sizes than the usual: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sizes(mut self, sizes: crate::Sizes) -> Self {
        self.cache.lake = self.cache.lake.with_sizes(sizes);
        self
    }

    /// Its list alone, as a lake without files.
    pub fn listing(&self) -> Result<Lake> {
        self.list()?;
        Ok(self.cache.lake.clone())
    }

    /// Fetches what is named, and returns where it is now: a path that every command reads.
    pub fn bring(&self) -> Result<PathBuf> {
        let listed = self.bring_named()?;
        self.cache.forget_unlisted(&listed)?;
        let root = self.cache.lake.root();
        Ok(match self.address.within.as_os_str().is_empty() {
            true => root.to_owned(),
            false => root.join(&self.address.within),
        })
    }

    /// The recordings that the address names.
    fn named(&self, listed: &Listed) -> Result<Vec<Entry>> {
        let within = &self.address.within;
        let has = |entry: &&Entry| match within.strip_prefix(MANIFEST) {
            Ok(file) => {
                file.as_os_str().is_empty() || file == Path::new(&format!("{}.json", entry.name))
            }
            // A file, or a folder.
            Err(_) => entry.files.contains(within) || entry.is_within(within),
        };
        let entries: Vec<Entry> = listed.entries.values().filter(has).cloned().collect();
        if entries.is_empty() && !within.as_os_str().is_empty() {
            let lake = self.address.lake.clone();
            return Err(Error::NoSuchPart(self.address.url(), lake));
        }
        Ok(entries)
    }

    /// Fetches the files of the recordings that the address names. The list is what it was when all of them were there.
    fn bring_named(&self) -> Result<Listed> {
        let mut attempt = 1;
        loop {
            let listed = self.list()?.listed;
            match self.bring_files(&self.named(&listed)?) {
                Err(Error::ObjectGone(..)) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(listed),
            }
        }
    }

    fn bring_files(&self, entries: &[Entry]) -> Result<()> {
        let files: BTreeSet<&PathBuf> = entries.iter().flat_map(Entry::all_files).collect();
        let there = self.sizes(&files)?;
        let mut wanted: Vec<Found> = Vec::new();
        for file in files {
            let Some(found) = there.get(file) else {
                return Err(self.objects.gone(file));
            };
            if !self.cache.has(found) {
                wanted.push(found.clone());
            }
        }
        self.objects.fetch(&self.cache, &wanted)
    }

    /// What is there of these files: from a listing of everything, or of their folders if these are few.
    fn sizes(&self, files: &BTreeSet<&PathBuf>) -> Result<HashMap<PathBuf, Found>> {
        let tables = Path::new(TABLES);
        let plain = |file: &Path| -> PathBuf {
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            if let Ok(rest) = folder.strip_prefix(tables) {
                return rest.components().skip(1).collect();
            }
            folder
        };
        let folders: BTreeSet<PathBuf> = files.iter().map(|file| plain(file)).collect();
        let found = match folders.len() {
            0 => Vec::new(),
            1..=4 => {
                let mut found = Vec::new();
                for folder in &folders {
                    found.extend(self.objects.list(folder)?);
                    for table in Table::ALL {
                        let folder = tables.join(table.as_str()).join(folder);
                        found.extend(self.objects.list(&folder)?);
                    }
                }
                found
            }
            _ => self.objects.list(Path::new(""))?,
        };
        Ok(found
            .into_iter()
            .map(|found| (found.file.clone(), found))
            .collect())
    }
}
