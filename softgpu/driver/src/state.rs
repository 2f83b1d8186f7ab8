//! The one driver of this process: its device, its memory, its tables of handles.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use super::{
    allocation::Allocations,
    context::Context,
    device::Device,
    engine,
    event::Event,
    graph::{Condition, Graph},
    handle::{Kind, Registry},
    launch::Function,
    library::{Kernel, Library},
    module::{Linker, Module},
    plan::GraphExec,
    stream::Stream,
    user_object::UserObject,
    virtual_memory::{Physical, VirtualMemory},
};

pub struct Driver {
    pub device: Device,
    pub allocations: Allocations,
    pub contexts: Registry<Context>,
    pub streams: Registry<Stream>,
    pub events: Registry<Event>,
    pub modules: Registry<Module>,
    pub functions: Registry<Function>,
    pub libraries: Registry<Library>,
    pub kernels: Registry<Kernel>,
    pub graphs: Registry<Graph>,
    /// A node's handle leads to its graph.
    pub nodes: Registry<std::sync::Weak<Graph>>,
    pub executables: Registry<GraphExec>,
    pub conditions: Registry<Condition>,
    pub linkers: Registry<Linker>,
    pub user_objects: Registry<UserObject>,
    pub physical: Registry<Physical>,
    pub virtual_memory: VirtualMemory,
}

/// The driver's life, from before cuInit to the end of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    Before,
    Running,
    /// The process is ending: work may be pending forever, so nothing waits any more.
    Ended,
}

/// Far longer than kernels take to stop, and short enough for one that cannot.
const PATIENCE: Duration = Duration::from_secs(2);

static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);

pub fn phase() -> Phase {
    match PHASE.load(Ordering::SeqCst) {
        0 => Phase::Before,
        1 => Phase::Running,
        _ => Phase::Ended,
    }
}

pub fn initialise() {
    driver();
    let before = (Phase::Before as u8, Phase::Running as u8);
    let first = PHASE.compare_exchange(before.0, before.1, Ordering::AcqRel, Ordering::Acquire);
    if first.is_ok() {
        unsafe { libc::atexit(end) };
    }
}

/// Kernels stop before anything else of the process goes: what runs after this, a library's destructors for one,
/// may unmap memory that they use. Nothing of the driver's own is ever freed.
extern "C" fn end() {
    PHASE.store(Phase::Ended as u8, Ordering::SeqCst);
    for context in driver().contexts.all() {
        context.cancelled.store(true, Ordering::Release);
    }
    engine::wait_for_kernels(PATIENCE);
}

pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver {
        device: Device::detect(),
        allocations: Allocations::default(),
        contexts: Registry::new(Kind::Context),
        streams: Registry::new(Kind::Stream),
        events: Registry::new(Kind::Event),
        modules: Registry::new(Kind::Module),
        functions: Registry::new(Kind::Function),
        libraries: Registry::new(Kind::Library),
        kernels: Registry::new(Kind::Kernel),
        graphs: Registry::new(Kind::Graph),
        nodes: Registry::new(Kind::GraphNode),
        executables: Registry::new(Kind::GraphExec),
        conditions: Registry::new(Kind::Condition),
        linkers: Registry::new(Kind::Link),
        user_objects: Registry::new(Kind::UserObject),
        physical: Registry::new(Kind::Physical),
        virtual_memory: VirtualMemory::default(),
    })
}
