//! The address of a lake in an object store: `s3://BUCKET/FOLDER/run=exp7` is the lake `s3://BUCKET/FOLDER`, and the part of it
//! to look at.

use crate::{Error, Result, layout::MANIFEST};
use std::path::{Component, Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Of the lake.
    pub lake: String,
    /// A folder within it, or an entry of its list; empty: the whole lake.
    pub within: PathBuf,
}

impl Address {
    /// Whether this is an address, and not a path.
    pub fn is_one(path: &Path) -> bool {
        path.to_str().is_some_and(|text| scheme(text).is_some())
    }

    pub fn of(path: &Path) -> Result<Self> {
        let text = path.display().to_string();
        let wrong = |why: &str| Error::NotAnAddress(text.clone(), why.to_owned());
        let scheme = scheme(&text).ok_or_else(|| wrong("it has no scheme"))?;
        let rest = &text[scheme.len() + "://".len()..];
        let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
        let is_within = |part: &&str| part.starts_with("run=") || *part == MANIFEST;
        let end = parts.iter().position(is_within).unwrap_or(parts.len());
        let within: PathBuf = parts[end..].iter().collect();
        if !is_plain(&within) && end < parts.len() {
            return Err(wrong("'..' in it"));
        }
        Ok(Address {
            lake: format!("{scheme}://{}", parts[..end].join("/")),
            within,
        })
    }

    /// The folder of a `file://` address.
    pub fn folder(&self) -> Option<PathBuf> {
        let path = self.lake.strip_prefix("file://")?;
        let path = path.strip_prefix("localhost").unwrap_or(path);
        Some(PathBuf::from(decoded(path)).join(&self.within))
    }

    /// As it was written.
    pub fn url(&self) -> String {
        match self.within.as_os_str().is_empty() {
            true => self.lake.clone(),
            false => format!("{}/{}", self.lake, self.within.display()),
        }
    }
}

/// Whether a path leads nowhere but down, by names alone.
pub fn is_plain(path: &Path) -> bool {
    let mut components = path.components();
    !path.as_os_str().is_empty() && components.all(|part| matches!(part, Component::Normal(_)))
}

fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_letter = |letter: char| letter.is_ascii_alphanumeric();
    (!scheme.is_empty() && scheme.chars().all(is_letter)).then_some(scheme)
}

/// `%20` is a space.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match byte.filter(|_| *first == b'%') {
            Some(byte) => (&more[2..], bytes.push(byte)),
            None => (more, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::of(Path::new(text)).expect("an address")
    }

    #[test]
    fn an_address_is_a_lake_and_a_part_of_it() {
        let whole = address("s3://bucket/team/lake/");
        assert_eq!(whole.lake, "s3://bucket/team/lake");
        assert_eq!(whole.within, Path::new(""));
        let run = address("s3://bucket/run=exp7/host=a");
        assert_eq!(run.lake, "s3://bucket");
        assert_eq!(run.within, Path::new("run=exp7/host=a"));
        assert_eq!(run.url(), "s3://bucket/run=exp7/host=a");
        assert_eq!(
            address("gs://b/l/_manifest/x.json").within,
            Path::new("_manifest/x.json")
        );
        assert_eq!(
            address("file:///data/my%20lake/run=a").folder(),
            Some(PathBuf::from("/data/my lake/run=a"))
        );
        assert_eq!(address("file:///100%").folder(), Some("/100%".into()));
    }

    #[test]
    fn paths_are_no_addresses_and_parts_stay_inside() {
        for path in ["/data/lake", "s3:/x", "://x", "a b://x", ""] {
            assert!(!Address::is_one(Path::new(path)), "{path}");
        }
        assert!(Address::of(Path::new("s3://bucket/run=a/../../../etc")).is_err());
    }
}
