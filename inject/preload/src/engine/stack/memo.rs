//! Walks that have been made, each with what it read. A call from the same place, with the same
//! stack pointer, is compared with them: if every word that decided the walk is what it was, the
//! frames are what they were. That takes a comparison a frame in place of a rule and three reads.

use super::chains::Chains;
use super::inputs::{Inputs, MOST_WORDS, SAVED};
use crate::layout::Caller;
use core::sync::atomic::{Ordering, compiler_fence};

/// Walks remembered of a thread.
const ROOM: usize = 1024;

/// All zeros is an empty one.
#[repr(C)]
pub struct Memos {
    chains: Chains<512, ROOM>,
    memos: [Memo; ROOM],
}

#[repr(C)]
struct Memo {
    rip: u64,
    rsp: u64,
    /// When it was made; any other number: not valid.
    epoch: u32,
    count: u16,
    registers: u8,
    saved: [u64; SAVED],
    hash: u64,
    offsets: [u32; MOST_WORDS],
    values: [u64; MOST_WORDS],
}

impl Memos {
    /// The hash of the frames that a walk from here would find. The caller's stack pointer is in the
    /// thread's own stack.
    pub fn find(&mut self, caller: &Caller, epoch: u32) -> Option<u64> {
        let memos = &self.memos;
        let fits = |place: usize| (memos.get(place)).is_some_and(|memo| memo.holds(caller, epoch));
        let place = self.chains.find(hash_of(caller), fits)?;
        self.memos.get(place).map(|memo| memo.hash)
    }

    /// Remembers a walk all of whose words are in the thread's own stack.
    pub fn keep(&mut self, caller: &Caller, epoch: u32, inputs: &Inputs, hash: u64) {
        let place = self.chains.place(hash_of(caller));
        let Some(memo) = place.and_then(|place| self.memos.get_mut(place)) else {
            return;
        };
        let count = usize::from(inputs.count);
        // A signal handler may leave this half-way by a longjmp.
        memo.epoch = 0;
        compiler_fence(Ordering::SeqCst);
        (memo.rip, memo.rsp, memo.saved) = (caller.rip, caller.rsp, caller.saved);
        (memo.count, memo.registers, memo.hash) = (inputs.count, inputs.registers, hash);
        let offsets = inputs.offsets.iter().take(count);
        (memo.offsets.iter_mut().zip(offsets)).for_each(|(to, from)| *to = *from);
        let values = inputs.values.iter().take(count);
        (memo.values.iter_mut().zip(values)).for_each(|(to, from)| *to = *from);
        compiler_fence(Ordering::SeqCst);
        memo.epoch = epoch;
    }
}

fn hash_of(caller: &Caller) -> u64 {
    (caller.rip ^ caller.rsp.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Memo {
    #[inline]
    fn holds(&self, caller: &Caller, epoch: u32) -> bool {
        if self.rip != caller.rip || self.rsp != caller.rsp || self.epoch != epoch {
            return false;
        }
        for (register, (now, then)) in caller.saved.iter().zip(&self.saved).enumerate() {
            if self.registers >> register & 1 == 1 && now != then {
                return false;
            }
        }
        let count = usize::from(self.count).min(MOST_WORDS);
        let (offsets, values) = (&self.offsets[..count], &self.values[..count]);
        // Eight at a time without a branch: nearly always all of them are equal.
        for (offsets, values) in offsets.chunks(8).zip(values.chunks(8)) {
            let mut differs = 0;
            for (offset, value) in offsets.iter().zip(values) {
                let at = self.rsp.wrapping_add((*offset).into()) as *const u64;
                // SAFETY: between the stack pointer and the end of the thread's own stack, as it was
                // when the walk was made from this very stack pointer.
                differs |= unsafe { at.read_volatile() } ^ value;
            }
            if differs != 0 {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::Recorder;
    use super::*;
    use alloc::boxed::Box;

    fn zeroed<T>() -> Box<T> {
        // SAFETY: plain numbers.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    fn caller(stack: &[u64], rip: u64, rbp: u64) -> Caller {
        Caller {
            saved: [1, rbp, 3, 4, 5, 6],
            rip,
            rsp: stack.as_ptr() as u64,
        }
    }

    #[test]
    fn a_walk_is_known_as_long_as_what_it_read_is_the_same() {
        let mut stack = [10u64, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
        let place = |at: usize| stack.as_ptr().wrapping_add(at) as u64;
        let mut inputs: Box<Inputs> = zeroed();
        let mut recorder = Recorder::new(Some(&mut inputs), place(0));
        recorder.word(place(2), 12);
        recorder.restored(0, place(3));
        recorder.restored(2, place(4));
        recorder.word(place(9), 19);
        recorder.register(2, 14);
        recorder.register(1, 100);
        let from = caller(&stack, 77, 100);
        let mut memos: Box<Memos> = zeroed();
        assert_eq!(memos.find(&from, 1), None);
        memos.keep(&from, 1, &inputs, 5);
        assert_eq!(memos.find(&from, 1), Some(5));
        // Other code may be there by now; another place, another frame pointer.
        assert_eq!(memos.find(&from, 2), None);
        assert_eq!(memos.find(&caller(&stack, 78, 100), 1), None);
        assert_eq!(memos.find(&caller(&stack, 77, 101), 1), None);
        // A register nobody counted from.
        let mut other = caller(&stack, 77, 100);
        other.saved[5] = 0;
        assert_eq!(memos.find(&other, 1), Some(5));
        for (at, matters) in [(1, false), (2, true), (3, false), (4, true), (9, true)] {
            stack[at] += 100;
            let known = memos.find(&caller(&stack, 77, 100), 1);
            assert_eq!(known.is_none(), matters, "word {at}");
            stack[at] -= 100;
        }
        assert_eq!(memos.find(&from, 1), Some(5));
    }

    #[test]
    fn all_ways_to_one_place_are_known() {
        let mut stack = [0u64; 4];
        let mut memos: Box<Memos> = zeroed();
        for way in 0..40 {
            stack[1] = way;
            let from = caller(&stack, 9, 0);
            let mut inputs: Box<Inputs> = zeroed();
            Recorder::new(Some(&mut inputs), from.rsp).word(from.rsp + 8, way);
            memos.keep(&from, 1, &inputs, way + 1);
        }
        for way in 0..40 {
            stack[1] = way;
            assert_eq!(memos.find(&caller(&stack, 9, 0), 1), Some(way + 1));
        }
    }

    #[test]
    fn what_is_too_long_or_too_far_is_not_complete() {
        let mut inputs: Box<Inputs> = zeroed();
        let mut recorder = Recorder::new(Some(&mut inputs), 0x1000);
        for at in 0..MOST_WORDS as u64 + 1 {
            recorder.word(0x1000 + at * 8, at);
        }
        assert!(!inputs.complete);
        Recorder::new(Some(&mut inputs), 0x1000).word(0xff8, 1);
        assert!(!inputs.complete);
        Recorder::new(Some(&mut inputs), 0x1000).word(0x1000 + (1 << 32), 1);
        assert!(!inputs.complete);
        let mut none = Recorder::new(None, 0);
        none.word(8, 8);
        none.give_up();
    }
}
