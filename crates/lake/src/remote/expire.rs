//! Removing recordings from a lake in a store: from the list first, then their files.

use super::{
    Remote,
    add::only_name,
    compact::used,
    entries::{List, entry_file, within},
};
use crate::{Entry, Expired, Result, compact::rewrite, manifest::Compaction};
use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

impl Remote {
    /// As `expire`, for this lake.
    pub fn expire(&self, which: &Expired) -> Result<Vec<Entry>> {
        let _held = self.held()?;
        self.remove_replaced(false)?;
        let List { listed, objects } = self.list()?;
        let entries = listed.entries.values();
        let gone: BTreeMap<&String, &Entry> = entries
            .filter(|entry| which.has(entry))
            .map(|entry| (&entry.name, entry))
            .collect();
        let names: HashSet<String> = gone.keys().map(|name| (*name).clone()).collect();
        let mut files: Vec<PathBuf> = Vec::new();
        let mut unlisted: Vec<PathBuf> = Vec::new();
        for (path, compaction) in &listed.compactions {
            let is_current = |entry: &Entry| listed.entries.get(&entry.name) == Some(entry);
            if !compaction.entries.iter().any(is_current) {
                // Another machine's, at the same time: a later one stands for all of it.
                unlisted.push(within(&self.cache.lake, path));
                files.extend(
                    compaction
                        .entries
                        .iter()
                        .flat_map(Entry::all_files)
                        .cloned(),
                );
                files.extend(compaction.replaced.iter().cloned());
                continue;
            }
            let goes = |entry: &&Entry| names.contains(&entry.name);
            let going = compaction.entries.iter().filter(goes).count();
            if going == compaction.entries.len() {
                unlisted.push(within(&self.cache.lake, path));
                files.extend(compaction.replaced.iter().cloned());
            } else if going > 0 {
                self.keep_the_others(path, compaction, &names)?;
            }
        }
        let own = names.iter().map(|name| entry_file(name));
        unlisted.extend(own.filter(|file| objects.contains_key(file)));
        self.objects.remove(&unlisted)?;
        files.extend(gone.values().flat_map(|entry| entry.all_files().cloned()));
        let left = self.left()?;
        let used = left.as_ref().map(|list| used(&list.listed));
        let is_used = |file: &&PathBuf| used.as_ref().is_some_and(|used| used.contains(file));
        self.objects
            .remove(files.iter().filter(|file| !is_used(file)))?;
        if let Some(left) = &left {
            self.cache.forget_unlisted(&left.listed)?;
        }
        Ok(gone.into_values().cloned().collect())
    }

    /// Others are in the same files: these become new ones, and the list changes at one moment.
    fn keep_the_others(
        &self,
        path: &Path,
        compaction: &Compaction,
        without: &HashSet<String>,
    ) -> Result<()> {
        self.bring_files(&compaction.entries)?;
        let file = compaction
            .entries
            .iter()
            .find_map(|entry| entry.files.first());
        let partition = file.and_then(|file| file.parent()).unwrap_or(Path::new(""));
        let at_ns = compaction.at_ns.saturating_add(1);
        let name = format!("{at_ns:x}-{}", only_name());
        let lake = &self.cache.lake;
        let entries = &compaction.entries;
        let (mut new, _) = rewrite(lake, partition, entries, without, &name, at_ns)?;
        new.replaced.extend(compaction.replaced.iter().cloned());
        self.upload_compaction(&new)?;
        let objects = self.unchanged(&new, entries)?.objects;
        let file = within(lake, path);
        match objects.get(&file) {
            Some(found) => self.objects.replace(found, &self.json(&file, &new)?),
            None => Err(self.objects.gone(&file)),
        }
    }

    /// The list; None if nothing is left in it.
    fn left(&self) -> Result<Option<List>> {
        match self.list() {
            Err(crate::Error::NotALake(_)) => Ok(None),
            other => other.map(Some),
        }
    }
}
