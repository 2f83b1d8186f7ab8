//! Stream capture: work issued to a capturing stream becomes nodes of a graph.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use super::{
    context::Context,
    event::{Event, EventState},
    graph::Graph,
    result::{
        Answer, CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE,
        CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD,
        CAPTURED_EVENT, ILLEGAL_STATE, INVALID_VALUE,
    },
    stream::{NON_BLOCKING, Stream, StreamKind},
    thread,
    work::Work,
};

/// CUstreamCaptureMode.
pub const GLOBAL: u32 = 0;
pub const THREAD_LOCAL: u32 = 1;
pub const RELAXED: u32 = 2;

/// One capture: begun in one stream, perhaps spread to others by events.
pub struct Capture {
    pub id: u64,
    pub graph: Arc<Graph>,
    mode: u32,
    thread: u64,
    origin: Weak<Stream>,
    members: Mutex<Vec<Weak<Stream>>>,
    /// The last nodes of streams that were destroyed: they too must be joined when the capture ends.
    left: Mutex<Vec<u64>>,
    invalid: AtomicBool,
}

/// A stream's part in a capture: the nodes its next work comes after.
#[derive(Clone)]
pub struct Capturing {
    pub capture: Arc<Capture>,
    pub frontier: Vec<u64>,
}

/// The captures in progress; empty nearly always, which `COUNT` tells without a lock.
static LIVE: Mutex<Vec<Weak<Capture>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Capture {
    pub fn is_invalid(&self) -> bool {
        self.invalid.load(Ordering::Acquire)
    }

    pub fn invalidate(&self) {
        self.invalid.store(true, Ordering::Release);
    }
}

fn part(stream: &Stream) -> std::sync::MutexGuard<'_, Option<Capturing>> {
    stream
        .capturing
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The stream's capture, if it is capturing.
pub fn of(stream: &Stream) -> Option<Capturing> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    part(stream).clone()
}

pub fn begin(stream: &Arc<Stream>, mode: u32, existing: Option<(Arc<Graph>, Vec<u64>)>) -> Answer {
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    if stream.kind == StreamKind::Legacy {
        return Err(CAPTURE_UNSUPPORTED);
    }
    let mut part = part(stream);
    if part.is_some() {
        return Err(ILLEGAL_STATE);
    }
    let (graph, frontier) = existing.unwrap_or_else(|| (Graph::create(), Vec::new()));
    let capture = Arc::new(Capture {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        graph,
        mode,
        thread: thread::id(),
        origin: Arc::downgrade(stream),
        members: Mutex::new(vec![Arc::downgrade(stream)]),
        left: Mutex::default(),
        invalid: AtomicBool::new(false),
    });
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.push(Arc::downgrade(&capture));
    COUNT.store(live.len(), Ordering::Release);
    *part = Some(Capturing { capture, frontier });
    Ok(())
}

/// Ends the capture; the graph, or why there is none.
pub fn end(stream: &Arc<Stream>) -> Answer<Arc<Graph>> {
    let Some(Capturing { capture, frontier }) = of(stream) else {
        return Err(ILLEGAL_STATE);
    };
    if !capture.origin.ptr_eq(&Arc::downgrade(stream)) {
        capture.invalidate();
        return Err(CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != thread::id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let joined = capture.graph.nodes().ancestors(&frontier);
    let members = std::mem::take(
        &mut *capture
            .members
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    let left = std::mem::take(&mut *capture.left.lock().unwrap_or_else(PoisonError::into_inner));
    let mut unjoined = left.iter().any(|node| !joined.contains(node));
    for member in members.iter().filter_map(Weak::upgrade) {
        let left = part(&member).take();
        unjoined |= left.is_some_and(|left| left.frontier.iter().any(|n| !joined.contains(n)));
    }
    forget(&capture);
    let failed = if capture.is_invalid() {
        Some(CAPTURE_INVALIDATED)
    } else if unjoined {
        Some(CAPTURE_UNJOINED)
    } else {
        None
    };
    match failed {
        None => Ok(capture.graph.clone()),
        Some(error) => {
            // A graph the program gave is lost as well.
            capture.graph.destroy();
            Err(error)
        }
    }
}

fn forget(capture: &Arc<Capture>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(capture)));
    COUNT.store(live.len(), Ordering::Release);
}

/// Makes work a node if the stream is capturing; false if it is not.
pub fn add_work(stream: &Stream, work: &Work) -> Answer<bool> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Ok(false);
    }
    let mut part = part(stream);
    let Some(Capturing { capture, frontier }) = part.as_mut() else {
        return Ok(false);
    };
    if capture.is_invalid() {
        return Err(CAPTURE_INVALIDATED);
    }
    if matches!(work, Work::Free(_) | Work::Callback { .. } | Work::Graph(_)) {
        capture.invalidate();
        return Err(CAPTURE_UNSUPPORTED);
    }
    let node = capture.graph.add(work.clone(), frontier)?;
    *frontier = vec![node];
    Ok(true)
}

/// Work in the legacy stream would have to wait for a capturing stream, and cannot.
pub fn check_implicit(context: &Context, stream: &Stream) -> Answer {
    match implicit(context, stream) {
        None => Ok(()),
        Some(part) => {
            part.capture.invalidate();
            Err(CAPTURE_IMPLICIT)
        }
    }
}

/// As [`check_implicit`], for questions: the capture goes on.
pub fn ask_implicit(context: &Context, stream: &Stream) -> Answer {
    implicit(context, stream).map_or(Ok(()), |_| Err(CAPTURE_IMPLICIT))
}

fn implicit(context: &Context, stream: &Stream) -> Option<Capturing> {
    if COUNT.load(Ordering::Acquire) == 0 || stream.kind != StreamKind::Legacy {
        return None;
    }
    let mut streams = context.other_streams().into_iter();
    streams.find_map(|other| of(&other).filter(|_| other.flags & NON_BLOCKING == 0))
}

/// Refuses what may not be done to a capturing stream, and spoils the capture.
pub fn refuse_on(stream: &Stream) -> Answer {
    match of(stream) {
        None => Ok(()),
        Some(part) => {
            part.capture.invalidate();
            Err(CAPTURE_UNSUPPORTED)
        }
    }
}

/// Refuses calls that could wait for a capture (cuMemAlloc and its like) in the strict modes.
pub fn refuse_unsafe_call() -> Answer {
    if COUNT.load(Ordering::Acquire) == 0 || thread::capture_mode() == RELAXED {
        return Ok(());
    }
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = thread::id();
    let mut refused = false;
    for capture in live.iter().filter_map(Weak::upgrade) {
        let concerns = match capture.mode {
            GLOBAL => thread::capture_mode() == GLOBAL || capture.thread == thread,
            THREAD_LOCAL => capture.thread == thread,
            _ => false,
        };
        if concerns {
            capture.invalidate();
            refused = true;
        }
    }
    if refused {
        Err(CAPTURE_UNSUPPORTED)
    } else {
        Ok(())
    }
}

/// cuEventRecord in a capturing stream; false if it is not capturing.
pub fn record(stream: &Stream, event: &Event) -> Answer<bool> {
    let Some(part) = of(stream) else {
        return Ok(false);
    };
    if part.capture.is_invalid() {
        return Err(CAPTURE_INVALIDATED);
    }
    event.set(EventState::Captured(part.capture, part.frontier));
    Ok(true)
}

/// cuStreamWaitEvent where the stream or the event is part of a capture; false if neither is.
pub fn wait(stream: &Arc<Stream>, event: &Event) -> Answer<bool> {
    let event_part = match event.state() {
        EventState::Captured(capture, nodes) if !capture_ended(&capture) => Some((capture, nodes)),
        EventState::Captured(..) => return Err(CAPTURED_EVENT),
        _ => None,
    };
    let mut part = part(stream);
    match (part.as_mut(), event_part) {
        (None, None) => Ok(false),
        (Some(part), None) => {
            part.capture.invalidate();
            Err(CAPTURE_ISOLATION)
        }
        (Some(part), Some((capture, nodes))) => {
            if !Arc::ptr_eq(&part.capture, &capture) {
                part.capture.invalidate();
                capture.invalidate();
                return Err(CAPTURE_MERGE);
            }
            for node in nodes {
                if !part.frontier.contains(&node) {
                    part.frontier.push(node);
                }
            }
            Ok(true)
        }
        (None, Some((capture, frontier))) => {
            if stream.kind == StreamKind::Legacy {
                capture.invalidate();
                return Err(CAPTURE_IMPLICIT);
            }
            capture
                .members
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Arc::downgrade(stream));
            *part = Some(Capturing { capture, frontier });
            Ok(true)
        }
    }
}

fn capture_ended(capture: &Arc<Capture>) -> bool {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    !live
        .iter()
        .any(|other| other.ptr_eq(&Arc::downgrade(capture)))
}

/// A destroyed stream leaves its capture; the one that the capture began in takes it along.
pub fn abandon(stream: &Stream) {
    let Some(Capturing { capture, frontier }) = part(stream).take() else {
        return;
    };
    let origin = capture.origin.upgrade();
    if origin.is_none_or(|origin| std::ptr::eq(&*origin, stream)) {
        capture.invalidate();
        forget(&capture);
        let members = std::mem::take(
            &mut *capture
                .members
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        // The other streams are as if there had been no capture.
        for member in members.iter().filter_map(Weak::upgrade) {
            part(&member).take();
        }
        return;
    }
    capture
        .left
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(frontier);
}

/// Replaces or extends the nodes the next captured work comes after.
pub fn update_frontier(stream: &Stream, nodes: Vec<u64>, replace: bool) -> Answer {
    let mut part = part(stream);
    let Some(part) = part.as_mut() else {
        return Err(ILLEGAL_STATE);
    };
    if part.capture.is_invalid() {
        return Err(CAPTURE_INVALIDATED);
    }
    {
        let known = part.capture.graph.nodes();
        if !nodes.iter().all(|node| known.by_handle.contains_key(node)) {
            return Err(INVALID_VALUE);
        }
    }
    if replace {
        part.frontier.clear();
    }
    for node in nodes {
        if !part.frontier.contains(&node) {
            part.frontier.push(node);
        }
    }
    Ok(())
}
