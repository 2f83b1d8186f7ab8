//! Probes inside GPU kernels, seen from the tracer: orders for the library in the traced program, the
//! rings that device code writes, and what its maps hold at the end.
//!
//! What is injected lives in the crate `gpu-probes`; both share the layout of maps and rings
//! (`ptx::device`). Rings are files that are mapped here too: records arrive while kernels run.

mod allocations;
mod clock;
mod host;
mod intervals;
mod live_pins;
mod maps;
mod notes;
mod pins;
pub mod programs;
mod reading;
mod records;
mod report;
mod results;
mod ring;
mod room;
mod source;
mod unprobed;
pub mod words;

pub use allocations::{Allocation, Allocations};
pub use clock::DeviceClock;
pub use host::{Host, HostError, HostFound, HostMap, HostPart, HostProgram};
pub use intervals::{Interval, ShowInterval};
pub use live_pins::{PinError, file_name, in_file_name, put, spec};
pub use maps::{LiveMap, MapDump, MapEntry, dumps, is_set, live_maps};
pub use notes::{KernelNotes, Notes};
pub use pins::leave_maps;
pub use programs::Probes;
pub use reading::{MapReading, ReadingCause, map_readings};
pub use report::answer_so_far;
pub use results::ProbeResults;
pub use ring::{Raw, RecordHandler, RingOwner, RingTotals, Rings};
pub use room::{RoomError, check_room};
pub use source::PROBES;
pub use unprobed::Unprobed;

use crate::preload::folder::Folder;
use ptx::device::Orders;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Names the folder to the library in the traced program.
const VARIABLE: &str = "CUTRACE_GPU_PROBES";

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Folder(#[from] crate::preload::PreloadError),
    #[error("cannot write the instructions for GPU probes: {0}")]
    Orders(io::Error),
}

/// A run with probes: its folder, with the orders in it. Removed when dropped.
pub struct Session {
    folder: Folder,
}

impl Session {
    /// Made before the program starts.
    pub fn create(orders: &Orders, near: Option<&Path>) -> Result<Session, ProbeError> {
        let folder = Folder::create(near)?;
        orders.write(folder.path()).map_err(ProbeError::Orders)?;
        Ok(Session { folder })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the program is to find in its environment. The library itself is to be preloaded.
    pub fn environment(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.folder.path().into())
    }
}

/// `PREFIX.PID.CONTEXT.NAME`: the files of one sort.
fn files(folder: &Path, prefix: &str) -> Vec<(PathBuf, u32, u32, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mut words = name.strip_prefix(prefix)?.strip_prefix('.')?.splitn(3, '.');
            let pid = words.next()?.parse().ok()?;
            let context = words.next()?.parse().ok()?;
            let last = words.next()?.to_owned();
            (!last.contains('.')).then(|| (entry.path(), pid, context, last))
        })
        .collect();
    found.sort();
    found
}
