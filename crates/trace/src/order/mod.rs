//! Putting a finished trace in the order of time: the one sort on disk, for what came too late for
//! [`event::Reorder`].
//!
//! A tracer writes records as they come, and a thread that was held up hands its own in late. What is
//! out of order is taken out in one pass over the file and put where it belongs in a second one, in
//! bounded memory: late records are few, and where they are not, they go to a file of their own.

mod arrow;
mod late;
mod lines;

use crate::{Error, Format, Result, convert::unfinished_name};
use late::Late;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
};

/// Puts the records of a trace in order; those of the same moment stay as they are. The file is
/// replaced when the new one is whole: until then, and after an error, it is as it was. How many
/// records have moved.
pub fn put_in_order(path: impl AsRef<Path>) -> Result<u64> {
    put_in_order_within(path.as_ref(), late::MOST_BYTES)
}

/// `memory`: bytes of late records that are kept in it.
fn put_in_order_within(path: &Path, memory: usize) -> Result<u64> {
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    // A link stays one.
    let path = &path.canonicalize().map_err(failed)?;
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let unfinished = unfinished_name(path);
    let ordered = create_like(&unfinished, &found)
        .map_err(|source| Error::Create {
            path: unfinished.clone(),
            source,
        })
        .and_then(|out| match Format::of(path) {
            Some(Format::Arrow) => arrow::order(path, out, Late::new(&unfinished, memory)),
            _ => lines::order(path, out, Late::new(&unfinished, memory)),
        })
        .and_then(|moved| {
            fs::rename(&unfinished, path).map_err(failed)?;
            Ok(moved)
        });
    if ordered.is_err() {
        // The error in hand says more than one about the leftover would.
        let _ = fs::remove_file(&unfinished);
    }
    ordered
}

/// A new file with the rights and the owner of another.
fn create_like(path: &Path, other: &fs::Metadata) -> io::Result<File> {
    let file = (File::options().write(true).create_new(true).mode(0o600)).open(path)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (other.uid(), other.gid()) {
        fchown(&file, Some(other.uid()), Some(other.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(other.mode() & 0o7777))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
