//! Probes on markers of programs: all of a file in one link, or one by one.

use super::refusal::Refusal;
use crate::ebpf::{
    EbpfError,
    attach::AttachMode,
    layout::{Plain, Site},
    maps::Maps,
    objects::{self, MARKERS, MARKERS_PLAIN},
};
use libbpf_rs::{Link, MapCore, MapFlags, Object, UprobeMultiOpts, UprobeOpts};
use std::{collections::HashMap, fs::File, os::fd::AsRawFd};

/// Descriptions of arguments there is room for; markers whose arguments lie alike share one.
const MOST_SITES: usize = 4096;

/// One place to be probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub offset: u64,
    pub semaphore: Option<u64>,
    pub cookie: u64,
}

/// The programs for markers, loaded, and their links. Dropped, the probes are gone.
pub struct Marks {
    pub way: AttachMode,
    object: Object,
    links: Vec<Link>,
    sites: HashMap<Site, u16>,
}

impl Marks {
    /// By many at once if the kernel takes that, else one by one.
    pub fn load(maps: &Maps) -> Result<Self, EbpfError> {
        let multi = objects::load(MARKERS, maps, &["mark_multi"], |_| Ok(()));
        match multi {
            Ok(object) => Ok(Self::of(AttachMode::Multi, object)),
            Err(_) => Self::load_single(maps),
        }
    }

    fn load_single(maps: &Maps) -> Result<Self, EbpfError> {
        let programs = ["mark_one"];
        let object = objects::load(MARKERS, maps, &programs, |_| Ok(()))
            .or_else(|_| objects::load(MARKERS_PLAIN, maps, &programs, |_| Ok(())))?;
        Ok(Self::of(AttachMode::Single, object))
    }

    fn of(way: AttachMode, object: Object) -> Self {
        Marks {
            way,
            object,
            links: Vec::new(),
            sites: HashMap::new(),
        }
    }

    /// A kernel may take programs that it then does not attach: the next way, if nothing is attached yet.
    pub fn fall_back(self, maps: &Maps) -> Result<Self, Self> {
        if self.way != AttachMode::Multi || !self.links.is_empty() {
            return Err(self);
        }
        let Ok(mut next) = Self::load_single(maps) else {
            return Err(self);
        };
        for (site, number) in &self.sites {
            if next.put(site, *number).is_err() {
                return Err(self);
            }
        }
        next.sites = self.sites;
        Ok(next)
    }

    /// The number of a description: the highest bits of a cookie.
    pub fn describe(&mut self, site: &Site) -> Result<u16, Refusal> {
        if let Some(number) = self.sites.get(site) {
            return Ok(*number);
        }
        let number = self.sites.len();
        if number >= MOST_SITES {
            return Err(Refusal::TooManySites(MOST_SITES));
        }
        let number = number as u16;
        self.put(site, number)?;
        self.sites.insert(*site, number);
        Ok(number)
    }

    fn put(&self, site: &Site, number: u16) -> libbpf_rs::Result<()> {
        let map = self.object.maps().find(|map| map.name() == "sites");
        let map = map.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?;
        let key = u32::from(number).to_le_bytes();
        map.update(&key, site.bytes(), MapFlags::ANY)
    }

    /// Puts probes into a file. All of them, or none.
    pub fn attach(&mut self, file: &File, marks: &[Mark]) -> libbpf_rs::Result<()> {
        // Found by descriptor: the same file, wherever it is mounted.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let before = self.links.len();
        let attached = match self.way {
            AttachMode::Single => marks.iter().try_for_each(|mark| self.single(&path, mark)),
            AttachMode::Multi | AttachMode::Session => self.multi(&path, marks),
        };
        if attached.is_err() {
            self.links.truncate(before);
        }
        attached
    }

    fn multi(&mut self, path: &str, marks: &[Mark]) -> libbpf_rs::Result<()> {
        let semaphore = |mark: &Mark| mark.semaphore.unwrap_or(0) as usize;
        let options = UprobeMultiOpts {
            offsets: marks.iter().map(|mark| mark.offset as usize).collect(),
            cookies: marks.iter().map(|mark| mark.cookie).collect(),
            ref_ctr_offsets: marks.iter().map(semaphore).collect(),
            ..UprobeMultiOpts::default()
        };
        let program = self.object.progs_mut().find(|p| p.name() == "mark_multi");
        let program = program.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?;
        let link = program.attach_uprobe_multi_with_opts(-1, path, "", options)?;
        self.links.push(link);
        Ok(())
    }

    fn single(&mut self, path: &str, mark: &Mark) -> libbpf_rs::Result<()> {
        let options = UprobeOpts {
            cookie: mark.cookie,
            ref_ctr_offset: mark.semaphore.unwrap_or(0) as usize,
            ..UprobeOpts::default()
        };
        let program = self.object.progs_mut().find(|p| p.name() == "mark_one");
        let program = program.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?;
        let link = program.attach_uprobe_with_opts(-1, path, mark.offset as usize, options)?;
        self.links.push(link);
        Ok(())
    }
}
