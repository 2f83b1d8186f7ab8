//! Waiting for and writing of values in stream order.

use std::sync::Arc;

use crate::{
    abi::BatchMemOp,
    entry::{stream_api, take_array},
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
    stream::{NullStream, resolve},
    work::{MemoryBatch, MemoryOperation, MemoryOperationKind as Kind, Work},
};

// CUstreamBatchMemOpType.
const WAIT_32: u32 = 1;
const WRITE_32: u32 = 2;
const WAIT_64: u32 = 4;
const WRITE_64: u32 = 5;
const BARRIER: u32 = 6;
const FLUSH: u32 = 1 << 30;
const MOST: u32 = 256;

fn operation(kind: Kind, address: u64, value: u64, wide: bool) -> Answer<MemoryOperation> {
    let size = if wide { 8 } else { 4 };
    if !address.is_multiple_of(size) || driver().allocations.covering(address, size).is_none() {
        return Err(INVALID_VALUE);
    }
    Ok(MemoryOperation {
        address,
        value,
        wide,
        kind,
    })
}

fn wait(address: u64, value: u64, flags: u32, wide: bool) -> Answer<MemoryOperation> {
    if flags & FLUSH != 0 {
        return Err(NOT_SUPPORTED);
    }
    let kind = match flags {
        0 => Kind::WaitAtLeast,
        1 => Kind::WaitEqual,
        2 => Kind::WaitAnd,
        3 => Kind::WaitNor,
        _ => return Err(INVALID_VALUE),
    };
    operation(kind, address, value, wide)
}

/// The only flag says that the write need not wait for earlier memory work; here it always does.
fn write(address: u64, value: u64, flags: u32, wide: bool) -> Answer<MemoryOperation> {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    operation(Kind::Write, address, value, wide)
}

fn issue(null: NullStream, stream: u64, operations: Vec<MemoryOperation>) -> Answer {
    let (context, stream) = resolve(null, stream)?;
    let described = Vec::new();
    let batch = MemoryBatch {
        operations,
        described,
    };
    stream.issue(&context, Work::Memory(Arc::new(batch)))
}

/// Operations of a batch, checked.
pub unsafe fn batch(count: u32, params: *const BatchMemOp) -> Answer<Work> {
    if count > MOST {
        return Err(INVALID_VALUE);
    }
    let mut operations = Vec::new();
    let described = unsafe { take_array(params, count as usize)? };
    for one in &described {
        // 32-bit operations leave the upper half of the value undefined.
        let narrow = one.value & u64::from(u32::MAX);
        match one.operation {
            WAIT_32 => operations.push(wait(one.address, narrow, one.flags, false)?),
            WRITE_32 => operations.push(write(one.address, narrow, one.flags, false)?),
            WAIT_64 => operations.push(wait(one.address, one.value, one.flags, true)?),
            WRITE_64 => operations.push(write(one.address, one.value, one.flags, true)?),
            // Work of a stream is ordered anyway.
            BARRIER => {}
            _ => return Err(NOT_SUPPORTED),
        }
    }
    Ok(Work::Memory(Arc::new(MemoryBatch {
        operations,
        described,
    })))
}

unsafe fn issue_batch(
    null: NullStream,
    stream: u64,
    count: u32,
    params: *const BatchMemOp,
    flags: u32,
) -> Answer {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let (context, stream) = resolve(null, stream)?;
    stream.issue(&context, unsafe { batch(count, params)? })
}

stream_api! {
    fn cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz(null;
        stream: u64, address: u64, value: u32, flags: u32,
    ) {
        issue(null, stream, vec![wait(address, u64::from(value), flags, false)?])
    }

    fn cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz(null;
        stream: u64, address: u64, value: u64, flags: u32,
    ) {
        issue(null, stream, vec![wait(address, value, flags, true)?])
    }

    fn cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz(null;
        stream: u64, address: u64, value: u32, flags: u32,
    ) {
        issue(null, stream, vec![write(address, u64::from(value), flags, false)?])
    }

    fn cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz(null;
        stream: u64, address: u64, value: u64, flags: u32,
    ) {
        issue(null, stream, vec![write(address, value, flags, true)?])
    }

    fn cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz(null;
        stream: u64, count: u32, params: *const BatchMemOp, flags: u32,
    ) {
        issue_batch(null, stream, count, params, flags)
    }
}
