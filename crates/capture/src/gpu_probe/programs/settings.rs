//! What maps start with: `--set MAP[KEY]=VALUE`, as programs on the host would put it there.

use std::{
    io,
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
};

use gpubpf::Map;

/// Keys of one setting, and bytes of one file.
const MOST_KEYS: u64 = 1 << 24;
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub map: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// The same numbers for each key.
    Numbers(Range<u64>, Vec<i128>),
    /// All values, as they lie in memory.
    File(PathBuf),
}

/// Keys and values, in bytes.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Why a text is no setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("MAP[KEY]=NUMBER, MAP[FROM..TO]=NUMBER,NUMBER… or MAP=@FILE")]
    Form,
    #[error("'{0}' is not a key")]
    Key(String),
    #[error("'{0}' is not a number")]
    Number(String),
}

/// Why a setting does not suit its map.
#[derive(Debug, thiserror::Error)]
pub enum EntriesError {
    #[error("--set {map}: its keys are not numbers")]
    Keys { map: String },
    #[error("--set {map}[{key}]: it has {entries} entries")]
    PastEnd { map: String, key: u64, entries: u32 },
    #[error(
        "--set {map}: a value of {bytes} bytes cannot hold {numbers} numbers of 1, 2, 4 or 8 bytes"
    )]
    Count {
        map: String,
        bytes: usize,
        numbers: usize,
    },
    #[error("--set {map}: {number} does not fit in {bytes} bytes")]
    TooLarge {
        map: String,
        number: i128,
        bytes: usize,
    },
    #[error("--set {map}: {path}: {why}")]
    File {
        map: String,
        path: String,
        why: FileError,
    },
}

/// Why a file has no values for a map.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("too large")]
    TooLarge,
    #[error("{bytes} bytes are not a whole number of {value_size}-byte values")]
    Size { bytes: usize, value_size: usize },
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Setting, SettingError> {
        let (place, value) = text.split_once('=').ok_or(SettingError::Form)?;
        if let Some(file) = value.strip_prefix('@') {
            let what = What::File(file.into());
            let map = place.to_owned();
            return match place.is_empty() || file.is_empty() {
                true => Err(SettingError::Form),
                false => Ok(Setting { map, what }),
            };
        }
        let (map, keys) = place
            .strip_suffix(']')
            .and_then(|place| place.split_once('['))
            .ok_or(SettingError::Form)?;
        let key = |text: &str| {
            let key = number(text).and_then(|key| u64::try_from(key).ok());
            key.ok_or_else(|| SettingError::Key(text.to_owned()))
        };
        let keys = match keys.split_once("..") {
            Some((from, to)) => key(from)?..key(to)?,
            None => {
                let only = key(keys)?;
                only..only.checked_add(1).ok_or(SettingError::Form)?
            }
        };
        if keys.is_empty() || keys.end - keys.start > MOST_KEYS || map.is_empty() {
            return Err(SettingError::Form);
        }
        let numbers = value
            .split(',')
            .map(|text| number(text).ok_or_else(|| SettingError::Number(text.to_owned())));
        Ok(Setting {
            map: map.to_owned(),
            what: What::Numbers(keys, numbers.collect::<Result<_, _>>()?),
        })
    }
}

/// What must be added to CLOCK_MONOTONIC to make it CLOCK_REALTIME, in ns.
const REALTIME: &str = "realtime-monotonic";

fn number(text: &str) -> Option<i128> {
    let text = text.trim();
    if text == REALTIME {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let realtime = i128::try_from(since.ok()?.as_nanos()).ok()?;
        return Some(realtime - i128::from(crate::clock::monotonic()));
    }
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Setting {
    /// For a map of these sizes.
    pub fn entries(&self, map: &Map) -> Result<Entries, EntriesError> {
        let name = &self.map;
        let (key_size, value_size) = (map.key_size as usize, map.value_size as usize);
        if key_size > 8 {
            return Err(EntriesError::Keys { map: name.clone() });
        }
        let bytes_of = |key: u64| key.to_le_bytes()[..key_size].to_vec();
        let check = |key: u64| {
            let is_past_end = map.kind.is_array() && key >= map.max_entries.into();
            match is_past_end || key_size < 8 && key >> (8 * key_size) != 0 {
                true => Err(EntriesError::PastEnd {
                    map: name.clone(),
                    key,
                    entries: map.max_entries,
                }),
                false => Ok(()),
            }
        };
        match &self.what {
            What::Numbers(keys, numbers) => {
                check(keys.end - 1)?;
                let value = value(name, numbers, value_size)?;
                Ok(keys
                    .clone()
                    .map(|key| (bytes_of(key), value.clone()))
                    .collect())
            }
            What::File(path) => {
                let bytes = values_in(path, value_size).map_err(|why| EntriesError::File {
                    map: name.clone(),
                    path: path.display().to_string(),
                    why,
                })?;
                let values = bytes.chunks_exact(value_size);
                check(values.len() as u64 - 1)?;
                let entries = (0..).zip(values);
                Ok(entries
                    .map(|(key, value)| (bytes_of(key), value.to_vec()))
                    .collect())
            }
        }
    }
}

/// A file's bytes: some values of this size.
fn values_in(path: &Path, value_size: usize) -> Result<Vec<u8>, FileError> {
    if std::fs::metadata(path)?.len() > MOST_BYTES {
        return Err(FileError::TooLarge);
    }
    let bytes = std::fs::read(path)?;
    if value_size == 0 || bytes.is_empty() || !bytes.len().is_multiple_of(value_size) {
        return Err(FileError::Size {
            bytes: bytes.len(),
            value_size,
        });
    }
    Ok(bytes)
}

/// A value of as many numbers, each as large as the others.
fn value(name: &str, numbers: &[i128], bytes: usize) -> Result<Vec<u8>, EntriesError> {
    let each = bytes / numbers.len();
    if !matches!(each, 1 | 2 | 4 | 8) || each * numbers.len() != bytes {
        return Err(EntriesError::Count {
            map: name.to_owned(),
            bytes,
            numbers: numbers.len(),
        });
    }
    let mut value = Vec::with_capacity(bytes);
    for number in numbers {
        let bits = 8 * each as u32;
        if !(-(1i128 << (bits - 1))..1i128 << bits).contains(number) {
            return Err(EntriesError::TooLarge {
                map: name.to_owned(),
                number: *number,
                bytes: each,
            });
        }
        value.extend_from_slice(&number.to_le_bytes()[..each]);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubpf::MapKind;

    fn map(kind: u32, key_size: u32, value_size: u32) -> Map {
        Map {
            name: "m".into(),
            kind: MapKind::from_number(kind).expect("a kind"),
            key_size,
            value_size,
            max_entries: 4,
            flags: 0,
            key_type: None,
            value_type: None,
            initial: None,
            read_only: false,
        }
    }

    fn set(text: &str, map: &Map) -> Result<Entries, Box<dyn std::error::Error>> {
        Ok(text.parse::<Setting>()?.entries(map)?)
    }

    #[test]
    fn numbers_become_values() {
        let words = map(1503, 4, 8);
        let entries = set("m[1]=-1", &words).expect("an entry");
        assert_eq!(entries, [(vec![1, 0, 0, 0], vec![255; 8])]);
        let three = map(1503, 4, 12);
        let entries = set("m[0..2]=1,2,0x30", &three).expect("entries");
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[1].1, [1, 0, 0, 0, 2, 0, 0, 0, 0x30, 0, 0, 0]);
        let entries = set("m[0]=realtime-monotonic", &words).expect("an entry");
        assert!(entries[0].1.iter().any(|byte| *byte != 0));
        let entries = set("m[9]=1", &map(1, 4, 8)).expect("an entry");
        assert_eq!(entries.len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (text, kind, bytes) in [
            ("m[4]=1", 1503, 8),
            ("m[0..5]=1", 1503, 8),
            ("m[2..2]=1", 1503, 8),
            ("m[0]=1,2", 1503, 12),
            ("m[0]=256", 1503, 1),
            ("m[0]=x", 1503, 8),
            ("m[0=1", 1503, 8),
            ("m=1", 1503, 8),
            ("[0]=1", 1503, 8),
            ("m=@/nonexistent", 1503, 8),
            ("m[18446744073709551615]=1", 1503, 8),
        ] {
            assert!(set(text, &map(kind, 4, bytes)).is_err(), "{text}");
        }
    }

    #[test]
    fn files_are_whole_values() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("values");
        std::fs::write(&path, [7; 16]).expect("written");
        let text = format!("m=@{}", path.display());
        let entries = set(&text, &map(1503, 4, 8)).expect("entries");
        assert_eq!(
            entries,
            [
                (vec![0, 0, 0, 0], vec![7; 8]),
                (vec![1, 0, 0, 0], vec![7; 8])
            ]
        );
        assert!(set(&text, &map(1503, 4, 12)).is_err());
        assert!(
            set(&text, &map(1503, 4, 2)).is_err(),
            "more values than entries"
        );
    }
}
