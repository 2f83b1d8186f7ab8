//! Removing recordings that are old, or of runs that nobody wants any more.

use crate::{
    Entry, Error, Lake, Result,
    aside::{Aside, Held},
    compact::{remove, remove_replaced, rewrite},
    manifest::list,
};
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// Which recordings go: all that hold.
#[derive(Debug, Clone, Default)]
pub struct Expired {
    /// Ended before this moment, in nanoseconds since 1970.
    pub before_ns: Option<i64>,
    /// Of runs whose names match.
    pub runs: Option<String>,
}

impl Expired {
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        (self.before_ns).is_none_or(|before| entry.end_ns < before)
            && (self.runs.as_ref())
                .is_none_or(|runs| event::matches_glob(runs.as_bytes(), entry.run.as_bytes()))
            && (self.before_ns.is_some() || self.runs.is_some())
    }
}

/// Removes recordings: from the list first, then their files.
pub fn expire(lake: &Lake, which: &Expired) -> Result<Vec<Entry>> {
    remove_recordings(lake, |entry| which.has(entry))
}

/// Likewise, whichever they are.
pub fn remove_recordings(lake: &Lake, goes: impl Fn(&Entry) -> bool) -> Result<Vec<Entry>> {
    let Some(_held) = Held::try_now(lake, "compact")? else {
        return Err(Error::Busy(lake.root().into()));
    };
    remove_replaced(lake, false)?;
    let listed = lake.listed()?;
    let gone: BTreeMap<String, Entry> = (listed.entries.iter())
        .filter(|(_, entry)| goes(entry))
        .map(|(name, entry)| (name.clone(), entry.clone()))
        .collect();
    let names: HashSet<String> = gone.keys().cloned().collect();
    let mut files: Vec<PathBuf> = Vec::new();
    for (path, compaction) in &listed.compactions {
        let left = compaction
            .entries
            .iter()
            .any(|entry| !names.contains(&entry.name));
        if !compaction
            .entries
            .iter()
            .any(|entry| names.contains(&entry.name))
        {
            continue;
        }
        if !left {
            remove(path)?;
            files.extend(compaction.replaced.iter().cloned());
            continue;
        }
        // Others are in the same files: these become new ones, and the list changes at one moment.
        let first = compaction
            .entries
            .first()
            .and_then(|entry| entry.files.first());
        let partition = first.and_then(|file| file.parent()).map(Path::to_owned);
        let name = format!("{:x}-{}", compaction.at_ns + 1, std::process::id());
        let (mut new, _) = rewrite(
            lake,
            &partition.unwrap_or_default(),
            &compaction.entries,
            &names,
            &name,
            compaction.at_ns + 1,
        )?;
        new.replaced.extend(compaction.replaced.iter().cloned());
        let work = Aside::new(lake, &name)?;
        list(&work.folder, path, &new)?;
    }
    for (name, entry) in &gone {
        remove(&lake.entry_path(name))?;
        files.extend(entry.files.iter().chain(entry.tables.values()).cloned());
    }
    let used: HashSet<PathBuf> = (lake.listed()?.entries.values())
        .flat_map(|entry| entry.files.iter().chain(entry.tables.values()).cloned())
        .collect();
    for file in files.iter().filter(|file| !used.contains(*file)) {
        let path = lake.root().join(file);
        remove(&path)?;
        // Folders that are empty now.
        for folder in path.ancestors().skip(1).take(3) {
            let _ = fs::remove_dir(folder);
        }
    }
    Ok(gone.into_values().collect())
}
