//! Contexts: what owns streams, memory and modules.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use super::{
    capture,
    device::LIMITS,
    notice,
    printf::PrintBuffer,
    resource,
    result::{Answer, CuError, INVALID_CONTEXT},
    state::{self, Phase, driver},
    stream::{NON_BLOCKING, Stream, StreamKind},
    thread,
};

pub const LIMIT_PRINTF: usize = 1;

pub struct Context {
    pub handle: u64,
    pub id: u64,
    pub api_version: u32,
    pub flags: AtomicU32,
    pub cache_config: AtomicU32,
    pub shared_config: AtomicU32,
    limits: Mutex<Vec<usize>>,
    fault: AtomicU32,
    /// Where the fault was, in words.
    fault_text: Mutex<String>,
    /// Tells running kernels to stop.
    pub cancelled: AtomicBool,
    pub printed: PrintBuffer,
    pub legacy: Arc<Stream>,
    per_thread: Mutex<HashMap<u64, Arc<Stream>>>,
    streams: Mutex<Vec<Arc<Stream>>>,
    /// Held while work is issued to blocking streams, so that 'all earlier work' is well defined.
    pub order: Mutex<()>,
    pub resource: resource::ContextResource,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Context {
    /// Makes a context under `handle` and enters it in the table.
    pub fn create(handle: u64, flags: u32, api_version: u32) -> Arc<Self> {
        let context = Arc::new_cyclic(|this: &Weak<Context>| Context {
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            api_version,
            flags: AtomicU32::new(flags),
            cache_config: AtomicU32::new(0),
            shared_config: AtomicU32::new(1),
            limits: Mutex::new(LIMITS.iter().map(|limit| limit.1).collect()),
            fault: AtomicU32::new(0),
            fault_text: Mutex::default(),
            cancelled: AtomicBool::new(false),
            printed: PrintBuffer::default(),
            legacy: Arc::new(Stream::new(0, this.clone(), StreamKind::Legacy, 0, 0)),
            per_thread: Mutex::default(),
            streams: Mutex::default(),
            order: Mutex::new(()),
            resource: resource::ContextResource::create(),
        });
        driver().contexts.insert(handle, context.clone());
        context
    }

    /// Finishes all work and frees all the context owns.
    pub fn destroy(&self) {
        driver().contexts.remove(self.handle);
        self.drain();
        self.printed.flush();
        let handle = self.handle;
        let driver = driver();
        driver.events.remove_where(|event| event.context == handle);
        driver.functions.remove_where(|f| f.context == handle);
        driver
            .modules
            .remove_where(|module| module.context == handle);
        for library in driver.libraries.all() {
            library.forget_context(self.id);
        }
        let streams = std::mem::take(&mut *self.lock_streams());
        for stream in streams {
            capture::abandon(&stream);
            driver.streams.remove(stream.handle);
            stream.resource.destroy();
        }
        driver.allocations.release_context(handle);
        self.resource.destroy();
    }

    /// The sticky error of a kernel that went wrong.
    pub fn fault(&self) -> Option<CuError> {
        match self.fault.load(Ordering::Acquire) {
            0 => None,
            code => Some(CuError(code)),
        }
    }

    /// Stops the context; only the first fault counts.
    pub fn fail(&self, code: u32, text: String) {
        let mut first = self
            .fault_text
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.fault().is_none() {
            *first = text;
            self.fault.store(code, Ordering::Release);
        }
    }

    /// A kernel does not run because of the fault: the program may not have noticed that.
    pub fn say_kernel_not_run(&self, kernel: &str) {
        // At its end, the driver stops kernels itself.
        if state::phase() == Phase::Ended {
            return;
        }
        let text = self
            .fault_text
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        notice::say(&format!(
            "{kernel} and all later kernels do not run, because an earlier one failed: {text}"
        ));
    }

    pub fn healthy(&self) -> Answer {
        self.fault().map_or(Ok(()), Err)
    }

    pub fn limit(&self, number: usize) -> Option<usize> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.get(number).copied()
    }

    pub fn set_limit(&self, number: usize, value: usize) {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get_mut(number) {
            *limit = value;
        }
    }

    fn lock_streams(&self) -> MutexGuard<'_, Vec<Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add_stream(&self, stream: Arc<Stream>) {
        let mut streams = self.lock_streams();
        // Destroyed streams stay until their work is done.
        streams.retain(|s| !s.is_idle() || driver().streams.get(s.handle).is_some());
        streams.push(stream);
    }

    /// Lets a destroyed stream finish; later synchronisation still waits for it.
    pub fn retire_stream(&self, stream: &Stream) {
        self.lock_streams()
            .retain(|other| other.handle != stream.handle || !other.is_idle());
    }

    /// Every stream but the legacy one.
    pub fn other_streams(&self) -> Vec<Arc<Stream>> {
        let mut all = self.lock_streams().clone();
        all.extend(
            self.per_thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .values()
                .cloned(),
        );
        all
    }

    pub fn blocking_streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = self.other_streams();
        streams.retain(|stream| stream.flags & NON_BLOCKING == 0);
        streams
    }

    /// The calling thread's own default stream.
    pub fn per_thread_stream(self: &Arc<Self>) -> Arc<Stream> {
        let thread = thread::id();
        let mut streams = self
            .per_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&thread) {
            return stream.clone();
        }
        let kind = StreamKind::PerThread;
        let stream = Arc::new(Stream::new(0, Arc::downgrade(self), kind, 0, 0));
        streams.insert(thread, stream.clone());
        thread::has_stream_in(self);
        stream
    }

    /// The default stream of a thread that ends.
    pub fn forget_thread(&self, thread: u64) {
        self.per_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&thread);
    }

    /// Waits until all work issued so far is done.
    pub fn drain(&self) {
        for stream in self.other_streams() {
            stream.wait_for_all();
        }
        self.legacy.wait_for_all();
    }

    /// As cuCtxSynchronize: waits, lets kernels' output out, reports a fault.
    pub fn synchronise(&self) -> Answer {
        self.drain();
        self.printed.flush();
        self.healthy()
    }
}

/// A context by its handle.
pub fn by_handle(handle: u64) -> Answer<Arc<Context>> {
    driver().contexts.get(handle).ok_or(INVALID_CONTEXT)
}
