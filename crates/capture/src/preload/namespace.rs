//! Numbers of processes and threads in other PID namespaces, as this one has them: what a container's
//! process calls 1 is some other number here, and that is the one that other back ends see.
//!
//! Looked up in /proc while the process lives. What cannot be found keeps the number it has given.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Shared by all that read numbers, so that they agree.
#[derive(Debug, Clone)]
pub struct Namespaces(Arc<Mutex<ProcessTable>>);

#[derive(Debug)]
struct ProcessTable {
    proc: PathBuf,
    /// Ours; None: /proc does not say.
    own: Option<u64>,
    processes: HashMap<(u64, u32), Option<Outer>>,
}

/// A process as it is known here.
#[derive(Debug)]
struct Outer {
    pid: u32,
    parent: u32,
    threads: HashMap<u32, u32>,
    /// How many there were when we looked last.
    running: u32,
    looked: Option<Instant>,
}

/// Going through the threads of a process takes about this long for each.
const LOOK_AT_THREAD: Duration = Duration::from_micros(20);
/// More processes than this are not remembered: their numbers stay as they are.
const MOST_KNOWN: usize = 64 << 10;

impl Namespaces {
    /// What all back ends know of this machine's processes.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Namespaces> = OnceLock::new();
        let new = || Namespaces::new(Path::new("/proc"));
        SHARED.get_or_init(new).clone()
    }

    pub fn new(proc: &Path) -> Self {
        Namespaces(Arc::new(Mutex::new(ProcessTable {
            own: namespace_of(&proc.join("self")),
            proc: proc.to_owned(),
            processes: HashMap::new(),
        })))
    }

    /// Our number for a process, and for its parent.
    pub fn process(&self, namespace: u64, pid: u32) -> Option<(u32, u32)> {
        let mut known = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let outer = known.process(namespace, pid)?;
        Some((outer.pid, outer.parent))
    }

    /// Our numbers for a thread and its process; its own where we cannot tell.
    pub fn thread(&self, namespace: u64, pid: u32, tid: u32) -> (u32, u32) {
        let mut known = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let proc = known.proc.clone();
        match known.process(namespace, pid) {
            Some(outer) => (outer.pid, outer.thread(&proc, tid)),
            None => (pid, tid),
        }
    }
}

impl Namespaces {
    /// The same, of a thread that has made calls a while ago and may have ended since.
    pub fn former_thread(&self, namespace: u64, pid: u32, tid: u32) -> u32 {
        let mut known = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let proc = known.proc.clone();
        match known.process(namespace, pid) {
            Some(outer) => match outer.threads.get(&tid) {
                Some(known) => *known,
                None => outer.thread(&proc, tid),
            },
            None => tid,
        }
    }
}

impl ProcessTable {
    /// None: it is of our own namespace, or cannot be found.
    fn process(&mut self, namespace: u64, pid: u32) -> Option<&mut Outer> {
        let own = self.own?;
        if namespace == 0 || namespace == own {
            return None;
        }
        if self.processes.len() >= MOST_KNOWN && !self.processes.contains_key(&(namespace, pid)) {
            return None;
        }
        let proc = &self.proc;
        (self.processes.entry((namespace, pid)))
            .or_insert_with(|| find(proc, namespace, pid))
            .as_mut()
    }
}

impl Outer {
    fn thread(&mut self, proc: &Path, tid: u32) -> u32 {
        let tasks = proc.join(self.pid.to_string()).join("task");
        let is_still = |outer: u32| inner(&tasks.join(outer.to_string())) == Some(tid);
        if let Some(outer) = self.threads.get(&tid).filter(|outer| is_still(**outer)) {
            return *outer;
        }
        if self.threads.len() > MOST_KNOWN {
            self.threads.clear();
        }
        let cost = LOOK_AT_THREAD * self.running;
        if self.looked.is_none_or(|at| at.elapsed() >= cost) {
            // Those that have ended stay, until their numbers are used again.
            self.threads.extend(
                numbers(&tasks)
                    .filter_map(|outer| Some((inner(&tasks.join(outer.to_string()))?, outer))),
            );
            self.running = numbers(&tasks).count() as u32;
            self.looked = Some(Instant::now());
            let found = self.threads.get(&tid).copied();
            return found.filter(|outer| is_still(*outer)).unwrap_or(tid);
        }
        tid
    }
}

fn find(proc: &Path, namespace: u64, pid: u32) -> Option<Outer> {
    numbers(proc).find_map(|outer| {
        let folder = proc.join(outer.to_string());
        if inner(&folder) != Some(pid) || namespace_of(&folder) != Some(namespace) {
            return None;
        }
        let parent = status(&folder, "PPid:").and_then(|text| text.parse().ok());
        Some(Outer {
            pid: outer,
            parent: parent.unwrap_or(0),
            threads: HashMap::new(),
            running: 0,
            looked: None,
        })
    })
}

fn numbers(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn status(folder: &Path, key: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join("status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().to_owned())
}

/// The number that it has in its own namespace, the innermost.
fn inner(folder: &Path) -> Option<u32> {
    let numbers = status(folder, "NSpid:")?;
    numbers.split_ascii_whitespace().next_back()?.parse().ok()
}

fn namespace_of(folder: &Path) -> Option<u64> {
    let name = fs::read_link(folder.join("ns/pid")).ok()?;
    let digits = name.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn task(folder: &Path, namespace: u64, numbers: &str) {
        fs::create_dir_all(folder.join("ns")).expect("a folder");
        let text = format!("Name:\tx\nPPid:\t7\nNSpid:\t{numbers}\n");
        fs::write(folder.join("status"), text).expect("written");
        let _ = symlink(format!("pid:[{namespace}]"), folder.join("ns/pid"));
    }

    #[test]
    fn numbers_of_another_namespace_become_ours() {
        let proc = tempfile::tempdir().expect("a folder");
        let proc = proc.path();
        task(&proc.join("self"), 100, "9");
        task(&proc.join("9"), 100, "9");
        task(&proc.join("50"), 300, "50\t1");
        task(&proc.join("40"), 200, "40\t1");
        task(&proc.join("40/task/40"), 200, "40\t1");
        task(&proc.join("40/task/44"), 200, "44\t5");
        let namespaces = Namespaces::new(proc);
        assert_eq!(namespaces.process(200, 1), Some((40, 7)));
        assert_eq!(namespaces.thread(200, 1, 5), (40, 44));
        assert_eq!(namespaces.thread(300, 1, 1), (50, 1));
        // Gone before anybody looked, ours, and unknown.
        assert_eq!(namespaces.thread(200, 6, 6), (6, 6));
        assert_eq!(namespaces.thread(100, 1, 1), (1, 1));
        assert_eq!(namespaces.thread(0, 1, 1), (1, 1));
        // The number is another thread's by now.
        fs::remove_dir_all(proc.join("40/task/44")).expect("removed");
        task(&proc.join("40/task/45"), 200, "45\t5");
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(namespaces.thread(200, 1, 5), (40, 45));
        fs::remove_dir_all(proc.join("40/task/45")).expect("removed");
        assert_eq!(namespaces.former_thread(200, 1, 5), 45);
    }
}
