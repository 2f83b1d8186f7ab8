//! Which handles stand for what: learned from allocations, duplicates and frees.
//!
//! Handles belong to clients, and clients' numbers are unique in the system, so one of these serves
//! all processes. What was not seen is not known; what contradicts is overwritten.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use event::Value;

use super::class::{ObjectKind, class_name};
use super::version::Version;

/// Objects that are remembered; the oldest are forgotten first. A CUDA context has about 110.
const MOST_OBJECTS: usize = 1 << 16;

/// An object of the driver, by client and handle.
type Key = (u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    pub class: u32,
    pub class_name: Option<&'static str>,
    pub kind: ObjectKind,
    pub parent: u32,
    /// Of memory.
    pub bytes: Option<u64>,
    age: u64,
}

impl Object {
    pub fn new(class: u32, parent: u32, bytes: Option<u64>, version: Version) -> Object {
        let class_name = class_name(class, version);
        Object {
            class,
            class_name,
            kind: ObjectKind::of(class, class_name),
            parent,
            bytes,
            age: 0,
        }
    }
}

/// What is known about the handles of all clients.
#[derive(Debug, Default)]
pub struct Handles {
    objects: HashMap<Key, Object>,
    children: HashMap<Key, BTreeSet<u32>>,
    by_age: BTreeMap<u64, Key>,
    ages: u64,
}

impl Handles {
    pub fn get(&self, client: u32, handle: u32) -> Option<&Object> {
        self.objects.get(&(client, handle))
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// `ch:0x5c000013(HOPPER_CHANNEL_GPFIFO_A)`; the number where nothing is known.
    pub fn label(&self, client: u32, handle: u32) -> Value {
        let Some(object) = self.get(client, handle) else {
            return Value::Pointer(handle.into());
        };
        let prefix = object.kind.prefix();
        match object.class_name {
            _ if object.kind == ObjectKind::Client => format!("{prefix}:{handle:#x}").into(),
            Some(name) => format!("{prefix}:{handle:#x}({name})").into(),
            None => format!("{prefix}:{handle:#x}({:#06x})", object.class).into(),
        }
    }

    /// An object came to be. A handle that was taken before must have been freed without being seen.
    pub fn made(&mut self, client: u32, handle: u32, object: Object) {
        let key = (client, handle);
        self.freed(client, handle);
        while self.objects.len() >= MOST_OBJECTS {
            let Some((_, oldest)) = self.by_age.pop_first() else {
                break;
            };
            self.remove(oldest);
        }
        self.ages += 1;
        let age = self.ages;
        self.by_age.insert(age, key);
        if object.parent != handle {
            self.children
                .entry((client, object.parent))
                .or_default()
                .insert(handle);
        }
        self.objects.insert(key, Object { age, ..object });
    }

    /// An object went, and all below it. Returns the object itself, where it was known.
    pub fn freed(&mut self, client: u32, handle: u32) -> Option<Object> {
        let freed = self.remove((client, handle));
        let mut below = vec![(client, handle)];
        while let Some(key) = below.pop() {
            for child in self.children.remove(&key).unwrap_or_default() {
                let child = (client, child);
                self.remove(child);
                below.push(child);
            }
        }
        freed
    }

    /// An object and all below it, from the top.
    pub fn below(&self, client: u32, handle: u32) -> Vec<(u32, Object)> {
        let mut found: Vec<(u32, Object)> = Vec::new();
        let mut seen = BTreeSet::from([handle]);
        let mut next = vec![handle];
        while let Some(handle) = next.pop() {
            found.extend(self.get(client, handle).map(|object| (handle, *object)));
            let children = self.children.get(&(client, handle)).into_iter().flatten();
            next.extend(children.copied().filter(|child| seen.insert(*child)));
        }
        found
    }

    fn remove(&mut self, key: Key) -> Option<Object> {
        let object = self.objects.remove(&key)?;
        self.by_age.remove(&object.age);
        let parent = (key.0, object.parent);
        if let Some(siblings) = self.children.get_mut(&parent) {
            siblings.remove(&key.1);
            if siblings.is_empty() {
                self.children.remove(&parent);
            }
        }
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(class: u32, parent: u32) -> Object {
        Object::new(class, parent, None, Version::NEWEST)
    }

    #[test]
    fn objects_go_with_what_is_above_them() {
        let mut handles = Handles::default();
        handles.made(1, 1, object(0x41, 0));
        handles.made(1, 2, object(0x80, 1));
        handles.made(1, 3, object(0xa06c, 2));
        handles.made(1, 4, object(0xc86f, 3));
        handles.made(9, 4, object(0x40, 2));
        let label = handles.label(1, 4);
        assert_eq!(label.as_str(), Some("ch:0x4(HOPPER_CHANNEL_GPFIFO_A)"));
        assert_eq!(handles.label(1, 1).as_str(), Some("client:0x1"));
        assert_eq!(handles.label(1, 77), Value::Pointer(77));
        assert_eq!(handles.freed(1, 3).unwrap().class, 0xa06c);
        assert!(handles.get(1, 4).is_none());
        assert_eq!(handles.freed(1, 3), None);
        handles.freed(1, 1);
        assert_eq!(handles.len(), 1, "another client's objects stay");
        assert_eq!((handles.by_age.len(), handles.children.len()), (1, 1));
    }

    #[test]
    fn frees_that_were_missed_do_no_harm() {
        let mut handles = Handles::default();
        handles.made(1, 5, object(0xa06c, 2));
        handles.made(1, 6, object(0xc86f, 5));
        handles.made(1, 5, object(0x40, 2));
        assert_eq!(handles.get(1, 5).unwrap().kind, ObjectKind::DeviceMemory);
        assert!(handles.get(1, 6).is_none(), "it was below the old one");
        // Its own parent, and parents in a ring: only broken input says so.
        handles.made(1, 7, object(0x40, 7));
        handles.made(1, 8, object(0x40, 9));
        handles.made(1, 9, object(0x40, 8));
        handles.freed(1, 8);
        handles.freed(1, 7);
        assert_eq!(handles.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut handles = Handles::default();
        let most = u32::try_from(MOST_OBJECTS).unwrap();
        for handle in 0..most + 100 {
            handles.made(1, handle + 10, object(0x40, 1));
        }
        assert_eq!(handles.len(), MOST_OBJECTS);
        assert_eq!(handles.by_age.len(), MOST_OBJECTS);
        assert!(handles.get(1, 10).is_none(), "the oldest went");
        assert!(handles.get(1, most + 109).is_some());
    }
}
