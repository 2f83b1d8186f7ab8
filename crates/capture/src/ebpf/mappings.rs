//! Files that a process has mapped as code.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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

impl Mapped {
    /// The file itself: through the process's own view of the file system, so that containers are
    /// seen as they see themselves; or through its mapping, where the name leads elsewhere by now.
    pub fn open(&self, pid: u32) -> Option<File> {
        let named = PathBuf::from(format!("/proc/{pid}/root{}", self.path));
        let is_same = |file: &File| {
            file.metadata()
                .is_ok_and(|found| found.is_file() && found.ino() == self.inode)
        };
        File::open(named)
            .ok()
            .filter(is_same)
            .or_else(|| File::open(format!("/proc/{pid}/map_files/{}", self.range)).ok())
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
    }

    #[test]
    fn our_own_files_can_be_opened() {
        let own = std::process::id();
        let found = of_process(own).expect("there");
        assert!(!found.is_empty() && found.iter().all(|one| one.open(own).is_some()));
        assert_eq!(of_process(0), None);
    }
}
