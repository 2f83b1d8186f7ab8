//! Where calls come from: the function, and the stack above it where the trace has stacks. Where it
//! has none, a size that repeats is the next best name for a place in the program.

use ahash::RandomState;
use event::{ByStack, Event, Extent, Frame, Name, Record, Stack};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Places told apart, at most; what comes later goes to one place a function.
const MOST_SITES: usize = 1 << 16;
/// Stacks kept, at most.
const MOST_STACKS: usize = 1 << 14;
/// Threads whose latest call is remembered, at most.
const MOST_THREADS: usize = 1 << 16;
/// Frames shown of a stack.
const MOST_FRAMES: usize = 32;

/// A place that calls come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSite {
    pub function: Name,
    /// The size asked for, where it is what tells places apart.
    pub size_bytes: Option<u64>,
    /// Innermost first, one line a frame; empty where the trace has no stacks.
    pub stack: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    function: Name,
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum By {
    Stack(u64),
    Size(u64),
    /// There were too many places to tell apart.
    Function,
}

fn hash_of(frames: &[Frame]) -> u64 {
    // Fixed keys: the number is only compared within one analysis, and tests want it stable.
    let mut hasher = std::hash::DefaultHasher::new();
    for frame in frames {
        frame.address.hash(&mut hasher);
        frame.line.hash(&mut hasher);
        // Frames of an interpreter have no address: their names tell them apart.
        if frame.address == 0 {
            frame.symbol.hash(&mut hasher);
            frame.file.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Gives every place a small number.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    index: HashMap<Key, u32, RandomState>,
    keys: Vec<Key>,
    stacks: HashMap<u64, Vec<String>, RandomState>,
    hashes: ByStack<u64>,
    latest: HashMap<(u32, u32), LatestCall, RandomState>,
}

/// What the latest call of a thread was, which its meaning will refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatestCall {
    pub id: u64,
    /// Nanoseconds it took.
    pub duration: u64,
    stack: Option<u64>,
}

impl Sites {
    /// Remembers a call that has ended, for the meaning that follows it.
    pub fn called(&mut self, event: &Event) {
        let Extent::Closed(duration) = event.extent else {
            return;
        };
        let stack = self.stack(&event.stack);
        if self.latest.len() >= MOST_THREADS {
            self.latest.clear();
        }
        let call = LatestCall {
            id: event.id,
            duration,
            stack,
        };
        self.latest.insert((event.pid, event.tid), call);
    }

    /// The call that a meaning speaks of, if it was the thread's latest.
    pub fn call(&self, pid: u32, tid: u32, op: u64) -> Option<LatestCall> {
        (self.latest.get(&(pid, tid)).copied()).filter(|call| call.id == op)
    }

    fn stack(&mut self, stack: &Stack) -> Option<u64> {
        if stack.is_empty() {
            return None;
        }
        let stacks = &mut self.stacks;
        let hash = self.hashes.get_or_insert(stack, |stack| {
            let hash = hash_of(stack);
            if stacks.len() < MOST_STACKS {
                let shown = || stack.iter().take(MOST_FRAMES).map(frame_text).collect();
                stacks.entry(hash).or_insert_with(shown);
            }
            hash
        });
        Some(*hash)
    }

    /// The number of the place that calls `function`, in this call where it is known.
    pub fn site(&mut self, function: &Name, call: Option<LatestCall>, size: u64) -> u32 {
        let by = match call.and_then(|call| call.stack) {
            Some(stack) => By::Stack(stack),
            None => By::Size(size),
        };
        let key = |by| Key {
            function: function.clone(),
            by,
        };
        if let Some(&site) = self.index.get(&key(by)) {
            return site;
        }
        let by = if self.keys.len() < MOST_SITES {
            by
        } else {
            By::Function
        };
        *self.index.entry(key(by)).or_insert_with(|| {
            self.keys.push(key(by));
            (self.keys.len() - 1) as u32
        })
    }

    pub fn place(&self, site: u32) -> CallSite {
        let key = &self.keys[site as usize];
        CallSite {
            function: key.function.clone(),
            size_bytes: match key.by {
                By::Size(size) => Some(size),
                By::Stack(_) | By::Function => None,
            },
            stack: match key.by {
                By::Stack(hash) => self.stacks.get(&hash).cloned().unwrap_or_default(),
                By::Size(_) | By::Function => Vec::new(),
            },
        }
    }
}

/// `symbol (file:line)`, `symbol+0x12 (module)`, or what of it is known.
fn frame_text(frame: &Frame) -> String {
    let last = |path: &Name| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut text = match &frame.symbol {
        Some(symbol) => symbol.to_string(),
        None => format!("{:#x}", frame.address),
    };
    if let Some(file) = &frame.file {
        let line = frame.line.map_or(String::new(), |line| format!(":{line}"));
        text.push_str(&format!(" ({}{line})", last(file)));
        return text;
    }
    if let (Some(_), Some(offset)) = (&frame.symbol, frame.offset) {
        text.push_str(&format!("+{offset:#x}"));
    }
    if let Some(module) = &frame.module {
        text.push_str(&format!(" ({})", last(module)));
    }
    text
}

/// Whether a record is a call's end that a meaning of memory or transfer may follow.
pub(crate) fn may_mean(record: &Record) -> Option<&Event> {
    match record {
        Record::Event(event)
            if matches!(event.extent, Extent::Closed(_))
                && matches!(
                    event.layer,
                    event::Layer::Runtime | event::Layer::Driver | event::Layer::Library
                )
                && matches!(
                    event.category,
                    event::Category::Memory | event::Category::Transfer | event::Category::Graph
                ) =>
        {
            Some(event)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Layer};

    fn call(id: u64, addresses: &[u64]) -> Event {
        let mut event = Event::new(id, Layer::Driver, Category::Memory, "cuMemAlloc_v2", 0);
        event.extent = Extent::Closed(5);
        event.stack = (addresses.iter())
            .map(|&address| Frame {
                address,
                symbol: Some("load".into()),
                offset: Some(0x10),
                module: Some("/usr/bin/app".into()),
                ..Frame::default()
            })
            .collect();
        event
    }

    #[test]
    fn stacks_tell_places_apart_and_sizes_where_there_are_none() {
        let mut sites = Sites::default();
        let function: Name = "cuMemAlloc_v2".into();
        let mut place = |id, addresses: &[u64], size| {
            sites.called(&call(id, addresses));
            let latest = sites.call(0, 0, id);
            assert!(sites.call(0, 0, id + 1).is_none());
            sites.site(&function, latest, size)
        };
        assert_eq!(place(1, &[1, 2], 10), place(2, &[1, 2], 20));
        assert_ne!(place(3, &[1, 2], 10), place(4, &[1, 3], 10));
        assert_ne!(place(5, &[], 10), place(6, &[], 20));
        assert_eq!(place(7, &[], 10), place(8, &[], 10));
        let named = sites.place(0);
        assert_eq!(named.stack, ["load+0x10 (app)", "load+0x10 (app)"]);
        assert_eq!(
            (named.size_bytes, sites.place(3).size_bytes),
            (None, Some(20))
        );
    }

    #[test]
    fn frames_of_an_interpreter_are_told_apart_by_name_and_line() {
        let mut sites = Sites::default();
        let function: Name = "cudaMalloc".into();
        let mut place = |id, line| {
            let mut event = call(id, &[]);
            event.stack = [Frame {
                kind: event::FrameKind::Python,
                symbol: Some("forward".into()),
                file: Some("/srv/model.py".into()),
                line: Some(line),
                ..Frame::default()
            }]
            .into();
            sites.called(&event);
            let latest = sites.call(0, 0, id);
            sites.site(&function, latest, 8)
        };
        assert_ne!(place(1, 10), place(2, 11));
        assert_eq!(place(3, 10), place(4, 10));
        assert_eq!(sites.place(0).stack, ["forward (model.py:10)"]);
    }

    #[test]
    fn too_many_places_become_one_a_function() {
        let mut sites = Sites::default();
        let function: Name = "cudaMalloc".into();
        for size in 0..MOST_SITES as u64 {
            sites.site(&function, None, size);
        }
        let rest = sites.site(&function, None, u64::MAX);
        assert_eq!(rest, sites.site(&function, None, u64::MAX - 1));
        assert_eq!(sites.place(rest).size_bytes, None);
        assert_eq!(sites.site(&function, None, 7), 7);
    }
}
