//! A process's file of rings, seen from the tracer. As with the rings in it, nothing that it holds is
//! believed.

use super::folder::open_left;
use super::ring::{Mapping, Ring};
use event::ring::{
    ARENA_HEADER_SIZE, ARENA_MAGIC, ARENA_TEXT, ArenaHeader, MOST_RINGS, RingState, TEXT_WORD,
    ring_stride,
};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether somebody else has the file open or mapped: the kernel grants a write lease only if nobody has.
fn is_used_elsewhere(file: &File) -> Option<bool> {
    let lease = |kind: libc::c_int| {
        // SAFETY: a plain system call on a descriptor we hold.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match lease(libc::F_WRLCK) {
        Ok(()) => lease(libc::F_UNLCK).ok().map(|()| false),
        Err(why) => (why.kind() == io::ErrorKind::WouldBlock).then_some(true),
    }
}

/// Whether leases in this folder tell of files that a process has mapped and closed. On overlayfs they do not: a mapping
/// there is one of the file below. A tracer that believed it would stop reading the rings of a process that lives.
pub fn leases_see_mappings(folder: &Path) -> io::Result<bool> {
    const BYTES: usize = 4096;
    let path = folder.join("lease");
    let open = |new: bool| {
        File::options()
            .read(true)
            .write(true)
            .create_new(new)
            .mode(0o600)
            .open(&path)
    };
    let file = open(true)?;
    let used = (|| {
        file.set_len(BYTES as u64)?;
        let _mapping = Mapping::new(&open(false)?, BYTES)?;
        Ok(is_used_elsewhere(&file) == Some(true))
    })();
    std::fs::remove_file(&path)?;
    used
}

/// More than any session asks for; bounds what a damaged header makes us map.
const MOST_SLOTS: u32 = 1 << 22;
const MOST_BYTES: u64 = 64 << 30;
/// Longer messages are none of ours.
const LONGEST_TEXT: usize = 16 << 20;

#[derive(Debug)]
pub struct Arena {
    mapping: Arc<Mapping>,
    file: File,
    length: u64,
    /// Bytes for text.
    text: u64,
    /// Slots of each ring, at most.
    capacity: u32,
    most: u32,
    /// Who made it.
    pub pid: u32,
    pub namespace: u64,
}

impl Arena {
    /// None while the file is not (or not yet) a whole arena.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match open_left(path, true) {
            // A link, a socket, or a pipe: nothing that a process has left.
            Err(why)
                if why.kind() == io::ErrorKind::InvalidInput
                    || matches!(why.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) =>
            {
                return Ok(None);
            }
            opened => opened?,
        };
        // Read, not mapped: a page of a file that is being made may find no memory.
        let mut head = [0; size_of::<ArenaHeader>()];
        if file.read_exact_at(&mut head, 0).is_err() {
            return Ok(None);
        }
        let word = |offset: usize| {
            let bytes = head.get(offset..offset + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let half = |offset: usize| {
            let bytes = head.get(offset..offset + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        let known = || {
            let magic = word(offset_of!(ArenaHeader, magic))?;
            let length = word(offset_of!(ArenaHeader, bytes))?;
            let text = word(offset_of!(ArenaHeader, text))?;
            let capacity = half(offset_of!(ArenaHeader, capacity))?;
            let most = half(offset_of!(ArenaHeader, most))?;
            let rings = u64::from(most).checked_mul(ring_stride(capacity) as u64)?;
            let needed = (ARENA_TEXT as u64).checked_add(text)?.checked_add(rings)?;
            (magic == ARENA_MAGIC
                && text.is_multiple_of(4096)
                && capacity.is_power_of_two()
                && capacity <= MOST_SLOTS
                && most as usize <= MOST_RINGS
                && needed <= length
                && length <= MOST_BYTES)
                .then_some((length, text, capacity, most))
        };
        let Some((length, text, capacity, most)) = known() else {
            return Ok(None);
        };
        if file.metadata()?.len() < length {
            return Ok(None);
        }
        let mapping = Mapping::new(&file, length as usize)?;
        Ok(Some(Arena {
            mapping: Arc::new(mapping),
            file,
            length,
            text,
            capacity,
            most,
            pid: half(offset_of!(ArenaHeader, pid)).unwrap_or(0),
            namespace: word(offset_of!(ArenaHeader, namespace)).unwrap_or(0),
        }))
    }

    /// The file still has the length that was mapped: touching pages past its end would kill us.
    pub fn is_whole(&self) -> bool {
        (self.file.metadata()).is_ok_and(|found| found.len() >= self.length)
    }

    /// Whether a process still has it mapped: one that was killed, or replaced itself, does not say
    /// so. None where the file system knows no leases. To be believed where [`leases_see_mappings`].
    pub fn has_producer(&self) -> Option<bool> {
        is_used_elsewhere(&self.file)
    }

    /// Rings that have been taken so far; the directory says what became of each.
    pub fn taken(&self) -> u32 {
        let taken = self.mapping.word(offset_of!(ArenaHeader, taken));
        taken.load(Ordering::Acquire).min(self.most.into()) as u32
    }

    fn state_word(&self, index: u32) -> &AtomicU32 {
        self.mapping.half(ARENA_HEADER_SIZE + 4 * index as usize)
    }

    pub fn state(&self, index: u32) -> RingState {
        let word = self.state_word(index).load(Ordering::Acquire);
        RingState::from_word(word).unwrap_or(RingState::Unused)
    }

    /// Everything in the ring of an ended thread has been read: another may have it.
    pub fn give_back(&self, index: u32) {
        let free = RingState::Free as u32;
        self.state_word(index).store(free, Ordering::Release);
    }

    /// A ring that is live or ended.
    pub fn ring(&self, index: u32) -> Option<Ring> {
        let stride = ring_stride(self.capacity);
        let base = ARENA_TEXT + self.text as usize + index as usize * stride;
        Ring::at(&self.mapping, base, self.capacity)
    }

    /// The next message of the area for text, from `read` on, and whose it is.
    pub fn text(&self, read: &mut u64) -> Option<(u32, Vec<u8>)> {
        let said = self.mapping.word(offset_of!(ArenaHeader, said));
        let said = said.load(Ordering::Acquire).min(self.text);
        if *read + TEXT_WORD as u64 > said {
            return None;
        }
        let place = ARENA_TEXT + *read as usize;
        let word = self.mapping.word(place).load(Ordering::Acquire);
        let length = word as u32 as usize;
        let whole = (TEXT_WORD + length).next_multiple_of(TEXT_WORD);
        if length == 0 || length > LONGEST_TEXT || *read + whole as u64 > said {
            return None;
        }
        let mut bytes = Vec::with_capacity(whole);
        for offset in (TEXT_WORD..whole).step_by(8) {
            let word = self.mapping.word(place + offset).load(Ordering::Relaxed);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(length);
        *read += whole as u64;
        Some(((word >> 32) as u32, bytes))
    }
}
