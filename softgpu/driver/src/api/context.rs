//! Contexts: creation, the thread's stack of current contexts, limits, synchronisation.

use std::{
    ffi::c_void,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    abi::ContextCreateParams,
    activity::Waits,
    capture,
    context::{self, Context},
    device::{Device, LIMITS, PRIORITIES},
    entry::{api, put, put_optional},
    event::EventRecording,
    result::{
        Answer, CuError, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, UNSUPPORTED_EXEC_AFFINITY,
        UNSUPPORTED_LIMIT,
    },
    state::driver,
    stream::Dependency,
    thread,
    work::Work,
};

const FLAGS: u32 = 0xff;
const MAP_HOST: u32 = 8;

fn create(flags: u32, device: i32, api_version: u32) -> Answer<u64> {
    Device::check(device)?;
    // The scheduling bits are one choice: automatic, spin, yield or block.
    if flags & !FLAGS != 0 || !matches!(flags & 7, 0 | 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    let handle = driver().contexts.fresh();
    Context::create(handle, flags, api_version);
    thread::push(handle);
    Ok(handle)
}

/// The context a handle names, or the current one for 0.
fn chosen(handle: u64) -> Answer<Arc<Context>> {
    match handle {
        0 => thread::current(),
        handle => context::by_handle(handle),
    }
}

fn destroy(handle: u64) -> Answer {
    if handle == 0 {
        return Err(INVALID_VALUE);
    }
    let context = context::by_handle(handle)?;
    if driver().device.primary.is(handle) {
        return Err(INVALID_CONTEXT);
    }
    if thread::current_handle() == handle {
        thread::pop()?;
    }
    context.destroy();
    Ok(())
}

api! {
    fn cuCtxCreate(context: *mut u64, flags: u32, device: i32) {
        if context.is_null() {
            return Err(INVALID_VALUE);
        }
        put(context, create(flags, device, 3010)?)
    }

    fn cuCtxCreate_v2(context: *mut u64, flags: u32, device: i32) {
        if context.is_null() {
            return Err(INVALID_VALUE);
        }
        put(context, create(flags, device, 3020)?)
    }

    fn cuCtxCreate_v3(
        context: *mut u64,
        affinity: *const c_void,
        affinity_count: i32,
        flags: u32,
        device: i32,
    ) {
        if context.is_null() || affinity_count < 0 {
            return Err(INVALID_VALUE);
        }
        if affinity_count > 0 && !affinity.is_null() {
            return Err(UNSUPPORTED_EXEC_AFFINITY);
        }
        put(context, create(flags, device, 3020)?)
    }

    fn cuCtxCreate_v4(
        context: *mut u64,
        params: *const ContextCreateParams,
        flags: u32,
        device: i32,
    ) {
        if context.is_null() {
            return Err(INVALID_VALUE);
        }
        if !params.is_null() {
            let params = params.read_unaligned();
            if params.affinity_count > 0 || !params.graphics.is_null() {
                return Err(UNSUPPORTED_EXEC_AFFINITY);
            }
        }
        put(context, create(flags, device, 3020)?)
    }

    fn cuCtxDestroy(context: u64) {
        destroy(context)
    }

    fn cuCtxDestroy_v2(context: u64) {
        destroy(context)
    }

    /// Long deprecated: only the current context can be attached to.
    fn cuCtxAttach(context: *mut u64, flags: u32) {
        if flags != 0 || context.is_null() {
            return Err(INVALID_VALUE);
        }
        put(context, thread::current()?.handle)
    }

    fn cuCtxDetach(context: u64) {
        if context != thread::current_handle() {
            return Err(INVALID_CONTEXT);
        }
        destroy(context)
    }

    fn cuCtxPushCurrent(context: u64) {
        context::by_handle(context)?;
        thread::push(context);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: u64) {
        context::by_handle(context)?;
        thread::push(context);
        Ok(())
    }

    fn cuCtxPopCurrent(context: *mut u64) {
        put_optional(context, thread::pop()?);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut u64) {
        put_optional(context, thread::pop()?);
        Ok(())
    }

    fn cuCtxSetCurrent(context: u64) {
        if context != 0 {
            context::by_handle(context)?;
        }
        thread::set_current(context);
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut u64) {
        put(context, thread::current_handle())
    }

    /// A destroyed context that is still current knows its device.
    fn cuCtxGetDevice(device: *mut i32) {
        if thread::current_handle() == 0 {
            return Err(INVALID_CONTEXT);
        }
        put(device, 0)
    }

    fn cuCtxGetDevice_v2(device: *mut i32, context: u64) {
        chosen(context)?;
        put(device, 0)
    }

    fn cuCtxGetFlags(flags: *mut u32) {
        // With unified addressing host memory is always mapped.
        put(flags, thread::current()?.flags.load(Ordering::Relaxed) | MAP_HOST)
    }

    fn cuCtxSetFlags(flags: u32) {
        if flags & !FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        thread::current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(context: u64, id: *mut u64) {
        put(id, chosen(context)?.id)
    }

    fn cuCtxGetApiVersion(context: u64, version: *mut u32) {
        put(version, chosen(context)?.api_version)
    }

    fn cuCtxSynchronize() {
        let context = thread::usable()?;
        capture::refuse_unsafe_call()?;
        Waits::Context(context.id).run(|| context.synchronise())
    }

    fn cuCtxSynchronize_v2(context: u64) {
        let context = chosen(context)?;
        context.healthy()?;
        capture::refuse_unsafe_call()?;
        Waits::Context(context.id).run(|| context.synchronise())
    }

    fn cuCtxGetLimit(value: *mut usize, limit: u32) {
        let context = thread::current()?;
        let &(result, _) = LIMITS.get(limit as usize).ok_or(INVALID_VALUE)?;
        if result != 0 {
            return Err(CuError(result));
        }
        put(value, context.limit(limit as usize).ok_or(INVALID_VALUE)?)
    }

    fn cuCtxSetLimit(limit: u32, value: usize) {
        let context = thread::usable()?;
        let &(result, initial) = LIMITS.get(limit as usize).ok_or(INVALID_VALUE)?;
        if result != 0 {
            return Err(CuError(result));
        }
        match limit {
            // Shared memory and graphics interop describe the device.
            7 | 8 if value != initial => Err(UNSUPPORTED_LIMIT),
            5 => {
                // The nearest granularity there is: 32, 64 or 128 bytes.
                context.set_limit(5, value.clamp(32, 128).next_power_of_two().min(128));
                Ok(())
            }
            0 if value > 512 * 1024 => Err(INVALID_VALUE),
            _ => {
                context.set_limit(limit as usize, value);
                Ok(())
            }
        }
    }

    fn cuCtxGetCacheConfig(config: *mut u32) {
        put(config, thread::current()?.cache_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetCacheConfig(config: u32) {
        if config > 3 {
            return Err(INVALID_VALUE);
        }
        thread::current()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(config: *mut u32) {
        put(config, thread::current()?.shared_config.load(Ordering::Relaxed))
    }

    /// Banks are of four bytes on every device of today; the call is accepted.
    fn cuCtxSetSharedMemConfig(config: u32) {
        thread::current()?;
        if config > 2 {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        thread::current()?;
        put_optional(least, PRIORITIES.0);
        put_optional(greatest, PRIORITIES.1);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        thread::current().map(|_| ())
    }

    fn cuCtxGetExecAffinity(_affinity: *mut c_void, _kind: u32) {
        thread::current()?;
        Err(UNSUPPORTED_EXEC_AFFINITY)
    }

    /// Records an event behind all work of the context so far.
    fn cuCtxRecordEvent(context: u64, event: u64) {
        let context = chosen(context)?;
        context.healthy()?;
        let event = driver().events.get(event).ok_or(INVALID_HANDLE)?;
        EventRecording::enqueue(&event, &context, &context.legacy, all_work(&context));
        Ok(())
    }

    /// Makes all later work of the context wait for an event.
    fn cuCtxWaitEvent(context: u64, event: u64) {
        let context = chosen(context)?;
        context.healthy()?;
        let event = driver().events.get(event).ok_or(INVALID_HANDLE)?;
        if let Some(record) = event.record()? {
            for stream in context.other_streams() {
                stream.enqueue(&context, vec![Dependency::Record(record.clone())], Work::Empty);
            }
            context.legacy.enqueue(&context, vec![Dependency::Record(record)], Work::Empty);
        }
        Ok(())
    }
}

/// Everything issued to non-blocking streams; the legacy stream waits for the others by itself.
fn all_work(context: &Arc<Context>) -> Vec<Dependency> {
    let mut after = Vec::new();
    for stream in context.other_streams() {
        stream.depend_on_all(&mut after);
    }
    after
}
