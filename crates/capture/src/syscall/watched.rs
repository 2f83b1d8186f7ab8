//! Which processes have our second filter, and which may get it.

use super::frame::Unseen;
use std::collections::HashSet;
use std::fs;

pub struct Watched {
    /// They have it, or were found not to take it.
    settled: HashSet<u32>,
    /// Filters in a process that has but our first. None: this kernel does not say.
    expected: Option<u64>,
    /// Another tracer was here before, and may have put it in.
    pub is_heir: bool,
}

const FILTERS: &str = "Seccomp_filters:";

impl Watched {
    pub fn new() -> Self {
        Watched {
            settled: HashSet::new(),
            // The program has those that we have, and one more.
            expected: status_of(std::process::id(), FILTERS).map(|own| own + 1),
            is_heir: false,
        }
    }

    /// Whether a process is to get it now; asked again, it is not.
    pub fn wants(&mut self, pid: u32) -> Result<bool, Unseen> {
        if self.settled.contains(&pid) {
            return Ok(false);
        }
        self.settled.insert(pid);
        let more = match (status_of(pid, FILTERS), self.expected) {
            (Some(found), Some(expected)) => found > expected,
            _ => true,
        };
        if !more {
            return Ok(true);
        }
        // Children have it from their parents, and may be heard of before their making is.
        let inherited = status_of(pid, "PPid:")
            .and_then(|parent| parent.try_into().ok())
            .is_some_and(|parent| self.settled.contains(&parent));
        if inherited || self.is_heir {
            return Ok(false);
        }
        // A filter may kill a process for what we would have it do.
        Err(Unseen::OwnFilters)
    }

    /// A child, or a thread, which has what its parent has.
    pub fn made(&mut self, parent: u32, child: u32) {
        if self.settled.contains(&parent) {
            self.settled.insert(child);
        }
    }

    pub fn forget(&mut self, pid: u32) {
        self.settled.remove(&pid);
    }
}

/// A number of a process's, or a thread's, status.
pub fn status_of(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}
