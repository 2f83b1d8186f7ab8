//! What processes have mapped of the driver's files: unmapping says an address and nothing else.

use crate::ioctl::Opened;
use nvidia_ioctl::DeviceFile;
use std::collections::BTreeMap;
use std::fs;

/// More than these are forgotten, all at once.
const MOST: usize = 64 << 10;

/// By process and first address; what is in here does not overlap.
#[derive(Debug, Default)]
pub struct Ranges(BTreeMap<(u32, u64), Range>);

#[derive(Debug, Clone)]
struct Range {
    end: u64,
    opened: Opened,
}

impl Ranges {
    /// It may take the place of others.
    pub fn mapped(&mut self, pid: u32, address: u64, length: u64, opened: Opened) {
        self.unmapped(pid, address, length);
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let end = address.saturating_add(length);
        self.0.insert((pid, address), Range { end, opened });
    }

    /// Takes a range out, and says which file the first of it was of, if any was.
    pub fn unmapped(&mut self, pid: u32, address: u64, length: u64) -> Option<Opened> {
        let end = address.saturating_add(length);
        let touched: Vec<u64> = (self.0.range((pid, 0)..(pid, end)).rev())
            .map(|((_, start), range)| (*start, range.end))
            .take_while(|(_, last)| *last > address)
            .map(|(start, _)| start)
            .collect();
        let mut first = None;
        for start in touched {
            let Some(range) = self.0.remove(&(pid, start)) else {
                continue;
            };
            if range.end > end {
                self.0.insert((pid, end), range.clone());
            }
            first = Some(range.opened.clone());
            if start < address {
                let before = Range {
                    end: address,
                    ..range
                };
                self.0.insert((pid, start), before);
            }
        }
        first
    }

    /// The process has ended, or is another program now.
    pub fn forget(&mut self, pid: u32) {
        let all = self.0.range((pid, 0)..=(pid, u64::MAX));
        let starts: Vec<(u32, u64)> = all.map(|(start, _)| *start).collect();
        for start in starts {
            self.0.remove(&start);
        }
    }

    /// What a process had mapped before we came.
    pub fn learn(&mut self, pid: u32) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for (address, length, opened) in maps.lines().filter_map(mapping) {
            self.mapped(pid, address, length, opened);
        }
    }
}

/// `7f0000000000-7f0000001000 rw-s 00000000 00:06 123 /dev/nvidiactl`
fn mapping(line: &str) -> Option<(u64, u64, Opened)> {
    let (range, rest) = line.split_once(' ')?;
    let path = &rest[rest.find('/')?..];
    let file = DeviceFile::from_path(path);
    if file == DeviceFile::Other || !rest.get(..4)?.ends_with('s') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let opened = Opened {
        file,
        path: path.into(),
        stand_in: !path.starts_with("/dev/nvidia"),
    };
    Some((start, end.checked_sub(start)?, opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: &str) -> Opened {
        Opened {
            file: DeviceFile::from_path(path),
            path: path.into(),
            stand_in: false,
        }
    }

    #[test]
    fn parts_of_ranges_are_taken_out() {
        let mut ranges = Ranges::default();
        ranges.mapped(1, 0x1000, 0x4000, opened("/dev/nvidiactl"));
        ranges.mapped(1, 0x8000, 0x1000, opened("/dev/nvidia-uvm"));
        ranges.mapped(2, 0x2000, 0x1000, opened("/dev/nvidia0"));
        let mut out = |pid, address, length| {
            let found = ranges.unmapped(pid, address, length);
            found.map(|opened| opened.path.to_string())
        };
        assert_eq!(out(1, 0x5000, 0x3000), None, "between two");
        assert_eq!(out(3, 0, u64::MAX), None, "another process");
        assert_eq!(out(1, 0x2000, 0x1000).as_deref(), Some("/dev/nvidiactl"));
        assert_eq!(out(1, 0x2000, 0x1000), None, "gone");
        assert_eq!(out(1, 0x1800, 0x100).as_deref(), Some("/dev/nvidiactl"));
        // The rest of the first, and the second.
        assert_eq!(out(1, 0x4000, 0x9000).as_deref(), Some("/dev/nvidiactl"));
        assert_eq!(out(1, 0x8000, 0x1000), None);
        assert_eq!(out(1, 0x3000, 0x1000).as_deref(), Some("/dev/nvidiactl"));
        assert_eq!(out(2, u64::MAX, u64::MAX), None);
        assert_eq!(out(2, 0, u64::MAX).as_deref(), Some("/dev/nvidia0"));
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        let mut ranges = Ranges::default();
        for pid in [1, 2, 3] {
            ranges.mapped(pid, 0, 0x1000, opened("/dev/nvidiactl"));
        }
        ranges.forget(2);
        assert!(ranges.unmapped(2, 0, 0x1000).is_none());
        assert!(ranges.unmapped(1, 0, 0x1000).is_some());
        assert!(ranges.unmapped(3, 0, 0x1000).is_some());
    }

    #[test]
    fn lines_of_maps() {
        let line = "7f00-8f00 rw-s 00000000 00:06 123                        /dev/nvidiactl";
        let (start, length, opened) = mapping(line).expect("the driver's");
        assert_eq!((start, length), (0x7f00, 0x1000));
        assert_eq!((opened.file, opened.stand_in), (DeviceFile::Control, false));
        for other in [
            "7f00-8f00 r-xp 00000000 00:06 123  /usr/lib/libcuda.so.1",
            "7f00-8f00 rw-p 00000000 00:06 123  /x/nvidiactl",
            "7f00-8f00 rw-p 00000000 00:00 0 ",
            "8f00-7f00 rw-s 00000000 00:06 123  /dev/nvidiactl",
            "",
        ] {
            assert!(mapping(other).is_none(), "{other}");
        }
    }
}
