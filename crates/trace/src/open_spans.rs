//! Spans that have begun and not ended, by id. Few are open at a time, and those that began last end first: they are in a
//! short list, which is searched faster than anything is hashed. What stays open for long moves to a table.

use ahash::RandomState;
use std::collections::HashMap;

/// Length of the list. Threads times how deep they nest calls, as a rule.
const MOST_RECENT: usize = 64;

pub struct OpenSpans<T> {
    ids: Vec<u64>,
    /// What is known of each of `ids`.
    recent: Vec<T>,
    older: HashMap<u64, T, RandomState>,
}

impl<T> Default for OpenSpans<T> {
    fn default() -> Self {
        OpenSpans {
            ids: Vec::with_capacity(MOST_RECENT),
            recent: Vec::with_capacity(MOST_RECENT),
            older: HashMap::default(),
        }
    }
}

impl<T> OpenSpans<T> {
    #[inline]
    fn place(&self, id: u64) -> Option<usize> {
        self.ids.iter().rposition(|&known| known == id)
    }

    /// In place of one of the same id, if there is one.
    #[inline]
    pub fn insert(&mut self, id: u64, span: T) {
        if let Some(place) = self.place(id) {
            self.recent[place] = span;
            return;
        }
        if !self.older.is_empty() {
            self.older.remove(&id);
        }
        if self.ids.len() == MOST_RECENT {
            let half = MOST_RECENT / 2;
            let old = self.ids.drain(..half).zip(self.recent.drain(..half));
            self.older.extend(old);
        }
        self.ids.push(id);
        self.recent.push(span);
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&T> {
        match self.place(id) {
            Some(place) => Some(&self.recent[place]),
            None if self.older.is_empty() => None,
            None => self.older.get(&id),
        }
    }

    #[inline]
    pub fn remove(&mut self, id: u64) -> Option<T> {
        if let Some(place) = self.place(id) {
            self.ids.remove(place);
            return Some(self.recent.remove(place));
        }
        if self.older.is_empty() {
            return None;
        }
        self.older.remove(&id)
    }

    pub fn len(&self) -> usize {
        self.ids.len() + self.older.len()
    }

    pub fn clear(&mut self) {
        self.ids.clear();
        self.recent.clear();
        self.older.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_table(steps in prop::collection::vec((0..4u8, 0..200u64), 0..600)) {
            let (mut open, mut table) = (OpenSpans::default(), HashMap::new());
            for (number, (step, id)) in steps.into_iter().enumerate() {
                if step == 0 {
                    prop_assert_eq!(open.remove(id), table.remove(&id));
                } else {
                    open.insert(id, number);
                    table.insert(id, number);
                }
                prop_assert_eq!(open.get(id), table.get(&id));
                prop_assert_eq!(open.len(), table.len());
            }
        }
    }
}
