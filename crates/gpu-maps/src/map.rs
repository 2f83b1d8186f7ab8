//! A map's memory, read as it is at the moment.

use crate::{PinnedError, Spec};
use memmap2::MmapRaw;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Before a hash's slots; its slots are {u64 tag; key; value}, each rounded up to 8 bytes.
const HASH_HEAD: u64 = 64;
/// In a tag's lowest two bits: the key is there.
const IS_THERE: u64 = 2;

/// A map that is open. Its holder sees what kernels write into a live one.
#[derive(Debug)]
pub struct Map {
    spec: Spec,
    memory: MmapRaw,
}

/// A key and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub values: Vec<Vec<u8>>,
}

impl Map {
    pub(crate) fn open(path: &Path, spec: Spec) -> Result<Map, PinnedError> {
        let read = |why| PinnedError::Read {
            path: path.to_owned(),
            why,
        };
        let file = File::open(path).map_err(read)?;
        let bytes = file.metadata().map_err(read)?.len();
        let needed = match is_hash(spec.kind) {
            true => Some(HASH_HEAD),
            false => u64::from(spec.max_entries)
                .checked_mul(spec.copies)
                .and_then(|values| values.checked_mul(spec.stride))
                .filter(|_| u64::from(spec.value_size) <= spec.stride),
        };
        if needed.is_none_or(|needed| needed > bytes) {
            return Err(PinnedError::Short(path.to_owned()));
        }
        let options = &mut memmap2::MmapOptions::new();
        let memory = options.map_raw_read_only(&file).map_err(read)?;
        Ok(Map { spec, memory })
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// A value of an array: the one of that thread, multiprocessor or warp, if a key has several.
    pub fn value(&self, key: u32, copy: u64) -> Option<Vec<u8>> {
        let at = self.place(key, copy)?;
        Some(self.bytes(at, self.spec.value_size as usize))
    }

    /// The first 8 bytes of a value as a number (fewer, if it has fewer); whole also while it changes.
    pub fn number(&self, key: u32, copy: u64) -> Option<u64> {
        let at = self.place(key, copy)?;
        if self.spec.value_size >= 8 && at.is_multiple_of(8) {
            return self.word(at);
        }
        let mut word = [0; 8];
        let bytes = self.bytes(at, self.spec.value_size.min(8) as usize);
        word[..bytes.len()].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word))
    }

    /// The numbers of all copies of a key together.
    pub fn sum(&self, key: u32) -> u64 {
        let copies = (0..self.spec.copies).filter_map(|copy| self.number(key, copy));
        copies.fold(0, u64::wrapping_add)
    }

    /// All keys with their values: of an array all there can be, of a hash those that are there.
    pub fn entries(&self) -> Vec<Entry> {
        if is_hash(self.spec.kind) {
            return self.hash_entries();
        }
        let entry = |key: u32| Entry {
            key: key.to_le_bytes().to_vec(),
            values: (0..self.spec.copies)
                .filter_map(|copy| self.value(key, copy))
                .collect(),
        };
        (0..self.spec.max_entries).map(entry).collect()
    }

    fn hash_entries(&self) -> Vec<Entry> {
        let (key, value) = (self.spec.key_size as usize, self.spec.value_size as usize);
        let value_at = 8 + key.next_multiple_of(8);
        let stride = self.spec.stride as usize;
        if stride < value_at + value || !stride.is_multiple_of(8) {
            return Vec::new();
        }
        let slots = (HASH_HEAD as usize..self.memory.len()).step_by(stride);
        let whole = slots.filter(|at| at + stride <= self.memory.len());
        whole
            .filter(|at| self.word(*at).is_some_and(|tag| tag & 3 == IS_THERE))
            .map(|at| Entry {
                key: self.bytes(at + 8, key),
                values: vec![self.bytes(at + value_at, value)],
            })
            .collect()
    }

    /// Where a value begins.
    fn place(&self, key: u32, copy: u64) -> Option<usize> {
        let spec = &self.spec;
        if is_hash(spec.kind) || key >= spec.max_entries || copy >= spec.copies {
            return None;
        }
        // What is open is as long as that.
        usize::try_from((u64::from(key) * spec.copies + copy) * spec.stride).ok()
    }

    fn word(&self, at: usize) -> Option<u64> {
        if !at.is_multiple_of(8) || at.checked_add(8)? > self.memory.len() {
            return None;
        }
        // SAFETY: inside of the mapping, which begins at a page; others may write it meanwhile.
        let word = unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU64>() };
        Some(word.load(Ordering::Acquire))
    }

    fn bytes(&self, at: usize, count: usize) -> Vec<u8> {
        let end = at.saturating_add(count).min(self.memory.len());
        let all = (at..end).map(|at| {
            // SAFETY: as above.
            let byte = unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU8>() };
            byte.load(Ordering::Relaxed)
        });
        all.collect()
    }
}

fn is_hash(kind: u32) -> bool {
    matches!(kind, 1 | 1501)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folder, write_index};
    use std::fs;
    use std::os::unix::fs::FileExt;

    fn folder(spec: &Spec, bytes: &[u8]) -> (tempfile::TempDir, Folder) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(&spec.file), bytes).expect("written");
        write_index(folder.path(), std::slice::from_ref(spec)).expect("written");
        let opened = Folder::open(folder.path()).expect("opened");
        (folder, opened)
    }

    fn spec(kind: u32, max_entries: u32, copies: u64, stride: u64) -> Spec {
        Spec {
            name: "m".into(),
            kind,
            key_size: 4,
            value_size: 8,
            max_entries,
            copies,
            stride,
            pid: 1,
            context: 0,
            is_live: true,
            file: "m.bin".into(),
        }
    }

    #[test]
    fn an_array_is_read_as_it_changes() {
        let words: Vec<u8> = (1u64..=6).flat_map(u64::to_le_bytes).collect();
        let (place, folder) = folder(&spec(1512, 2, 3, 8), &words);
        let map = folder.map("m").expect("a map");
        assert_eq!((map.number(0, 2), map.number(1, 0)), (Some(3), Some(4)));
        assert_eq!((map.sum(0), map.sum(1)), (6, 15));
        assert_eq!((map.number(2, 0), map.number(0, 3)), (None, None));
        assert_eq!(map.value(1, 2), Some(vec![6, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(map.entries()[1].values.len(), 3);
        let file = File::options().write(true).open(place.path().join("m.bin"));
        let changed = file.expect("open").write_all_at(&100u64.to_le_bytes(), 8);
        changed.expect("written");
        assert_eq!(map.sum(0), 104);
    }

    #[test]
    fn a_hash_has_the_keys_that_are_there() {
        let mut bytes = vec![0; 64];
        for (tag, key, value) in [
            (4u64 | 2, 7u64, 70u64),
            (8 | 3, 8, 80),
            (0, 0, 0),
            (12 | 2, 9, 90),
        ] {
            bytes.extend([tag, key, value].iter().flat_map(|word| word.to_le_bytes()));
        }
        let (_place, folder) = folder(&spec(1501, 4, 1, 24), &bytes);
        let map = folder.map("m").expect("a map");
        let found: Vec<(u8, u8)> = map
            .entries()
            .iter()
            .map(|entry| (entry.key[0], entry.values[0][0]))
            .collect();
        assert_eq!(found, [(7, 70), (9, 90)]);
        assert_eq!(map.number(7, 0), None, "keys of a hash are no places");
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        for spec in [
            spec(1513, 3, 1, 8),
            spec(1513, u32::MAX, u64::MAX, 8),
            spec(1513, 1, 1, 4),
            spec(1501, 1, 1, 24),
        ] {
            let (_place, folder) = folder(&spec, &[0; 16]);
            assert!(
                matches!(folder.map("m"), Err(PinnedError::Short(_))),
                "{spec:?}"
            );
        }
    }
}
