//! Functions that another library of cutrace stands in for: one that is loaded beside this one where
//! probes go into GPU kernels.
//!
//! Such a library defines `cutrace_stand_ins`; for a function NAME it may define the function
//! `cutrace_instead_NAME`, which is then called in its place, and the word `cutrace_original_NAME`,
//! which is set to what continues with the function itself, unrecorded.

use crate::objects::Object;
use core::sync::atomic::{AtomicUsize, Ordering};

const MARK: &[u8] = b"cutrace_stand_ins";
const INSTEAD: &[u8] = b"cutrace_instead_";
const ORIGINAL: &[u8] = b"cutrace_original_";
/// The longest name of a function that is looked for.
const LONGEST: usize = 128;

#[derive(Default)]
pub struct StandIns {
    library: Option<Object>,
    /// Where the function that was last turned continues: other names of it do so too.
    last: usize,
}

impl StandIns {
    /// Keeps the library, if this is it. It comes before CUDA's in the loader's list.
    pub fn look_at(&mut self, object: &Object) {
        if self.library.is_none() && object.address_of(MARK).is_some() {
            self.library = Some(*object);
        }
    }

    fn find(&self, prefix: &[u8], name: &[u8]) -> Option<usize> {
        let library = self.library.as_ref()?;
        let mut whole = [0u8; 32 + LONGEST];
        let bytes = prefix.len() + name.len();
        whole.get_mut(..prefix.len())?.copy_from_slice(prefix);
        whole.get_mut(prefix.len()..bytes)?.copy_from_slice(name);
        library.address_of(&whole[..bytes])
    }

    pub fn stands_in_for(&self, name: &[u8]) -> bool {
        self.find(INSTEAD, name).is_some()
    }

    /// What to call for a function that would continue at `target`.
    pub fn turn(&mut self, name: &[u8], target: usize) -> usize {
        self.last = target;
        self.tell(name, target);
        self.find(INSTEAD, name).unwrap_or(target)
    }

    /// Another name of the function that was last turned.
    pub fn tell_same(&self, name: &[u8]) {
        self.tell(name, self.last);
    }

    /// Says where a function is that is not hooked.
    pub fn tell(&self, name: &[u8], target: usize) {
        if let Some(word) = self.find(ORIGINAL, name)
            && target != 0
        {
            // SAFETY: a word that the library keeps for this.
            unsafe { &*(word as *const AtomicUsize) }.store(target, Ordering::Release);
        }
    }
}
