//! Device, host and managed memory: allocating, freeing, registering, asking about pointers.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::call::{given, in_context};
use crate::driver::Streams;
use crate::error::Error;
use crate::types::{DevicePtr, Extent, Handle, PitchedPtr};

/// Any element size that cuMemAllocPitch accepts gives the same pitch on today's devices.
const PITCH_ELEMENT: c_uint = 4;
/// cudaInvalidDeviceId.
const NO_DEVICE: c_int = -2;

/// CUpointer_attribute values in the order `cudaPointerGetAttributes` asks for them.
const POINTER_ATTRIBUTES: [c_int; 5] = [2, 3, 4, 8, 9];

/// cudaMemoryType.
const UNREGISTERED: c_int = 0;
const MANAGED: c_int = 3;

#[repr(C)]
pub struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
    // CUDA 13 has eight more words, of no meaning yet.
    #[cfg(not(feature = "cuda12"))]
    reserved: [i64; 8],
}

cuda! {
    /// Without a place for the pointer NVIDIA's makes no context.
    plain fn cudaMalloc(pointer: *mut *mut c_void, size: usize) |_| {
        given(pointer)?;
        in_context(Streams::Legacy, |cu| {
            pointer.write(null_mut());
            if size == 0 {
                return Ok(());
            }
            cu.cuMemAlloc(pointer.cast::<DevicePtr>(), size)
        })
    };

    context fn cudaMallocPitch(
        pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize,
    ) |cu| {
        given(pointer)?;
        given(pitch)?;
        pointer.write(null_mut());
        pitch.write(0);
        if width == 0 || height == 0 {
            return Ok(());
        }
        cu.cuMemAllocPitch(pointer.cast(), pitch, width, height, PITCH_ELEMENT)
    };

    context fn cudaMalloc3D(pitched: *mut PitchedPtr, extent: Extent) |cu| {
        given(pitched)?;
        let (mut pointer, mut pitch) = (0, 0);
        let rows = extent.height.checked_mul(extent.depth).ok_or(Error::INVALID_VALUE)?;
        if extent.width != 0 && rows != 0 {
            cu.cuMemAllocPitch(&mut pointer, &mut pitch, extent.width, rows, PITCH_ELEMENT)?;
        }
        pitched.write(PitchedPtr {
            ptr: pointer as *mut c_void,
            pitch,
            xsize: extent.width,
            ysize: extent.height,
        });
        Ok(())
    };

    context fn cudaFree(pointer: *mut c_void) |cu| cu.cuMemFree(pointer as DevicePtr);

    context fn cudaMallocHost(pointer: *mut *mut c_void, size: usize) |cu| {
        given(pointer)?;
        pointer.write(null_mut());
        if size == 0 {
            return Ok(());
        }
        cu.cuMemHostAlloc(pointer, size, 0)
    };

    context fn cudaHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) |cu| {
        given(pointer)?;
        pointer.write(null_mut());
        if flags & !7 != 0 {
            return Err(Error::INVALID_VALUE);
        }
        if size == 0 {
            return Ok(());
        }
        cu.cuMemHostAlloc(pointer, size, flags)
    };

    context fn cudaFreeHost(pointer: *mut c_void) |cu| {
        let outcome = cu.cuMemFreeHost(pointer);
        if pointer.is_null() && outcome == Err(Error::INVALID_VALUE) { Ok(()) } else { outcome }
    };

    context fn cudaHostRegister(pointer: *mut c_void, size: usize, flags: c_uint) |cu| {
        cu.cuMemHostRegister(pointer, size, flags)
    };
    context fn cudaHostUnregister(pointer: *mut c_void) |cu| cu.cuMemHostUnregister(pointer);

    context fn cudaHostGetDevicePointer(
        device: *mut *mut c_void, host: *mut c_void, flags: c_uint,
    ) |cu| {
        given(device)?;
        cu.cuMemHostGetDevicePointer(device.cast(), host, flags)
    };

    context fn cudaHostGetFlags(flags: *mut c_uint, host: *mut c_void) |cu| {
        given(flags)?;
        cu.cuMemHostGetFlags(flags, host)
    };

    context fn cudaMallocManaged(pointer: *mut *mut c_void, size: usize, flags: c_uint) |cu| {
        given(pointer)?;
        pointer.write(null_mut());
        if size == 0 {
            return Ok(());
        }
        cu.cuMemAllocManaged(pointer.cast(), size, flags)
    };

    context fn cudaMemGetInfo(free: *mut usize, total: *mut usize) |cu| {
        given(free)?;
        given(total)?;
        cu.cuMemGetInfo(free, total)
    };

    context fn cudaMallocAsync, cudaMallocAsync_ptsz(
        pointer: *mut *mut c_void, size: usize, stream: Handle,
    ) |cu| {
        given(pointer)?;
        pointer.write(null_mut());
        if size == 0 {
            return Ok(());
        }
        cu.cuMemAllocAsync(pointer.cast(), size, stream)
    };

    context fn cudaFreeAsync, cudaFreeAsync_ptsz(pointer: *mut c_void, stream: Handle) |cu| {
        if pointer.is_null() {
            return Ok(());
        }
        cu.cuMemFreeAsync(pointer as DevicePtr, stream)
    };

    context fn cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz(
        pointer: *mut *mut c_void, size: usize, pool: Handle, stream: Handle,
    ) |cu| {
        given(pointer)?;
        pointer.write(null_mut());
        if size == 0 {
            return Ok(());
        }
        cu.cuMemAllocFromPoolAsync(pointer.cast(), size, pool, stream)
    };

    context fn cudaPointerGetAttributes(out: *mut PointerAttributes, pointer: *const c_void) |cu| {
        given(out)?;
        let (mut kind, mut device, mut managed) = (0, NO_DEVICE, 0u32);
        let (mut device_pointer, mut host_pointer) = (0 as DevicePtr, null_mut::<c_void>());
        let mut places: [*mut c_void; 5] = [
            (&raw mut kind).cast(),
            (&raw mut device_pointer).cast(),
            (&raw mut host_pointer).cast(),
            (&raw mut managed).cast(),
            (&raw mut device).cast(),
        ];
        let mut attributes = POINTER_ATTRIBUTES;
        cu.cuPointerGetAttributes(
            places.len() as c_uint,
            attributes.as_mut_ptr(),
            places.as_mut_ptr(),
            pointer as DevicePtr,
        )?;
        let mut found = PointerAttributes::unregistered(pointer);
        if kind != UNREGISTERED {
            found.kind = if managed != 0 { MANAGED } else { kind };
            found.device = device;
            found.device_pointer = device_pointer as *mut c_void;
            found.host_pointer = host_pointer;
        }
        out.write(found);
        Ok(())
    };

    context fn cudaMemRangeGetAttribute(
        data: *mut c_void, size: usize, attribute: c_int, pointer: *const c_void, count: usize,
    ) |cu| {
        cu.cuMemRangeGetAttribute(data, size, attribute, pointer as DevicePtr, count)
    };

    context fn cudaMemRangeGetAttributes(
        data: *mut *mut c_void, sizes: *mut usize, attributes: *mut c_int, number: usize,
        pointer: *const c_void, count: usize,
    ) |cu| {
        cu.cuMemRangeGetAttributes(data, sizes, attributes, number, pointer as DevicePtr, count)
    };
}

impl PointerAttributes {
    fn unregistered(pointer: *const c_void) -> PointerAttributes {
        PointerAttributes {
            kind: UNREGISTERED,
            device: NO_DEVICE,
            device_pointer: null_mut(),
            host_pointer: pointer.cast_mut(),
            #[cfg(not(feature = "cuda12"))]
            reserved: [0; 8],
        }
    }
}
