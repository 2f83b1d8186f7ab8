//! Whether a lake is whole, and removing what is old.

use crate::{Entry, Error, Lake, Result};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// What a Parquet file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// What is wrong with a lake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    pub traces: usize,
    pub files: usize,
    pub bytes: u64,
    pub rows: u64,
    /// Listed, and not there or not whole: what is wrong with each.
    pub broken: Vec<String>,
    /// There, and not listed: what a crash left. Adding the trace again lists them.
    pub unlisted: Vec<PathBuf>,
}

/// Compares the list with what is there.
pub fn check(lake: &Lake) -> Result<Checked> {
    let mut checked = Checked::default();
    let mut listed = BTreeSet::new();
    for entry in lake.entries()? {
        checked.traces += 1;
        checked.rows += entry.rows;
        let mut bytes = 0;
        for file in &entry.files {
            checked.files += 1;
            listed.insert(lake.root().join(file));
            match whole(&lake.root().join(file)) {
                Ok(size) => bytes += size,
                Err(why) => checked.broken.push(format!("{}: {why}", file.display())),
            }
        }
        if bytes != entry.bytes && checked.broken.is_empty() {
            let (found, wanted) = (bytes, entry.bytes);
            checked.broken.push(format!(
                "{}: {found} bytes, {wanted} were written",
                entry.name
            ));
        }
        checked.bytes += bytes;
    }
    for run in folders(lake.root(), "run=") {
        for host in folders(&run, "host=") {
            for rank in folders(&host, "rank=") {
                let files = fs::read_dir(&rank).into_iter().flatten().flatten();
                let files = files
                    .map(|file| file.path())
                    .filter(|file| !listed.contains(file));
                checked.unlisted.extend(files);
            }
        }
    }
    checked.unlisted.sort();
    Ok(checked)
}

fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let found = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = found.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).collect()
}

/// A file's size, if it begins and ends as a Parquet file does.
fn whole(path: &Path) -> std::result::Result<u64, String> {
    let read = || -> std::io::Result<(u64, [u8; 4], [u8; 4])> {
        let mut file = File::open(path)?;
        let (mut head, mut tail) = ([0; 4], [0; 4]);
        file.read_exact(&mut head)?;
        let end = file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut tail)?;
        Ok((end + 4, head, tail))
    };
    match read() {
        Ok((size, head, tail)) if &head == MAGIC && &tail == MAGIC => Ok(size),
        Ok(_) => Err("not a whole Parquet file".into()),
        Err(why) => Err(why.to_string()),
    }
}

/// Removes traces that ended before this moment (nanoseconds since 1970): from the list first, then their files.
pub fn expire(lake: &Lake, before_ns: i64) -> Result<Vec<Entry>> {
    let old: Vec<Entry> = (lake.entries()?.into_iter())
        .filter(|entry| entry.end_ns < before_ns)
        .collect();
    for entry in &old {
        let listed = lake.entry_path(&entry.name);
        fs::remove_file(&listed).map_err(Error::write(&listed))?;
        for file in &entry.files {
            let path = lake.root().join(file);
            fs::remove_file(&path).map_err(Error::write(&path))?;
            // Folders that are empty now.
            for folder in path.ancestors().skip(1).take(3) {
                let _ = fs::remove_dir(folder);
            }
        }
    }
    Ok(old)
}
