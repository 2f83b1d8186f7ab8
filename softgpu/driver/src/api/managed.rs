//! Managed memory: one memory for host and device, so hints change nothing.

use std::{ffi::c_void, sync::Arc};

use crate::{
    abi::Location,
    allocation::{Allocation, MemoryKind},
    capture,
    entry::{api, put, stream_api, take_array},
    resource,
    result::{Answer, INVALID_DEVICE, INVALID_VALUE},
    state::driver,
    stream::resolve,
    thread,
    work::Work,
};

const CPU: i32 = -1;
const INVALID_ID: i32 = -2;
/// CU_MEM_ADVISE_SET_READ_MOSTLY.
const READ_MOSTLY: u32 = 1;
/// CU_MEM_ATTACH_GLOBAL or _HOST.
const ATTACH: [u32; 2] = [1, 2];

fn managed(address: u64, bytes: usize) -> Answer<Arc<Allocation>> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let found = driver().allocations.covering(address, bytes as u64);
    match found {
        Some(found) if found.kind == MemoryKind::Managed => Ok(found),
        _ => Err(INVALID_VALUE),
    }
}

fn check_device(device: i32) -> Answer {
    if matches!(device, 0 | CPU) {
        Ok(())
    } else {
        Err(INVALID_DEVICE)
    }
}

fn check_location(location: Location) -> Answer {
    match location {
        Location { kind: 1, id: 0 } | Location { kind: 2..=4, .. } => Ok(()),
        Location { kind: 1, .. } => Err(INVALID_DEVICE),
        _ => Err(INVALID_VALUE),
    }
}

api! {
    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) {
        if address.is_null() || !ATTACH.contains(&flags) {
            return Err(INVALID_VALUE);
        }
        let context = thread::usable()?;
        capture::refuse_unsafe_call()?;
        let kind = MemoryKind::Managed;
        put(address, driver().allocations.allocate(&context, bytes as u64, kind, flags)?)
    }

    fn cuMemAdvise(address: u64, bytes: usize, advice: u32, device: i32) {
        thread::usable()?;
        managed(address, bytes)?;
        if !(1..=6).contains(&advice) {
            return Err(INVALID_VALUE);
        }
        if advice >= 3 && advice != 4 {
            check_device(device)?;
        }
        if advice == READ_MOSTLY {
            resource::read_mostly(address, bytes as u64);
        }
        Ok(())
    }

    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: u32, location: Location) {
        thread::usable()?;
        managed(address, bytes)?;
        if !(1..=6).contains(&advice) {
            return Err(INVALID_VALUE);
        }
        if advice >= 3 && advice != 4 {
            check_location(location)?;
        }
        if advice == READ_MOSTLY {
            resource::read_mostly(address, bytes as u64);
        }
        Ok(())
    }

    /// Hints are not kept: every range is in its initial state.
    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        size: usize,
        attribute: u32,
        address: u64,
        bytes: usize,
    ) {
        thread::usable()?;
        managed(address, bytes)?;
        range_attribute(data, size, attribute)
    }

    fn cuMemRangeGetAttributes(
        data: *const *mut c_void,
        sizes: *const usize,
        attributes: *const u32,
        count: usize,
        address: u64,
        bytes: usize,
    ) {
        thread::usable()?;
        managed(address, bytes)?;
        let data = take_array(data, count)?;
        let sizes = take_array(sizes, count)?;
        for (i, attribute) in take_array(attributes, count)?.into_iter().enumerate() {
            range_attribute(data[i], sizes[i], attribute)?;
        }
        Ok(())
    }
}

unsafe fn range_attribute(data: *mut c_void, size: usize, attribute: u32) -> Answer {
    if data.is_null() || size == 0 || !size.is_multiple_of(4) {
        return Err(INVALID_VALUE);
    }
    let words = data.cast::<i32>();
    match attribute {
        1 if size == 4 => unsafe { put(words, 0) },
        2 | 4 | 6 | 8 if size == 4 => unsafe { put(words, INVALID_ID) },
        3 => {
            for i in 0..size / 4 {
                unsafe { put(words.add(i), INVALID_ID)? };
            }
            Ok(())
        }
        5 | 7 if size == 4 => unsafe { put(words, 0) },
        _ => Err(INVALID_VALUE),
    }
}

stream_api! {
    fn cuMemPrefetchAsync / cuMemPrefetchAsync_ptsz(null;
        address: u64,
        bytes: usize,
        device: i32,
        stream: u64,
    ) {
        let (context, stream) = resolve(null, stream)?;
        managed(address, bytes)?;
        check_device(device)?;
        resource::prefetched(address, bytes as u64);
        stream.issue(&context, Work::Empty)
    }

    fn cuMemPrefetchAsync_v2 / cuMemPrefetchAsync_v2_ptsz(null;
        address: u64,
        bytes: usize,
        location: Location,
        flags: u32,
        stream: u64,
    ) {
        let (context, stream) = resolve(null, stream)?;
        managed(address, bytes)?;
        check_location(location)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        resource::prefetched(address, bytes as u64);
        stream.issue(&context, Work::Empty)
    }

    fn cuMemPrefetchBatchAsync / cuMemPrefetchBatchAsync_ptsz(null;
        addresses: *const u64,
        sizes: *const usize,
        count: usize,
        locations: *const Location,
        _indices: *const usize,
        location_count: usize,
        flags: u64,
        stream: u64,
    ) {
        let (context, stream) = resolve(null, stream)?;
        if flags != 0 || count == 0 || location_count == 0 || location_count > count {
            return Err(INVALID_VALUE);
        }
        for location in take_array(locations, location_count)? {
            check_location(location)?;
        }
        let sizes = take_array(sizes, count)?;
        let ranges: Vec<_> = take_array(addresses, count)?.into_iter().zip(sizes).collect();
        for (address, bytes) in &ranges {
            managed(*address, *bytes)?;
        }
        for (address, bytes) in ranges {
            resource::prefetched(address, bytes as u64);
        }
        stream.issue(&context, Work::Empty)
    }

    fn cuMemDiscardBatchAsync / cuMemDiscardBatchAsync_ptsz(null;
        addresses: *const u64,
        sizes: *const usize,
        count: usize,
        flags: u64,
        stream: u64,
    ) {
        let (context, stream) = resolve(null, stream)?;
        if flags != 0 || count == 0 {
            return Err(INVALID_VALUE);
        }
        let sizes = take_array(sizes, count)?;
        for (address, bytes) in take_array(addresses, count)?.into_iter().zip(sizes) {
            managed(address, bytes)?;
        }
        // What is discarded may be read as anything: as what it was, too.
        stream.issue(&context, Work::Empty)
    }

    fn cuStreamAttachMemAsync / cuStreamAttachMemAsync_ptsz(null;
        stream: u64,
        address: u64,
        length: usize,
        flags: u32,
    ) {
        let (context, stream) = resolve(null, stream)?;
        if !matches!(flags, 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        let found = managed(address, 1)?;
        // The whole allocation, or 0 for it.
        if found.start != address || (length != 0 && length as u64 != found.size) {
            return Err(INVALID_VALUE);
        }
        stream.issue(&context, Work::Empty)
    }
}
