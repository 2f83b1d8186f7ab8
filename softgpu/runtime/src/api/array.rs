//! CUDA arrays: creating, asking, and copies of two dimensions to and from them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::api::copy::{When, copy_between, memory_types};
use crate::call::given;
use crate::driver::Api;
use crate::error::Error;
use crate::types::{ChannelFormatDesc, DevicePtr, Extent, Handle, Side2D, copy_kind, memory_type};

/// cudaChannelFormatKind.
const SIGNED: c_int = 0;
const UNSIGNED: c_int = 1;
const FLOAT: c_int = 2;

/// CUDA_ARRAY3D_DESCRIPTOR.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    height: usize,
    depth: usize,
    format: c_int,
    channels: c_uint,
    flags: c_uint,
}

/// CUarray_format of (kind, bits).
const FORMATS: [(c_int, c_int, c_int); 8] = [
    (UNSIGNED, 8, 0x01),
    (UNSIGNED, 16, 0x02),
    (UNSIGNED, 32, 0x03),
    (SIGNED, 8, 0x08),
    (SIGNED, 16, 0x09),
    (SIGNED, 32, 0x0a),
    (FLOAT, 16, 0x10),
    (FLOAT, 32, 0x20),
];

/// The driver's format and channel count of a channel description. Formats of video and of
/// block compression have no description in bits and are refused.
pub(crate) fn format(desc: &ChannelFormatDesc) -> Result<(c_int, c_uint), Error> {
    let bits = [desc.x, desc.y, desc.z, desc.w];
    let channels = bits.iter().take_while(|bits| **bits != 0).count();
    let even = bits[..channels].iter().all(|bits| *bits == desc.x);
    if !matches!(channels, 1 | 2 | 4) || !even || bits[channels..].iter().any(|bits| *bits != 0) {
        return Err(Error::INVALID_CHANNEL);
    }
    FORMATS
        .iter()
        .find(|(kind, bits, _)| (*kind, *bits) == (desc.f, desc.x))
        .map(|(_, _, format)| (*format, channels as c_uint))
        .ok_or(Error::INVALID_CHANNEL)
}

pub(crate) fn description(format: c_int, channels: c_uint) -> Result<ChannelFormatDesc, Error> {
    let (kind, bits, _) = FORMATS
        .iter()
        .find(|row| row.2 == format)
        .ok_or(Error::INVALID_CHANNEL)?;
    let bits = |channel| if channel < channels { *bits } else { 0 };
    Ok(ChannelFormatDesc {
        x: bits(0),
        y: bits(1),
        z: bits(2),
        w: bits(3),
        f: *kind,
    })
}

impl ArrayDescriptor {
    pub(crate) fn element_size(&self) -> usize {
        let row = FORMATS.iter().find(|row| row.2 == self.format);
        row.map_or(1, |row| row.1 as usize / 8) * self.channels as usize
    }
}

pub(crate) fn describe(cu: &Api, array: Handle) -> Result<ArrayDescriptor, Error> {
    if array.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let mut descriptor = ArrayDescriptor {
        width: 0,
        height: 0,
        depth: 0,
        format: 0,
        channels: 0,
        flags: 0,
    };
    unsafe { cu.cuArray3DGetDescriptor((&raw mut descriptor).cast(), array)? };
    Ok(descriptor)
}

pub(crate) fn descriptor(
    desc: *const ChannelFormatDesc,
    extent: Extent,
    flags: c_uint,
) -> Result<ArrayDescriptor, Error> {
    given(desc)?;
    let (format, channels) = format(unsafe { &*desc })?;
    let Extent {
        width,
        height,
        depth,
    } = extent;
    Ok(ArrayDescriptor {
        width,
        height,
        depth,
        format,
        channels,
        flags,
    })
}

pub(crate) fn in_array(array: Handle, x: usize, y: usize) -> Side2D {
    Side2D {
        x,
        y,
        memory: memory_type::ARRAY,
        host: null_mut(),
        device: 0,
        array,
        pitch: 0,
    }
}

pub(crate) fn in_memory(memory: c_int, pointer: *const c_void, pitch: usize) -> Side2D {
    let on_host = memory == memory_type::HOST;
    let host = if on_host {
        pointer.cast_mut()
    } else {
        null_mut()
    };
    let device = if on_host { 0 } else { pointer as DevicePtr };
    Side2D {
        x: 0,
        y: 0,
        memory,
        host,
        device,
        array: null_mut(),
        pitch,
    }
}

/// A copy to an array cannot come from nowhere but its kind's source, and so on.
pub(crate) fn to_array(kind: c_int) -> Result<c_int, Error> {
    match kind {
        copy_kind::HOST_TO_DEVICE | copy_kind::DEVICE_TO_DEVICE | copy_kind::DEFAULT => {
            Ok(memory_types(kind)?.0)
        }
        _ => Err(Error::INVALID_DIRECTION),
    }
}

pub(crate) fn from_array(kind: c_int) -> Result<c_int, Error> {
    match kind {
        copy_kind::DEVICE_TO_HOST | copy_kind::DEVICE_TO_DEVICE | copy_kind::DEFAULT => {
            Ok(memory_types(kind)?.1)
        }
        _ => Err(Error::INVALID_DIRECTION),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: c_int,
) -> ChannelFormatDesc {
    ChannelFormatDesc { x, y, z, w, f }
}

cuda! {
    context fn cudaMallocArray(
        array: *mut Handle, desc: *const ChannelFormatDesc, width: usize, height: usize,
        flags: c_uint,
    ) |cu| {
        given(array)?;
        let descriptor = descriptor(desc, Extent { width, height, depth: 0 }, flags)?;
        cu.cuArray3DCreate(array, (&raw const descriptor).cast())
    };

    context fn cudaMalloc3DArray(
        array: *mut Handle, desc: *const ChannelFormatDesc, extent: Extent, flags: c_uint,
    ) |cu| {
        given(array)?;
        let descriptor = descriptor(desc, extent, flags)?;
        cu.cuArray3DCreate(array, (&raw const descriptor).cast())
    };

    context fn cudaFreeArray(array: Handle) |cu| {
        if array.is_null() { Ok(()) } else { cu.cuArrayDestroy(array) }
    };

    context fn cudaMallocMipmappedArray(
        array: *mut Handle, desc: *const ChannelFormatDesc, extent: Extent, levels: c_uint,
        flags: c_uint,
    ) |cu| {
        given(array)?;
        let descriptor = descriptor(desc, extent, flags)?;
        cu.cuMipmappedArrayCreate(array, (&raw const descriptor).cast(), levels)
    };

    context fn cudaFreeMipmappedArray(array: Handle) |cu| {
        if array.is_null() { Ok(()) } else { cu.cuMipmappedArrayDestroy(array) }
    };

    context fn cudaGetMipmappedArrayLevel(array: *mut Handle, mipmap: Handle, level: c_uint) |cu| {
        given(array)?;
        cu.cuMipmappedArrayGetLevel(array, mipmap, level)
    };

    context fn cudaGetChannelDesc(desc: *mut ChannelFormatDesc, array: Handle) |cu| {
        given(desc)?;
        let found = describe(cu, array)?;
        desc.write(description(found.format, found.channels)?);
        Ok(())
    };

    context fn cudaArrayGetInfo(
        desc: *mut ChannelFormatDesc, extent: *mut Extent, flags: *mut c_uint, array: Handle,
    ) |cu| {
        let found = describe(cu, array)?;
        if !desc.is_null() {
            desc.write(description(found.format, found.channels)?);
        }
        if !extent.is_null() {
            extent.write(Extent {
                width: found.width,
                height: found.height,
                depth: found.depth,
            });
        }
        if !flags.is_null() {
            flags.write(found.flags);
        }
        Ok(())
    };

    context fn cudaArrayGetPlane(plane: *mut Handle, array: Handle, index: c_uint) |cu| {
        given(plane)?;
        cu.cuArrayGetPlane(plane, array, index)
    };

    context fn cudaArrayGetMemoryRequirements(
        requirements: *mut c_void, array: Handle, device: c_int,
    ) |cu| cu.cuArrayGetMemoryRequirements(requirements, array, device);

    context fn cudaMipmappedArrayGetMemoryRequirements(
        requirements: *mut c_void, mipmap: Handle, device: c_int,
    ) |cu| cu.cuMipmappedArrayGetMemoryRequirements(requirements, mipmap, device);

    context fn cudaArrayGetSparseProperties(
        properties: *mut c_void, array: Handle,
    ) |cu| cu.cuArrayGetSparseProperties(properties, array);

    context fn cudaMipmappedArrayGetSparseProperties(
        properties: *mut c_void, mipmap: Handle,
    ) |cu| cu.cuMipmappedArrayGetSparseProperties(properties, mipmap);

    context fn cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds(
        dst: Handle, x: usize, y: usize, src: *const c_void, pitch: usize, width: usize,
        height: usize, kind: c_int,
    ) |cu| {
        let src = in_memory(to_array(kind)?, src, pitch);
        copy_between(cu, src, in_array(dst, x, y), width, height, When::Now)
    };

    context fn cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz(
        dst: Handle, x: usize, y: usize, src: *const c_void, pitch: usize, width: usize,
        height: usize, kind: c_int, stream: Handle,
    ) |cu| {
        let src = in_memory(to_array(kind)?, src, pitch);
        copy_between(cu, src, in_array(dst, x, y), width, height, When::In(stream))
    };

    context fn cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds(
        dst: *mut c_void, pitch: usize, src: Handle, x: usize, y: usize, width: usize,
        height: usize, kind: c_int,
    ) |cu| {
        let dst = in_memory(from_array(kind)?, dst, pitch);
        copy_between(cu, in_array(src, x, y), dst, width, height, When::Now)
    };

    context fn cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz(
        dst: *mut c_void, pitch: usize, src: Handle, x: usize, y: usize, width: usize,
        height: usize, kind: c_int, stream: Handle,
    ) |cu| {
        let dst = in_memory(from_array(kind)?, dst, pitch);
        copy_between(cu, in_array(src, x, y), dst, width, height, When::In(stream))
    };

    context fn cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds(
        dst: Handle, dst_x: usize, dst_y: usize, src: Handle, src_x: usize, src_y: usize,
        width: usize, height: usize, kind: c_int,
    ) |cu| {
        to_array(kind)?;
        let (src, dst) = (in_array(src, src_x, src_y), in_array(dst, dst_x, dst_y));
        copy_between(cu, src, dst, width, height, When::Now)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_go_there_and_back() {
        for (kind, bits, number) in FORMATS {
            for channels in [1u32, 2, 4] {
                let desc = description(number, channels).expect("a known format");
                assert_eq!(format(&desc), Ok((number, channels)));
                assert_eq!((desc.f, desc.x), (kind, bits));
            }
        }
    }

    #[test]
    fn odd_channel_descriptions_are_refused() {
        for (x, y, z, w, f) in [
            (32, 32, 32, 0, 2),
            (8, 16, 0, 0, 1),
            (0, 8, 0, 0, 1),
            (7, 0, 0, 0, 0),
            (8, 0, 0, 0, 9),
        ] {
            let desc = ChannelFormatDesc { x, y, z, w, f };
            assert_eq!(format(&desc), Err(Error::INVALID_CHANNEL), "{desc:?}");
        }
    }
}
