//! Functions that other libraries of cutrace stand in for: one that is loaded beside this one where
//! probes go into GPU kernels, and one that the driver loads for GPU times.
//!
//! Such a library defines `cutrace_stand_ins`; for a function NAME it may define the function
//! `cutrace_instead_NAME`, which is then called in its place, and the word `cutrace_original_NAME`,
//! which is set to what continues with the function itself, unrecorded. One that comes after CUDA's
//! gets its functions turned when it comes. There is one such word for a name: what calls this
//! does so for one library only, see `hooks::Driver`.

use crate::objects::Object;
use core::sync::atomic::{AtomicUsize, Ordering};

const MARK: &[u8] = b"cutrace_stand_ins";
const INSTEAD: &[u8] = b"cutrace_instead_";
const ORIGINAL: &[u8] = b"cutrace_original_";
/// The longest name of a function that is looked for.
const LONGEST: usize = 128;

/// Libraries that are kept.
const MOST: usize = 2;

#[derive(Default)]
pub struct StandIns {
    libraries: [Option<Library>; MOST],
}

struct Library {
    object: Object,
    /// Where the function that was last turned continues: other names of it do so too.
    last: usize,
}

impl Library {
    fn find(&self, prefix: &[u8], name: &[u8]) -> Option<usize> {
        let mut whole = [0u8; 32 + LONGEST];
        let bytes = prefix.len() + name.len();
        whole.get_mut(..prefix.len())?.copy_from_slice(prefix);
        whole.get_mut(prefix.len()..bytes)?.copy_from_slice(name);
        self.object.address_of(&whole[..bytes])
    }

    fn tell(&self, name: &[u8], target: usize) {
        if let Some(word) = self.find(ORIGINAL, name)
            && target != 0
        {
            // SAFETY: a word that the library keeps for this.
            unsafe { &*(word as *const AtomicUsize) }.store(target, Ordering::Release);
        }
    }

    fn turn(&mut self, name: &[u8], target: usize) -> usize {
        self.last = target;
        self.tell(name, target);
        self.find(INSTEAD, name).unwrap_or(target)
    }
}

impl StandIns {
    /// Keeps the library, if this is one. True: what is hooked already is to be turned to it.
    pub fn look_at(&mut self, object: &Object) -> bool {
        if object.address_of(MARK).is_none() {
            return false;
        }
        let Some(free) = self.libraries.iter_mut().find(|kept| kept.is_none()) else {
            return false;
        };
        *free = Some(Library {
            object: *object,
            last: 0,
        });
        true
    }

    fn kept(&mut self) -> impl Iterator<Item = &mut Library> {
        self.libraries.iter_mut().flatten()
    }

    pub fn stands_in_for(&self, name: &[u8]) -> bool {
        let mut kept = self.libraries.iter().flatten();
        kept.any(|library| library.find(INSTEAD, name).is_some())
    }

    /// What to call for a function that would continue at `target`.
    pub fn turn(&mut self, name: &[u8], target: usize) -> usize {
        self.kept()
            .fold(target, |target, library| library.turn(name, target))
    }

    /// The same of a function that was hooked before the library came that came last.
    pub fn turn_to_last(&mut self, name: &[u8], target: usize) -> usize {
        match self.kept().last() {
            Some(library) => library.turn(name, target),
            None => target,
        }
    }

    /// Another name of that function.
    pub fn tell_last_same(&mut self, name: &[u8]) {
        if let Some(library) = self.kept().last() {
            library.tell(name, library.last);
        }
    }

    /// Says to the library that came last where a function is that is not hooked.
    pub fn tell_last(&mut self, name: &[u8], target: usize) {
        if let Some(library) = self.kept().last() {
            library.tell(name, target);
        }
    }

    /// Another name of the function that was last turned.
    pub fn tell_same(&mut self, name: &[u8]) {
        self.kept()
            .for_each(|library| library.tell(name, library.last));
    }

    /// Says where a function is that is not hooked.
    pub fn tell(&mut self, name: &[u8], target: usize) {
        self.kept().for_each(|library| library.tell(name, target));
    }
}
