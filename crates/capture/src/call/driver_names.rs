//! Names of kernels that a library got from the driver before anybody looked. A handle is the address of a structure of
//! the driver's, from which the kernel's name can be reached. Where it is differs by driver, so the way is learnt from
//! handles whose kernels are known for certain. A way counts once it has led to the right names of two kernels, and
//! not any longer once it has led to a wrong one.

mod memory;
mod path;
#[cfg(test)]
mod tests;

pub use memory::{Memory, Process};

use super::demangle::demangled;
use event::Name;
use memory::Reader;
use path::{Path, search};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Known handles that are learnt from, and how often all paths of one are looked for: that is what costs.
const MOST_TAUGHT: usize = 64;
const MOST_SEARCHES: u32 = 16;
/// Different kernels that make a path certain.
const ENOUGH_NAMES: usize = 2;
/// Different handles whose names must look right where no kernel is known.
const ENOUGH_HANDLES: usize = 3;
/// Handles whose names are kept, and times at which handles lost theirs.
const MOST_FOUND: usize = 64 << 10;
const MOST_UNLOADS: usize = 4096;

/// Reads of one search, and of one look at a handle.
const SEARCH: u32 = 32 << 10;
const LOOK: u32 = 2048;

/// Of one process.
#[derive(Debug, Default)]
pub struct DriverNames {
    /// Handles of functions and of kernels are addresses of different structures.
    classes: Vec<Class>,
    /// Known handles that were learnt from, and whether their names are the driver's own for certain.
    taught: HashMap<u64, (Name, bool)>,
    searches: u32,
    found: HashMap<u64, CachedName>,
    /// Handles without names, in the order in which they came.
    nameless: Vec<u64>,
    /// So many of them were compared last.
    compared: usize,
    unloads: BTreeSet<u64>,
    /// Goes up whenever more can be told than before.
    generation: u32,
}

/// Structures of one kind.
#[derive(Debug, Default)]
struct Class {
    /// All of them have led to the name of each known kernel of the class.
    paths: Vec<Path>,
    names: HashSet<Name>,
    /// No kernel was known: names are told from others only by how they look.
    agreed: bool,
}

#[derive(Debug)]
struct CachedName {
    /// When the launch began for which it was looked at.
    time: u64,
    generation: u32,
    name: Option<Name>,
}

/// What paths of a class say of a handle.
enum PathReading {
    Nothing,
    Name(Name),
    Different,
}

impl DriverNames {
    /// The kernel with this handle has this name. `certain`: it is what the driver calls it, and not only what the
    /// program's symbols do.
    /// Whether that has changed what is known.
    pub fn teach(&mut self, memory: &dyn Memory, handle: u64, name: &Name, certain: bool) -> bool {
        if self.taught.len() >= MOST_TAUGHT || self.taught.contains_key(&handle) {
            return false;
        }
        self.taught.insert(handle, (name.clone(), certain));
        let before = self.paths();
        let mut joined = false;
        for class in &mut self.classes {
            joined |= class.learn(memory, handle, name, certain);
        }
        self.classes.retain(|class| !class.paths.is_empty());
        if !joined && self.searches < MOST_SEARCHES {
            self.searches += 1;
            self.found_class(memory, handle, name);
        }
        let changed = self.paths() != before;
        self.generation += u32::from(changed);
        changed
    }

    fn found_class(&mut self, memory: &dyn Memory, handle: u64, name: &Name) {
        let mut reader = Reader::new(memory, SEARCH);
        let paths = search(&mut reader, handle, |text| demangled(text) == *name);
        if !reader.is_there(handle) {
            return;
        }
        let mut class = Class {
            paths,
            names: HashSet::from([name.clone()]),
            agreed: false,
        };
        for (other, (name, certain)) in &self.taught {
            if *other != handle {
                class.refuse(memory, *other, name, *certain);
            }
        }
        if !class.paths.is_empty() {
            self.classes.push(class);
        }
    }

    /// How many paths can be used, and how many wait for another kernel.
    fn paths(&self) -> (usize, usize) {
        let count = |usable| {
            let classes = self.classes.iter().filter(|one| one.is_usable() == usable);
            classes.map(|class| class.paths.len()).sum()
        };
        (count(true), count(false))
    }

    /// The name of the kernel with this handle, which a launch at that time has used.
    pub fn name(&mut self, memory: &dyn Memory, handle: u64, time: u64) -> Option<Name> {
        if let Some(found) = self.found.get(&handle) {
            let (from, to) = (found.time.min(time), found.time.max(time));
            let is_same = self.unloads.range(from..=to).next().is_none();
            if is_same && (found.name.is_some() || found.generation == self.generation) {
                return found.name.clone();
            }
        }
        // It was given back since, and is something else now or nothing.
        if self.unloads.range(time..).next().is_some() {
            return None;
        }
        let name = self.look(memory, handle);
        if name.is_none() && !self.nameless.contains(&handle) && self.nameless.len() < MOST_TAUGHT {
            self.nameless.push(handle);
        }
        if self.found.len() >= MOST_FOUND {
            self.found.clear();
        }
        let found = CachedName {
            time,
            generation: self.generation,
            name: name.clone(),
        };
        self.found.insert(handle, found);
        name
    }

    fn look(&mut self, memory: &dyn Memory, handle: u64) -> Option<Name> {
        let mut name = None;
        let mut reader = Reader::new(memory, LOOK);
        for place in 0..self.classes.len() {
            let class = &self.classes[place];
            if !class.is_usable() {
                continue;
            }
            let mut said = class.say(&mut reader, handle);
            if matches!(said, PathReading::Different) && self.weed(place, memory) {
                said = self.classes[place].say(&mut reader, handle);
            }
            let class = &self.classes[place];
            match said {
                PathReading::Nothing => {}
                PathReading::Different => return None,
                PathReading::Name(said) if name.as_ref().is_some_and(|name| *name != said) => {
                    return None;
                }
                PathReading::Name(said) if class.agreed && self.is_taken(handle, &said) => {
                    // A text that several share is no kernel's name.
                    self.classes.remove(place);
                    self.generation += 1;
                    return None;
                }
                PathReading::Name(said) => name = Some(said),
            }
        }
        name
    }

    /// Drops the paths of a class that lead nowhere from some of the handles, where others lead to a name from every one.
    /// Whether there were such.
    fn weed(&mut self, place: usize, memory: &dyn Memory) -> bool {
        let mut reader = Reader::new(memory, SEARCH);
        let readable = self.nameless.iter().copied();
        let handles: Vec<u64> = readable.filter(|handle| reader.is_there(*handle)).collect();
        let first = match handles.first() {
            Some(first) if handles.len() >= ENOUGH_HANDLES => *first,
            _ => return false,
        };
        let paths = &mut self.classes[place].paths;
        let mut leads_from_all = |path: &Path| {
            let mut names = handles.iter().map(|handle| path.name(&mut reader, *handle));
            names.all(|name| name.is_some())
        };
        let right: Vec<bool> = paths.iter().map(&mut leads_from_all).collect();
        if !right.contains(&true) || !right.contains(&false) || !reader.is_there(first) {
            return false;
        }
        let mut right = right.into_iter();
        paths.retain(|_| right.next().unwrap_or(false));
        self.generation += 1;
        true
    }

    fn is_taken(&self, handle: u64, name: &Name) -> bool {
        let mut others = self.found.iter().filter(|(other, _)| **other != handle);
        others.any(|(_, found)| found.name.as_ref() == Some(name))
    }

    /// Where no kernel is known: a path that leads from every handle to another name of C++'s, if no other path leads to
    /// other names. Whether there is one now.
    pub fn agree(&mut self, memory: &dyn Memory) -> bool {
        if !self.taught.is_empty()
            || !self.classes.is_empty()
            || self.nameless.len() < ENOUGH_HANDLES.max(self.compared + 1)
            || self.searches >= MOST_SEARCHES
        {
            return false;
        }
        self.searches += 1;
        self.compared = self.nameless.len();
        let mut reader = Reader::new(memory, SEARCH);
        let paths = search(&mut reader, self.nameless[0], is_mangled);
        let mut agreed: Option<Vec<String>> = None;
        let mut right = Vec::new();
        for path in paths {
            let mut reader = Reader::new(memory, LOOK);
            let names = self.nameless.iter().map(|handle| {
                let name = path.name(&mut reader, *handle);
                name.filter(|name| is_mangled(name))
            });
            let Some(names) = names.collect::<Option<Vec<String>>>() else {
                continue;
            };
            if names.iter().collect::<HashSet<_>>().len() < names.len() {
                continue;
            }
            if agreed.get_or_insert_with(|| names.clone()) != &names {
                return false;
            }
            right.push(path);
        }
        let mut reader = Reader::new(memory, LOOK);
        let found = !right.is_empty() && reader.is_there(self.nameless[0]);
        if found {
            self.generation += 1;
            self.classes.push(Class {
                paths: right,
                names: HashSet::new(),
                agreed: true,
            });
        }
        found
    }

    /// Code was given back at that time: handles may mean other kernels from then on. Reported as soon as it is known, which
    /// is before the calls of other threads until then are asked for.
    pub fn unloaded(&mut self, time: u64) {
        if self.unloads.len() >= MOST_UNLOADS {
            self.unloads.pop_first();
            self.found.clear();
        }
        self.unloads.insert(time);
        self.nameless.clear();
        self.compared = 0;
    }
}

impl Class {
    fn is_usable(&self) -> bool {
        self.agreed || self.names.len() >= ENOUGH_NAMES
    }

    /// Keeps the paths that lead to the name. If none does, the handle is one of another class: no is the answer.
    fn learn(&mut self, memory: &dyn Memory, handle: u64, name: &Name, certain: bool) -> bool {
        let mut reader = Reader::new(memory, LOOK);
        let leads = |path: &Path| {
            let text = path.name(&mut reader, handle);
            text.is_some_and(|text| demangled(&text) == *name)
        };
        let right: Vec<bool> = self.paths.iter().map(leads).collect();
        if !reader.is_there(handle) {
            return true;
        }
        if !right.contains(&true) {
            self.refuse(memory, handle, name, certain);
            return false;
        }
        let mut right = right.into_iter();
        self.paths.retain(|_| right.next().unwrap_or(false));
        if self.names.len() < ENOUGH_NAMES {
            self.names.insert(name.clone());
        }
        self.agreed &= self.names.len() < ENOUGH_NAMES;
        true
    }

    /// Drops the paths that lead from a handle of another class to a name, for it is a wrong one.
    fn refuse(&mut self, memory: &dyn Memory, handle: u64, name: &Name, certain: bool) {
        if !certain && !self.agreed {
            return;
        }
        let mut reader = Reader::new(memory, LOOK);
        self.paths.retain(|path| {
            let text = path.name(&mut reader, handle);
            text.is_none_or(|text| demangled(&text) == *name)
        });
    }

    /// All paths that lead to a name must lead to the same, and most must lead to one.
    fn say(&self, reader: &mut Reader<'_>, handle: u64) -> PathReading {
        let names = self.paths.iter().map(|path| path.name(reader, handle));
        let names: Vec<String> = names.flatten().collect();
        match names.first() {
            Some(first) if names.iter().any(|name| name != first) => PathReading::Different,
            Some(_) if 2 * names.len() < self.paths.len() => PathReading::Nothing,
            Some(first) if self.agreed && !is_mangled(first) => PathReading::Nothing,
            Some(first) => PathReading::Name(demangled(first)),
            None => PathReading::Nothing,
        }
    }
}

/// Whether a text can only be a name that a compiler of C++ made.
fn is_mangled(text: &str) -> bool {
    text.starts_with("_Z") && *demangled(text) != *text
}
