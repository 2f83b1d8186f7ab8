//! Events.

use std::ffi::c_uint;

use crate::call::given;
use crate::error::Error;
use crate::types::Handle;

/// cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess.
const FLAGS: c_uint = 7;

cuda! {
    context fn cudaEventCreate(event: *mut Handle) |cu| {
        given(event)?;
        cu.cuEventCreate(event, 0)
    };

    context fn cudaEventCreateWithFlags(event: *mut Handle, flags: c_uint) |cu| {
        given(event)?;
        if flags & !FLAGS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        cu.cuEventCreate(event, flags)
    };

    context fn cudaEventDestroy(event: Handle) |cu| cu.cuEventDestroy(event);

    context fn cudaEventRecord, cudaEventRecord_ptsz(
        event: Handle, stream: Handle,
    ) |cu| cu.cuEventRecord(event, stream);

    context fn cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz(
        event: Handle, stream: Handle, flags: c_uint,
    ) |cu| cu.cuEventRecordWithFlags(event, stream, flags);

    context fn cudaEventQuery(event: Handle) |cu| cu.cuEventQuery(event);
    context fn cudaEventSynchronize(event: Handle) |cu| cu.cuEventSynchronize(event);
}
