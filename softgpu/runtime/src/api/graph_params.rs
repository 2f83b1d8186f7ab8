//! Node parameters: from the runtime's structures to the driver's and back.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::api::copy3d;
use crate::api::function::driver_function;
use crate::context;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::registry;
use crate::types::{
    DriverCopy3D, DriverKernelNodeParams, Handle, KernelNodeParams, Memcpy3DParms, MemsetParams,
};

/// A kernel node for the driver, bound to the current context.
pub(crate) fn kernel_to_driver(
    cu: &Api,
    params: &KernelNodeParams,
) -> Result<DriverKernelNodeParams, Error> {
    Ok(DriverKernelNodeParams {
        function: driver_function(cu, params.function)?,
        grid: params.grid,
        block: params.block,
        shared_bytes: params.shared_bytes,
        arguments: params.arguments,
        extra: params.extra,
        kernel: null_mut(),
        context: context::current(cu)?,
    })
}

/// A kernel node for the program: the host function where one is known, else the handle.
pub(crate) fn kernel_from_driver(params: &DriverKernelNodeParams) -> KernelNodeParams {
    let handles = [params.function, params.kernel];
    let host = handles
        .map(registry::host_of)
        .into_iter()
        .find(|host| !host.is_null());
    let handle = handles.into_iter().find(|handle| !handle.is_null());
    KernelNodeParams {
        function: host
            .map(<*const c_void>::cast_mut)
            .or(handle)
            .unwrap_or(null_mut()),
        grid: params.grid,
        block: params.block,
        shared_bytes: params.shared_bytes,
        arguments: params.arguments,
        extra: params.extra,
    }
}

pub(crate) const EMPTY_KERNEL: DriverKernelNodeParams = DriverKernelNodeParams {
    function: null_mut(),
    grid: crate::types::Dim3 { x: 0, y: 0, z: 0 },
    block: crate::types::Dim3 { x: 0, y: 0, z: 0 },
    shared_bytes: 0,
    arguments: null_mut(),
    extra: null_mut(),
    kernel: null_mut(),
    context: null_mut(),
};

/// cudaGraphNodeType, CUgraphNodeType.
const KERNEL: c_int = 0;
const MEMCPY: c_int = 1;
const MEMSET: c_int = 2;
const MEM_ALLOC: c_int = 10;
const CONDITIONAL: c_int = 13;

const PAYLOAD: usize = 29 * 8;

/// cudaGraphNodeParams, CUgraphNodeParams: a type and one of many structures.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    payload: [u64; PAYLOAD / 8],
    more: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CopyNode {
    flags: c_int,
    reserved: [c_int; 3],
    parms: Memcpy3DParms,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DriverCopyNode {
    flags: c_int,
    reserved: c_int,
    context: Handle,
    copy: DriverCopy3D,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DriverMemsetNode {
    params: MemsetParams,
    context: Handle,
}

/// Both sides of a conditional node; the runtime has no context in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct ConditionalNode {
    handle: u64,
    kind: c_int,
    size: c_uint,
    graphs: *mut Handle,
    context: Handle,
}

impl NodeParams {
    /// Reads the payload as one of its structures. All of them are plain integers and pointers.
    unsafe fn read<T: Copy>(&self) -> T {
        const { assert!(size_of::<T>() <= PAYLOAD && align_of::<T>() <= 8) };
        unsafe { self.payload.as_ptr().cast::<T>().read() }
    }

    unsafe fn write<T: Copy>(&mut self, value: T) {
        const { assert!(size_of::<T>() <= PAYLOAD && align_of::<T>() <= 8) };
        unsafe { self.payload.as_mut_ptr().cast::<T>().write(value) }
    }

    /// The driver's form. Types without a context or a function in them are the same in both.
    pub(crate) unsafe fn for_driver(&self, cu: &Api) -> Result<NodeParams, Error> {
        let mut out = *self;
        unsafe {
            match self.kind {
                KERNEL => out.write(kernel_to_driver(cu, &self.read())?),
                MEMCPY => {
                    let node: CopyNode = self.read();
                    out.payload = [0; PAYLOAD / 8];
                    out.write(DriverCopyNode {
                        flags: node.flags,
                        reserved: 0,
                        context: context::current(cu)?,
                        copy: copy3d::to_driver(cu, &node.parms)?,
                    });
                }
                MEMSET => {
                    out.write(DriverMemsetNode {
                        params: self.read(),
                        context: context::current(cu)?,
                    });
                }
                CONDITIONAL => {
                    let mut node: ConditionalNode = self.read();
                    node.context = context::current(cu)?;
                    out.write(node);
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Takes over what the driver filled in: an allocation's address, a conditional's graphs.
    unsafe fn take_results(&mut self, driver: &NodeParams) {
        unsafe {
            match self.kind {
                MEM_ALLOC => self.payload = driver.payload,
                CONDITIONAL => {
                    let filled: ConditionalNode = driver.read();
                    let mut node: ConditionalNode = self.read();
                    node.graphs = filled.graphs;
                    self.write(node);
                }
                _ => {}
            }
        }
    }
}

/// Calls the driver with its form of the parameters and takes the results over.
pub(crate) unsafe fn with_driver_params(
    cu: &Api,
    params: *mut NodeParams,
    call: impl FnOnce(*mut c_void) -> Outcome,
) -> Outcome {
    crate::call::given(params)?;
    unsafe {
        let mut driver = (*params).for_driver(cu)?;
        call((&raw mut driver).cast())?;
        (*params).take_results(&driver);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cuda.h and driver_types.h have them.
    #[test]
    fn sizes_are_the_headers() {
        assert_eq!(size_of::<NodeParams>(), 256);
        assert_eq!(size_of::<DriverCopy3D>(), 200);
        assert_eq!(size_of::<crate::types::DriverCopy2D>(), 128);
        assert_eq!(size_of::<Memcpy3DParms>(), 160);
        assert_eq!(size_of::<DriverKernelNodeParams>(), 72);
        assert_eq!(size_of::<KernelNodeParams>(), 56);
        assert_eq!(size_of::<MemsetParams>(), 40);
        assert_eq!(size_of::<crate::types::LaunchConfig>(), 56);
        assert_eq!(size_of::<crate::types::DriverLaunchConfig>(), 56);
    }
}
