//! Where the code of traced processes is: what the addresses of their stacks mean, also when they
//! are gone.

use super::mappings::{self, Code};
use crate::call::loaded::Objects;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian as LE, ReadCache};
use std::collections::HashMap;
use std::fs::File;

/// What has become of a process's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// As [`Objects::loaded`] reads it.
    Loaded(String),
    Unloaded(String),
    /// It has what its parent has.
    Forked {
        parent: u32,
    },
}

/// The watching thread's side: looks, and tells of changes.
#[derive(Default)]
pub struct Places {
    known: HashMap<u32, Vec<Code>>,
    /// Segments of files, by device and inode.
    segments: HashMap<(String, u64), Vec<Segment>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

/// The assembling thread's side.
#[derive(Default)]
pub struct LoadedCode {
    objects: HashMap<u32, Objects>,
}

impl LoadedCode {
    pub fn of(&self, pid: u32) -> Option<&Objects> {
        self.objects.get(&pid)
    }

    pub fn take(&mut self, pid: u32, change: &Change) {
        match change {
            Change::Loaded(line) => {
                self.objects.entry(pid).or_default().loaded(line, "");
            }
            Change::Unloaded(line) => {
                self.objects.entry(pid).or_default().unloaded(line);
            }
            Change::Forked { parent } => {
                if let Some(objects) = self.objects.get(parent).cloned() {
                    self.objects.entry(pid).or_insert(objects);
                }
            }
        }
    }
}

impl Places {
    pub fn is_known(&self, pid: u32) -> bool {
        self.known.contains_key(&pid)
    }

    /// What has changed since the last look; `time` is when it has. None: the process is gone.
    pub fn look(&mut self, pid: u32, time: u64) -> Option<Vec<Change>> {
        let now = mappings::code_of_process(pid)?;
        let before = self.known.insert(pid, now.clone()).unwrap_or_default();
        let gone = before.iter().filter(|one| !now.contains(one));
        let mut changes: Vec<Change> = gone
            .map(|one| Change::Unloaded(format!("{:x} {time}", one.begin)))
            .collect();
        for one in now.iter().filter(|one| !before.contains(one)) {
            let bias = self.bias(pid, one);
            changes.push(Change::Loaded(format!(
                "{:x} {:x} {bias:x} {time} {}",
                one.begin,
                one.end,
                one.reachable(pid).display()
            )));
        }
        Some(changes)
    }

    pub fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// What was added to the file's addresses; modulo 2^64.
    fn bias(&mut self, pid: u32, code: &Code) -> u64 {
        let key = (code.device.clone(), code.inode);
        let segments = self.segments.entry(key).or_insert_with(|| {
            let file = File::open(code.reachable(pid)).ok();
            file.and_then(segments_of).unwrap_or_default()
        });
        let holds = |segment: &&Segment| {
            (code.offset.checked_sub(segment.offset / PAGE * PAGE))
                .is_some_and(|at| at < segment.size + PAGE)
        };
        let address = match segments.iter().rev().find(holds) {
            Some(segment) => (code.offset)
                .wrapping_sub(segment.offset)
                .wrapping_add(segment.address),
            None => code.offset,
        };
        code.begin.wrapping_sub(address)
    }
}

const PAGE: u64 = 4096;

fn segments_of(file: File) -> Option<Vec<Segment>> {
    let data = ReadCache::new(file);
    let header = FileHeader64::<LE>::parse(&data).ok()?;
    let headers = header.program_headers(LE, &data).ok()?;
    let loads = headers.iter().filter(|one| one.p_type(LE) == PT_LOAD);
    let segment = |one: &object::elf::ProgramHeader64<LE>| Segment {
        offset: one.p_offset(LE),
        size: one.p_filesz(LE),
        address: one.p_vaddr(LE),
    };
    Some(loads.map(segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Name;

    #[test]
    fn our_own_functions_are_where_they_are() {
        let own = std::process::id();
        let mut places = Places::default();
        let mut known = LoadedCode::default();
        for change in places.look(own, 5).expect("there") {
            known.take(own, &change);
        }
        let address = our_own_functions_are_where_they_are as *const () as u64;
        let objects = known.of(own).expect("known");
        let object = objects.at(address, 6).expect("ours");
        let path: Name = std::env::current_exe()
            .expect("known")
            .display()
            .to_string()
            .into();
        assert_eq!(object.path, path);
        let frames = crate::call::symbols::Symbols::default().frames(&path, address - object.bias);
        let name = frames.last().and_then(|frame| frame.symbol.clone());
        assert!(
            name.as_deref()
                .is_some_and(|name| name.contains("our_own_functions_are_where_they_are")),
            "{name:?}"
        );
        // Nothing has changed; and a child has what its parent has.
        let again = places.look(own, 7).expect("there");
        assert!(again.iter().all(|one| !matches!(one, Change::Unloaded(_))));
        known.take(1, &Change::Forked { parent: own });
        assert!(known.of(1).is_some_and(|it| it.at(address, 6).is_some()));
        assert_eq!(places.look(0, 1), None);
    }
}
