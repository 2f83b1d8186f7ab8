//! Compaction of a lake in a store: new files are made here and uploaded, the list changes at one moment, old files go last.

use super::{
    Remote,
    add::only_name,
    entries::{List, entry_file, within},
    objects::Found,
};
use crate::{
    Compacted, Entry, Error, Result,
    aside::Held,
    check::is_ours,
    compact::{GRACE_NS, later_than_all, rewrite, worth_it},
    layout::MANIFEST,
    manifest::{COMPACTION, Compaction, Listed, now},
};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// What no entry lists is a killed writer's when something so much younger is there: no upload takes longer.
const LEFT: Duration = Duration::from_secs(24 * 3600);

impl Remote {
    /// As `compact`, for this lake.
    pub fn compact(&self, at_once: bool) -> Result<Compacted> {
        let _held = self.held()?;
        let mut done = Compacted {
            removed: self.remove_left()? + self.remove_replaced(at_once)?,
            ..Compacted::default()
        };
        let listed = self.list()?.listed;
        let sizes: HashMap<PathBuf, u64> = (self.objects.list(Path::new(""))?.into_iter())
            .map(|found| (found.file, found.bytes))
            .collect();
        let size = |file: &Path| sizes.get(file).copied().unwrap_or(0);
        let file_bytes = self.cache.lake.sizes.file_bytes;
        for (partition, entries) in worth_it(listed.entries, file_bytes, &size) {
            self.bring_files(&entries)?;
            let lake = &self.cache.lake;
            let at_ns = later_than_all(lake)?;
            let name = format!("{at_ns:x}-{}", only_name());
            let none = HashSet::new();
            let (compaction, (before, after, rows)) =
                rewrite(lake, &partition, &entries, &none, &name, at_ns)?;
            let file = Path::new(MANIFEST).join(format!("{COMPACTION}{name}.json"));
            self.list_compaction(&file, compaction, &entries)?;
            done.files_before += before;
            done.files_after += after;
            done.rows += rows;
        }
        if at_once {
            done.removed += self.remove_replaced(true)?;
        }
        self.cache.forget_unlisted(&self.list()?.listed)?;
        Ok(done)
    }

    /// On compacting and expiring, among the processes of this machine.
    pub(super) fn held(&self) -> Result<Held> {
        let held = Held::try_now(&self.cache.lake, "compact")?;
        held.ok_or_else(|| Error::Busy(self.address.lake.clone().into()))
    }

    /// Uploads a compaction's files, and puts it in the place of the entries it was made of.
    fn list_compaction(
        &self,
        file: &Path,
        mut compaction: Compaction,
        entries: &[Entry],
    ) -> Result<()> {
        self.upload_compaction(&compaction)?;
        let List { listed, objects } = self.unchanged(&compaction, entries)?;
        let names = compaction.names();
        let is_covered = |old: &&Compaction| old.is_covered(&names);
        for old in listed.compactions.values().filter(is_covered) {
            compaction.replaced.extend(old.replaced.iter().cloned());
        }
        if !self.objects.create(file, &self.json(file, &compaction)?)? {
            return Err(Error::Busy(self.address.lake.clone().into()));
        }
        // From here on the new files are the lake's. What follows may be done by the next compaction, too.
        let lake = &self.cache.lake;
        let covered = (listed.compactions.iter()).filter(|(_, old)| old.is_covered(&names));
        let covered = covered.map(|(path, _)| within(lake, path));
        let own = names.iter().map(|name| entry_file(name));
        let gone: Vec<PathBuf> = (own.chain(covered))
            .filter(|file| objects.contains_key(file))
            .collect();
        self.objects.remove(&gone)?;
        Ok(())
    }

    /// Uploads the files that a compaction made here.
    pub(super) fn upload_compaction(&self, compaction: &Compaction) -> Result<()> {
        let Some(first) = compaction.entries.first() else {
            return Ok(());
        };
        let mut done = 0;
        for file in first.all_files() {
            let from = self.cache.lake.root().join(file);
            let of = compaction.bytes.unwrap_or(0);
            self.objects.upload(&from, file, &mut done, of)?;
        }
        Ok(())
    }

    /// The list, if these recordings are as they were when work on them began. Otherwise another compaction or expiry was
    /// faster: the new files go again.
    pub(super) fn unchanged(&self, compaction: &Compaction, entries: &[Entry]) -> Result<List> {
        let list = self.list()?;
        let is_same = |entry: &Entry| list.listed.entries.get(&entry.name) == Some(entry);
        if entries.iter().all(is_same) {
            return Ok(list);
        }
        let new = compaction.entries.first().map(Entry::all_files);
        self.objects.remove(new.into_iter().flatten())?;
        Err(Error::Busy(self.address.lake.clone().into()))
    }

    /// Removes files that compactions replaced long enough ago; how many.
    pub(super) fn remove_replaced(&self, at_once: bool) -> Result<usize> {
        let List { listed, objects } = self.list()?;
        let (mut removed, now) = (0, now());
        let superseded = listed.superseded.iter();
        let superseded: Vec<PathBuf> = superseded
            .map(|path| within(&self.cache.lake, path))
            .collect();
        self.objects.remove(&superseded)?;
        let used = used(&listed);
        for (path, compaction) in &listed.compactions {
            let is_old = at_once || compaction.at_ns.saturating_add(GRACE_NS) < now;
            if !is_old || compaction.replaced.is_empty() {
                continue;
            }
            let old = compaction.replaced.iter();
            removed += (self.objects).remove(old.filter(|file| !used.contains(file)))?;
            let done = Compaction {
                replaced: Vec::new(),
                ..compaction.clone()
            };
            let file = within(&self.cache.lake, path);
            if let Some(found) = objects.get(&file) {
                self.objects.replace(found, &self.json(&file, &done)?)?;
            }
        }
        Ok(removed)
    }

    /// Removes what writers that were killed have left; how many.
    fn remove_left(&self) -> Result<usize> {
        // Before the list is read: what comes later is young.
        let there = self.objects.list(Path::new(""))?;
        let listed = self.list()?.listed;
        let mut used = used(&listed);
        used.extend((listed.compactions.values()).flat_map(|one| &one.replaced));
        // By the store's clock: this machine's may be days ahead.
        let newest = there.iter().map(|found| found.changed).max();
        let is_left = |found: &Found| {
            let age = newest.and_then(|newest| newest.duration_since(found.changed).ok());
            !found.file.starts_with(MANIFEST)
                && !used.contains(&found.file)
                && is_ours(&found.file)
                && age.is_some_and(|age| age > LEFT)
        };
        let left = there.iter().filter(|found| is_left(found));
        self.objects.remove(left.map(|found| &found.file))
    }

    /// One of the list's files, as text.
    pub(super) fn json(&self, file: &Path, what: &impl Serialize) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(what).map_err(io::Error::from);
        text.map_err(Error::write(self.objects.name(file)))
    }
}

/// The files that entries list.
pub fn used(listed: &Listed) -> HashSet<&PathBuf> {
    let entries = listed.entries.values();
    entries.flat_map(Entry::all_files).collect()
}
