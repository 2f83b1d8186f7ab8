//! Element sizes of the arrays in scope, which turn `name[2]` into a byte offset.

use std::collections::HashMap;

pub(super) struct Scopes<'a> {
    levels: Vec<HashMap<&'a str, u64>>,
}

impl<'a> Scopes<'a> {
    pub fn new() -> Self {
        Scopes {
            levels: vec![HashMap::new()],
        }
    }

    pub fn enter(&mut self) {
        self.levels.push(HashMap::new());
    }

    pub fn leave(&mut self) {
        self.levels.pop();
    }

    pub fn declare(&mut self, name: &'a str, element_size: u64) {
        if let Some(level) = self.levels.last_mut() {
            level.insert(name, element_size);
        }
    }

    /// Bytes of one element of the innermost array called `name`.
    pub fn element_size(&self, name: &str) -> Option<u64> {
        self.levels
            .iter()
            .rev()
            .find_map(|level| level.get(name))
            .copied()
    }
}
