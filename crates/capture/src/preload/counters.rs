//! The page that all processes of a session count in: made before the program starts, so that nobody
//! needs any rights to count.

use super::PreloadError;
use super::ring::Mapping;
use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub struct CounterPage(Mapping);

impl CounterPage {
    pub fn create(folder: &Path) -> Result<Self, PreloadError> {
        let path = folder.join(COUNTERS_FILE);
        let made = || {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&path)?;
            // Written, so that it has memory: counting must not fail.
            file.write_all_at(&[0; COUNTERS_SIZE], 0)?;
            Mapping::new(&file, COUNTERS_SIZE)
        };
        made()
            .map(CounterPage)
            .map_err(|source| PreloadError::Options { path, source })
    }

    /// Calls that were not recorded and that no ring counts.
    pub fn lost(&self) -> u64 {
        let word = self.0.word(offset_of!(Counters, lost));
        word.load(Ordering::Relaxed)
    }

    /// Ticks of the TSC that the program waited for us, beside recording itself.
    pub fn spent(&self) -> u64 {
        let word = self.0.word(offset_of!(Counters, spent));
        word.load(Ordering::Relaxed)
    }
}
