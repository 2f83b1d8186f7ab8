//! What one device can do with the memory of another.

use std::ffi::{c_int, c_uint};

use crate::call::given;
use crate::context::Runtime;

cuda! {
    plain fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |cu| {
        given(can)?;
        cu.cuDeviceCanAccessPeer(can, device, peer)
    };
    context fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) |cu| {
        cu.cuCtxEnablePeerAccess(Runtime::get()?.primary(peer)?, flags)
    };
    context fn cudaDeviceDisablePeerAccess(peer: c_int) |cu| {
        cu.cuCtxDisablePeerAccess(Runtime::get()?.primary(peer)?)
    };
    plain fn cudaDeviceGetP2PAttribute(
        value: *mut c_int, attribute: c_int, src: c_int, dst: c_int,
    ) |cu| {
        given(value)?;
        cu.cuDeviceGetP2PAttribute(value, attribute, src, dst)
    };
}
