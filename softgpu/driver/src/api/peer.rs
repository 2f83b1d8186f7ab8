//! Peers: there is one device, so none.

use crate::{
    context,
    device::Device,
    entry::{api, put},
    result::{INVALID_DEVICE, INVALID_VALUE, PEER_ACCESS_NOT_ENABLED, PEER_ACCESS_UNSUPPORTED},
    thread,
};

api! {
    fn cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
        Device::check(device)?;
        Device::check(peer)?;
        put(can, 0)
    }

    fn cuDeviceGetP2PAttribute(_value: *mut i32, attribute: u32, device: i32, peer: i32) {
        Device::check(device)?;
        Device::check(peer)?;
        if !(1..=5).contains(&attribute) {
            return Err(INVALID_VALUE);
        }
        // Both devices must differ, and there is only one.
        Err(INVALID_DEVICE)
    }

    fn cuCtxEnablePeerAccess(peer: u64, flags: u32) {
        thread::usable()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        context::by_handle(peer)?;
        Err(PEER_ACCESS_UNSUPPORTED)
    }

    fn cuCtxDisablePeerAccess(peer: u64) {
        thread::usable()?;
        context::by_handle(peer)?;
        Err(PEER_ACCESS_NOT_ENABLED)
    }
}
