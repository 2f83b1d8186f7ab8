//! Streams: queues of work, each run in order by a thread of the pool.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use super::{
    activity::Origin,
    capture::{self, Capturing},
    context::Context,
    event::EventRecording,
    pool,
    resource::StreamResource,
    result::{Answer, CONTEXT_IS_DESTROYED, INVALID_HANDLE},
    state::driver,
    thread,
    work::Work,
};

pub const NON_BLOCKING: u32 = 1;

/// What stream 0 means to a function: the two flavours of the API differ in nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NullStream {
    Legacy,
    PerThread,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    Legacy,
    PerThread,
    Created,
}

/// What must be over before a piece of work starts.
pub enum Dependency {
    /// The first so many pieces of a stream's work.
    Ticket(Arc<Stream>, u64),
    Record(Arc<EventRecording>),
}

impl Dependency {
    fn wait(&self) {
        match self {
            Dependency::Ticket(stream, ticket) => stream.wait_for(*ticket),
            Dependency::Record(record) => record.wait(),
        }
    }
}

struct Task {
    after: Vec<Dependency>,
    work: Work,
    origin: Origin,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// A thread of the pool is working the queue off.
    running: bool,
}

pub struct Stream {
    pub handle: u64,
    pub id: u64,
    pub kind: StreamKind,
    pub flags: u32,
    pub priority: i32,
    /// CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, kept for queries; all ones until set.
    pub synchronisation_policy: AtomicU32,
    context: Weak<Context>,
    queue: Mutex<Queue>,
    changed: Condvar,
    submitted: AtomicU64,
    completed: AtomicU64,
    pub capturing: Mutex<Option<Capturing>>,
    pub resource: StreamResource,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Stream {
    pub fn new(
        handle: u64,
        context: Weak<Context>,
        kind: StreamKind,
        flags: u32,
        priority: i32,
    ) -> Self {
        Self {
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            kind,
            flags,
            priority,
            synchronisation_policy: AtomicU32::new(u32::MAX),
            context,
            queue: Mutex::default(),
            changed: Condvar::new(),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            capturing: Mutex::default(),
            resource: match kind {
                StreamKind::Created => StreamResource::create(),
                StreamKind::Legacy | StreamKind::PerThread => StreamResource::default(),
            },
        }
    }

    pub fn context(&self) -> Answer<Arc<Context>> {
        self.context.upgrade().ok_or(CONTEXT_IS_DESTROYED)
    }

    /// Queues work, or makes it a node if the stream is capturing.
    pub fn issue(self: &Arc<Self>, context: &Arc<Context>, work: Work) -> Answer {
        if !capture::add_work(self, &work)? {
            capture::check_implicit(context, self)?;
            self.enqueue(context, Vec::new(), work);
        }
        Ok(())
    }

    /// As [`Self::issue`], for work so short that a thread switch would cost more than doing it.
    pub fn issue_short(self: &Arc<Self>, context: &Arc<Context>, work: Work) -> Answer {
        if !capture::add_work(self, &work)? {
            capture::check_implicit(context, self)?;
            if !self.run_here(context, &work) {
                self.enqueue(context, Vec::new(), work);
            }
        }
        Ok(())
    }

    /// Queues work behind all the stream holds, and behind `after`.
    pub fn enqueue(
        self: &Arc<Self>,
        context: &Arc<Context>,
        mut after: Vec<Dependency>,
        work: Work,
    ) -> u64 {
        let _order = self.implicit_order(context, &mut after);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.tasks.push_back(Task {
            after,
            work,
            origin: Origin::here(self.id),
        });
        let ticket = self.submitted.fetch_add(1, Ordering::AcqRel) + 1;
        if !queue.running {
            queue.running = true;
            drop(queue);
            let (stream, context) = (self.clone(), context.clone());
            pool::run(move || stream.work_off(&context));
        }
        ticket
    }

    /// Adds what the rules of the legacy stream make this stream's next work wait for. The lock
    /// keeps other work from coming in between.
    fn implicit_order<'a>(
        &self,
        context: &'a Context,
        after: &mut Vec<Dependency>,
    ) -> Option<MutexGuard<'a, ()>> {
        if self.flags & NON_BLOCKING != 0 {
            return None;
        }
        let order = context.order.lock().unwrap_or_else(PoisonError::into_inner);
        if self.kind == StreamKind::Legacy {
            for other in context.blocking_streams() {
                other.depend_on_all(after);
            }
        } else {
            context.legacy.depend_on_all(after);
        }
        Some(order)
    }

    /// Runs work on the calling thread if nothing is before it, which saves two thread switches;
    /// false if something is.
    fn run_here(self: &Arc<Self>, context: &Arc<Context>, work: &Work) -> bool {
        let mut after = Vec::new();
        let order = self.implicit_order(context, &mut after);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !after.is_empty() || queue.running {
            return false;
        }
        queue.running = true;
        self.submitted.fetch_add(1, Ordering::AcqRel);
        drop((queue, order));
        work.run(context, Origin::here(self.id));
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.completed.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_all();
        if queue.tasks.is_empty() {
            queue.running = false;
        } else {
            drop(queue);
            let (stream, context) = (self.clone(), context.clone());
            pool::run(move || stream.work_off(&context));
        }
        true
    }

    /// Adds what has been issued and is not done yet.
    pub fn depend_on_all(self: &Arc<Self>, after: &mut Vec<Dependency>) {
        let submitted = self.submitted.load(Ordering::Acquire);
        if !self.has_completed(submitted) {
            after.push(Dependency::Ticket(self.clone(), submitted));
        }
    }

    fn work_off(&self, context: &Arc<Context>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(task) = queue.tasks.pop_front() {
            drop(queue);
            for dependency in &task.after {
                dependency.wait();
            }
            task.work.run(context, task.origin);
            drop(task);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.completed.fetch_add(1, Ordering::AcqRel);
            self.changed.notify_all();
        }
        queue.running = false;
    }

    pub fn has_completed(&self, ticket: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= ticket
    }

    pub fn wait_for(&self, ticket: u64) {
        if self.has_completed(ticket) {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has_completed(ticket) {
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn wait_for_all(&self) {
        self.wait_for(self.submitted.load(Ordering::Acquire));
    }

    pub fn is_idle(&self) -> bool {
        self.has_completed(self.submitted.load(Ordering::Acquire))
    }

    /// Waits as cuStreamSynchronize does; the legacy stream stands for all blocking ones.
    pub fn synchronise(&self, context: &Context) -> Answer {
        if self.kind == StreamKind::Legacy {
            for stream in context.blocking_streams() {
                stream.wait_for_all();
            }
        }
        self.wait_for_all();
        context.printed.flush();
        context.healthy()
    }

    /// True when nothing is left to do, for a query.
    pub fn is_finished(&self, context: &Context) -> bool {
        self.is_idle()
            && (self.kind != StreamKind::Legacy
                || context.blocking_streams().iter().all(|s| s.is_idle()))
    }

    /// Issues work and waits for it; nothing to wait for when it was captured.
    pub fn issue_and_wait(self: &Arc<Self>, context: &Arc<Context>, work: Work) -> Answer {
        if capture::add_work(self, &work)? {
            return Ok(());
        }
        capture::check_implicit(context, self)?;
        if !self.run_here(context, &work) {
            let ticket = self.enqueue(context, Vec::new(), work);
            self.wait_for(ticket);
        }
        context.printed.flush();
        context.healthy()
    }
}

/// The stream a handle names, with its context, ready for work.
pub fn resolve(null: NullStream, handle: u64) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let (context, stream) = resolve_any(null, handle)?;
    context.healthy()?;
    Ok((context, stream))
}

/// As [`resolve`], also in a context where a kernel faulted.
pub fn resolve_any(null: NullStream, handle: u64) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let flavour = match handle {
        0 => null,
        1 => NullStream::Legacy,
        2 => NullStream::PerThread,
        _ => {
            thread::current()?;
            let stream = driver().streams.get(handle).ok_or(INVALID_HANDLE)?;
            return Ok((stream.context()?, stream));
        }
    };
    let context = thread::current()?;
    let stream = match flavour {
        NullStream::Legacy => context.legacy.clone(),
        NullStream::PerThread => context.per_thread_stream(),
    };
    Ok((context, stream))
}
