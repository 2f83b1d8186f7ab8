//! What an API call means: memory came or went, bytes moved, a kernel was launched.

use crate::{Event, Layer, Name, named::named_enum};

/// A record of its own, after the end of the call it explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Nanoseconds of CLOCK_MONOTONIC: the end of the call.
    pub ts: u64,
    /// The id of the call's span.
    pub op: u64,
    pub pid: u32,
    pub tid: u32,
    pub layer: Option<Layer>,
    /// The function called.
    pub name: Name,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    pub what: What,
}

impl Meaning {
    /// What `call`, which has ended, meant.
    pub fn of(call: &Event, what: What) -> Self {
        Meaning {
            ts: call.end().unwrap_or(call.start),
            op: call.id,
            pid: call.pid,
            tid: call.tid,
            layer: Some(call.layer),
            name: call.name.clone(),
            device: call.device,
            context: call.context,
            stream: call.stream,
            what,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Memory(Memory),
    Transfer(Transfer),
    Launch(Launch),
}

impl What {
    /// The `type` of its line.
    pub fn type_name(&self) -> &'static str {
        match self {
            What::Memory(_) => "memory",
            What::Transfer(_) => "transfer",
            What::Launch(_) => "kernel",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    pub op: MemoryOp,
    /// Bytes; of a free, where the tracer saw the allocation.
    pub size: Option<u64>,
    pub ptr: u64,
    pub space: Option<MemorySpace>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub direction: Direction,
    pub size: u64,
    /// Nanoseconds the call took.
    pub duration: Option<u64>,
    pub src: Option<u64>,
    pub dst: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The kernel's name, demangled where it could be.
    pub kernel: Name,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u64,
}

impl Launch {
    /// What launches are called in files, whichever function the program called: scripts that look
    /// for cuLaunchKernel so find each launch once.
    pub const NAME: &'static str = "cuLaunchKernel";

    /// Threads in the whole grid.
    pub fn threads(&self) -> u64 {
        self.grid
            .iter()
            .chain(&self.block)
            .fold(1, |product, &n| product.saturating_mul(n.into()))
    }
}

named_enum! {
    MemoryOp, "memory operation",
    Alloc = "alloc",
    Free = "free",
}

pub use direction::Direction;
mod direction {
    use super::named_enum;
    named_enum! {
        Direction, "direction",
        HostToDevice = "H2D",
        DeviceToHost = "D2H",
        DeviceToDevice = "D2D",
        HostToHost = "H2H",
        Peer = "P2P",
    }
}

pub use space::MemorySpace;
mod space {
    use super::named_enum;
    named_enum! {
        /// Where memory is.
        MemorySpace, "memory space",
        Device = "device",
        /// Page-locked host memory.
        Host = "host",
        Managed = "managed",
        Array = "array",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_the_product_and_do_not_wrap() {
        let mut launch = Launch {
            kernel: "k".into(),
            grid: [4, 2, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        assert_eq!(launch.threads(), 2048);
        launch.grid = [u32::MAX; 3];
        assert_eq!(launch.threads(), u64::MAX);
    }
}
