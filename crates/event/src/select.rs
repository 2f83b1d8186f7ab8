//! Which calls a user asks for with `-e`: categories, layers and function globs, `!` to exclude.

use crate::{Category, Layer};
use alloc::{borrow::ToOwned, string::String, vec::Vec};

/// What was asked for. Nothing asked for is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

/// What is known of a call that may be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub name: &'a str,
    /// The name as programmers write it: without a version's suffix.
    pub family: &'a str,
    pub category: Category,
    pub layer: Layer,
}

impl Selection {
    /// `memory,cuLaunch*,!query`
    pub fn parse(text: &str) -> Self {
        let mut selection = Selection::default();
        for item in (text.split(',').map(str::trim)).filter(|item| !item.is_empty()) {
            match item.strip_prefix('!') {
                Some(item) => selection.unwanted.push(item.to_owned()),
                None => selection.wanted.push(item.to_owned()),
            }
        }
        selection
    }

    pub fn wants(&self, call: &Candidate<'_>) -> bool {
        let meant = |items: &[String]| items.iter().any(|item| means(item, call));
        (self.wanted.is_empty() || meant(&self.wanted)) && !meant(&self.unwanted)
    }

    /// Only what is named, rather than everything but some.
    pub fn is_positive(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Everything that was named, excluded or not.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().chain(&self.unwanted).map(String::as_str)
    }
}

/// Whether an item of a selection means a call.
pub fn means(item: &str, call: &Candidate<'_>) -> bool {
    item == call.category.as_str()
        || item == call.layer.as_str()
        || matches_glob(item.as_bytes(), call.name.as_bytes())
        || matches_glob(item.as_bytes(), call.family.as_bytes())
}

/// Globs of `*` and `?`, in time that is linear for each star.
pub fn matches_glob(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // The last star, and the place in the text that it was tried up to.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((last, tried)) = star else {
                    return false;
                };
                star = Some((last, tried + 1));
                (at, place) = (last + 1, tried + 1);
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_layers_globs_and_exclusions() {
        let wants = |text: &str, name: &str| {
            let call = Candidate {
                name,
                family: name.trim_end_matches("_v2"),
                category: Category::Memory,
                layer: Layer::Driver,
            };
            Selection::parse(text).wants(&call)
        };
        assert!(wants("memory, cuLaunch*", "cuMemAlloc_v2"));
        assert!(!wants("kernel,cuLaunch*", "cuMemAlloc_v2"));
        assert!(wants("!query", "cuMemAlloc_v2") && !wants("!memory", "cuMemAlloc_v2"));
        assert!(!wants("driver,!cuMem*", "cuMemAlloc_v2") && wants("driver", "cuMemAlloc_v2"));
        assert!(wants("cuMemAlloc", "cuMemAlloc_v2") && wants("", "cuMemAlloc_v2"));
        assert!(wants("cu*Al*c", "cuMemAlloc_v2") && !wants("cu?emAlloc?", "cuMemAlloc"));
    }
}
