//! Reading Parquet back as a trace: a file that cutrace exported, a file of a lake, or a recording of a lake, which may
//! have several files, by the name of its entry (`LAKE/_manifest/NAME.json`).
//!
//! Rows of a lake are sorted by thread. They are read by threads, several at once, and come out in the order of time.

mod cells;
mod cursor;
mod recording;
mod records;
mod rows;

pub use rows::ParquetRows;

use crate::{Parts, Result, Warnings, source::Opened};
use recording::Recording;
use std::{fs::File, io::Read, path::Path};

const MAGIC: &[u8; 4] = b"PAR1";
/// The folder of a lake's entries.
const MANIFEST: &str = "_manifest";

/// Whether a path is a Parquet file, or names a recording of a lake.
pub fn is_recording(path: &Path) -> bool {
    if is_entry(path) {
        return true;
    }
    let mut magic = [0; 4];
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let read = is_file.then(|| File::open(path)?.read_exact(&mut magic));
    matches!(read, Some(Ok(()))) && &magic == MAGIC
}

fn is_entry(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder.is_some_and(|folder| folder == MANIFEST)
        && path.extension().is_some_and(|found| found == "json")
}

pub fn open(path: &Path, parts: Parts) -> Result<Opened> {
    let recording = match is_entry(path) {
        true => Recording::of_entry(path)?,
        false => Recording::of_file(path)?,
    };
    Ok(Opened {
        meta: recording.meta.clone(),
        warnings: Warnings::default(),
        lines: 0,
        batches: Box::new(records::Records::new(recording, parts)?),
    })
}
