//! Copies of a run of bytes to, from and between arrays: from a place in a row on, and over the
//! rows that follow. Long deprecated, and still exported.

use std::ffi::{c_int, c_void};

use crate::api::array::{describe, from_array, in_array, in_memory, to_array};
use crate::api::copy::{When, copy_2d};
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::types::{DriverCopy2D, Handle, Side2D};

/// A rectangle of a run: where it begins in the array and in the run, and its size.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    x: usize,
    y: usize,
    offset: usize,
    width: usize,
    height: usize,
}

/// The at most three rectangles of a run: the rest of the first row, whole rows, the last one.
fn parts(x: usize, y: usize, count: usize, row: usize) -> Result<Vec<Part>, Error> {
    if row == 0 || x >= row {
        return Err(Error::INVALID_VALUE);
    }
    let mut parts = Vec::new();
    let (mut x, mut y, mut offset) = (x, y, 0);
    while offset < count {
        let left = count - offset;
        let (width, height) = if x > 0 || left < row {
            (left.min(row - x), 1)
        } else {
            (row, left / row)
        };
        parts.push(Part {
            x,
            y,
            offset,
            width,
            height,
        });
        offset += width * height;
        y = y.checked_add(height).ok_or(Error::INVALID_VALUE)?;
        x = 0;
    }
    Ok(parts)
}

/// Bytes of one row of an array.
fn row_bytes(cu: &Api, array: Handle) -> Result<usize, Error> {
    let descriptor = describe(cu, array)?;
    descriptor
        .width
        .checked_mul(descriptor.element_size())
        .ok_or(Error::INVALID_VALUE)
}

unsafe fn copy_part(cu: &Api, src: Side2D, dst: Side2D, part: &Part, when: When) -> Outcome {
    let copy = DriverCopy2D {
        src,
        dst,
        width: part.width,
        height: part.height,
    };
    unsafe { copy_2d(cu, &copy, when) }
}

unsafe fn run_to(
    cu: &Api,
    dst: Handle,
    at: (usize, usize),
    src: *const c_void,
    count: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let memory = to_array(kind)?;
    for part in parts(at.0, at.1, count, row_bytes(cu, dst)?)? {
        let from = in_memory(memory, src.wrapping_byte_add(part.offset), part.width);
        unsafe { copy_part(cu, from, in_array(dst, part.x, part.y), &part, when)? };
    }
    Ok(())
}

unsafe fn run_from(
    cu: &Api,
    dst: *mut c_void,
    src: Handle,
    at: (usize, usize),
    count: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let memory = from_array(kind)?;
    for part in parts(at.0, at.1, count, row_bytes(cu, src)?)? {
        let to = in_memory(memory, dst.wrapping_byte_add(part.offset), part.width);
        unsafe { copy_part(cu, in_array(src, part.x, part.y), to, &part, when)? };
    }
    Ok(())
}

cuda! {
    context fn cudaMemcpyToArray, cudaMemcpyToArray_ptds(
        dst: Handle, x: usize, y: usize, src: *const c_void, count: usize, kind: c_int,
    ) |cu| run_to(cu, dst, (x, y), src, count, kind, When::Now);
    context fn cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz(
        dst: Handle, x: usize, y: usize, src: *const c_void, count: usize, kind: c_int,
        stream: Handle,
    ) |cu| run_to(cu, dst, (x, y), src, count, kind, When::In(stream));

    context fn cudaMemcpyFromArray, cudaMemcpyFromArray_ptds(
        dst: *mut c_void, src: Handle, x: usize, y: usize, count: usize, kind: c_int,
    ) |cu| run_from(cu, dst, src, (x, y), count, kind, When::Now);
    context fn cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz(
        dst: *mut c_void, src: Handle, x: usize, y: usize, count: usize, kind: c_int,
        stream: Handle,
    ) |cu| run_from(cu, dst, src, (x, y), count, kind, When::In(stream));

    context fn cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds(
        dst: Handle, dst_x: usize, dst_y: usize, src: Handle, src_x: usize, src_y: usize,
        count: usize, kind: c_int,
    ) |cu| {
        to_array(kind)?;
        let src_parts = parts(src_x, src_y, count, row_bytes(cu, src)?)?;
        let dst_parts = parts(dst_x, dst_y, count, row_bytes(cu, dst)?)?;
        let alike = |(src, dst): (&Part, &Part)| {
            (src.x, src.width, src.height) == (dst.x, dst.width, dst.height)
        };
        // Rows that are cut differently would need a copy for each piece.
        if src_parts.len() != dst_parts.len() || !src_parts.iter().zip(&dst_parts).all(alike) {
            return Err(Error::NOT_SUPPORTED);
        }
        for (from, to) in src_parts.iter().zip(&dst_parts) {
            let (src, dst) = (in_array(src, from.x, from.y), in_array(dst, to.x, to.y));
            copy_part(cu, src, dst, to, When::Now)?;
        }
        Ok(())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_cut_at_the_rows() {
        let part = |x, y, offset, width, height| Part {
            x,
            y,
            offset,
            width,
            height,
        };
        assert_eq!(parts(4, 1, 4, 16), Ok(vec![part(4, 1, 0, 4, 1)]));
        assert_eq!(parts(0, 0, 48, 16), Ok(vec![part(0, 0, 0, 16, 3)]));
        let three = vec![
            part(12, 0, 0, 4, 1),
            part(0, 1, 4, 16, 2),
            part(0, 3, 36, 5, 1),
        ];
        assert_eq!(parts(12, 0, 41, 16), Ok(three));
        assert_eq!(parts(0, 0, 0, 16), Ok(vec![]));
        assert_eq!(parts(16, 0, 1, 16), Err(Error::INVALID_VALUE));
        assert_eq!(parts(0, 0, 1, 0), Err(Error::INVALID_VALUE));
    }
}
