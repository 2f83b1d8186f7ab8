//! What is changed in a process's code, and taking it back: written by the tracer, while all of the process's threads
//! stand still and none of them is in the middle of what is changed.

use super::stacks::Stacks;
use super::stopped::Stopped;
use crate::ptrace;
use event::attach::{Change, Control, JUMP_BYTES, MAGIC, MOST_CHANGES, NO_SESSION, PATH_BYTES};
use std::mem::offset_of;
use std::path::PathBuf;

/// The library's [`Control`] in a process.
pub struct Remote {
    pid: libc::pid_t,
    at: u64,
}

/// What is to be changed.
pub struct Changes(Vec<Change>);

impl Remote {
    /// None: there is none there.
    pub fn at(pid: u32, at: u64) -> Option<Remote> {
        let remote = Remote {
            pid: pid as libc::pid_t,
            at,
        };
        (remote.word(offset_of!(Control, magic))? == MAGIC).then_some(remote)
    }

    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let mut wanted = [(at, vec![0; length])];
        ptrace::read_memory(self.pid, &mut wanted);
        let [(_, bytes)] = wanted;
        (bytes.len() == length).then_some(bytes)
    }

    fn word(&self, offset: usize) -> Option<u64> {
        let bytes = self.bytes(self.at + offset as u64, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The session that the hooks in the process belong to.
    pub fn session(&self) -> Option<PathBuf> {
        let attached = self.word(offset_of!(Control, attached))? as u32;
        let length = self.word(offset_of!(Control, session_bytes))? as usize;
        if attached != 1 || length == 0 || length > PATH_BYTES {
            return None;
        }
        let path = self.bytes(self.at + offset_of!(Control, session) as u64, length)?;
        Some(PathBuf::from(String::from_utf8(path).ok()?))
    }

    /// Everything that the library has changed, or wants changed.
    pub fn changes(&self) -> Option<Changes> {
        let count = self.word(offset_of!(Control, count))? as usize;
        let table = self.word(offset_of!(Control, changes))?;
        let trigger = offset_of!(Control, trigger) as u64;
        let mut bytes = self.bytes(self.at + trigger, size_of::<Change>())?;
        if table != 0 && count <= MOST_CHANGES {
            bytes.extend(self.bytes(table, count * size_of::<Change>())?);
        }
        let changes = bytes.chunks_exact(size_of::<Change>()).filter_map(change);
        Some(Changes(changes.collect()))
    }

    /// Calls that are under way, and threads that are in the middle of our code, record nothing from here on.
    pub fn stop_recording(&self) -> Option<()> {
        let generation = self.word(offset_of!(Control, generation))?;
        if generation == 0 {
            return Some(());
        }
        ptrace::write_memory(self.pid, generation, &NO_SESSION.to_le_bytes())
    }

    /// The hooks belong to nobody.
    pub fn forget_session(&self) {
        let attached = self.at + offset_of!(Control, attached) as u64;
        ptrace::write_memory(self.pid, attached, &0u32.to_le_bytes());
    }
}

fn change(bytes: &[u8]) -> Option<Change> {
    let at = offset_of!(Change, at);
    let (before, jump) = (offset_of!(Change, before), offset_of!(Change, jump));
    let change = Change {
        at: u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?),
        before: bytes.get(before..before + JUMP_BYTES)?.try_into().ok()?,
        jump: bytes.get(jump..jump + JUMP_BYTES)?.try_into().ok()?,
        ..Change::NONE
    };
    (change.at != 0).then_some(change)
}

impl Changes {
    /// Whether a thread is in the middle of what is to be changed, or will return there from a signal handler.
    pub fn are_in_use(&self, pid: u32, threads: &[Stopped]) -> bool {
        let mut places: Vec<u64> = self.0.iter().map(|change| change.at).collect();
        places.sort_unstable();
        let (Some(first), Some(last)) = (places.first().copied(), places.last().copied()) else {
            return false;
        };
        let all = first..last + JUMP_BYTES as u64;
        let is_inside = |address: u64| {
            if !all.contains(&address) {
                return false;
            }
            let after = places.partition_point(|at| *at < address);
            let before = after.checked_sub(1).and_then(|place| places.get(place));
            before.is_some_and(|at| address - at < JUMP_BYTES as u64)
        };
        let stacks = Stacks::of(pid);
        threads.iter().any(|thread| {
            thread.registers().is_none_or(|registers| {
                is_inside(registers.next()) || stacks.any_word(thread.tid, &registers, is_inside)
            })
        })
    }

    /// Writes the jumps. How many places another tool has changed meanwhile, which are left alone.
    pub fn make(&self, thread: &Stopped) -> usize {
        self.exchange(thread, |change| (change.before, change.jump))
    }

    /// Puts back what was there.
    pub fn take_back(&self, thread: &Stopped) -> usize {
        self.exchange(thread, |change| (change.jump, change.before))
    }

    fn exchange(
        &self,
        thread: &Stopped,
        which: impl Fn(&Change) -> ([u8; JUMP_BYTES], [u8; JUMP_BYTES]),
    ) -> usize {
        let mut left = 0;
        for change in &self.0 {
            let (old, new) = which(change);
            let mut found = [(change.at, vec![0; JUMP_BYTES])];
            ptrace::read_memory(thread.tid, &mut found);
            let [(_, found)] = found;
            if found == new {
                continue;
            }
            let is_done = found == old && ptrace::poke(thread.tid, change.at, &new).is_some();
            left += usize::from(!is_done);
        }
        left
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
