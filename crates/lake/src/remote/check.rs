//! Whether a lake in a store is whole: by the sizes of its objects, or by reading every row of them.

use super::{Remote, fetch::aside, objects::Found};
use crate::{
    BrokenFile, Checked, Entry, Result,
    aside::Aside,
    check::{Looked, compare, rows_of},
    layout::MANIFEST,
    manifest::Listed,
};
use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

impl Remote {
    /// As `check`, for this lake. `rows`: fetches every file, whatever the cache has.
    pub fn check(&self, rows: bool) -> Result<Checked> {
        let listed = self.list()?.listed;
        let found = self.objects.list(Path::new(""))?.into_iter();
        let found: HashMap<PathBuf, Found> = found
            .filter(|found| !found.file.starts_with(MANIFEST))
            .map(|found| (found.file.clone(), found))
            .collect();
        let there = found.keys().cloned().collect();
        let mut checked = compare(&listed, there, &mut |file| {
            let gone = || io::Error::new(io::ErrorKind::NotFound, "no such object");
            let found = found.get(file).ok_or_else(gone)?;
            match rows {
                true => self.rows_of(found),
                false => Ok(Looked {
                    rows: None,
                    bytes: found.bytes,
                }),
            }
        });
        let sizes = |file: &PathBuf| found.get(file).map(|found| found.bytes);
        checked.broken.extend(wrong_sizes(&listed, &sizes));
        Ok(checked)
    }

    /// Fetches a file, reads its rows, and drops it.
    fn rows_of(&self, found: &Found) -> std::result::Result<Looked, BrokenFile> {
        let unfetched = |why| BrokenFile::Unfetched(Box::new(why));
        let work = Aside::new(&self.cache.lake, "check").map_err(unfetched)?;
        let fetched = (self.objects).fetch_aside(&work.folder, std::slice::from_ref(found));
        fetched.map_err(unfetched)?;
        rows_of(&aside(&work.folder, 0), true)
    }
}

/// Recordings, and compactions, whose files have other sizes than they were written with. Those with a file missing are named
/// for that.
fn wrong_sizes(listed: &Listed, size: &dyn Fn(&PathBuf) -> Option<u64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut compare = |what: &str, files: &mut dyn Iterator<Item = &PathBuf>, wanted: u64| {
        let found: Option<u64> = files.map(size).sum();
        if let Some(found) = found.filter(|found| *found != wanted) {
            wrong.push(format!(
                "{what}: its files have {found} bytes, {wanted} were written"
            ));
        }
    };
    let mut compacted: HashSet<&String> = HashSet::new();
    for (path, compaction) in &listed.compactions {
        compacted.extend(compaction.entries.iter().map(|entry| &entry.name));
        let first = compaction.entries.first();
        let is_current = |entry: &&Entry| listed.entries.get(&entry.name) == Some(*entry);
        if let (Some(first), Some(bytes)) = (first.filter(is_current), compaction.bytes) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            compare(&name, &mut first.all_files(), bytes);
        }
    }
    let own = listed.entries.values();
    for entry in own.filter(|entry| !compacted.contains(&entry.name)) {
        compare(&entry.name, &mut entry.all_files(), entry.bytes);
    }
    wrong
}
