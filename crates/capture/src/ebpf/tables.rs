//! What the watching thread has found out and the assembling one asks for: functions by number,
//! libraries, processes.

use super::places::{self, Change};
use crate::call::loaded::Objects;
use crate::call::{Named, Origin};
use crate::notes::Notes;
use crate::preload::{Library, Process};
use cuda::capture::Plan;
use event::{Backend, Hooks};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Shared between the two threads.
#[derive(Debug, Default)]
pub struct SharedTables {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub struct State {
    pub functions: Vec<Named>,
    pub libraries: Vec<Library>,
    pub processes: Vec<Process>,
    pub notes: Notes,
    /// What has become of processes' code, in the order of time.
    pub changes: Vec<(u32, Change)>,
    /// Processes that the watching thread is asked to look after, and how many it has not yet.
    pub adopted: Vec<u32>,
    pub adopting: usize,
}

impl SharedTables {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }
}

/// What was hooked, for the head of the trace.
pub fn backend(libraries: &[Library]) -> Backend {
    let sum = |count: fn(&Library) -> u64| libraries.iter().map(count).fold(0, u64::saturating_add);
    Backend {
        name: "ebpf".into(),
        hooks: Hooks {
            attached: sum(|library| library.hooked),
            total: sum(|library| library.exported),
        },
        missing: crate::preload::missing(libraries),
    }
}

/// The assembling thread's copy.
pub struct LocalTables {
    known: Arc<SharedTables>,
    functions: Vec<Named>,
    processes: Vec<Process>,
    places: HashMap<u32, usize>,
    code: places::LoadedCode,
}

impl LocalTables {
    pub fn new(known: Arc<SharedTables>) -> Self {
        LocalTables {
            known,
            functions: Vec::new(),
            processes: Vec::new(),
            places: HashMap::new(),
            code: places::LoadedCode::default(),
        }
    }
}

impl Origin for LocalTables {
    type Times = ();

    fn name(&self) -> &'static str {
        "ebpf"
    }

    fn backend(&self) -> Backend {
        backend(&self.known.lock().libraries)
    }

    fn refresh(&mut self) {
        let mut state = self.known.lock();
        for (pid, change) in state.changes.drain(..) {
            self.code.take(pid, &change);
        }
        self.functions
            .extend_from_slice(&state.functions[self.functions.len()..]);
        for process in &state.processes[self.processes.len()..] {
            self.places.insert(process.pid, self.processes.len());
            self.processes.push(process.clone());
        }
    }

    fn image_at(&self, pid: u32, _time: u64) -> Option<usize> {
        self.places.get(&pid).copied()
    }

    fn times(&self, _image: Option<usize>) {}

    /// BPF programs read CLOCK_MONOTONIC themselves.
    fn to_host(&self, _times: &(), time: u64) -> u64 {
        time
    }

    fn function(&self, _image: usize, id: u32) -> Option<Named> {
        self.functions.get(id as usize).cloned()
    }

    fn parent(&self, image: usize) -> Option<u32> {
        Some(self.processes.get(image)?.parent)
    }

    fn objects(&self, image: usize) -> Option<&Objects> {
        self.code.of(self.processes.get(image)?.pid)
    }

    fn plan(&self, name: &str, major: Option<u32>) -> Plan {
        cuda::capture::plan(name, major).without_vectors()
    }
}
