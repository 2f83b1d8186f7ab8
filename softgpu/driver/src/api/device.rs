//! Devices and their attributes.

use std::ffi::{c_char, c_void};

use crate::{
    abi::{DeviceProperties, Uuid},
    allocation::MemoryKind,
    device::{self, Device},
    entry::{api, put, put_optional, take_text},
    resource,
    result::{Answer, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
};

/// Copies text with its NUL into a buffer of `length` bytes, cut if need be.
unsafe fn put_text(place: *mut c_char, length: i32, text: &str) -> Answer {
    if place.is_null() || length <= 0 {
        return Err(INVALID_VALUE);
    }
    let count = text.len().min(length as usize - 1);
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), count);
        place.add(count).write(0);
    }
    Ok(())
}

api! {
    fn cuDeviceGetCount(count: *mut i32) {
        put(count, 1)
    }

    fn cuDeviceGet(device: *mut i32, ordinal: i32) {
        if device.is_null() {
            return Err(INVALID_VALUE);
        }
        Device::check(ordinal)?;
        put(device, 0)
    }

    fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) {
        Device::check(device)?;
        put_text(name, length, device::NAME)?;
        resource::device_name(device::NAME);
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: *mut Uuid, device: i32) {
        Device::check(device)?;
        put(uuid, Uuid(device::UUID))
    }

    fn cuDeviceGetUuid_v2(uuid: *mut Uuid, device: i32) {
        Device::check(device)?;
        put(uuid, Uuid(device::UUID))
    }

    /// Windows only, as on a real driver.
    fn cuDeviceGetLuid(_luid: *mut c_char, _mask: *mut u32, device: i32) {
        Device::check(device)?;
        Err(NOT_SUPPORTED)
    }

    fn cuDeviceTotalMem(bytes: *mut u32, device: i32) {
        Device::check(device)?;
        put(bytes, u32::try_from(driver().device.memory).unwrap_or(u32::MAX))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) {
        Device::check(device)?;
        put(bytes, driver().device.memory as usize)
    }

    fn cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) {
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        Device::check(device)?;
        put(value, driver().device.attribute(attribute).ok_or(INVALID_VALUE)?)
    }

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) {
        if major.is_null() || minor.is_null() {
            return Err(INVALID_VALUE);
        }
        Device::check(device)?;
        put(major, device::CAPABILITY.0)?;
        put(minor, device::CAPABILITY.1)
    }

    fn cuDeviceGetProperties(properties: *mut DeviceProperties, device: i32) {
        Device::check(device)?;
        let of = |number| driver().device.attribute(number).unwrap_or(0);
        put(properties, DeviceProperties {
            max_threads_per_block: of(1),
            max_threads_dim: [of(2), of(3), of(4)],
            max_grid_size: [of(5), of(6), of(7)],
            shared_mem_per_block: of(8),
            total_constant_memory: of(9),
            simd_width: of(10),
            mem_pitch: of(11),
            regs_per_block: of(12),
            clock_rate: of(13),
            texture_align: of(14),
        })
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, length: i32, device: i32) {
        Device::check(device)?;
        put_text(id, length, device::PCI_BUS_ID)
    }

    fn cuDeviceGetByPCIBusId(device: *mut i32, id: *const c_char) {
        let id = take_text(id)?.to_bytes();
        if device.is_null() {
            return Err(INVALID_VALUE);
        }
        // The domain may be left out.
        if id != device::PCI_BUS_ID.as_bytes() && id != &device::PCI_BUS_ID.as_bytes()[5..] {
            return Err(INVALID_DEVICE);
        }
        put(device, 0)
    }

    /// No affinity type is supported.
    fn cuDeviceGetExecAffinitySupport(supported: *mut i32, _kind: u32, device: i32) {
        Device::check(device)?;
        put(supported, 0)
    }

    /// Graphs hold what they use, no more: all counters are the same.
    fn cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void) {
        Device::check(device)?;
        if attribute > 3 {
            return Err(INVALID_VALUE);
        }
        put(value.cast::<u64>(), driver().allocations.total_of(MemoryKind::Graph))
    }

    fn cuDeviceSetGraphMemAttribute(device: i32, attribute: u32, value: *mut c_void) {
        Device::check(device)?;
        // Only the high-water marks can be set, and only to 0.
        if !matches!(attribute, 1 | 3) || value.is_null() || value.cast::<u64>().read_unaligned() != 0 {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    fn cuDeviceGraphMemTrim(device: i32) {
        Device::check(device)
    }

    fn cuFlushGPUDirectRDMAWrites(_target: u32, _scope: u32) {
        Err(NOT_SUPPORTED)
    }

    fn cuDeviceGetHostAtomicCapabilities(
        capabilities: *mut u32,
        operations: *const u32,
        count: u32,
        device: i32,
    ) {
        Device::check(device)?;
        if capabilities.is_null() || operations.is_null() || count == 0 {
            return Err(INVALID_VALUE);
        }
        // Device memory is host memory: every operation is native at 32 and 64 bits, scalar.
        const SIGNED: u32 = 1;
        const UNSIGNED: u32 = 2;
        const SCALAR_32: u32 = 1 << 4;
        const SCALAR_64: u32 = 1 << 5;
        for i in 0..count as usize {
            if operations.add(i).read_unaligned() > 12 {
                return Err(INVALID_VALUE);
            }
            put_optional(capabilities.add(i), SIGNED | UNSIGNED | SCALAR_32 | SCALAR_64);
        }
        Ok(())
    }
}
