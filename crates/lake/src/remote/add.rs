//! Adding a trace to a lake in a store: written here, uploaded, and then listed, if nobody was faster.

use super::{Remote, entries::entry_file};
use crate::{
    Added, Entry, Error, Lake, Result,
    aside::{Aside, Held},
};
use analyse::Report;
use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    path::{Path, PathBuf},
};

impl Remote {
    /// As `add_with`, but into this lake.
    pub fn add_with(
        &self,
        path: &Path,
        report: &mut dyn FnMut(&Path) -> Option<Report>,
        tick: &mut dyn FnMut(u64),
    ) -> Result<Added> {
        if !self.address.within.as_os_str().is_empty() {
            let why = "traces are added to a whole lake".to_owned();
            return Err(Error::NotAnAddress(self.address.url(), why));
        }
        let (_, name) = crate::add::recording(path)?;
        if let Some(entry) = self.entry(&name)? {
            return Ok(Added::Known(entry));
        }
        // Of two writers on this machine, the second waits.
        let _held = Held::recording(&self.cache.lake, &name)?;
        if let Some(entry) = self.entry(&name)? {
            return Ok(Added::Known(entry));
        }
        let work = Aside::new(&self.cache.lake, &name)?;
        let staging = Lake::at(work.folder.join("lake")).with_sizes(self.cache.lake.sizes);
        let added = crate::add::add_with(&staging, path, report, tick)?;
        self.upload_entry(&staging, added.entry())
    }

    /// Uploads a recording's files, and lists them.
    fn upload_entry(&self, staging: &Lake, written: &Entry) -> Result<Added> {
        let suffix = only_name();
        let entry = Entry {
            files: (written.files.iter())
                .map(|file| renamed(file, &written.name, &suffix))
                .collect(),
            tables: (written.tables.iter())
                .map(|(table, file)| (*table, renamed(file, &written.name, &suffix)))
                .collect(),
            ..written.clone()
        };
        let text = serde_json::to_vec(&entry).map_err(io::Error::from);
        let text = text.map_err(Error::write(self.objects.name(&entry_file(&entry.name))))?;
        let mut done = 0;
        let mut list = || -> Result<bool> {
            for (from, to) in written.all_files().zip(entry.all_files()) {
                let from = staging.root().join(from);
                self.objects.upload(&from, to, &mut done, written.bytes)?;
            }
            self.objects.create(&entry_file(&entry.name), &text)
        };
        match list() {
            Ok(true) => Ok(Added::New(entry)),
            Ok(false) => match self.entry(&entry.name)? {
                // Our own: the answer to the first request was lost.
                Some(known) if known.files == entry.files => Ok(Added::New(known)),
                Some(known) => {
                    self.objects.remove(entry.all_files())?;
                    Ok(Added::Known(known))
                }
                None => Err(Error::Busy(self.address.lake.clone().into())),
            },
            Err(why) => {
                // Unlisted as they are, they do no harm; the entry may have been written, though the store did not say so.
                if matches!(self.entry(&entry.name), Ok(None)) {
                    let _ = self.objects.remove(entry.all_files());
                }
                Err(why)
            }
        }
    }
}

/// The name of a file that nobody else writes: two writers of one recording do not write into each other's files.
fn renamed(file: &Path, recording: &str, suffix: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.strip_prefix(recording).unwrap_or(&name);
    file.with_file_name(format!("{recording}.{suffix}{rest}"))
}

/// 64 random bits, as text.
pub fn only_name() -> String {
    // Seeded by the system, anew for each.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
