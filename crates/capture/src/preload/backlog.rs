//! What has been taken out of the rings and has not been assembled yet: in memory up to a bound, and packed in a file past
//! it. So a program that calls for longer than the tracer can follow loses nothing, and the tracer does not grow with it.

use crate::call::item::{Batch, Item, Step};
use crate::call::packed::{Packer, unpack};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes in memory past which batches go to the file.
const IN_MEMORY: usize = 32 << 20;
/// The file has no more than this that is still to be read.
const MOST_IN_FILE: u64 = 16 << 30;
/// Its room is given back in pieces of this size.
const GIVEN_BACK: u64 = 4 << 20;
/// What may wait in memory where there is no file, at most.
const MOST_WITHOUT: usize = 4 << 30;

pub struct Backlog {
    in_memory: AtomicUsize,
    /// Past this, rings are not emptied: they fill up, and what they do not hold is counted as lost.
    most: usize,
    /// Where the file may be, the best place first.
    folders: Vec<PathBuf>,
    /// Made when it is needed; None if it cannot be.
    file: OnceLock<Option<File>>,
    /// How much room there is in it for what is still to be read.
    most_in_file: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
}

/// A batch that waits.
pub enum Waiting {
    InMemory(Batch),
    InFile(Filed),
}

/// One in the file.
pub struct Filed {
    ring: usize,
    steps: usize,
    calls: u64,
    /// Of its first step, by the source's clock.
    time: u64,
    start: u64,
    length: usize,
}

impl Backlog {
    /// `near`: where the trace goes; None if that is the current folder, or no file.
    pub fn new(near: Option<&Path>) -> Self {
        let folders = [
            near.unwrap_or(Path::new(".")).to_owned(),
            PathBuf::from("/var/tmp"),
            std::env::temp_dir(),
        ];
        Backlog::within(folders.into(), most_without())
    }

    fn within(folders: Vec<PathBuf>, most: usize) -> Self {
        Backlog {
            in_memory: AtomicUsize::new(0),
            most,
            folders,
            file: OnceLock::new(),
            most_in_file: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    /// There is no place for more.
    pub fn is_full(&self) -> bool {
        self.in_memory.load(Ordering::Relaxed) > self.most
    }

    /// Takes a batch in. If it need not be kept as it is, it comes back.
    pub fn add(&self, batch: Batch, packer: &mut Packer) -> (Waiting, Option<Batch>) {
        let size = batch.size();
        if self.in_memory.load(Ordering::Relaxed) + size > IN_MEMORY.min(self.most)
            && let Some(filed) = self.put_in_file(&batch, packer)
        {
            return (Waiting::InFile(filed), Some(batch));
        }
        self.in_memory.fetch_add(size, Ordering::Relaxed);
        (Waiting::InMemory(batch), None)
    }

    /// None if there is no room.
    fn put_in_file(&self, batch: &Batch, packer: &mut Packer) -> Option<Filed> {
        let file = self.file.get_or_init(|| {
            let (file, room) = self.folders.iter().find_map(|folder| new_file(folder))?;
            self.most_in_file
                .store(room.min(MOST_IN_FILE), Ordering::Relaxed);
            Some(file)
        });
        let file = file.as_ref()?;
        let packed = packer.pack(batch);
        let start = self.written.load(Ordering::Relaxed);
        let end = start + packed.bytes.len() as u64;
        let most = self.most_in_file.load(Ordering::Relaxed);
        if end - self.read.load(Ordering::Relaxed) > most {
            return None;
        }
        if file.write_all_at(packed.bytes, start).is_err() {
            // The disk is full, or out of order: it is not tried again.
            self.most_in_file.store(0, Ordering::Relaxed);
            return None;
        }
        self.written.store(end, Ordering::Relaxed);
        Some(Filed {
            ring: batch.ring,
            steps: batch.items.len(),
            calls: packed.calls,
            time: batch.items.first().map_or(0, |item| item.time),
            start,
            length: packed.bytes.len(),
        })
    }

    /// Gives a batch back that was taken in; one that was in the file in the memory of `spare`, which says how many steps it
    /// must have room for. What cannot be read any more is lost, and says so.
    pub fn take(&self, waiting: Waiting, spare: impl FnOnce(usize) -> Batch) -> Batch {
        let filed = match waiting {
            Waiting::InMemory(batch) => {
                self.in_memory.fetch_sub(batch.size(), Ordering::Relaxed);
                return batch;
            }
            Waiting::InFile(filed) => filed,
        };
        let mut batch = spare(filed.steps);
        batch.ring = filed.ring;
        if self.read(&filed, &mut batch).is_none() {
            batch = batch.emptied();
            let count = filed.calls;
            batch.items.push(Item {
                time: filed.time,
                sequence: 0,
                step: Step::Lost { count },
            });
        }
        batch
    }

    fn read(&self, filed: &Filed, batch: &mut Batch) -> Option<()> {
        let file = self.file.get()?.as_ref()?;
        let mut packed = vec![0; filed.length];
        let read = file.read_exact_at(&mut packed, filed.start);
        self.give_back(file, filed.start, filed.start + filed.length as u64);
        read.ok()?;
        unpack(&packed, batch).ok()
    }

    /// What is in the file from there to there is not needed any more, nor what is before it.
    fn give_back(&self, file: &File, start: u64, end: u64) {
        self.read.store(end, Ordering::Relaxed);
        let (from, to) = (start / GIVEN_BACK, end / GIVEN_BACK);
        if to > from {
            let (offset, length) = (from * GIVEN_BACK, (to - from) * GIVEN_BACK);
            // SAFETY: a plain system call on a descriptor we hold. Where it is refused, the file is merely longer.
            unsafe {
                libc::fallocate(
                    file.as_raw_fd(),
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    offset as libc::off_t,
                    length as libc::off_t,
                );
            }
        }
    }
}

/// A file without a name on a disk, and how many bytes of it may be used: a quarter of what is free beside the part that
/// traces leave to others.
fn new_file(folder: &Path) -> Option<(File, u64)> {
    let file = unnamed(folder).ok()?;
    // SAFETY: all zeroes is one, and the call writes nothing else.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut found) == 0).then_some(found)
    }?;
    // In memory it would take what it is to save.
    if [libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type) {
        return None;
    }
    let kept = found.f_blocks / 10;
    let free = found.f_bavail.saturating_sub(kept);
    let room = free.saturating_mul(u64::try_from(found.f_bsize).ok()?) / 4;
    Some((file, room))
}

const RAMFS_MAGIC: libc::__fsword_t = 0x8584_58f6;

fn unnamed(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options
        .clone()
        .custom_flags(libc::O_TMPFILE | libc::O_EXCL)
        .open(folder)
    {
        return Ok(file);
    }
    let path = folder.join(format!(".cutrace.{}.backlog", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// An eighth of the machine's memory, if that is less than the bound.
fn most_without() -> usize {
    // SAFETY: a question without side effects.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let memory = usize::try_from(pages)
        .unwrap_or(0)
        .saturating_mul(usize::try_from(size).unwrap_or(0));
    MOST_WITHOUT.min(memory / 8).max(16 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64) -> Batch {
        let mut batch = Batch::with_room(64 << 10);
        batch.ring = number as usize;
        let item = |sequence| Item {
            time: 1_000 * number + sequence,
            sequence,
            step: Step::Lost { count: number },
        };
        batch.items.extend((0..50_000).map(item));
        batch
    }

    /// On a disk: the folder for temporary files may be in memory.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder")
    }

    #[test]
    fn what_memory_does_not_hold_comes_back_from_the_file() {
        let folder = folder();
        let backlog = Backlog::within(vec![folder.path().into()], usize::MAX);
        let mut packer = Packer::default();
        let mut waiting = Vec::new();
        for number in 0..200 {
            waiting.push(backlog.add(batch(number), &mut packer).0);
        }
        let in_file = |one: &&Waiting| matches!(one, Waiting::InFile(_));
        assert_eq!(waiting.iter().filter(in_file).count(), 192);
        assert!(backlog.in_memory.load(Ordering::Relaxed) <= IN_MEMORY);
        let left = fs::read_dir(folder.path()).expect("there").count();
        assert_eq!(left, 0, "the file has no name");
        for (number, one) in (0..).zip(waiting) {
            let back = backlog.take(one, Batch::with_room);
            let expected = batch(number);
            assert!(
                (back.ring, &back.items) == (expected.ring, &expected.items),
                "{number}"
            );
        }
        assert_eq!(backlog.in_memory.load(Ordering::Relaxed), 0);
        let file = backlog.file.get().and_then(Option::as_ref).expect("made");
        let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().expect("open"));
        let written = backlog.written.load(Ordering::Relaxed);
        assert!(
            blocks * 512 < written / 2,
            "{blocks} blocks of {written} bytes"
        );
    }

    #[test]
    fn without_a_file_memory_is_the_bound() {
        let backlog = Backlog::within(vec!["/proc/self".into()], 64 << 20);
        let mut packer = Packer::default();
        let mut waiting = Vec::new();
        while !backlog.is_full() {
            waiting.push(backlog.add(batch(1), &mut packer).0);
        }
        assert_eq!(waiting.len(), 17);
        waiting.truncate(15);
        let back = backlog.take(waiting.pop().expect("one"), Batch::with_room);
        assert_eq!(back.items.len(), 50_000);
        assert!(!backlog.is_full());
    }

    #[test]
    fn what_cannot_be_read_is_lost_and_says_so() {
        let folder = folder();
        let backlog = Backlog::within(vec![folder.path().into()], usize::MAX);
        let mut packer = Packer::default();
        let waiting: Vec<Waiting> = (0..10)
            .map(|number| backlog.add(batch(number), &mut packer).0)
            .collect();
        let file = backlog.file.get().and_then(Option::as_ref).expect("made");
        file.set_len(1_000).expect("shortened");
        let last = waiting.into_iter().last().expect("ten of them");
        let back = backlog.take(last, Batch::with_room);
        let steps: Vec<&Step> = back.items.iter().map(|item| &item.step).collect();
        // Each of those steps stood for nine calls.
        let count = 9 * 50_000;
        assert_eq!((back.ring, &*steps), (9, &[&Step::Lost { count }][..]));
    }
}
