//! Where `at::RecordFunction` has its fields, by PyTorch's version: they are read directly where the header has them
//! inline and the library no symbol. `tests/torch/run` compares this with the headers of real releases.

use core::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

const fn version(major: u32, minor: u32) -> Version {
    Version { major, minor }
}

/// The releases whose headers were read.
pub const OLDEST: Version = version(2, 1);
pub const NEWEST: Version = version(2, 15);
/// `kwinputs_` came.
const KEYWORDS: Version = version(2, 4);

pub fn is_known(version: Version) -> bool {
    (OLDEST..=NEWEST).contains(&version)
}

/// Offsets into a RecordFunction, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `step_callbacks_.thread_id_`
    pub thread: usize,
    /// `step_callbacks_.scope_`
    pub scope: usize,
    /// `sequence_nr_`
    pub sequence: usize,
    /// `fwd_thread_id_`
    pub forward_thread: usize,
    /// `is_async_`
    pub is_async: usize,
}

impl Layout {
    /// `new_strings`: `std::string` is C++11's, of 32 bytes; the one before had 8.
    pub fn of(version: Version, new_strings: bool) -> Option<Layout> {
        if !is_known(version) {
            return None;
        }
        // A table of functions, the callbacks (96 bytes), a flag, the observers' contexts (48): then the name, which is
        // a string or a reference.
        let name = 8 + 96 + 8 + 48;
        let sequence = name + if new_strings { 40 } else { 16 };
        let inputs = sequence + 8;
        let keywords = if version >= KEYWORDS { 56 } else { 0 };
        let forward_thread = inputs + 16 + keywords + 24;
        Some(Layout {
            thread: 88,
            scope: 96,
            sequence,
            forward_thread,
            is_async: forward_thread + 16,
        })
    }
}

impl Version {
    /// `2.11.0+cu130`
    pub fn parse(text: &[u8]) -> Option<Version> {
        let mut parts = text.splitn(3, |byte| *byte == b'.');
        let major = number(parts.next()?)?;
        let minor = number(parts.next()?)?;
        Some(Version { major, minor })
    }

    /// `torch/version.py`
    pub fn of_module(text: &[u8]) -> Option<Version> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(b"__version__ = "))?;
        Version::parse(line.get(1..)?)
    }

    /// `libtorch_cpu.so.2.6`
    pub fn of_file(path: &[u8]) -> Option<Version> {
        let ending = b".so.";
        let at = path
            .windows(ending.len())
            .rposition(|part| part == ending)?;
        Version::parse(&path[at + ending.len()..])
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The digits that a text begins with.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    core::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_wherever_they_are() {
        let module = b"from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '2.11.0+cu130'\n";
        assert_eq!(Version::of_module(module), Some(version(2, 11)));
        assert_eq!(Version::parse(b"2.4.1+cu121\n"), Some(version(2, 4)));
        let debian = b"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.2.6";
        assert_eq!(Version::of_file(debian), Some(version(2, 6)));
        for odd in [&b""[..], b"2", b"x.y", b"__version__ = ", b"99999999999.1"] {
            assert_eq!(Version::parse(odd), None);
            assert_eq!(Version::of_module(odd), None);
        }
        assert_eq!(Version::of_file(b"/x/libtorch_cpu.so"), None);
    }

    #[test]
    fn unknown_versions_have_no_layout() {
        assert_eq!(Layout::of(version(2, 0), true), None);
        assert_eq!(Layout::of(version(2, NEWEST.minor + 1), true), None);
        assert_eq!(Layout::of(version(3, 0), true), None);
        let old = Layout::of(version(2, 1), false).expect("known");
        assert_eq!((old.sequence, old.forward_thread), (176, 224));
        let new = Layout::of(version(2, 11), true).expect("known");
        assert_eq!((new.sequence, new.forward_thread), (200, 304));
    }
}
