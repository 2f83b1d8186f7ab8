//! Lists of Python's frames that have been walked, each with what was read of them. If the
//! interpreter's frames, their instructions and their code objects are what they were, walking again
//! would give the same.
//!
//! Frames are compared from the innermost on: each is known to be there because the one before it,
//! which is there, says so.

use super::identity::Identity;
use super::layout::{Entry, Layout};
use super::{Direct, Source, instruction};
use crate::engine::stack::chains::Chains;
use core::sync::atomic::{Ordering, compiler_fence};

/// Longer lists are walked every time.
const MOST_FRAMES: usize = 64;
/// Lists remembered of a thread.
const ROOM: usize = 256;
const CODES: usize = 2048;
/// Places looked at before one is taken from another.
const PROBES: usize = 8;

/// A frame as it was read.
pub struct Frame {
    pub frame: u64,
    pub previous: u64,
    /// The code object, perhaps tagged.
    pub executable: u64,
    pub instruction: u64,
    /// Its owner, or whether the interpreter was entered for it.
    pub kind: u8,
    pub identity: Identity,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct KnownFrame {
    frame: u64,
    previous: u64,
    /// 0: a frame that is none of Python's, of which nothing else was read.
    executable: u64,
    instruction: u64,
    kind: u8,
    /// Where its code object is in the table of these.
    place: u16,
    check: u64,
}

/// What a walk leaves of its frames. All zeros is an empty one.
#[repr(C)]
pub struct Trail {
    count: u16,
    /// All frames are in it.
    whole: bool,
    frames: [KnownFrame; MOST_FRAMES],
    identities: [Identity; MOST_FRAMES],
}

impl Trail {
    pub fn clear(&mut self) {
        (self.count, self.whole) = (0, false);
    }

    pub fn is_whole(&mut self) {
        self.whole = usize::from(self.count) <= MOST_FRAMES;
    }

    pub fn shim(&mut self, frame: u64, previous: u64, kind: u8) {
        let known = KnownFrame {
            frame,
            previous,
            executable: 0,
            instruction: 0,
            kind,
            place: 0,
            check: 0,
        };
        self.put(known, None);
    }

    pub fn frame(&mut self, found: Frame) {
        let known = KnownFrame {
            frame: found.frame,
            previous: found.previous,
            executable: found.executable,
            instruction: found.instruction,
            kind: found.kind,
            place: 0,
            check: found.identity.check(),
        };
        self.put(known, Some(found.identity));
    }

    fn put(&mut self, known: KnownFrame, identity: Option<Identity>) {
        let at = usize::from(self.count);
        if let (Some(frame), Some(to)) = (self.frames.get_mut(at), self.identities.get_mut(at)) {
            *frame = known;
            if let Some(identity) = identity {
                *to = identity;
            }
        }
        self.count = self.count.saturating_add(1);
    }
}

/// Memory that was read before, at an address that is known to hold the same thing still.
struct Again;

impl Source for Again {
    #[inline]
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        // SAFETY: the innermost frame is the thread's own; everything else is pointed to by something
        // that has just been compared with what was read then.
        Some(unsafe { (address as *const [u8; N]).read_unaligned() })
    }
}

/// All zeros is an empty one.
#[repr(C)]
pub struct PythonMemos {
    chains: Chains<128, ROOM>,
    memos: [Memo; ROOM],
    /// Code objects that frames run; several lists share one.
    codes: [KnownCode; CODES],
}

#[repr(C)]
struct Memo {
    /// When it was made; any other number: not valid.
    epoch: u32,
    count: u16,
    hash: u64,
    frames: [KnownFrame; MOST_FRAMES],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct KnownCode {
    check: u64,
    identity: Identity,
}

impl PythonMemos {
    /// The hash of the list of frames that begins with this one.
    pub fn find(&mut self, layout: &Layout, innermost: u64, epoch: u32) -> Option<u64> {
        if innermost == 0 {
            return Some(0);
        }
        let hash = hash_of(innermost, instruction(&Direct, layout, innermost)?);
        let (memos, codes) = (&self.memos, &self.codes);
        let place = self.chains.find(hash, |place| {
            memos.get(place).is_some_and(|memo| {
                memo.epoch == epoch && memo.holds(&Again, layout, innermost, codes)
            })
        })?;
        self.memos.get(place).map(|memo| memo.hash)
    }

    /// Remembers a walk, if all of it is known.
    pub fn keep(&mut self, trail: &Trail, epoch: u32, hash: u64) {
        let count = usize::from(trail.count);
        let (Some(frames), Some(identities)) =
            (trail.frames.get(..count), trail.identities.get(..count))
        else {
            return;
        };
        let Some(innermost) = frames.first().filter(|_| trail.whole) else {
            return;
        };
        let place = (self.chains).place(hash_of(innermost.frame, innermost.instruction));
        let Some(memo) = place.and_then(|place| self.memos.get_mut(place)) else {
            return;
        };
        // A signal handler may leave this half-way by a longjmp.
        memo.epoch = 0;
        compiler_fence(Ordering::SeqCst);
        (memo.count, memo.hash) = (trail.count, hash);
        for ((to, from), identity) in memo.frames.iter_mut().zip(frames).zip(identities) {
            *to = *from;
            if from.executable == 0 {
                continue;
            }
            let place = place_of(&self.codes, identity.code);
            to.place = place as u16;
            if let Some(known) = self.codes.get_mut(place) {
                *known = KnownCode {
                    check: from.check,
                    identity: *identity,
                };
            }
        }
        compiler_fence(Ordering::SeqCst);
        memo.epoch = epoch;
    }
}

/// Where a code object is or may be put; the first place of all where there is no room.
fn place_of(codes: &[KnownCode; CODES], code: u64) -> usize {
    let first = (code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    let fits = |place: &usize| {
        let known = codes
            .get(*place)
            .map_or(u64::MAX, |known| known.identity.code);
        known == code || known == 0
    };
    let mut places = (first..first + PROBES).map(|place| place % CODES);
    places.find(fits).unwrap_or(first % CODES)
}

fn hash_of(frame: u64, instruction: u64) -> u64 {
    (frame ^ instruction.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Memo {
    #[inline]
    fn holds(
        &self,
        source: &impl Source,
        layout: &Layout,
        innermost: u64,
        codes: &[KnownCode; CODES],
    ) -> bool {
        let mut next = innermost;
        let frames = self.frames.get(..usize::from(self.count)).unwrap_or(&[]);
        for known in frames {
            if known.frame != next || !known.holds(source, layout, codes) {
                return false;
            }
            next = known.previous;
        }
        next == 0
    }
}

impl KnownFrame {
    #[inline]
    fn holds(&self, source: &impl Source, layout: &Layout, codes: &[KnownCode; CODES]) -> bool {
        let word = |offset: u16| source.word(self.frame.wrapping_add(offset.into()));
        if word(layout.previous) != Some(self.previous) {
            return false;
        }
        if let Entry::Flagged(offset) | Entry::BeforeShim(offset) = layout.entry
            && source.bytes(self.frame.wrapping_add(offset.into())) != Some([self.kind])
        {
            return false;
        }
        if self.executable == 0 {
            return true;
        }
        word(layout.code) == Some(self.executable)
            && instruction(source, layout, self.frame) == Some(self.instruction)
            && codes.get(usize::from(self.place)).is_some_and(|known| {
                known.identity.code == self.executable & !7
                    && known.check == self.check
                    && known.identity.holds(source, layout)
            })
    }
}
