//! The `type` of an event's lines in a trace.

use crate::{Layer, named::named_enum};

named_enum! {
    /// The `type` of an event's lines. Meanings, losses, meta and summary have types of their own.
    Kind, "type",
    Userspace = "userspace",
    Syscall = "syscall",
    Ioctl = "ioctl",
    Kernel = "kernel",
    KernelMem = "kernel_mem",
    Scheduler = "scheduler",
    Interrupt = "interrupt",
    Gpu = "gpu",
    GpuComplete = "gpu_complete",
    GpuMem = "gpu_mem",
    Device = "device",
}

impl Kind {
    /// The layer to assume where a line does not say.
    pub const fn usual_layer(self) -> Layer {
        match self {
            Kind::Userspace => Layer::Driver,
            Kind::Syscall | Kind::Ioctl => Layer::Syscall,
            Kind::Kernel | Kind::KernelMem | Kind::Scheduler => Layer::Kernel,
            Kind::Interrupt => Layer::Os,
            Kind::Gpu | Kind::GpuComplete | Kind::GpuMem => Layer::Gpu,
            Kind::Device => Layer::Device,
        }
    }
}
