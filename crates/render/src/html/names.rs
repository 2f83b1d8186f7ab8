//! The names the page shows, each once. Bounded: a trace may hold any number of names, of any length.

use ahash::RandomState;
use event::Name;
use std::collections::{BTreeSet, HashMap};

/// Names the page holds at most; later ones share [`OTHER`].
const MAX_NAMES: usize = 20_000;
/// Bytes of names the page holds at most.
const MAX_BYTES: usize = 2 << 20;
/// A longer name is cut: templates of kernels reach tens of kilobytes.
const MAX_LENGTH: usize = 400;

/// The name of everything that found no place.
pub const OTHER: u32 = 0;

pub struct Names {
    known: HashMap<Name, u32, RandomState>,
    list: Vec<Name>,
    bytes: usize,
    /// Those of kernels, which the page shows short.
    kernels: BTreeSet<u32>,
    pub left_out: u64,
}

impl Names {
    pub fn new() -> Self {
        Names {
            known: HashMap::default(),
            list: vec!["(other names)".into()],
            bytes: 0,
            kernels: BTreeSet::new(),
            left_out: 0,
        }
    }

    /// A kernel's name.
    pub fn kernel(&mut self, name: &Name) -> u32 {
        let index = self.index(name);
        if index != OTHER {
            self.kernels.insert(index);
        }
        index
    }

    /// What kernels are shown as, where that is not their names.
    pub fn short(&self) -> Vec<(u32, String)> {
        let kernels = self
            .known
            .iter()
            .filter(|(_, index)| self.kernels.contains(index));
        let mut kernels: Vec<(u32, &str)> =
            kernels.map(|(name, &index)| (index, &**name)).collect();
        kernels.sort_unstable();
        let names: Vec<&str> = kernels.iter().map(|(_, name)| *name).collect();
        let shown = analyse::distinct(&names, usize::MAX, "…");
        (kernels.into_iter().zip(shown))
            .filter(|((_, name), shown)| name != shown)
            .map(|((index, _), shown)| (index, shown))
            .collect()
    }

    pub fn index(&mut self, name: &Name) -> u32 {
        if let Some(&index) = self.known.get(name) {
            return index;
        }
        if self.list.len() >= MAX_NAMES || self.bytes >= MAX_BYTES {
            self.left_out += 1;
            return OTHER;
        }
        let shown = shorten(name);
        self.bytes += shown.len() + name.len();
        let index = self.list.len() as u32;
        self.list.push(shown);
        self.known.insert(name.clone(), index);
        index
    }

    pub fn list(&self) -> &[Name] {
        &self.list
    }
}

/// The name, or its beginning and its end with an ellipsis between: what tells templates apart
/// is as often behind as in front.
fn shorten(name: &Name) -> Name {
    if name.len() <= MAX_LENGTH {
        return name.clone();
    }
    let mut head = MAX_LENGTH * 3 / 4;
    while !name.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = name.len() - MAX_LENGTH / 4;
    while !name.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}…{}", &name[..head], &name[tail..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_index_and_long_ones_are_cut_between_characters() {
        let mut names = Names::new();
        let first = names.index(&"cuInit".into());
        assert_eq!(names.index(&"cuInit".into()), first);
        let long = names.index(&"é".repeat(40_000).into());
        let shown = &names.list()[long as usize];
        assert!(shown.len() <= MAX_LENGTH + 8 && shown.contains('…'));
        assert_ne!(first, long);
    }

    #[test]
    fn kernels_are_shown_short() {
        let mut names = Names::new();
        let call = names.index(&"std::f<int>(int)".into());
        let one = names.kernel(&"void scale<float>(float*)".into());
        let plain = names.kernel(&"plain".into());
        let other = names.kernel(&"void scale<float>(float*, int)".into());
        assert_eq!(
            names.short(),
            [
                (one, "scale<float>".to_owned()),
                (other, "scale<float> [int]".to_owned())
            ],
            "not {call} and {plain}"
        );
    }

    #[test]
    fn names_without_end_are_bounded() {
        let mut names = Names::new();
        for i in 0..MAX_NAMES + 10 {
            names.index(&format!("kernel{i}").into());
        }
        assert_eq!(names.index(&"one more".into()), OTHER);
        assert_eq!(names.list().len(), MAX_NAMES);
        assert!(names.left_out >= 11);
    }
}
