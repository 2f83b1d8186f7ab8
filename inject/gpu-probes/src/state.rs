//! What is known in this process: the orders, contexts and what has been loaded with probes.

use crate::context::{Context, library_variable, module_variable};
use crate::driver::{self, OutsideCapture};
use crate::dump::{self, Moment};
use crate::error::MemoryError;
use crate::notes::Notes;
use crate::reading::{self, Why};
use ptx::device::Orders;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// How long a program that ends waits for the reader of its maps.
const AT_EXIT: Duration = Duration::from_secs(15);

pub struct State {
    pub orders: Orders,
    pub folder: PathBuf,
    pub notes: Notes,
    contexts: HashMap<usize, Context>,
    /// Contexts in which nothing could be set up: their programs run unprobed.
    failed: HashSet<usize>,
    /// Libraries with probes, and the contexts that have been told of.
    libraries: HashMap<usize, HashSet<usize>>,
    /// Something was linked that has probes: what is loaded next may be it.
    pub linked: bool,
    /// The kernels of that: they come again without PTX, and with their probes.
    pub linked_kernels: HashSet<String>,
    seen: BTreeSet<String>,
    count: usize,
    /// How often maps have been read.
    readings: u64,
    ended: bool,
}

static STATE: OnceLock<Option<Mutex<State>>> = OnceLock::new();
/// Grows when a library with probes is loaded.
static LOADED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The driver may call itself through what is hooked.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The context and the count of libraries that this thread last looked at.
    static LOOKED: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Does something with the state; `None`: there is none, or it is not the moment.
pub fn with<T>(body: impl FnOnce(&mut State) -> T) -> Option<T> {
    let state = STATE.get_or_init(open).as_ref()?;
    if INSIDE
        .try_with(|inside| inside.replace(true))
        .unwrap_or(true)
    {
        return None;
    }
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut state = state.lock().unwrap_or_else(|broken| broken.into_inner());
        (!state.ended).then(|| body(&mut state))
    }));
    let _ = INSIDE.try_with(|inside| inside.set(false));
    done.ok().flatten()
}

fn open() -> Option<Mutex<State>> {
    let folder = PathBuf::from(std::env::var_os("CUTRACE_GPU_PROBES")?);
    let mut notes = Notes::open(&folder);
    match Orders::read(&folder) {
        Ok(orders) => Some(Mutex::new(State {
            linked: orders.has_own_modules,
            linked_kernels: HashSet::new(),
            orders,
            folder,
            notes,
            contexts: HashMap::new(),
            failed: HashSet::new(),
            libraries: HashMap::new(),
            seen: BTreeSet::new(),
            count: 0,
            readings: 0,
            ended: false,
        })),
        Err(why) => {
            notes.say("note", &format!("no probes: {why}"));
            None
        }
    }
}

impl State {
    /// The current context's part, made if need be.
    fn context(&mut self) -> Option<&Context> {
        let handle = driver::current_context();
        if handle == 0 || self.failed.contains(&handle) {
            return None;
        }
        if !self.contexts.contains_key(&handle) {
            let _outside = OutsideCapture::begin();
            crate::host_maps::tell(&self.folder);
            let notes = &mut self.notes;
            let mut say = |word: &str, rest: &str| notes.say(word, rest);
            match Context::create(&self.orders, &self.folder, handle, self.count, &mut say) {
                Ok(context) => {
                    if self.count == 0 {
                        // SAFETY: the handler stays: this library is never unloaded.
                        unsafe { libc::atexit(at_exit) };
                        reading::start(&self.folder, self.orders.every);
                    }
                    self.count += 1;
                    self.contexts.insert(handle, context);
                }
                Err(why) => {
                    self.notes.say("failed", &why.to_string());
                    self.failed.insert(handle);
                    return None;
                }
            }
        }
        self.contexts.get(&handle)
    }

    /// Tells a module of the current context where its maps are.
    pub fn bind_module(&mut self, module: usize) -> Result<bool, MemoryError> {
        let context = self.context().ok_or(MemoryError::NoContext)?;
        let _outside = OutsideCapture::begin();
        context.bind(module_variable(module))
    }

    /// A library with probes; it learns of its maps in each context that comes.
    pub fn add_library(&mut self, library: usize) -> Result<(), MemoryError> {
        self.libraries.insert(library, HashSet::new());
        LOADED.fetch_add(1, Ordering::Release);
        if driver::current_context() != 0 {
            self.bind_library(library)?;
        }
        Ok(())
    }

    pub fn remove_library(&mut self, library: usize) {
        self.libraries.remove(&library);
    }

    fn bind_library(&mut self, library: usize) -> Result<(), MemoryError> {
        let handle = driver::current_context();
        if self
            .libraries
            .get(&library)
            .is_none_or(|bound| bound.contains(&handle))
        {
            return Ok(());
        }
        let context = self.context().ok_or(MemoryError::NoContext)?;
        let _outside = OutsideCapture::begin();
        context.bind(library_variable(library))?;
        if let Some(bound) = self.libraries.get_mut(&library) {
            bound.insert(handle);
        }
        Ok(())
    }

    /// Kernels that run without their probes, with the reason. What the program itself did wrong is
    /// none.
    pub fn fall_back(&mut self, wrong: &[String]) {
        for line in wrong {
            self.notes.say("fallback", line);
        }
    }

    /// Names of kernels that were there to be probed.
    pub fn saw(&mut self, names: impl IntoIterator<Item = String>, where_from: &str) {
        for name in names {
            if self.seen.insert(name.clone()) {
                self.notes.say(where_from, &name);
            }
        }
    }

    /// A context is about to end.
    pub fn end_context(&mut self, handle: usize, forget: bool) {
        if let Some(context) = self.contexts.get(&handle) {
            let notes = &mut self.notes;
            let say = |word: &str, rest: &str| notes.say(word, rest);
            dump::dump(context, &self.orders, &self.folder, Moment::End, say);
        }
        if forget {
            self.forget_context(handle);
        }
    }

    /// A context is gone: its handle may come again.
    pub fn forget_context(&mut self, handle: usize) {
        self.contexts.remove(&handle);
        self.failed.remove(&handle);
        for bound in self.libraries.values_mut() {
            bound.remove(&handle);
        }
        LOADED.fetch_add(1, Ordering::Release);
    }

    pub fn end(&mut self) {
        let handles: Vec<usize> = self.contexts.keys().copied().collect();
        for handle in handles {
            self.end_context(handle, false);
        }
        self.note_reading(Why::End);
        self.ended = true;
    }

    /// Leaves the maps of all contexts as they are now, while the program goes on.
    pub fn read_maps(&mut self, why: Why) {
        for context in self.contexts.values() {
            let notes = &mut self.notes;
            let say = |word: &str, rest: &str| notes.say(word, rest);
            let (orders, folder) = (&self.orders, &self.folder);
            dump::dump(context, orders, folder, Moment::Meanwhile, say);
        }
        self.note_reading(why);
    }

    fn note_reading(&mut self, why: Why) {
        self.readings += 1;
        reading::note(&self.folder, self.readings, why);
    }
}

/// Before a launch: libraries that this context has not met yet learn of their maps.
pub fn before_launch() {
    let loaded = LOADED.load(Ordering::Acquire);
    if loaded == 0 {
        return;
    }
    let now = (driver::current_context(), loaded);
    if now.0 == 0 || LOOKED.try_with(|looked| looked.replace(now)).unwrap_or(now) == now {
        return;
    }
    with(|state| {
        let libraries: Vec<usize> = state.libraries.keys().copied().collect();
        for library in libraries {
            if let Err(why) = state.bind_library(library) {
                state.notes.say("failed", &why.to_string());
            }
        }
    });
}

extern "C" fn at_exit() {
    // A reading that the device does not answer must not hold the program up.
    if let Some(Some(state)) = STATE.get() {
        let began = Instant::now();
        while matches!(state.try_lock(), Err(TryLockError::WouldBlock)) {
            if began.elapsed() > AT_EXIT {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    with(State::end);
}
