//! What a stream or a graph node does when its turn comes.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    abi::{BatchMemOp, HostFn, StreamCallback},
    activity::Origin,
    allocation::MemoryKind,
    context::Context,
    copy::{Copy, Fill},
    engine,
    event::{Event, EventRecording, EventState},
    graph::Graph,
    graph_memory::GraphMemory,
    launch::KernelWork,
    plan::Launched,
    state::driver,
    thread,
};
use softgpu_machine::fault::FaultKind;

/// A host function with its argument.
#[derive(Clone)]
pub struct HostCall {
    pub function: HostFn,
    pub data: usize,
}

#[derive(Clone)]
pub struct MemoryOperation {
    pub address: u64,
    pub value: u64,
    pub wide: bool,
    pub kind: MemoryOperationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MemoryOperationKind {
    Write,
    WaitAtLeast,
    WaitEqual,
    WaitAnd,
    WaitNor,
}

/// Memory operations done together, with the description they were made from.
pub struct MemoryBatch {
    pub operations: Vec<MemoryOperation>,
    pub described: Vec<BatchMemOp>,
}

/// A node that runs one of its graphs, or none, by the value of a handle. Kernels cannot change it here, so it is what
/// the handle begins each launch with.
#[derive(Clone)]
pub struct Conditional {
    pub value: u32,
    pub kind: ConditionalKind,
    pub bodies: Vec<Arc<Graph>>,
    /// The bodies' handles, as an array for the program.
    pub handles: Arc<[u64]>,
}

/// CUgraphConditionalNodeType.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ConditionalKind {
    If = 0,
    While = 1,
    Switch = 2,
}

impl Conditional {
    pub fn new(value: u32, kind: ConditionalKind, bodies: Vec<Arc<Graph>>) -> Self {
        Conditional {
            value,
            kind,
            handles: bodies.iter().map(|body| body.handle).collect(),
            bodies,
        }
    }

    /// The graph that runs.
    pub fn chosen(&self) -> Option<&Arc<Graph>> {
        let place = match self.kind {
            ConditionalKind::If => usize::from(self.value == 0),
            ConditionalKind::While if self.value == 0 => return None,
            ConditionalKind::While => 0,
            ConditionalKind::Switch => self.value as usize,
        };
        self.bodies.get(place)
    }
}

#[derive(Clone)]
pub enum Work {
    Empty,
    Kernel(Arc<KernelWork>),
    Copy(Arc<Copy>),
    Fill(Fill),
    Host(HostCall),
    Callback {
        function: StreamCallback,
        data: usize,
        stream: u64,
    },
    /// One recording of an event.
    Record(Arc<EventRecording>),
    Memory(Arc<MemoryBatch>),
    /// cuMemFreeAsync.
    Free(u64),
    /// An allocation node: the memory is there as long as the node is.
    Allocate(Arc<GraphMemory>),
    /// A node that frees memory of a graph; the memory goes with the allocation node.
    FreeNode(u64),
    Graph(Arc<Launched>),
    /// Nodes of graphs only: what they stand for is decided at launch.
    RecordEvent(Arc<Event>),
    WaitEvent(Arc<Event>),
    Child(Arc<Graph>),
    Conditional(Conditional),
}

impl Work {
    /// The graphs that a node has of its own.
    pub fn graphs(&self) -> &[Arc<Graph>] {
        match self {
            Work::Child(child) => std::slice::from_ref(child),
            Work::Conditional(conditional) => &conditional.bodies,
            _ => &[],
        }
    }

    /// The same work for a copy of the node.
    pub fn with_own_graphs(&self) -> Work {
        match self {
            Work::Child(child) => Work::Child(child.duplicate()),
            Work::Conditional(Conditional {
                value,
                kind,
                bodies,
                ..
            }) => {
                let bodies = bodies.iter().map(|body| body.duplicate()).collect();
                Work::Conditional(Conditional::new(*value, *kind, bodies))
            }
            other => other.clone(),
        }
    }

    pub fn destroy_graphs(&self) {
        self.graphs().iter().for_each(|graph| graph.destroy());
    }

    /// Runs the work; a bug in here stops the context, not the process or the stream.
    pub fn run(&self, context: &Arc<Context>, origin: Origin) {
        let perform = || origin.run(self, context, || self.perform(context, origin));
        if catch_unwind(AssertUnwindSafe(perform)).is_err() {
            eprintln!("softgpu: internal error in a stream; please report it");
            context.fail(FaultKind::LaunchFailed.cu_result(), "a bug".to_owned());
        }
    }

    /// After a fault nothing more runs in a context, but everyone who waits is woken.
    fn perform(&self, context: &Arc<Context>, origin: Origin) {
        match self {
            Work::Record(record) => record.reach(),
            Work::RecordEvent(event) => {
                let record = Arc::new(EventRecording::default());
                record.reach();
                event.set(EventState::Recorded(record));
            }
            Work::Free(address) => {
                driver()
                    .allocations
                    .release(*address, &[MemoryKind::Pooled, MemoryKind::Device]);
            }
            Work::Callback {
                function: Some(function),
                data,
                stream,
            } => {
                context.printed.flush();
                let status = context.fault().map_or(0, |fault| fault.0);
                thread::call_back(|| unsafe { function(*stream, status, *data as *mut c_void) });
            }
            Work::Graph(launched) => launched.run(context, origin),
            Work::Kernel(kernel) if context.fault().is_some() => {
                context.say_kernel_not_run(&kernel.function.kernel().name);
            }
            _ if context.fault().is_some() => {}
            Work::Kernel(kernel) => engine::run(context, kernel),
            Work::Copy(copy) => copy.run(),
            Work::Fill(fill) => fill.run(),
            Work::Host(call) => {
                if let Some(function) = call.function {
                    thread::call_back(|| unsafe { function(call.data as *mut c_void) });
                }
            }
            Work::Memory(batch) => {
                for operation in &batch.operations {
                    operation.run(context);
                }
            }
            Work::WaitEvent(event) => {
                if let Ok(Some(record)) = event.record() {
                    record.wait();
                }
            }
            Work::Empty
            | Work::Allocate(_)
            | Work::FreeNode(_)
            | Work::Child(_)
            | Work::Conditional(_)
            | Work::Callback { .. } => {}
        }
    }
}

impl MemoryOperation {
    fn run(&self, context: &Context) {
        if self.kind == MemoryOperationKind::Write {
            unsafe {
                if self.wide {
                    AtomicU64::from_ptr(self.address as *mut u64)
                        .store(self.value, Ordering::SeqCst);
                } else {
                    AtomicU32::from_ptr(self.address as *mut u32)
                        .store(self.value as u32, Ordering::SeqCst);
                }
            }
            return;
        }
        while !self.holds() && !context.cancelled.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn holds(&self) -> bool {
        // Comparisons are cyclic: signed difference, as the documentation has it.
        let (now, reached) = unsafe {
            if self.wide {
                let now = AtomicU64::from_ptr(self.address as *mut u64).load(Ordering::SeqCst);
                (now, now.wrapping_sub(self.value) as i64 >= 0)
            } else {
                let now = AtomicU32::from_ptr(self.address as *mut u32).load(Ordering::SeqCst);
                let difference = now.wrapping_sub(self.value as u32) as i32;
                (u64::from(now), difference >= 0)
            }
        };
        let mask = if self.wide {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        match self.kind {
            MemoryOperationKind::WaitAtLeast => reached,
            MemoryOperationKind::WaitEqual => now == self.value & mask,
            MemoryOperationKind::WaitAnd => now & self.value != 0,
            MemoryOperationKind::WaitNor => !(now | self.value) & mask != 0,
            MemoryOperationKind::Write => true,
        }
    }
}
