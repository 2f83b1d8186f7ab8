//! Files that a process has mapped as code.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mappings of one process that are looked at, at most.
const MOST_MAPPINGS: usize = 64 << 10;

/// One file, as the process knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    pub inode: u64,
    /// `major:minor`, as the kernel writes it.
    pub device: String,
    pub path: String,
    /// The first range of its code, for the link in /proc that leads to the very file.
    range: String,
}

/// A range of a file's code, as it is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub begin: u64,
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    pub device: String,
    pub inode: u64,
    pub path: String,
}

/// Every range of code that comes from a file.
pub fn code_of_process(pid: u32) -> Option<Vec<Code>> {
    let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().take(MOST_MAPPINGS);
    Some(lines.filter_map(code_of).collect())
}

fn code_of(line: &str) -> Option<Code> {
    let mapped = line_of(line)?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (begin, end) = mapped.range.split_once('-')?;
    Some(Code {
        begin: hexadecimal(begin)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(line.split(' ').nth(2)?)?,
        device: mapped.device,
        inode: mapped.inode,
        path: mapped.path,
    })
}

/// Each file once. None if the process is gone or not to be looked at.
pub fn of_process(pid: u32) -> Option<Vec<Mapped>> {
    let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
    Some(parse(&String::from_utf8_lossy(&text)))
}

fn parse(text: &str) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for line in text.lines().take(MOST_MAPPINGS) {
        let Some(mapped) = line_of(line) else {
            continue;
        };
        let same = |known: &Mapped| known.inode == mapped.inode && known.device == mapped.device;
        if !found.iter().any(same) {
            found.push(mapped);
        }
    }
    found
}

/// `7f12-7f34 r-xp 00001000 fe:00 1234   /usr/lib/x.so`
fn line_of(line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let (range, rights, _offset) = (words.next()?, words.next()?, words.next()?);
    let (device, inode) = (words.next()?, words.next()?.parse().ok()?);
    let path = words.next()?.trim_start();
    let is_code = rights.as_bytes().get(2) == Some(&b'x') && path.starts_with('/');
    (is_code && inode != 0).then(|| Mapped {
        inode,
        device: device.to_owned(),
        path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
        range: range.to_owned(),
    })
}

/// The same file as the process sees it: through its own view of the file system, so that containers
/// are seen as they see themselves; by the name that we know it by, which the kernel has told us; or
/// through its mapping, where names lead elsewhere by now.
fn reachable(pid: u32, path: &str, inode: u64, range: &str) -> PathBuf {
    let known_as = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        (found.is_file() && found.ino() == inode).then(|| (found.dev(), found.ino()))
    };
    let (ours, theirs) = (
        PathBuf::from(path),
        PathBuf::from(format!("/proc/{pid}/root{path}")),
    );
    match (known_as(&ours), known_as(&theirs)) {
        // The plainest name, where both lead to one file.
        (Some(one), Some(two)) if one == two => ours,
        (_, Some(_)) => theirs,
        (Some(_), None) => ours,
        (None, None) => format!("/proc/{pid}/map_files/{range}").into(),
    }
}

impl Code {
    /// A path that leads us to the very file.
    pub fn reachable(&self, pid: u32) -> PathBuf {
        let range = format!("{:x}-{:x}", self.begin, self.end);
        reachable(pid, &self.path, self.inode, &range)
    }
}

impl Mapped {
    /// Whether a range is of this file.
    pub fn is_of(&self, code: &Code) -> bool {
        code.inode == self.inode && code.device == self.device
    }

    /// Whether it is a loader of programs, by its name.
    pub fn is_loader(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.starts_with("ld-") || name.starts_with("ld.so")
    }

    /// A path that leads us to the very file.
    pub fn reachable(&self, pid: u32) -> PathBuf {
        reachable(pid, &self.path, self.inode, &self.range)
    }

    pub fn open(&self, pid: u32) -> Option<File> {
        File::open(self.reachable(pid)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_code_are_found_once() {
        let text = "5500-5600 r--p 00000000 fe:01 11 /opt/my app/run\n\
            5600-5700 r-xp 00001000 fe:01 11                         /opt/my app/run\n\
            5700-5800 r-xp 00002000 fe:01 11                         /opt/my app/run\n\
            7f00-7f10 r-xp 00000000 00:00 0                          [vdso]\n\
            7f20-7f30 r-xp 00000000 00:00 0 \n\
            7f40-7f50 r-xp 00000000 fe:01 12 /lib/x.so (deleted)\n\
            nonsense\n";
        let found = parse(text);
        let paths: Vec<&str> = found.iter().map(|one| &*one.path).collect();
        assert_eq!(paths, ["/opt/my app/run", "/lib/x.so"]);
        assert_eq!((found[0].inode, &*found[0].range), (11, "5600-5700"));
        let code: Vec<Code> = text.lines().filter_map(code_of).collect();
        assert_eq!(code.len(), 3);
        assert_eq!((code[1].begin, code[1].end), (0x5700, 0x5800));
        assert_eq!(
            (code[1].offset, &*code[1].path),
            (0x2000, "/opt/my app/run")
        );
    }

    #[test]
    fn our_own_files_can_be_opened() {
        let own = std::process::id();
        let found = of_process(own).expect("there");
        assert!(!found.is_empty() && found.iter().all(|one| one.open(own).is_some()));
        assert_eq!(of_process(0), None);
    }
}
