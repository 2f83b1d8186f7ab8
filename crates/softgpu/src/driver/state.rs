//! The one driver of this process: its device, its memory, its tables of handles.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::{
    allocation::Allocations,
    context::Context,
    device::Device,
    event::Event,
    graph::Graph,
    handle::{Kind, Registry},
    launch::Function,
    library::{Kernel, Library},
    module::{Linker, Module},
    plan::GraphExec,
    stream::Stream,
    user_object::UserObject,
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
    pub linkers: Registry<Linker>,
    pub user_objects: Registry<UserObject>,
}

static INITIALISED: AtomicBool = AtomicBool::new(false);

pub fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Acquire)
}

pub fn initialise() {
    driver();
    INITIALISED.store(true, Ordering::Release);
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
        linkers: Registry::new(Kind::Link),
        user_objects: Registry::new(Kind::UserObject),
    })
}
