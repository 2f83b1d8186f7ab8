//! Copies.

use std::ffi::c_void;

use crate::{
    abi::{Memcpy2d, Memcpy3d},
    capture, context,
    copy::{Copy, MemorySpace},
    entry::{stream_api, take, take_array},
    result::{Answer, INVALID_VALUE},
    stream::{NullStream, resolve},
    work::Work,
};

/// Pageable sources up to this size are taken at once, as drivers do, and the call returns.
const STAGED: u64 = 64 * 1024;

/// A copy for which the caller waits, unless it stays inside the device.
fn copy_now(null: NullStream, copy: Answer<Copy>) -> Answer {
    let (context, stream) = resolve(null, 0)?;
    let copy = copy?;
    if copy.is_empty() {
        return Ok(());
    }
    let inside = copy.from_device && copy.to_device;
    let short = copy.bytes() <= STAGED;
    let work = Work::Copy(copy.into());
    match (inside, short) {
        (false, _) => stream.issue_and_wait(&context, work),
        (true, true) => stream.issue_short(&context, work),
        (true, false) => stream.issue(&context, work),
    }
}

/// A copy in stream order; pageable memory makes the caller wait as far as it must.
fn copy_later(null: NullStream, stream: u64, copy: Answer<Copy>) -> Answer {
    let (context, stream) = resolve(null, stream)?;
    let mut copy = copy?;
    if copy.is_empty() {
        return Ok(());
    }
    if copy.pageable && capture::of(&stream).is_none() {
        if copy.to_device && copy.bytes() <= STAGED {
            copy.stage();
        } else {
            return stream.issue_and_wait(&context, Work::Copy(copy.into()));
        }
    }
    stream.issue(&context, Work::Copy(copy.into()))
}

/// Memcpy2d as the general form.
fn flat(copy: Memcpy2d) -> Memcpy3d {
    Memcpy3d {
        src_x: copy.src_x,
        src_y: copy.src_y,
        src_type: copy.src_type,
        src_host: copy.src_host,
        src_device: copy.src_device,
        src_array: copy.src_array,
        src_pitch: copy.src_pitch,
        dst_x: copy.dst_x,
        dst_y: copy.dst_y,
        dst_type: copy.dst_type,
        dst_host: copy.dst_host,
        dst_device: copy.dst_device,
        dst_array: copy.dst_array,
        dst_pitch: copy.dst_pitch,
        width: copy.width,
        height: copy.height,
        depth: 1,
        ..Memcpy3d::default()
    }
}

unsafe fn rows_2d(copy: *const Memcpy2d) -> Answer<Copy> {
    Copy::rows(&flat(unsafe { take(copy)? }))
}

unsafe fn rows_3d(copy: *const Memcpy3d) -> Answer<Copy> {
    Copy::rows(&unsafe { take(copy)? })
}

fn line(
    to: u64,
    to_place: MemorySpace,
    from: u64,
    from_place: MemorySpace,
    bytes: usize,
) -> Answer<Copy> {
    Copy::line(to, to_place, from, from_place, bytes as u64)
}

/// There is one device: contexts only have to exist, and 0 is the current one.
fn check_contexts(to: u64, from: u64) -> Answer {
    for handle in [to, from] {
        if handle != 0 {
            context::by_handle(handle)?;
        }
    }
    Ok(())
}

/// Several copies in one call: all are checked before any is issued.
unsafe fn batch(
    null: NullStream,
    to: *const u64,
    from: *const u64,
    sizes: *const usize,
    count: usize,
    stream: u64,
) -> Result<(), (crate::result::CuError, usize)> {
    let none = |error| (error, usize::MAX);
    if count == 0 || matches!(stream, 0..=2) {
        return Err((INVALID_VALUE, usize::MAX));
    }
    let (to, from, sizes) = unsafe {
        (
            take_array(to, count).map_err(none)?,
            take_array(from, count).map_err(none)?,
            take_array(sizes, count).map_err(none)?,
        )
    };
    let mut copies = Vec::new();
    for i in 0..count {
        let copy = line(
            to[i],
            MemorySpace::Unified,
            from[i],
            MemorySpace::Unified,
            sizes[i],
        );
        copies.push(copy.map_err(|error| (error, i))?);
    }
    for (i, copy) in copies.into_iter().enumerate() {
        copy_later(null, stream, Ok(copy)).map_err(|error| (error, i))?;
    }
    Ok(())
}

stream_api! {
    fn cuMemcpy / cuMemcpy_ptds(null; to: u64, from: u64, bytes: usize) {
        copy_now(null, line(to, MemorySpace::Unified, from, MemorySpace::Unified, bytes))
    }

    fn cuMemcpyAsync / cuMemcpyAsync_ptsz(null; to: u64, from: u64, bytes: usize, stream: u64) {
        copy_later(null, stream, line(to, MemorySpace::Unified, from, MemorySpace::Unified, bytes))
    }

    fn cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(null; to: u64, from: *const c_void, bytes: usize) {
        copy_now(null, line(to, MemorySpace::Device, from as u64, MemorySpace::Host, bytes))
    }

    fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(null;
        to: u64,
        from: *const c_void,
        bytes: usize,
        stream: u64,
    ) {
        copy_later(null, stream, line(to, MemorySpace::Device, from as u64, MemorySpace::Host, bytes))
    }

    fn cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(null; to: *mut c_void, from: u64, bytes: usize) {
        copy_now(null, line(to as u64, MemorySpace::Host, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(null;
        to: *mut c_void,
        from: u64,
        bytes: usize,
        stream: u64,
    ) {
        copy_later(null, stream, line(to as u64, MemorySpace::Host, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(null; to: u64, from: u64, bytes: usize) {
        copy_now(null, line(to, MemorySpace::Device, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(null;
        to: u64,
        from: u64,
        bytes: usize,
        stream: u64,
    ) {
        copy_later(null, stream, line(to, MemorySpace::Device, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpyPeer / cuMemcpyPeer_ptds(null;
        to: u64,
        to_context: u64,
        from: u64,
        from_context: u64,
        bytes: usize,
    ) {
        check_contexts(to_context, from_context)?;
        copy_now(null, line(to, MemorySpace::Device, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz(null;
        to: u64,
        to_context: u64,
        from: u64,
        from_context: u64,
        bytes: usize,
        stream: u64,
    ) {
        check_contexts(to_context, from_context)?;
        copy_later(null, stream, line(to, MemorySpace::Device, from, MemorySpace::Device, bytes))
    }

    fn cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds(null; copy: *const Memcpy2d) {
        copy_now(null, rows_2d(copy))
    }

    fn cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds(null; copy: *const Memcpy2d) {
        copy_now(null, rows_2d(copy))
    }

    fn cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz(null; copy: *const Memcpy2d, stream: u64) {
        copy_later(null, stream, rows_2d(copy))
    }

    fn cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds(null; copy: *const Memcpy3d) {
        copy_now(null, rows_3d(copy))
    }

    fn cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz(null; copy: *const Memcpy3d, stream: u64) {
        copy_later(null, stream, rows_3d(copy))
    }

    fn cuMemcpy3DPeer / cuMemcpy3DPeer_ptds(null; copy: *const Memcpy3d) {
        copy_now(null, rows_3d(copy))
    }

    fn cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz(null; copy: *const Memcpy3d, stream: u64) {
        copy_later(null, stream, rows_3d(copy))
    }

    fn cuMemcpyBatchAsync / cuMemcpyBatchAsync_ptsz(null;
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        _attributes: *const c_void,
        _indices: *const usize,
        _attribute_count: usize,
        failed: *mut usize,
        stream: u64,
    ) {
        batch(null, to, from, sizes, count, stream).map_err(|(error, at)| {
            crate::entry::put_optional(failed, at);
            error
        })
    }

    fn cuMemcpyBatchAsync_v2 / cuMemcpyBatchAsync_v2_ptsz(null;
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        _attributes: *const c_void,
        _indices: *const usize,
        _attribute_count: usize,
        stream: u64,
    ) {
        batch(null, to, from, sizes, count, stream).map_err(|(error, _)| error)
    }
}
