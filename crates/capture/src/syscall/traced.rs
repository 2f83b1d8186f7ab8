//! The threads that are traced, where another process can read them: who takes over from a tracer
//! that was killed has nobody to ask.

use std::collections::HashMap;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// More threads than these are not remembered.
const MOST: usize = 1 << 16;

/// Memory that the processes share; it stays for as long as they live.
#[derive(Clone, Copy)]
pub struct Board(&'static [AtomicI32]);

impl Board {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new mapping of zeroes, which are atomics, and never unmapped.
        unsafe {
            let memory = libc::mmap(
                ptr::null_mut(),
                MOST * size_of::<AtomicI32>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Board(std::slice::from_raw_parts(memory.cast(), MOST)))
        }
    }

    /// The threads that were written down.
    pub fn threads(self) -> impl Iterator<Item = libc::pid_t> {
        let all = self.0.iter().map(|place| place.load(Ordering::Acquire));
        all.filter(|tid| *tid != 0)
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
        for place in board.0 {
            place.store(0, Ordering::Release);
        }
        Traced {
            board,
            places: HashMap::new(),
            free: (0..MOST).rev().collect(),
        }
    }

    pub fn add(&mut self, tid: libc::pid_t) {
        if self.places.contains_key(&tid) {
            return;
        }
        if let Some(place) = self.free.pop() {
            self.board.0[place].store(tid, Ordering::Release);
            self.places.insert(tid, place);
        }
    }

    pub fn remove(&mut self, tid: libc::pid_t) {
        if let Some(place) = self.places.remove(&tid) {
            self.board.0[place].store(0, Ordering::Release);
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
