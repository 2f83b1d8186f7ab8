//! The gates of a session's programs: who closes one makes the hooks of its functions cost a few instructions.
//! What a function's gate is, `cuda::gate` says.

use event::{
    gpu_times::PAUSE_FILE,
    ring::{Counters, GATE_CLOSED, GATE_OPEN, GATES},
};
use std::{
    fs::{self, File},
    mem::offset_of,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Shared by windows, budgets and the sources that can do so. Without such a source nothing happens.
#[derive(Debug, Clone, Default)]
pub struct Gates(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Where programs look (`event::ring::COUNTERS_FILE`).
    pages: Vec<File>,
    /// Nobody watches, but for functions of these classes.
    closed: Option<Vec<u8>>,
    /// What is not worth its cost: a value of the gate, by class.
    shed: Vec<(u8, u8)>,
    /// Where who collects GPU times looks, and whether they are not wanted.
    times: Vec<PathBuf>,
    paused: bool,
}

impl Gates {
    /// Programs that look at this page pass these gates from now on.
    pub fn add(&self, page: File) {
        let mut state = self.state();
        state.pages.push(page);
        state.apply();
    }

    /// The collector of GPU times in this folder pauses when they are not wanted.
    pub fn add_times(&self, folder: &Path) {
        let mut state = self.state();
        state.times.push(folder.join(PAUSE_FILE));
        state.pause();
    }

    /// GPU times are wanted, or not; it takes a moment until programs know. Work that was launched before
    /// has a few seconds to end.
    pub fn want_times(&self, wanted: bool) {
        let mut state = self.state();
        if std::mem::replace(&mut state.paused, !wanted) == wanted {
            state.pause();
        }
    }

    /// Lets every call by but those of the classes in `but`, and those that others are understood by.
    pub fn close(&self, but: &[u8]) {
        self.change(|state| state.closed = Some(but.to_vec()));
    }

    pub fn open(&self) {
        self.change(|state| state.closed = None);
    }

    /// Sheds these classes, each by its value (`GATE_SHED`, `GATE_SHED_SMALL`), and no others.
    pub fn shed(&self, classes: &[(u8, u8)]) {
        self.change(|state| state.shed = classes.to_vec());
    }

    #[cfg(test)]
    pub fn sheds(&self, class: u8) -> bool {
        self.state().shed.iter().any(|(shed, _)| *shed == class)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let before = state.values();
        change(&mut state);
        if state.values() != before {
            state.apply();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn values(&self) -> [u8; GATES] {
        let mut values = [GATE_OPEN; GATES];
        for (class, value) in &self.shed {
            if let Some(gate) = values.get_mut(usize::from(*class)) {
                *gate = *value;
            }
        }
        if let Some(but) = &self.closed {
            for (class, gate) in values.iter_mut().enumerate() {
                if !but.contains(&(class as u8)) {
                    *gate = GATE_CLOSED;
                }
            }
        }
        values[usize::from(cuda::gate::ALWAYS)] = GATE_OPEN;
        values
    }

    fn pause(&self) {
        for path in &self.times {
            // A folder that is gone has no one who looks there.
            let _ = match self.paused {
                true => File::create(path).map(drop),
                false => fs::remove_file(path),
            };
        }
    }

    /// A program that is gone has taken its page with it: nothing to do about it.
    fn apply(&self) {
        let values = self.values();
        for page in &self.pages {
            let _ = page.write_all_at(&values, offset_of!(Counters, gates) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::ring::{COUNTERS_SIZE, GATE_SHED};

    #[test]
    fn a_closed_gate_says_more_than_one_that_sheds() {
        let page = tempfile::tempfile().expect("a file");
        page.set_len(COUNTERS_SIZE as u64).expect("long enough");
        let gates = Gates::default();
        gates.shed(&[(cuda::gate::QUERIES, GATE_SHED)]);
        gates.add(page.try_clone().expect("the same"));
        let read = || {
            let mut values = [9; GATES];
            page.read_exact_at(&mut values, offset_of!(Counters, gates) as u64)
                .expect("there");
            values
        };
        let queries = usize::from(cuda::gate::QUERIES);
        assert_eq!((read()[queries], read()[20]), (GATE_SHED, GATE_OPEN));
        gates.close(&[20]);
        assert_eq!((read()[queries], read()[20]), (GATE_CLOSED, GATE_OPEN));
        assert_eq!((read()[0], read()[21]), (GATE_OPEN, GATE_CLOSED));
        gates.open();
        assert_eq!((read()[queries], read()[21]), (GATE_SHED, GATE_OPEN));
    }
}
