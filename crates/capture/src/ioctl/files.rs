//! Which of the driver's files a descriptor of a program is.

use event::Name;
use nvidia_ioctl::DeviceFile;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// A file of the driver, opened by a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub file: DeviceFile,
    pub path: Name,
    /// No device: softgpu plays the driver.
    pub stand_in: bool,
}

/// What is known about the descriptors of programs. Nothing is believed for long: closing and
/// duplicating is not watched.
#[derive(Debug, Default)]
pub struct DriverFiles {
    uvm_major: Option<u32>,
    known: HashMap<(u32, i32), CachedDescriptor>,
    paths: HashMap<String, Name>,
}

#[derive(Debug)]
struct CachedDescriptor {
    opened: Opened,
    /// CLOCK_MONOTONIC when it was looked up.
    at: u64,
}

/// How long a descriptor is taken for what it was.
const TRUSTED_FOR: u64 = 10_000_000;
/// Descriptors remembered; programs with more are looked up anew.
const MOST_KNOWN: usize = 16 << 10;
const MOST_PATHS: usize = 1 << 10;

impl DriverFiles {
    pub fn new() -> Self {
        DriverFiles {
            uvm_major: uvm_major(),
            ..DriverFiles::default()
        }
    }

    /// The driver's file behind a descriptor of a process. `now` is CLOCK_MONOTONIC.
    pub fn of(&mut self, pid: u32, fd: i32, now: u64) -> Option<Opened> {
        if let Some(known) = self.known.get(&(pid, fd))
            && now.saturating_sub(known.at) < TRUSTED_FOR
        {
            return Some(known.opened.clone());
        }
        // What is not the driver's may be in a moment: numbers are used again at once.
        self.known.remove(&(pid, fd));
        let opened = self.look_up(pid, fd)?;
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let known = CachedDescriptor {
            opened: opened.clone(),
            at: now,
        };
        self.known.insert((pid, fd), known);
        Some(opened)
    }

    /// What was known of a descriptor does not hold any more.
    pub fn forget(&mut self, pid: u32, fd: i32) {
        self.known.remove(&(pid, fd));
    }

    fn look_up(&mut self, pid: u32, fd: i32) -> Option<Opened> {
        let link = format!("/proc/{pid}/fd/{fd}");
        let path = fs::read_link(&link).ok()?;
        let path = path.to_str()?;
        // Most descriptors are told apart by this alone.
        if !path.rsplit('/').next()?.starts_with("nvidia") {
            return None;
        }
        let found = fs::metadata(&link).ok()?;
        let stand_in = found.is_file();
        let file = if found.file_type().is_char_device() {
            let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
            if self.uvm_major.is_none() {
                // The module may have come since.
                self.uvm_major = uvm_major();
            }
            DeviceFile::from_device(major, minor, self.uvm_major)
        } else if stand_in {
            DeviceFile::from_path(path)
        } else {
            DeviceFile::Other
        };
        if file == DeviceFile::Other {
            return None;
        }
        if self.paths.len() >= MOST_PATHS {
            self.paths.clear();
        }
        let name = self.paths.entry(path.to_owned());
        Some(Opened {
            file,
            path: name.or_insert_with(|| path.into()).clone(),
            stand_in,
        })
    }
}

/// The number that nvidia-uvm got when it was loaded.
fn uvm_major() -> Option<u32> {
    let devices = fs::read_to_string("/proc/devices").ok()?;
    let mut words = devices.lines().map(str::split_whitespace);
    words.find_map(|mut words| {
        let major = words.next()?.parse().ok()?;
        (words.next()? == "nvidia-uvm").then_some(major)
    })
}
