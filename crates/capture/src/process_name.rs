//! What processes are called: by their own command lines, as `ps` shows them.

use event::ProcessName;
use std::collections::{HashMap, HashSet};
use std::fs;

/// Arguments are kept up to this many bytes in all: some programs are given whole files.
const MOST_BYTES: usize = 4 << 10;
/// Processes whose names are kept.
const MOST_PROCESSES: usize = 4096;

/// A process that runs. None: it is gone, or nobody may look at it.
pub fn of_running(pid: u32) -> Option<ProcessName> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let comm = String::from_utf8_lossy(&read("comm")?).trim().to_owned();
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let command = arguments(&read("cmdline").unwrap_or_default());
    Some(ProcessName {
        pid,
        parent: parent_of(pid),
        name: short(&command, &comm, &exe.to_string_lossy()),
        command,
        origin: None,
    })
}

/// As the kernel has it in /proc/PID/stat.
pub fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name may have spaces and brackets in it.
    let after = status.rsplit_once(')')?.1;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// The words of a command line that end with NULs.
pub fn arguments(bytes: &[u8]) -> Vec<String> {
    let cut = bytes.len() > MOST_BYTES;
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    let whole = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if whole.is_empty() {
        return Vec::new();
    }
    let words = whole.split(|byte| *byte == 0);
    let mut words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if cut && let Some(last) = words.last_mut() {
        last.push('…');
    }
    words
}

/// The program's name without its folders. A command line that the program has written over (`sshd: ada@pts/0`)
/// names no file: then it is what the kernel calls it.
pub fn short(command: &[String], comm: &str, exe: &str) -> String {
    let first = command.first().map_or("", String::as_str);
    let is_path = !first.is_empty() && !first.contains(char::is_whitespace);
    let path = if is_path { first } else { exe };
    let without_folders = || path.rsplit('/').find(|part| !part.is_empty());
    match comm {
        "" => without_folders().unwrap_or(first).to_owned(),
        comm if !is_path => comm.to_owned(),
        comm => without_folders().unwrap_or(comm).to_owned(),
    }
}

/// Names of processes as they are seen, each looked up once.
#[derive(Debug, Default)]
pub struct Names {
    found: HashMap<u32, ProcessName>,
    /// Gone before they were looked at.
    unknown: HashSet<u32>,
}

impl Names {
    /// A process does something: which one is it?
    pub fn see(&mut self, pid: u32) {
        if !self.found.contains_key(&pid) && !self.unknown.contains(&pid) {
            self.look(pid);
        }
    }

    /// The process may have become another program.
    pub fn look(&mut self, pid: u32) {
        if self.found.len() + self.unknown.len() >= MOST_PROCESSES {
            return;
        }
        match of_running(pid) {
            Some(name) => {
                self.unknown.remove(&pid);
                self.found.insert(pid, name);
            }
            None if !self.found.contains_key(&pid) => {
                self.unknown.insert(pid);
            }
            None => {}
        }
    }

    pub fn get(&self, pid: u32) -> Option<&ProcessName> {
        self.found.get(&pid)
    }

    /// One that forked has its parent's name until it becomes another program.
    pub fn forked(&mut self, parent: u32, child: u32) {
        if self.found.contains_key(&child) || self.found.len() >= MOST_PROCESSES {
            return;
        }
        if let Some(name) = self.found.get(&parent).cloned() {
            let parent = Some(parent);
            self.unknown.remove(&child);
            self.found.insert(
                child,
                ProcessName {
                    pid: child,
                    parent,
                    ..name
                },
            );
        }
    }

    /// It has ended, and its number may become another's.
    pub fn forget(&mut self, pid: u32) {
        self.found.remove(&pid);
        self.unknown.remove(&pid);
    }

    /// In the order of their numbers.
    pub fn into_vec(self) -> Vec<ProcessName> {
        let mut all: Vec<ProcessName> = self.found.into_values().collect();
        all.sort_by_key(|name| name.pid);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_folders_and_come_from_who_knows() {
        let words = |line: &[u8]| arguments(line);
        let command = words(b"/usr/bin/python3\0train.py\0");
        assert_eq!(command, ["/usr/bin/python3", "train.py"]);
        assert_eq!(
            short(&command, "pt_main_thread", "/usr/bin/python3.11"),
            "python3"
        );
        assert_eq!(
            short(&words(b"sshd: ada@pts/0"), "sshd", "/usr/sbin/sshd"),
            "sshd"
        );
        assert_eq!(short(&[], "", "/opt/app"), "app");
        assert_eq!(short(&[], "kworker/0:1", ""), "kworker/0:1");
        assert_eq!(short(&[], "", ""), "");
        let long = words(&vec![b'x'; 2 * MOST_BYTES]);
        assert!(long[0].len() == MOST_BYTES + '…'.len_utf8() && long[0].ends_with('…'));
    }

    #[test]
    fn this_process_is_known_and_forks_inherit() {
        let own = std::process::id();
        let mut names = Names::default();
        names.see(own);
        names.see(u32::MAX);
        names.forked(own, u32::MAX);
        let found = names.get(own).expect("runs").clone();
        assert_eq!(found.parent, parent_of(own));
        assert!(
            !found.name.is_empty() && !found.name.contains('/'),
            "{found:?}"
        );
        let all = names.into_vec();
        assert_eq!((all.len(), &*all[1].name), (2, &*found.name));
    }
}
