//! Functions that someone has patched in the memory of a process: another cutrace that records them
//! from inside the program, a debugger, a hook library.
//!
//! A uprobe belongs to the file, and the kernel puts it into every process that maps it. It runs the
//! file's instruction in place of the one it covers, and writes the file's byte back when it goes. On
//! bytes that are not the file's both would destroy the program. So every process that maps a library is looked
//! at before its probes go in.

use super::mappings::{self, Code};
use super::session::running;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of a function that count, at least: what a patch takes at most.
const LEAST: usize = 16;
/// What the kernel, or a debugger, puts over an instruction and takes away again by itself.
const BREAKPOINT: u8 = 0xcc;

const PAGE: u64 = 4096;
/// /proc/PID/pagemap: it is there, it is in the swap, it is the file's own page.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// Where in a function its bytes are not the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Nowhere,
    /// Only behind its first instruction: a probe on that one hits nobody.
    BehindFirst,
    AtFirst,
}

/// A process that maps the file, with the pages of its code that are its own.
struct Process {
    memory: File,
    /// Ranges of the file, and where they are in memory.
    own: Vec<(std::ops::Range<u64>, u64)>,
}

/// What is changed of a file's code, in any process.
pub struct Changes {
    processes: Vec<Process>,
}

impl Changes {
    /// Looks at every process that maps a file.
    pub fn of(is_of_file: impl Fn(&Code) -> bool) -> Changes {
        let with = |pid| {
            let code = mappings::code_of_process(pid)?;
            let code: Vec<Code> = code.into_iter().filter(&is_of_file).collect();
            (!code.is_empty()).then(|| Process::new(pid, &code))?
        };
        Changes {
            processes: running().into_iter().filter_map(with).collect(),
        }
    }

    /// The same, of the file of this name. Where file systems lie on each other, devices do not tell.
    pub fn of_path(path: &Path) -> Changes {
        let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let inode = fs::metadata(path).map_or(0, |found| found.ino());
        Changes::of(|code| code.inode == inode && Path::new(&code.path) == name)
    }

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Where a function at this place of the file is changed, whose first instruction is so long and
    /// whose probe's instruction ends there.
    pub fn at(&self, file: &File, entry: u64, first: usize, probe_end: usize) -> Change {
        let mut code = vec![0; LEAST.max(probe_end)];
        let read = file.read_at(&mut code, entry).unwrap_or(0);
        code.truncate(read);
        let process = |process: &Process| process.compare(entry, &code, first);
        let changes = self.processes.iter().map(process);
        changes.max().unwrap_or(Change::Nowhere)
    }
}

impl Process {
    /// None: all of its code is the file's, or it cannot be looked at.
    fn new(pid: u32, code: &[Code]) -> Option<Process> {
        let pages = File::open(format!("/proc/{pid}/pagemap")).ok()?;
        let mut own = Vec::new();
        for range in code {
            let count = (range.end - range.begin) / PAGE;
            let mut bytes = vec![0; usize::try_from(count).ok()? * 8];
            let read = pages.read_at(&mut bytes, range.begin / PAGE * 8).ok()?;
            let words = bytes[..read].as_chunks::<8>().0.iter();
            for (number, word) in words.enumerate() {
                let word = u64::from_le_bytes(*word);
                let is_own = word & SWAPPED != 0 || word & PRESENT != 0 && word & OF_FILE == 0;
                if is_own {
                    let within = number as u64 * PAGE;
                    let offset = range.offset + within;
                    own.push((offset..offset + PAGE, range.begin + within));
                }
            }
        }
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        (!own.is_empty()).then_some(Process { memory, own })
    }

    fn compare(&self, entry: u64, code: &[u8], first: usize) -> Change {
        let end = entry + code.len() as u64;
        let mut change = Change::Nowhere;
        for (range, address) in &self.own {
            let (from, to) = (range.start.max(entry), range.end.min(end));
            if from >= to {
                continue;
            }
            let mut bytes = vec![0; (to - from) as usize];
            let at = address + (from - range.start);
            if self.memory.read_exact_at(&mut bytes, at).is_err() {
                continue;
            }
            let skipped = (from - entry) as usize;
            let places = bytes.iter().zip(&code[skipped..]).enumerate();
            for (place, (byte, expected)) in places {
                if byte == expected || *byte == BREAKPOINT {
                    continue;
                }
                let at_first = skipped + place < first;
                change = change.max(match at_first {
                    true => Change::AtFirst,
                    false => Change::BehindFirst,
                });
            }
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// Code of a file that is mapped here, and patched in memory.
    #[test]
    fn patches_are_found_where_they_are_and_breakpoints_are_none() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[0x90; 3 * PAGE as usize]).expect("written");
        let length = 3 * PAGE as usize;
        // SAFETY: a fresh mapping of a file of this length.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE,
                file.as_file().as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let set = |place: usize, byte: u8| {
            // SAFETY: inside the mapping.
            unsafe { at.cast::<u8>().add(place).write_volatile(byte) };
        };
        let pid = std::process::id();
        let look = || {
            let code = mappings::code_of_process(pid).expect("our own");
            let path = file.path().display().to_string();
            let code: Vec<Code> = code.into_iter().filter(|it| it.path == path).collect();
            assert_eq!(code.len(), 1);
            Changes {
                processes: Process::new(pid, &code).into_iter().collect(),
            }
        };
        assert!(look().is_empty(), "nothing is changed");
        // A breakpoint at one function, a jump at the first instruction of another, one behind that of a
        // third, and one across the pages.
        set(0x100, BREAKPOINT);
        set(0x200, 0xe9);
        set(0x301, 0xe9);
        set(PAGE as usize, 0xe9);
        let changes = look();
        let at_place = |entry| changes.at(file.as_file(), entry, 1, 1);
        assert_eq!(at_place(0x100), Change::Nowhere);
        assert_eq!(at_place(0x200), Change::AtFirst);
        assert_eq!(at_place(0x300), Change::BehindFirst);
        assert_eq!(at_place(0x400), Change::Nowhere);
        assert_eq!(at_place(PAGE - 2), Change::BehindFirst);
        assert_eq!(changes.at(file.as_file(), PAGE - 2, 3, 3), Change::AtFirst);
        assert_eq!(at_place(2 * PAGE), Change::Nowhere);
        // Beyond what is looked at unless the probe is there.
        assert_eq!(
            changes.at(file.as_file(), 0x200 - 20, 1, 16),
            Change::Nowhere
        );
        assert_eq!(
            changes.at(file.as_file(), 0x200 - 20, 1, 21),
            Change::BehindFirst
        );
        // SAFETY: nothing refers to it any more.
        unsafe { libc::munmap(at, length) };
    }
}
