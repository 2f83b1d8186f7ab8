//! What is known of files before the program is stopped: the names in large files take long to search.

use crate::objects::Object;
use crate::objects::file::{self, FileNames};
use crate::sys::File;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// By device and inode.
#[derive(Default)]
pub struct Survey(BTreeMap<(u64, u64), FileNames>);

impl Survey {
    /// Looks at every file that the process has code of. The loader's list cannot be read here: it may be changing.
    pub fn look(&mut self) {
        let Some(maps) = File::open(b"/proc/self/maps\0", libc::O_RDONLY, 0) else {
            return;
        };
        let mut text = Vec::new();
        let mut part = [0u8; 4096];
        loop {
            let read = maps.read(&mut part);
            if read == 0 {
                break;
            }
            text.extend_from_slice(&part[..read]);
        }
        for path in text.split(|byte| *byte == b'\n').filter_map(code_file) {
            let mut path = path.to_vec();
            path.push(0);
            if let Some(file) = File::open(&path, libc::O_RDONLY, 0)
                && let Some(identity) = file.identity()
                && !self.0.contains_key(&identity)
            {
                self.0.insert(identity, FileNames::in_file(file));
            }
        }
    }

    pub fn names(&self, object: &Object) -> FileNames {
        let known = || self.0.get(&file::identity(object)?).copied();
        match self.0.is_empty() {
            true => FileNames::of(object),
            false => known().unwrap_or_else(|| FileNames::of(object)),
        }
    }

    /// Files may change: what was known is of use to the next scan only.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// The path in a line of /proc/self/maps, if it is code from a file.
fn code_file(line: &[u8]) -> Option<&[u8]> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let access = words.nth(1)?;
    let path = line.iter().position(|byte| *byte == b'/')?;
    (access.get(2) == Some(&b'x')).then(|| &line[path..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_maps() {
        let line = b"7f00-7f10 r-xp 00001000 fe:00 12   /usr/lib/a library.so";
        assert_eq!(code_file(line), Some(&b"/usr/lib/a library.so"[..]));
        assert_eq!(
            code_file(b"7f00-7f10 r--p 00001000 fe:00 12 /usr/lib/a.so"),
            None
        );
        assert_eq!(code_file(b"7f00-7f10 r-xp 00000000 00:00 0 [vdso]"), None);
    }

    #[test]
    fn own_files_are_known_afterwards() {
        let mut survey = Survey::default();
        survey.look();
        let own = File::open(b"/proc/self/exe\0", libc::O_RDONLY, 0).and_then(|it| it.identity());
        assert!(survey.0.contains_key(&own.expect("a file")));
        survey.forget();
        assert!(survey.0.is_empty());
    }
}
