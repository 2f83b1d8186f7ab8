//! Finds processes of the traced command that use CUDA and are not traced: their parent
//! cleared their environment, or gave them another root, where the injected library is not. Looks at
//! /proc from time to time, so one that lives for less than a moment goes unnamed.

use crate::notes::{Notes, Topic};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Short beside the time that CUDA takes to start.
const LOOK: Duration = Duration::from_millis(100);
const VARIABLE: &[u8] = b"CUTRACE_SESSION=";
/// Processes looked at in one go, at most.
const MOST_PROCESSES: usize = 4096;
const MOST_NAMED: usize = 64;

static UNTRACED: Topic = Topic {
    one: "{}",
    many: "{} processes use CUDA but were not traced",
};

pub struct UntracedWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Notes>>,
}

impl UntracedWatch {
    /// Watches what this process starts; `library` is what traced processes have loaded, `session` the
    /// folder they write to. Where no thread can be had, nothing is found.
    pub fn start(library: Option<PathBuf>, session: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("untraced".into())
            .spawn(move || {
                let mut found = UntracedProcesses {
                    library,
                    session,
                    ..UntracedProcesses::default()
                };
                while !stopped.load(Ordering::Acquire) {
                    std::thread::park_timeout(LOOK);
                    found.look(Path::new("/proc"), std::process::id());
                }
                found.notes
            })
            .ok();
        UntracedWatch { stop, thread }
    }

    /// What there is to say of those that were found.
    pub fn finish(mut self) -> Notes {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Notes::default();
        };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

#[derive(Default)]
struct UntracedProcesses {
    library: Option<PathBuf>,
    session: PathBuf,
    /// What each process was when it was last looked at, and whether there is more to learn of it.
    known: HashMap<u32, (PathBuf, Verdict)>,
    notes: Notes,
    named: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Traced,
    /// Nothing of CUDA in it so far.
    Outside,
    Named,
}

impl UntracedProcesses {
    fn look(&mut self, proc: &Path, root: u32) {
        let mut waiting = children(proc, root);
        let mut seen = 0;
        while let Some(pid) = waiting.pop() {
            seen += 1;
            if seen > MOST_PROCESSES || self.named >= MOST_NAMED {
                return;
            }
            waiting.extend(children(proc, pid));
            let folder = proc.join(pid.to_string());
            // Another user's, or gone.
            let Ok(program) = fs::read_link(folder.join("exe")) else {
                continue;
            };
            let before = self.known.get(&pid).filter(|(known, _)| *known == program);
            let verdict = match before.map(|(_, verdict)| *verdict) {
                Some(verdict @ (Verdict::Traced | Verdict::Named)) => verdict,
                _ => self.judge(&folder, pid, &program),
            };
            self.known.insert(pid, (program, verdict));
        }
    }

    fn judge(&mut self, folder: &Path, pid: u32, program: &Path) -> Verdict {
        let Ok(environment) = fs::read(folder.join("environ")) else {
            return Verdict::Outside;
        };
        let mut variables = environment.split(|byte| *byte == 0);
        let has_session = variables.any(|variable| variable.starts_with(VARIABLE));
        let ours = self.library.as_deref().filter(|_| has_session);
        if has_session && ours.is_none() {
            return Verdict::Traced;
        }
        let Ok(maps) = fs::read_to_string(folder.join("maps")) else {
            return Verdict::Outside;
        };
        let Some(library) = maps.lines().find_map(cuda_library) else {
            return Verdict::Outside;
        };
        // It has its rings mapped, whatever root it has had since.
        let session = self.session.to_string_lossy();
        if has_session && maps.lines().any(|line| line.contains(&*session)) {
            return Verdict::Traced;
        }
        let why = match ours {
            None => "it was started with its environment cleared",
            Some(ours) => {
                // In another root its name there may be another one.
                let name = ours.file_name().unwrap_or_default().as_encoded_bytes();
                let is_loaded = maps.lines().any(|line| line.as_bytes().ends_with(name));
                let is_there = |path: &Path| {
                    let path = path.strip_prefix("/").unwrap_or(path);
                    fs::exists(folder.join("root").join(path)).unwrap_or(true)
                };
                if !is_there(ours) || !is_there(&self.session) {
                    "it runs in another root (a container) that does not have cutrace's files: run cutrace inside it"
                } else if is_loaded {
                    return Verdict::Traced;
                } else {
                    "its loader did not load cutrace's library (LD_PRELOAD)"
                }
            }
        };
        let program = program.display();
        self.named += 1;
        self.notes.about(
            &UNTRACED,
            format!("process {pid} ({program}) uses CUDA ({library}) but was not traced: {why}"),
        );
        Verdict::Named
    }
}

/// The name of the library that a line of a process's maps is of, if it is CUDA's.
fn cuda_library(line: &str) -> Option<&str> {
    let (_, name) = line.rsplit_once('/')?;
    let is_cuda = name.starts_with("libcuda.so") || name.starts_with("libcudart.so");
    is_cuda.then_some(name)
}

fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(proc.join(pid.to_string()).join("task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            let numbers = list.split_ascii_whitespace();
            numbers
                .filter_map(|number| number.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(proc: &Path, pid: u32, children: &str, environ: &str, maps: &str) {
        let task = proc.join(format!("{pid}/task/{pid}"));
        fs::create_dir_all(&task).expect("a folder");
        fs::write(task.join("children"), children).expect("written");
        let folder = proc.join(pid.to_string());
        fs::write(folder.join("environ"), environ).expect("written");
        fs::write(folder.join("maps"), maps).expect("written");
        let _ = symlink(format!("/bin/program{pid}"), folder.join("exe"));
    }

    #[test]
    fn only_those_that_use_cuda_without_us_are_named_and_once() {
        let proc = tempfile::tempdir().expect("a folder");
        let proc = proc.path();
        let cuda = "7f00-7f01 r-xp 0 00:00 0 /usr/lib/libcuda.so.1\n";
        let traced = "A=1\0CUTRACE_SESSION=/dev/shm/x\0";
        process(proc, 1, "2 3 ", traced, "");
        process(proc, 2, "4 ", traced, cuda);
        process(
            proc,
            3,
            "",
            "A=1\0",
            "7f00-7f01 r-xp 0 00:00 0 /lib/libc.so.6\n",
        );
        process(proc, 4, "", "", cuda);
        process(proc, 9, "", "", cuda);
        let mut found = UntracedProcesses::default();
        found.look(proc, 1);
        let named = "process 4 (/bin/program4) uses CUDA (libcuda.so.1)";
        let lines = found.notes.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(named), "{lines:?}");
        // It has loaded CUDA since.
        process(proc, 3, "", "A=1\0", cuda);
        found.look(proc, 1);
        found.look(proc, 1);
        let many = "2 processes use CUDA but were not traced (-v lists them)";
        assert_eq!(found.notes.lines(), [many]);
        assert!(found.notes.details()[1].contains("/bin/program3"));
    }

    #[test]
    fn a_process_with_another_root_is_named() {
        let proc = tempfile::tempdir().expect("a folder");
        let proc = proc.path();
        let cuda = "7f00-7f01 r-xp 0 00:00 0 /usr/lib/libcuda.so.1\n";
        let with_us = format!("{cuda}7f02-7f03 r-xp 0 00:00 0 /cache/libours.so\n");
        let traced = "CUTRACE_SESSION=/dev/shm/x\0";
        let rings = format!("{cuda}7f04-7f05 rw-s 0 00:00 0 /dev/shm/x/rings.6.0 (deleted)\n");
        process(proc, 6, "", traced, &rings);
        process(proc, 1, "2 3 4 5 6 ", traced, "");
        process(proc, 2, "", traced, &with_us);
        process(proc, 3, "", traced, cuda);
        process(proc, 4, "", traced, cuda);
        process(proc, 5, "", traced, &with_us);
        for pid in [2, 3, 5] {
            let root = proc.join(format!("{pid}/root"));
            fs::create_dir_all(root.join("cache")).expect("a folder");
            fs::write(root.join("cache/libours.so"), "").expect("written");
            if pid != 5 {
                fs::create_dir_all(root.join("dev/shm/x")).expect("a folder");
            }
        }
        for pid in [4, 6] {
            fs::create_dir(proc.join(format!("{pid}/root"))).expect("a folder");
        }
        let mut found = UntracedProcesses {
            library: Some("/cache/libours.so".into()),
            session: "/dev/shm/x".into(),
            ..UntracedProcesses::default()
        };
        found.look(proc, 1);
        let mut notes = found.notes.details();
        notes.sort();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes[0].starts_with("process 3 ") && notes[0].contains("loader"));
        for (note, pid) in notes[1..].iter().zip([4, 5]) {
            assert!(note.starts_with(&format!("process {pid} ")), "{note}");
            assert!(note.ends_with("run cutrace inside it"), "{note}");
        }
    }

    #[test]
    fn hostile_trees_end() {
        let proc = tempfile::tempdir().expect("a folder");
        process(proc.path(), 1, "1 1 x -5 99999999999", "", "");
        let mut found = UntracedProcesses::default();
        found.look(proc.path(), 1);
        assert_eq!(found.notes.lines(), [""; 0]);
    }
}
