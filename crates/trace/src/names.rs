//! Sharing of strings that repeat: one allocation for each function's name, not one a line.

use event::Name;
use std::collections::HashSet;

/// Names seen so far, up to a bound: a trace full of different strings must not grow the reader.
#[derive(Default)]
pub struct Names {
    known: HashSet<Name, ahash::RandomState>,
}

const MOST_NAMES: usize = 16_384;
/// Longer strings are seldom names.
const LONGEST: usize = 256;

impl Names {
    pub fn get(&mut self, text: &str) -> Name {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let name = Name::from(text);
        if text.len() <= LONGEST && self.known.len() < MOST_NAMES {
            self.known.insert(name.clone());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn names_are_shared_and_bounded() {
        let mut names = Names::default();
        assert!(Arc::ptr_eq(&names.get("cuInit"), &names.get("cuInit")));
        for number in 0..2 * MOST_NAMES {
            names.get(&number.to_string());
        }
        assert!(names.known.len() <= MOST_NAMES);
    }
}
