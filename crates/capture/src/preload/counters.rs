//! The page that all processes of a session count in: made before the program starts, so that nobody
//! needs any rights to count.

use super::PreloadError;
use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters};
use std::fs::{File, Permissions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Read, not mapped: a program that traces itself may truncate the file, and only its own counts are gone then.
#[derive(Debug)]
pub struct CounterPage(File);

impl CounterPage {
    pub fn create(folder: &Path) -> Result<Self, PreloadError> {
        let path = folder.join(COUNTERS_FILE);
        let made = || {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&path)?;
            // Written, so that it has memory: counting must not fail.
            file.write_all_at(&[0; COUNTERS_SIZE], 0)?;
            // Processes of other users count, too; only they and we can enter the folder.
            file.set_permissions(Permissions::from_mode(0o666))?;
            Ok(file)
        };
        made()
            .map(CounterPage)
            .map_err(|source| PreloadError::Options { path, source })
    }

    /// The page, for who opens and closes gates in it.
    pub fn file(&self) -> std::io::Result<File> {
        self.0.try_clone()
    }

    /// Nanoseconds that recording a call costs, as measured in the program; 0: nobody has yet.
    pub fn cost(&self) -> f64 {
        self.word(offset_of!(Counters, cost)) as f64 / 10.0
    }

    /// The same of a call that is shed.
    pub fn shed_cost(&self) -> f64 {
        self.word(offset_of!(Counters, shed_cost)) as f64 / 10.0
    }

    /// Calls that were not recorded and that no ring counts.
    pub fn lost(&self) -> u64 {
        self.word(offset_of!(Counters, lost))
    }

    /// Ticks of the TSC that the program waited for us, beside recording itself.
    pub fn spent(&self) -> u64 {
        self.word(offset_of!(Counters, spent))
    }

    fn word(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        let read = self.0.read_exact_at(&mut bytes, offset as u64);
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }
}
