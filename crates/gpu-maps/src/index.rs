//! The index of a folder: which maps there are, and how they lie in their files.

use crate::{Map, PinnedError};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The index's name, and its first line.
pub const INDEX: &str = "maps";
const HEAD: &str = "cutrace maps 1";

/// A map of one context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    /// The number of its type: docs/GPU-BPF.md.
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    /// Values that a key has: one, or one for each thread, multiprocessor or warp.
    pub copies: u64,
    /// Bytes from one value, or slot of a hash, to the next.
    pub stride: u64,
    /// Whose map it is.
    pub pid: u32,
    pub context: u32,
    /// Whether kernels may still change it.
    pub is_live: bool,
    /// Its file in the folder.
    pub file: String,
}

/// A line: numbers, `live` or `kept`, the file, and the name, which may have spaces in it.
impl fmt::Display for Spec {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let name = self.name.replace(['\n', '\r'], " ");
        write!(
            to,
            "{} {} {} {} {} {} {} {} {} {} {name}",
            self.kind,
            self.key_size,
            self.value_size,
            self.max_entries,
            self.copies,
            self.stride,
            self.pid,
            self.context,
            if self.is_live { "live" } else { "kept" },
            self.file
        )
    }
}

impl Spec {
    fn parse(line: &str) -> Option<Spec> {
        let words: Vec<&str> = line.splitn(11, ' ').collect();
        let &[
            kind,
            key,
            value,
            entries,
            copies,
            stride,
            pid,
            context,
            state,
            file,
            name,
        ] = words.as_slice()
        else {
            return None;
        };
        // A file of this folder, and no other.
        let is_here = !file.is_empty() && !file.contains('/') && file != "." && file != "..";
        is_here.then_some(Spec {
            name: name.to_owned(),
            kind: kind.parse().ok()?,
            key_size: key.parse().ok()?,
            value_size: value.parse().ok()?,
            max_entries: entries.parse().ok()?,
            copies: copies.parse().ok()?,
            stride: stride.parse().ok()?,
            pid: pid.parse().ok()?,
            context: context.parse().ok()?,
            is_live: match state {
                "live" => true,
                "kept" => false,
                _ => return None,
            },
            file: file.to_owned(),
        })
    }
}

/// What is pinned in a folder, as it was when it was opened.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    maps: Vec<Spec>,
}

impl Folder {
    pub fn open(path: impl Into<PathBuf>) -> Result<Folder, PinnedError> {
        let path = path.into();
        let index = path.join(INDEX);
        let text = fs::read_to_string(&index).map_err(|why| PinnedError::Read {
            path: index.clone(),
            why,
        })?;
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(PinnedError::NoIndex(index));
        }
        let mut maps = Vec::new();
        for (line, text) in (2..).zip(lines) {
            let path = index.clone();
            maps.push(Spec::parse(text).ok_or(PinnedError::Line { path, line })?);
        }
        Ok(Folder { path, maps })
    }

    /// All maps, of all contexts.
    pub fn maps(&self) -> &[Spec] {
        &self.maps
    }

    /// The first map of that name: of the first context that has it.
    pub fn map(&self, name: &str) -> Result<Map, PinnedError> {
        match self.maps.iter().find(|spec| spec.name == name) {
            Some(spec) => self.open_map(spec),
            None => Err(PinnedError::NoMap {
                name: name.to_owned(),
                there: self.maps.iter().map(|spec| spec.name.clone()).collect(),
            }),
        }
    }

    pub fn open_map(&self, spec: &Spec) -> Result<Map, PinnedError> {
        Map::open(&self.path.join(&spec.file), spec.clone())
    }
}

/// Writes a folder's index; who reads it at that moment sees the old one or the new one.
pub fn write_index(folder: &Path, maps: &[Spec]) -> io::Result<()> {
    let lines: String = maps.iter().map(|spec| format!("{spec}\n")).collect();
    let aside = folder.join(format!("{INDEX}.{}", std::process::id()));
    fs::write(&aside, format!("{HEAD}\n{lines}"))?;
    fs::rename(&aside, folder.join(INDEX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            name: "a name".into(),
            kind: 1513,
            key_size: 4,
            value_size: 8,
            max_entries: 10,
            copies: 1,
            stride: 8,
            pid: 42,
            context: 0,
            is_live: true,
            file: "a_name.42.0.bin".into(),
        }
    }

    #[test]
    fn an_index_is_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let maps = [
            spec(),
            Spec {
                is_live: false,
                name: "other".into(),
                ..spec()
            },
        ];
        write_index(folder.path(), &maps).expect("written");
        let read = Folder::open(folder.path()).expect("read");
        assert_eq!(read.maps(), maps);
        let missing = read.map("counts").expect_err("there is none").to_string();
        assert_eq!(
            missing,
            "no map counts is pinned; pinned maps: a name, other"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn nonsense_is_no_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Folder::open(folder.path());
        assert!(matches!(open(), Err(PinnedError::Read { .. })));
        let index = folder.path().join(INDEX);
        fs::write(&index, "hello\n").expect("written");
        assert!(matches!(open(), Err(PinnedError::NoIndex(_))));
        let good = spec().to_string();
        for line in [
            "1 2 3",
            "",
            &good.replace("live", "dead"),
            &good.replace("a_name.42.0.bin", "../other"),
            &good.replace("1513", "-1"),
        ] {
            fs::write(&index, format!("{HEAD}\n{good}\n{line}\n")).expect("written");
            assert!(
                matches!(open(), Err(PinnedError::Line { line: 3, .. })),
                "{line}"
            );
        }
    }
}
