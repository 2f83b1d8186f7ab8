//! What the device did and when, for listeners: the activity interface behind softgpu's
//! libcupti. Nobody listening costs one load a call.
//!
//! libcupti asks for it by `cuGetExportTable`, as NVIDIA's does for its own private tables.

use std::{
    cell::Cell,
    ffi::{CStr, c_char},
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
    },
};

use super::{
    context::Context,
    copy::Copy,
    copy::Fill,
    graph::{self, NodeType},
    launch,
    launch::KernelWork,
    result::Answer,
    state::driver,
    work::Work,
};

/// What a listener asks for in `cuGetExportTable`.
pub const TABLE_ID: [u8; 16] = *b"softgpu-activity";

/// One thing that happened. Times are nanoseconds of CLOCK_REALTIME, as CUPTI's are.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Activity {
    /// [`CALL`], [`KERNEL`], [`COPY`], [`FILL`], [`WAIT`]
    pub kind: u32,
    /// Of the call that caused it; counts up.
    pub correlation: u32,
    pub start: u64,
    pub end: u64,
    /// A kernel's or a function's name; lives as long as the process.
    pub name: *const c_char,
    /// Of a call: what it returned, and the thread that made it.
    pub result: u32,
    pub thread: u32,
    pub context: u32,
    pub stream: u32,
    pub graph: u32,
    pub registers: u32,
    /// Of a wait: the event.
    pub node: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub static_shared: u32,
    pub dynamic_shared: u32,
    pub local: u32,
    /// What a fill writes; what a wait is for, as CUPTI numbers it.
    pub value: u32,
    pub bytes: u64,
    pub from_device: bool,
    pub to_device: bool,
    pub pageable: bool,
    pub blocking: bool,
}

pub const CALL: u32 = 1;
pub const KERNEL: u32 = 2;
pub const COPY: u32 = 3;
pub const FILL: u32 = 4;
pub const WAIT: u32 = 5;

pub type Listener = extern "C" fn(*const Activity);

/// A graph has a new node. Called on the thread that made it, inside its call.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GraphNode {
    pub graph: u64,
    pub node: u64,
    /// 0: the node was created; otherwise it turned out to be a copy of this one.
    pub original: u64,
    /// CUgraphNodeType.
    pub kind: u32,
}

pub type NodeListener = extern "C" fn(*const GraphNode);

/// What `cuGetExportTable` gives.
#[repr(C)]
pub struct Table {
    pub bytes: usize,
    /// Who is notified from now on; None: nobody.
    pub listen: extern "C" fn(Option<Listener>),
    /// The same for nodes of graphs.
    pub listen_to_nodes: extern "C" fn(Option<NodeListener>),
    /// The number of a node, as work has it; 0: there is no such node.
    pub node_id: extern "C" fn(u64) -> u64,
}

pub static TABLE: Table = Table {
    bytes: size_of::<Table>(),
    listen,
    listen_to_nodes,
    node_id,
};

static LISTENER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static NODE_LISTENER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static CORRELATION: AtomicU32 = AtomicU32::new(0);
static NEXT_GRAPH: AtomicU64 = AtomicU64::new(1);

extern "C" fn listen(listener: Option<Listener>) {
    let address = listener.map_or(std::ptr::null_mut(), |listener| listener as *mut ());
    LISTENER.store(address, Ordering::Release);
}

fn listener() -> Option<Listener> {
    let address = LISTENER.load(Ordering::Acquire);
    // SAFETY: only `listen` writes it, and it writes listeners.
    (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), Listener>(address) })
}

thread_local! {
    /// The call that this thread is in; 0: none, or nobody listens.
    static CALL_HERE: Cell<u32> = const { Cell::new(0) };
    /// A node of an executable that a listener hears of: its handle is known only then. And its number.
    static EXECUTABLE_NODE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

extern "C" fn listen_to_nodes(listener: Option<NodeListener>) {
    let address = listener.map_or(std::ptr::null_mut(), |listener| listener as *mut ());
    NODE_LISTENER.store(address, Ordering::Release);
}

fn node_listener() -> Option<NodeListener> {
    let address = NODE_LISTENER.load(Ordering::Acquire);
    // SAFETY: only `listen_to_nodes` writes it, and it writes listeners.
    (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), NodeListener>(address) })
}

extern "C" fn node_id(node: u64) -> u64 {
    let (handle, id) = EXECUTABLE_NODE.get();
    if node == handle {
        return id;
    }
    let found = graph::of_node(node).and_then(|graph| graph.id_of(node));
    found.unwrap_or(0)
}

pub fn node_created(graph: u64, node: u64, kind: NodeType) {
    if let Some(listener) = node_listener() {
        listener(&GraphNode {
            graph,
            node,
            original: 0,
            kind: kind as u32,
        });
    }
}

/// A node was created as a copy of another.
pub fn node_copied(graph: u64, node: u64, kind: NodeType, original: u64) {
    node_created(graph, node, kind);
    if let Some(listener) = node_listener() {
        listener(&GraphNode {
            graph,
            node,
            original,
            kind: kind as u32,
        });
    }
}

/// An executable has a copy of a node, with this number.
pub fn node_instantiated(id: u64, kind: NodeType, original: u64) {
    if node_listener().is_some() {
        let handle = driver().nodes.fresh();
        EXECUTABLE_NODE.set((handle, id));
        node_copied(0, handle, kind, original);
        EXECUTABLE_NODE.set((0, 0));
    }
}

/// Numbers graphs as CUPTI does.
pub fn next_graph() -> u32 {
    NEXT_GRAPH.fetch_add(1, Ordering::Relaxed) as u32
}

/// Runs an entry point's body and tells of it. Calls inside calls belong to the outer one.
pub fn call(name: &'static CStr, body: impl FnOnce() -> u32) -> u32 {
    let Some(listener) = listener() else {
        return body();
    };
    let around = CALL_HERE.get();
    if around != 0 {
        return body();
    }
    let correlation = CORRELATION.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    CALL_HERE.set(correlation);
    let start = now();
    let result = body();
    CALL_HERE.set(0);
    listener(&Activity {
        kind: CALL,
        correlation,
        start,
        end: now(),
        name: name.as_ptr(),
        result,
        // SAFETY: a question without side effects.
        thread: unsafe { libc::syscall(libc::SYS_gettid) } as u32,
        ..Activity::nothing()
    });
    result
}

/// What a call waits for, or lets a stream wait for.
#[derive(Clone, Copy)]
pub enum Waits {
    Event {
        context: u64,
        event: u64,
    },
    StreamForEvent {
        context: u64,
        stream: u64,
        event: u64,
    },
    Stream {
        context: u64,
        stream: u64,
    },
    Context(u64),
}

impl Waits {
    /// CUPTI's number of its kind, the context, and the stream and the event where there are.
    fn parts(self) -> (u32, u64, Option<u64>, Option<u64>) {
        match self {
            Waits::Event { context, event } => (1, context, None, Some(event)),
            Waits::StreamForEvent {
                context,
                stream,
                event,
            } => (2, context, Some(stream), Some(event)),
            Waits::Stream { context, stream } => (3, context, Some(stream), None),
            Waits::Context(context) => (4, context, None, None),
        }
    }

    /// Does what the call under way does, and tells of it if it succeeds.
    pub fn run(self, body: impl FnOnce() -> Answer) -> Answer {
        let correlation = CALL_HERE.get();
        let Some(listener) = (correlation != 0).then(listener).flatten() else {
            return body();
        };
        let start = now();
        body()?;
        let (kind, context, stream, event) = self.parts();
        listener(&Activity {
            kind: WAIT,
            correlation,
            start,
            end: now(),
            context: context as u32,
            stream: stream.map_or(u32::MAX, |stream| stream as u32),
            node: event.unwrap_or(u64::MAX),
            value: kind,
            ..Activity::nothing()
        });
        Ok(())
    }
}

/// Which call a piece of work comes from, and where it runs.
#[derive(Clone, Copy, Default)]
pub struct Origin {
    correlation: u32,
    stream: u32,
    graph: u32,
    node: u64,
}

impl Origin {
    /// Of work that the call under way gives a stream.
    pub fn here(stream: u64) -> Self {
        Origin {
            correlation: CALL_HERE.get(),
            stream: stream as u32,
            ..Origin::default()
        }
    }

    /// Of a node, when its graph is launched from here.
    pub fn node(self, graph: u32, node: u64) -> Self {
        Origin {
            graph,
            node,
            ..self
        }
    }

    /// Does the work and tells of it, if it is work that a GPU would show.
    pub fn run(self, work: &Work, context: &Arc<Context>, perform: impl FnOnce()) {
        let described = (self.correlation != 0)
            .then(listener)
            .flatten()
            .and_then(|listener| Some((listener, describe(work)?)));
        let Some((listener, described)) = described else {
            return perform();
        };
        let start = now();
        perform();
        listener(&Activity {
            correlation: self.correlation,
            start,
            end: now(),
            context: context.id as u32,
            stream: self.stream,
            graph: self.graph,
            node: self.node,
            ..described
        });
    }
}

fn describe(work: &Work) -> Option<Activity> {
    match work {
        Work::Kernel(kernel) => Some(of_kernel(kernel)),
        Work::Copy(copy) if !copy.is_empty() => Some(of_copy(copy)),
        Work::Fill(fill) if !fill.is_empty() => Some(of_fill(fill)),
        _ => None,
    }
}

fn of_kernel(work: &KernelWork) -> Activity {
    let kernel = work.function.kernel();
    Activity {
        kind: KERNEL,
        name: lasting(&work.function.name),
        registers: launch::registers(kernel),
        grid: work.grid,
        block: work.block,
        static_shared: kernel.static_shared as u32,
        dynamic_shared: work.shared,
        local: kernel.local_size as u32,
        ..Activity::nothing()
    }
}

fn of_copy(copy: &Copy) -> Activity {
    Activity {
        kind: COPY,
        bytes: copy.bytes(),
        from_device: copy.from_device,
        to_device: copy.to_device,
        pageable: copy.pageable,
        ..Activity::nothing()
    }
}

fn of_fill(fill: &Fill) -> Activity {
    Activity {
        kind: FILL,
        bytes: (fill.width * fill.height).saturating_mul(fill.element.into()),
        value: fill.value,
        to_device: !fill.is_host,
        ..Activity::nothing()
    }
}

/// A name that stays when its module is unloaded: listeners read it later.
fn lasting(name: &CStr) -> *const c_char {
    use std::{collections::HashMap, ffi::CString, sync::Mutex};
    static NAMES: Mutex<Option<HashMap<CString, &'static CStr>>> = Mutex::new(None);
    let mut names = NAMES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(kept) = names.get(name) {
        return kept.as_ptr();
    }
    let kept: &'static CStr = Box::leak(name.to_owned().into_boxed_c_str());
    names.insert(name.to_owned(), kept);
    kept.as_ptr()
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Activity {
    fn nothing() -> Self {
        Activity {
            kind: 0,
            correlation: 0,
            start: 0,
            end: 0,
            name: std::ptr::null(),
            result: 0,
            thread: 0,
            context: 0,
            stream: 0,
            graph: 0,
            registers: 0,
            node: 0,
            grid: [0; 3],
            block: [0; 3],
            static_shared: 0,
            dynamic_shared: 0,
            local: 0,
            value: 0,
            bytes: 0,
            from_device: false,
            to_device: false,
            pageable: false,
            blocking: false,
        }
    }
}
