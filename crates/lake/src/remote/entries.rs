//! The list of a lake in a store, kept in the cache as it is there. Everyone who may write to the bucket may have written it: no name
//! in it leads out of the cache.

use super::{
    Remote,
    fetch::aside,
    objects::{Found, Objects, too_large},
};
use crate::{
    Entry, Error, Lake, Result,
    address::is_plain,
    aside::{Aside, Held},
    compact::remove,
    layout::{MANIFEST, TABLES},
    manifest::{COMPACTION, Compaction, Listed},
};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// Of an object of the list.
pub const MOST_BYTES: u64 = 256 << 20;

/// The list, and the objects that it is.
pub struct List {
    pub listed: Listed,
    /// By their names in the lake.
    pub objects: BTreeMap<PathBuf, Found>,
}

impl Remote {
    /// Brings the list here.
    pub(super) fn list(&self) -> Result<List> {
        let mut attempt = 1;
        loop {
            match self.list_once() {
                Err(Error::ObjectGone(..)) if attempt < super::ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    fn list_once(&self) -> Result<List> {
        // Two commands of this machine would each undo what the other found.
        let _held = Held::wait(&self.cache.lake, "list")?;
        let objects = self.list_settled()?;
        let lake = &self.cache.lake;
        if objects.is_empty() {
            return Err(Error::NotALake(self.address.lake.clone().into()));
        }
        self.bring_list(objects.values())?;
        // What replaced them is here by now.
        let here = lake.listed_files(true)?;
        for path in here.into_iter().chain(lake.listed_files(false)?) {
            let file = path.strip_prefix(lake.root()).unwrap_or(&path);
            if !objects.contains_key(file) {
                remove(&path)?;
            }
        }
        Ok(List {
            listed: lake.listed()?,
            objects,
        })
    }

    /// The objects of the list, listed until compactions are the same: a listing comes in pages, and a recording may be in its entry for
    /// one page, and in a compaction for another.
    fn list_settled(&self) -> Result<BTreeMap<PathBuf, Found>> {
        let mut objects = self.list_objects()?;
        loop {
            let again = self.list_objects()?;
            let compactions = |objects: &BTreeMap<PathBuf, Found>| -> Vec<PathBuf> {
                let files = objects.keys().filter(|file| is_compaction(file));
                files.cloned().collect()
            };
            if compactions(&objects) == compactions(&again) {
                return Ok(objects);
            }
            objects = again;
        }
    }

    /// The objects of the list; none if there is no lake yet.
    fn list_objects(&self) -> Result<BTreeMap<PathBuf, Found>> {
        let found = self.objects.list(Path::new(MANIFEST))?;
        let is_entry = |found: &Found| {
            found.file.parent() == Some(Path::new(MANIFEST))
                && is_plain(&found.file)
                && found.file.extension().is_some_and(|it| it == "json")
        };
        let entries = found.into_iter().filter(is_entry);
        Ok(entries.map(|found| (found.file.clone(), found)).collect())
    }

    /// Fetches objects of the list that are not here, looks through them, and puts them in their places: compactions first, because
    /// they stand for entries.
    fn bring_list<'a>(&self, objects: impl Iterator<Item = &'a Found>) -> Result<()> {
        let mut wanted: Vec<Found> = Vec::new();
        for found in objects.filter(|found| !self.cache.has(found)) {
            if found.bytes > MOST_BYTES {
                return Err(too_large(&self.objects.name(&found.file), found.bytes));
            }
            wanted.push(found.clone());
        }
        wanted.sort_by_key(|found| !is_compaction(&found.file));
        let lake = &self.cache.lake;
        let work = Aside::new(lake, "list")?;
        self.objects.fetch_aside(&work.folder, &wanted)?;
        for (number, found) in wanted.iter().enumerate() {
            let path = aside(&work.folder, number);
            let text = fs::read(&path).map_err(Error::read(&path))?;
            looked_through(&self.objects, &found.file, &text)?;
            self.cache.place(&path, found)?;
        }
        Ok(())
    }

    /// A recording's entry, if it is in the lake.
    pub(super) fn entry(&self, name: &str) -> Result<Option<Entry>> {
        let file = entry_file(name);
        if let Some(text) = self.objects.contents(&file, MOST_BYTES)? {
            return looked_through(&self.objects, &file, &text).map(|mut entries| entries.pop());
        }
        if self.compacted.get().is_none() {
            let _ = self.compacted.set(self.read_compactions()?);
        }
        let compacted = self.compacted.get();
        Ok(compacted.and_then(|entries| entries.get(name).cloned()))
    }

    /// The recordings that compactions list.
    fn read_compactions(&self) -> Result<HashMap<String, Entry>> {
        let objects = self.list_objects()?;
        let mut entries = HashMap::new();
        for file in objects.keys().filter(|file| is_compaction(file)) {
            // One that is gone has a successor.
            if let Some(text) = self.objects.contents(file, MOST_BYTES)? {
                for entry in looked_through(&self.objects, file, &text)? {
                    entries.insert(entry.name.clone(), entry);
                }
            }
        }
        Ok(entries)
    }
}

/// Where a recording's entry is, in the lake.
pub fn entry_file(name: &str) -> PathBuf {
    Path::new(MANIFEST).join(format!("{name}.json"))
}

/// Where one of the list's files is, in the lake.
pub fn within(lake: &Lake, path: &Path) -> PathBuf {
    path.strip_prefix(lake.root()).unwrap_or(path).to_owned()
}

pub fn is_compaction(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(COMPACTION))
}

/// The entries of one of the list's files, if every name in it stays inside of the lake.
fn looked_through(objects: &Objects, file: &Path, text: &[u8]) -> Result<Vec<Entry>> {
    let url = || objects.name(file);
    let (entries, replaced) = match is_compaction(file) {
        true => {
            let Compaction {
                entries, replaced, ..
            } = parsed(url, text)?;
            (entries, replaced)
        }
        false => (vec![parsed::<Entry>(url, text)?], Vec::new()),
    };
    let bad = |why: String| Error::BadEntry { url: url(), why };
    let own = file.file_stem().and_then(|stem| stem.to_str());
    let mut names = HashSet::new();
    for entry in &entries {
        let name = &entry.name;
        let is_name = is_plain(Path::new(name))
            && Path::new(name).components().count() == 1
            && !name.starts_with(COMPACTION)
            && !name.contains(|sign: char| sign.is_control() || sign == '/');
        if !is_name || !names.insert(name) || !is_compaction(file) && own != Some(name.as_str()) {
            return Err(bad(format!("its recording is called {name:?}")));
        }
    }
    let listed = entries.iter().flat_map(Entry::all_files);
    for file in listed.chain(&replaced) {
        if !is_data(file) {
            return Err(bad(format!("it lists {file:?}")));
        }
    }
    Ok(entries)
}

fn parsed<T: DeserializeOwned>(url: impl Fn() -> String, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|why| Error::BadEntry {
        url: url(),
        why: why.to_string(),
    })
}

/// Whether a name is one that a lake's data can have: below a run's folder, or a table's.
fn is_data(file: &Path) -> bool {
    let first = file.iter().next().and_then(|first| first.to_str());
    is_plain(file)
        && file.components().count() > 1
        && first.is_some_and(|first| first.starts_with("run=") || first == TABLES)
        && file.extension().is_some_and(|it| it == "parquet")
        && (file.to_str()).is_some_and(|text| !text.contains(|sign: char| sign.is_control()))
}
