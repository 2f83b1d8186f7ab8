//! Names and labels, each once. Bounded: a trace may hold any number of them, of any length.

use ahash::RandomState;
use event::Name;
use std::collections::HashMap;

/// Names of an index at most; later ones are [`OTHER`] in pictures, and themselves where a segment is read.
const MOST: usize = 65_536;
const MOST_BYTES: usize = 8 << 20;
/// A longer name is cut.
const LONGEST: usize = 2_000;

/// The name of everything that found no place.
pub const OTHER: u32 = 0;

#[derive(Debug, Clone, PartialEq)]
pub struct Texts {
    list: Vec<Name>,
    known: HashMap<Name, u32, RandomState>,
    bytes: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Texts {
            list: vec!["(other names)".into()],
            known: HashMap::default(),
            bytes: 0,
        }
    }
}

impl Texts {
    pub fn index(&mut self, name: &Name) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        if self.list.len() >= MOST || self.bytes >= MOST_BYTES {
            return OTHER;
        }
        self.add(cut(name))
    }

    fn add(&mut self, name: Name) -> u32 {
        let number = self.list.len() as u32;
        self.bytes += name.len();
        self.known.insert(name.clone(), number);
        self.list.push(name);
        number
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        if name.len() <= LONGEST {
            return self.known.get(name).copied();
        }
        self.known.get(&*cut(&name.into())).copied()
    }

    pub fn get(&self, number: u32) -> &Name {
        self.list.get(number as usize).unwrap_or(&self.list[0])
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// All but the first, which is always the same.
    pub fn list(&self) -> &[Name] {
        &self.list[1..]
    }

    /// False if there is no room, or it is there.
    pub fn restore(&mut self, name: &str) -> bool {
        let fits = self.list.len() < MOST && self.bytes <= MOST_BYTES && name.len() <= LONGEST + 8;
        if !fits || self.known.contains_key(name) {
            return false;
        }
        self.add(name.into());
        true
    }
}

/// A name as it is stored.
pub fn cut(name: &Name) -> Name {
    if name.len() <= LONGEST {
        return name.clone();
    }
    let end = (0..=LONGEST).rev().find(|&end| name.is_char_boundary(end));
    format!("{}…", &name[..end.unwrap_or(0)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_number_and_are_bounded() {
        let mut texts = Texts::default();
        let first = texts.index(&"cuInit".into());
        assert_eq!((texts.index(&"cuInit".into()), first), (1, 1));
        let long: Name = "é".repeat(5_000).into();
        let number = texts.index(&long);
        assert_eq!(texts.find(&long), Some(number));
        assert!(texts.get(number).len() <= LONGEST + 8);
        for i in 0..MOST {
            texts.index(&format!("{i}").into());
        }
        assert_eq!(texts.index(&"one more".into()), OTHER);
        assert_eq!(&**texts.get(u32::MAX), "(other names)");
    }
}
