//! Where an event was seen, and whose status codes it returns.

use crate::{Kind, named::named_enum};

named_enum! {
    /// Where an event was seen, from the program down to the GPU's threads.
    Layer, "layer",
    /// Operators of a framework: PyTorch's.
    Framework = "framework",
    /// `cuda*`, the runtime API.
    Runtime = "runtime",
    /// `cu*`, the driver API.
    Driver = "driver",
    /// Any other hooked library: NCCL, cuBLAS, …
    Library = "library",
    /// ioctl, mmap, open on the driver's files.
    Syscall = "syscall",
    /// Functions of nvidia.ko and nvidia-uvm.ko.
    Kernel = "kernel",
    /// Scheduling, interrupts, faults.
    Os = "os",
    /// Kernels, copies and memsets with GPU time.
    Gpu = "gpu",
    /// Events from probes inside GPU kernels.
    Device = "device",
}

/// Whose numbering a status code follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusDomain {
    CudaError,
    CuResult,
    /// The library's own codes.
    Library,
    Errno,
    NvStatus,
    /// The layer has no status codes of its own.
    None,
}

impl Layer {
    /// Whose numbering the layer's status codes follow.
    pub const fn status_domain(self) -> StatusDomain {
        match self {
            Layer::Runtime => StatusDomain::CudaError,
            Layer::Driver => StatusDomain::CuResult,
            Layer::Library => StatusDomain::Library,
            Layer::Syscall => StatusDomain::Errno,
            Layer::Kernel => StatusDomain::NvStatus,
            Layer::Framework | Layer::Os | Layer::Gpu | Layer::Device => StatusDomain::None,
        }
    }

    /// The kind of a layer's events where nothing more special is known.
    pub const fn usual_kind(self) -> Kind {
        match self {
            Layer::Framework => Kind::Operator,
            Layer::Runtime | Layer::Driver | Layer::Library => Kind::Userspace,
            Layer::Syscall => Kind::Syscall,
            Layer::Kernel => Kind::KernelFunction,
            Layer::Os => Kind::Os,
            Layer::Gpu => Kind::Gpu,
            Layer::Device => Kind::Device,
        }
    }
}
