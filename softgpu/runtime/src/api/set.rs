//! Memsets of one to three dimensions.

use std::ffi::{c_int, c_void};

use crate::api::copy::When;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::types::{DevicePtr, Extent, Handle, PitchedPtr};

unsafe fn set_rows(
    cu: &Api,
    to: DevicePtr,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    when: When,
) -> Outcome {
    if width == 0 || height == 0 {
        return Ok(());
    }
    unsafe {
        match when {
            When::Now => cu.cuMemsetD2D8(to, pitch, value as u8, width, height),
            When::In(stream) => cu.cuMemsetD2D8Async(to, pitch, value as u8, width, height, stream),
        }
    }
}

/// Slices that lie one after another are set as one; otherwise one by one.
unsafe fn set_slices(
    cu: &Api,
    to: PitchedPtr,
    value: c_int,
    extent: Extent,
    when: When,
) -> Outcome {
    let (start, width) = (to.ptr as DevicePtr, extent.width);
    if extent.height == to.ysize || extent.depth <= 1 {
        let rows = extent
            .height
            .checked_mul(extent.depth)
            .ok_or(Error::INVALID_VALUE)?;
        return unsafe { set_rows(cu, start, to.pitch, value, width, rows, when) };
    }
    let slice = to.pitch.checked_mul(to.ysize).ok_or(Error::INVALID_VALUE)?;
    for z in 0..extent.depth {
        let offset = slice.checked_mul(z).ok_or(Error::INVALID_VALUE)? as DevicePtr;
        let at = start.checked_add(offset).ok_or(Error::INVALID_VALUE)?;
        unsafe { set_rows(cu, at, to.pitch, value, width, extent.height, when)? };
    }
    Ok(())
}

cuda! {
    context fn cudaMemset, cudaMemset_ptds(to: *mut c_void, value: c_int, count: usize) |cu| {
        if count == 0 {
            return Ok(());
        }
        cu.cuMemsetD8(to as DevicePtr, value as u8, count)
    };

    context fn cudaMemsetAsync, cudaMemsetAsync_ptsz(
        to: *mut c_void, value: c_int, count: usize, stream: Handle,
    ) |cu| {
        if count == 0 {
            return Ok(());
        }
        cu.cuMemsetD8Async(to as DevicePtr, value as u8, count, stream)
    };

    context fn cudaMemset2D, cudaMemset2D_ptds(
        to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize,
    ) |cu| set_rows(cu, to as DevicePtr, pitch, value, width, height, When::Now);

    context fn cudaMemset2DAsync, cudaMemset2DAsync_ptsz(
        to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle,
    ) |cu| set_rows(cu, to as DevicePtr, pitch, value, width, height, When::In(stream));

    context fn cudaMemset3D, cudaMemset3D_ptds(
        to: PitchedPtr, value: c_int, extent: Extent,
    ) |cu| set_slices(cu, to, value, extent, When::Now);

    context fn cudaMemset3DAsync, cudaMemset3DAsync_ptsz(
        to: PitchedPtr, value: c_int, extent: Extent, stream: Handle,
    ) |cu| set_slices(cu, to, value, extent, When::In(stream));
}
