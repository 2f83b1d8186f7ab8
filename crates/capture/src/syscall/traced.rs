//! What other processes have to know of the tracer's, in memory that they share: the threads that are
//! traced, because who takes over from a tracer that was killed has nobody to ask; and how far it has
//! reported what it saw, because it may have to wait for a processor for longer than anybody would guess.

use std::collections::HashMap;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// More threads than these are not remembered.
const MOST: usize = 1 << 16;

/// Memory that the processes share; it stays for as long as they live.
#[derive(Clone, Copy)]
pub struct Board {
    threads: &'static [AtomicI32],
    busy: &'static AtomicU64,
}

/// The threads, behind what says how far the tracer is.
const BYTES: usize = size_of::<AtomicU64>() + MOST * size_of::<AtomicI32>();

impl Board {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new mapping of zeroes, which are atomics, and never unmapped.
        unsafe {
            let memory = libc::mmap(
                ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let threads = memory.byte_add(size_of::<AtomicU64>());
            Ok(Board {
                threads: std::slice::from_raw_parts(threads.cast(), MOST),
                busy: &*memory.cast::<AtomicU64>(),
            })
        }
    }

    /// The threads that were written down.
    pub fn threads(self) -> impl Iterator<Item = libc::pid_t> {
        let all = self
            .threads
            .iter()
            .map(|place| place.load(Ordering::Acquire));
        all.filter(|tid| *tid != 0)
    }

    /// From here on, the tracer sees what it has not reported yet. `now` is CLOCK_MONOTONIC, asked for
    /// before anything is looked at.
    pub fn is_busy(self, now: u64) {
        self.busy.store(now, Ordering::SeqCst);
    }

    /// Whatever it saw is in the pipe.
    pub fn has_told_all(self) {
        self.busy.store(0, Ordering::SeqCst);
    }

    /// The moment up to which everything is in the pipe; `now` is CLOCK_MONOTONIC.
    pub fn told_until(self, now: u64) -> u64 {
        match self.busy.load(Ordering::SeqCst) {
            0 => now,
            since => since.min(now),
        }
    }
}

/// The one process that writes on a board.
pub struct Traced {
    board: Board,
    places: HashMap<libc::pid_t, usize>,
    free: Vec<usize>,
}

impl Traced {
    pub fn new(board: Board) -> Self {
        for place in board.threads {
            place.store(0, Ordering::Release);
        }
        Traced {
            board,
            places: HashMap::new(),
            free: (0..MOST).rev().collect(),
        }
    }

    pub fn board(&self) -> Board {
        self.board
    }

    pub fn add(&mut self, tid: libc::pid_t) {
        if self.places.contains_key(&tid) {
            return;
        }
        if let Some(place) = self.free.pop() {
            self.board.threads[place].store(tid, Ordering::Release);
            self.places.insert(tid, place);
        }
    }

    pub fn remove(&mut self, tid: libc::pid_t) {
        if let Some(place) = self.places.remove(&tid) {
            self.board.threads[place].store(0, Ordering::Release);
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_told_before_it_counts() {
        let board = Board::new().unwrap();
        assert_eq!(board.told_until(10), 10);
        board.is_busy(7);
        assert_eq!((board.told_until(10), board.told_until(5)), (7, 5));
        board.has_told_all();
        assert_eq!(board.told_until(12), 12);
    }

    #[test]
    fn what_is_traced_is_on_the_board() {
        let board = Board::new().unwrap();
        let mut traced = Traced::new(board);
        for tid in [5, 6, 5, 7] {
            traced.add(tid);
        }
        traced.remove(6);
        traced.remove(99);
        assert_eq!(board.threads().collect::<Vec<_>>(), [5, 7]);
        for tid in 100..100 + MOST as libc::pid_t {
            traced.add(tid);
        }
        assert_eq!(board.threads().count(), MOST, "no more fit");
        assert_eq!(Traced::new(board).board.threads().count(), 0);
    }
}
