//! What a program has said about its ranges: texts of strings, domains and categories by their handles,
//! and the ranges of the whole process that are under way.

use event::{Event, Name};
use std::collections::HashMap;

/// Bounds for programs that register without end.
const MOST_TEXTS: usize = 1 << 20;
const MOST_OPEN: usize = 1 << 16;

/// What a text is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handle {
    String(u64),
    Domain(u64),
    /// A category of a domain.
    Category(u64, u32),
}

#[derive(Debug, Default)]
pub struct Ranges {
    texts: HashMap<Handle, Name>,
    open: HashMap<u64, Event>,
}

impl Ranges {
    pub fn name(&mut self, handle: Handle, text: Name) {
        if self.texts.len() < MOST_TEXTS || self.texts.contains_key(&handle) {
            self.texts.insert(handle, text);
        }
    }

    pub fn text(&self, handle: Handle) -> Option<&Name> {
        self.texts.get(&handle)
    }

    /// A range that any thread may end. One too many is never seen to end.
    pub fn start(&mut self, number: u64, event: Event) {
        if self.open.len() < MOST_OPEN {
            self.open.insert(number, event);
        }
    }

    pub fn end(&mut self, number: u64) -> Option<Event> {
        self.open.remove(&number)
    }
}
