//! The processes of a command: its first and all below it.

use std::collections::HashSet;
use std::fs;

/// Processes that are followed at most.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub struct Tree {
    pub roots: Vec<u32>,
    /// As of the last look. One whose parent has ended stays in it while it lives.
    pub all: Vec<u32>,
}

impl Tree {
    pub fn look(&mut self) {
        let mut seen: HashSet<u32> = HashSet::new();
        let lives = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap_or(false);
        let mut all: Vec<u32> = Vec::new();
        let known = self.roots.iter().chain(&self.all).copied();
        all.extend(known.filter(lives).filter(|pid| seen.insert(*pid)));
        let mut place = 0;
        let own = std::process::id();
        while let Some(&pid) = all.get(place) {
            place += 1;
            for child in children(pid) {
                if all.len() < MOST && seen.insert(child) {
                    all.push(child);
                }
            }
        }
        // The tracer itself may have the driver's files open.
        all.retain(|pid| *pid != own);
        self.all = all;
    }
}

/// The children that the threads of a process have started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut children = Vec::new();
    for task in tasks.into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(
            text.split_ascii_whitespace()
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_and_theirs_are_found_and_forgotten() {
        let script = "sleep 30 & wait";
        let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let mut tree = Tree {
            roots: vec![std::process::id()],
            ..Tree::default()
        };
        for _ in 0..500 {
            tree.look();
            if children(child.id())
                .iter()
                .any(|pid| tree.all.contains(pid))
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let below = children(child.id());
        assert!(tree.all.contains(&child.id()), "{:?}", tree.all);
        assert!(below.iter().all(|pid| tree.all.contains(pid)), "{below:?}");
        child.kill().expect("killed");
        child.wait().expect("gone");
        // Its own child lives on, and is still known.
        tree.look();
        assert!(!tree.all.contains(&child.id()));
        for pid in below {
            assert!(tree.all.contains(&pid));
            // SAFETY: the child that this test started.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
    }
}
