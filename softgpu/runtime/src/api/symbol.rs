//! Variables of the device by their host names: copies, addresses and sizes.

use std::ffi::{c_int, c_void};

use crate::api::copy::{When, copy_1d};
use crate::call::given;
use crate::driver::Api;
use crate::error::{Error, Outcome};
use crate::registry;
use crate::types::{Handle, copy_kind};

/// The place inside a variable where `count` bytes from `offset` on lie.
pub(crate) fn place(
    cu: &Api,
    symbol: *const c_void,
    offset: usize,
    count: usize,
) -> Result<*mut c_void, Error> {
    let (address, size) = registry::variable(cu, symbol)?;
    match offset.checked_add(count) {
        Some(end) if end <= size => Ok((address as usize + offset) as *mut c_void),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// A copy to a symbol cannot end on the host, nor one from a symbol start there.
pub(crate) fn check_to(kind: c_int) -> Outcome {
    match kind {
        copy_kind::HOST_TO_DEVICE | copy_kind::DEVICE_TO_DEVICE | copy_kind::DEFAULT => Ok(()),
        _ => Err(Error::INVALID_DIRECTION),
    }
}

pub(crate) fn check_from(kind: c_int) -> Outcome {
    match kind {
        copy_kind::DEVICE_TO_HOST | copy_kind::DEVICE_TO_DEVICE | copy_kind::DEFAULT => Ok(()),
        _ => Err(Error::INVALID_DIRECTION),
    }
}

unsafe fn copy_to(
    cu: &Api,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let dst = place(cu, symbol, offset, count)?;
    check_to(kind)?;
    unsafe { copy_1d(cu, dst, src, count, kind, when) }
}

unsafe fn copy_from(
    cu: &Api,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: c_int,
    when: When,
) -> Outcome {
    let src = place(cu, symbol, offset, count)?;
    check_from(kind)?;
    unsafe { copy_1d(cu, dst, src, count, kind, when) }
}

cuda! {
    context fn cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_int,
    ) |cu| copy_to(cu, symbol, src, count, offset, kind, When::Now);

    context fn cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_int,
        stream: Handle,
    ) |cu| copy_to(cu, symbol, src, count, offset, kind, When::In(stream));

    context fn cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int,
    ) |cu| copy_from(cu, dst, symbol, count, offset, kind, When::Now);

    context fn cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int,
        stream: Handle,
    ) |cu| copy_from(cu, dst, symbol, count, offset, kind, When::In(stream));

    context fn cudaGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void) |cu| {
        given(address)?;
        address.write(registry::variable(cu, symbol)?.0 as *mut c_void);
        Ok(())
    };

    context fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) |cu| {
        given(size)?;
        size.write(registry::variable(cu, symbol)?.1);
        Ok(())
    };
}
