//! What is known of a pointer.

use std::{ffi::c_void, sync::atomic::Ordering};

use crate::{
    allocation::{Allocation, MemoryKind},
    entry::{api, put, take, take_array},
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
    thread,
};

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const READ_WRITE: u32 = 3;

/// Writes one attribute of an address inside `found`.
unsafe fn attribute(data: *mut c_void, number: u32, address: u64, found: &Allocation) -> Answer {
    let kind = if found.is_host() { HOST } else { DEVICE };
    unsafe {
        match number {
            1 => put(data.cast::<u64>(), found.context),
            2 => put(data.cast::<u32>(), kind),
            3 => put(data.cast::<u64>(), address),
            4 if found.is_host() || found.kind == MemoryKind::Managed => {
                put(data.cast::<u64>(), address)
            }
            4 => Err(INVALID_VALUE),
            5 => Err(NOT_SUPPORTED),
            6 => put(
                data.cast::<u32>(),
                u32::from(found.sync_memops.load(Ordering::Relaxed)),
            ),
            7 | 20 => put(data.cast::<u64>(), found.id),
            8 => put(
                data.cast::<u32>(),
                u32::from(found.kind == MemoryKind::Managed),
            ),
            9 => put(data.cast::<i32>(), 0),
            // No IPC, no RDMA, no shareable handles, no decompression.
            10 | 14 | 15 | 21 => put(data.cast::<u32>(), 0),
            11 | 19 => put(data.cast::<u64>(), found.start),
            12 | 18 => put(data.cast::<u64>(), found.size),
            13 => put(data.cast::<u32>(), 1),
            16 => put(data.cast::<u32>(), READ_WRITE),
            17 => put(data.cast::<u64>(), 0),
            _ => Err(INVALID_VALUE),
        }
    }
}

/// What an address outside all allocations has: nothing, but that is no error in a list.
unsafe fn unknown(data: *mut c_void, number: u32) -> Answer {
    unsafe {
        match number {
            1 | 3 | 4 | 11 | 12 | 17..=20 => put(data.cast::<u64>(), 0),
            2 | 6 | 8 | 10 | 13..=16 | 21 => put(data.cast::<u32>(), 0),
            7 => put(data.cast::<u64>(), 0),
            9 => put(data.cast::<i32>(), -2),
            _ => Err(INVALID_VALUE),
        }
    }
}

api! {
    fn cuPointerGetAttribute(data: *mut c_void, number: u32, address: u64) {
        thread::usable()?;
        if data.is_null() {
            return Err(INVALID_VALUE);
        }
        let found = driver().allocations.find(address).ok_or(INVALID_VALUE)?;
        attribute(data, number, address, &found)
    }

    fn cuPointerGetAttributes(
        count: u32,
        numbers: *const u32,
        data: *const *mut c_void,
        address: u64,
    ) {
        thread::usable()?;
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        let numbers = take_array(numbers, count as usize)?;
        let places = take_array(data, count as usize)?;
        let found = driver().allocations.find(address);
        for (number, place) in numbers.into_iter().zip(places) {
            let known = found.as_ref().map(|found| attribute(place, number, address, found));
            // What does not apply to this memory is answered as for no memory.
            match known {
                Some(Ok(())) => {}
                _ => unknown(place, number)?,
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, number: u32, address: u64) {
        const SYNC_MEMOPS: u32 = 6;
        thread::usable()?;
        if number != SYNC_MEMOPS {
            return Err(INVALID_VALUE);
        }
        let found = driver().allocations.find(address).ok_or(INVALID_VALUE)?;
        if found.is_host() {
            return Err(INVALID_VALUE);
        }
        found.sync_memops.store(take(value.cast::<u32>())? != 0, Ordering::Relaxed);
        Ok(())
    }
}
