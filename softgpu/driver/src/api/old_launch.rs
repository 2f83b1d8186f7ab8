//! The launch calls of CUDA 2 and 3: state kept in the function, then cuLaunch.

use std::{ffi::c_void, sync::Arc};

use crate::{
    entry::api,
    launch::{self, Function, KernelWork, Shape},
    result::{Answer, INVALID_VALUE},
    stream::{NullStream, resolve},
    thread,
    work::Work,
};

/// Kernel parameters never take more than this.
const MOST: usize = 32_764;

fn find(handle: u64) -> Answer<Arc<Function>> {
    launch::resolve(&thread::usable()?, handle)
}

unsafe fn set(function: u64, offset: i32, from: *const u8, count: usize) -> Answer {
    let offset = usize::try_from(offset).map_err(|_| INVALID_VALUE)?;
    let end = offset.checked_add(count).ok_or(INVALID_VALUE)?;
    if from.is_null() || end > MOST {
        return Err(INVALID_VALUE);
    }
    let function = find(function)?;
    let mut old = function.old_launch();
    if old.params.len() < end {
        old.params.resize(end, 0);
    }
    old.params[offset..end].copy_from_slice(unsafe { std::slice::from_raw_parts(from, count) });
    Ok(())
}

fn launch(function: u64, width: i32, height: i32, stream: u64) -> Answer {
    let (context, stream) = resolve(NullStream::Legacy, stream)?;
    let function = launch::resolve(&context, function)?;
    let old = function.old_launch().clone();
    let size = function.kernel().param_size;
    if old.params.len() < size {
        return Err(INVALID_VALUE);
    }
    let grid = [width, height, 1].map(|n| u32::try_from(n).unwrap_or(0));
    let shape = Shape::new(grid, old.block, old.shared);
    let work = KernelWork::new(function, shape, old.params[..size].to_vec())?;
    stream.issue(&context, Work::Kernel(work))
}

api! {
    fn cuFuncSetBlockShape(function: u64, x: i32, y: i32, z: i32) {
        let block = [x, y, z].map(|n| u32::try_from(n).unwrap_or(0));
        if block.contains(&0) {
            return Err(INVALID_VALUE);
        }
        find(function)?.old_launch().block = block;
        Ok(())
    }

    fn cuFuncSetSharedSize(function: u64, bytes: u32) {
        find(function)?.old_launch().shared = bytes;
        Ok(())
    }

    fn cuParamSetSize(function: u64, bytes: u32) {
        if bytes as usize > MOST {
            return Err(INVALID_VALUE);
        }
        find(function)?.old_launch().params.resize(bytes as usize, 0);
        Ok(())
    }

    fn cuParamSeti(function: u64, offset: i32, value: u32) {
        set(function, offset, (&raw const value).cast(), 4)
    }

    fn cuParamSetf(function: u64, offset: i32, value: f32) {
        set(function, offset, (&raw const value).cast(), 4)
    }

    fn cuParamSetv(function: u64, offset: i32, from: *const c_void, bytes: u32) {
        set(function, offset, from.cast(), bytes as usize)
    }

    fn cuLaunch(function: u64) {
        launch(function, 1, 1, 0)
    }

    fn cuLaunchGrid(function: u64, width: i32, height: i32) {
        launch(function, width, height, 0)
    }

    fn cuLaunchGridAsync(function: u64, width: i32, height: i32, stream: u64) {
        launch(function, width, height, stream)
    }
}
