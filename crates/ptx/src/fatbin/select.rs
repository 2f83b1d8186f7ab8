//! Which entry a device takes.

use super::{Architecture, Entry, EntryKind, Fatbin};

impl<'a> Fatbin<'a> {
    /// The PTX entry for a device of compute capability `sm` (90 for 9.0): the highest that is not
    /// above it. Code for `a` and `f` architectures only where they are the device's own.
    pub fn best_ptx(&self, sm: u32) -> Option<&Entry<'a>> {
        let runs = |entry: &&Entry| match entry.architecture() {
            Architecture::Generic => entry.sm() <= sm,
            Architecture::Specific | Architecture::Family => entry.sm() == sm,
        };
        let ptx = self
            .entries()
            .iter()
            .filter(|entry| entry.kind() == EntryKind::Ptx);
        // Of equals the first wins, and `max_by_key` keeps the last.
        ptx.filter(runs).rev().max_by_key(|entry| {
            let own = entry.architecture() != Architecture::Generic;
            (entry.sm(), own, entry.version())
        })
    }
}
