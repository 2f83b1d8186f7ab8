//! The `type` of an event's lines in a trace.

use crate::{Layer, named::named_enum};

named_enum! {
    /// The `type` of an event's lines. Meanings, losses, meta and summary have types of their own.
    Kind, "type",
    Userspace = "userspace",
    Syscall = "syscall",
    Ioctl = "ioctl",
    /// A function of the driver's kernel modules.
    KernelFunction = "kernel_function",
    KernelMem = "kernel_mem",
    Scheduler = "scheduler",
    /// A thread was off the processors.
    OffCpu = "offcpu",
    /// Something else of the operating system's: a tracepoint.
    Os = "os",
    Interrupt = "interrupt",
    Gpu = "gpu",
    GpuComplete = "gpu_complete",
    GpuMem = "gpu_mem",
    Device = "device",
    /// What the program calls a part of its own work (NVTX): a span of its thread; as an instant, a mark.
    Range = "range",
    /// The same, begun on one thread and ended on any: it nests in nothing.
    ProcessRange = "process_range",
    /// An operator of a framework (PyTorch), with the calls that it makes inside it.
    Operator = "operator",
    /// A sample: its arguments are numbers of that moment.
    Counter = "counter",
    /// A process's context had the GPU.
    GpuContext = "gpu_context",
    /// The host waited for the GPU, as CUPTI tells it: no work of the GPU.
    GpuWait = "gpu_wait",
    /// A moment before which, back to its `since_ns`, nobody watched: what happened then is not known.
    NotWatched = "not_watched",
}

impl Kind {
    /// The layer to assume where a line does not say.
    pub const fn usual_layer(self) -> Layer {
        match self {
            Kind::Userspace => Layer::Driver,
            Kind::Syscall | Kind::Ioctl => Layer::Syscall,
            Kind::KernelFunction | Kind::KernelMem | Kind::Scheduler => Layer::Kernel,
            Kind::Interrupt | Kind::OffCpu | Kind::Os | Kind::NotWatched => Layer::Os,
            Kind::Gpu
            | Kind::GpuComplete
            | Kind::GpuMem
            | Kind::Counter
            | Kind::GpuContext
            | Kind::GpuWait => Layer::Gpu,
            Kind::Device => Layer::Device,
            Kind::Range | Kind::ProcessRange => Layer::Library,
            Kind::Operator => Layer::Framework,
        }
    }

    /// Whether it is a name for what goes on inside, rather than a call: the program's ranges, a framework's operators.
    pub const fn is_around_calls(self) -> bool {
        matches!(self, Kind::Range | Kind::ProcessRange | Kind::Operator)
    }

    /// Whether a span of this kind is on its thread, with others inside it and around it.
    pub const fn nests(self) -> bool {
        !matches!(self, Kind::ProcessRange | Kind::NotWatched)
    }
}
