//! Streams.

use std::{
    ffi::c_void,
    sync::{Arc, atomic::Ordering},
};

use crate::{
    abi::StreamCallback,
    activity::Waits,
    capture,
    device::PRIORITIES,
    entry::{api, put, put_optional, stream_api, take},
    result::{Answer, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, NOT_READY},
    state::driver,
    stream::{Dependency, NON_BLOCKING, NullStream, Stream, StreamKind, resolve, resolve_any},
    thread,
    work::Work,
};

fn create(flags: u32, priority: i32) -> Answer<u64> {
    if flags & !NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let context = thread::usable()?;
    // Priorities outside the range are taken as the nearest end.
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let handle = driver().streams.fresh();
    let owner = Arc::downgrade(&context);
    let stream = Arc::new(Stream::new(
        handle,
        owner,
        StreamKind::Created,
        flags,
        priority,
    ));
    driver().streams.insert(handle, stream.clone());
    context.add_stream(stream);
    Ok(handle)
}

/// Pending work is still done; the handle is gone at once.
fn destroy(handle: u64) -> Answer {
    thread::current()?;
    let stream = driver().streams.get(handle).ok_or(INVALID_HANDLE)?;
    capture::abandon(&stream);
    driver().streams.remove(handle);
    stream.resource.destroy();
    if let Ok(context) = stream.context() {
        context.retire_stream(&stream);
    }
    Ok(())
}

fn synchronise(null: NullStream, stream: u64) -> Answer {
    let (context, stream) = resolve(null, stream)?;
    capture::refuse_on(&stream)?;
    capture::check_implicit(&context, &stream)?;
    let waits = Waits::Stream {
        context: context.id,
        stream: stream.id,
    };
    waits.run(|| stream.synchronise(&context))
}

api! {
    fn cuStreamCreate(stream: *mut u64, flags: u32) {
        if stream.is_null() {
            return Err(INVALID_VALUE);
        }
        put(stream, create(flags, 0)?)
    }

    fn cuStreamCreateWithPriority(stream: *mut u64, flags: u32, priority: i32) {
        if stream.is_null() {
            return Err(INVALID_VALUE);
        }
        put(stream, create(flags, priority)?)
    }

    fn cuStreamDestroy(stream: u64) {
        destroy(stream)
    }

    fn cuStreamDestroy_v2(stream: u64) {
        destroy(stream)
    }
}

// CU_LAUNCH_ATTRIBUTE_*, as far as streams have them.
const ACCESS_POLICY_WINDOW: u32 = 1;
const SYNCHRONISATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;
const MEM_SYNC_DOMAIN_MAP: u32 = 9;
const MEM_SYNC_DOMAIN: u32 = 10;

stream_api! {
    fn cuStreamSynchronize / cuStreamSynchronize_ptsz(null; stream: u64) {
        synchronise(null, stream)
    }

    fn cuStreamQuery / cuStreamQuery_ptsz(null; stream: u64) {
        let (context, stream) = resolve(null, stream)?;
        capture::refuse_on(&stream)?;
        capture::check_implicit(&context, &stream)?;
        if !stream.is_finished(&context) {
            return Err(NOT_READY);
        }
        context.healthy()
    }

    fn cuStreamGetPriority / cuStreamGetPriority_ptsz(null; stream: u64, priority: *mut i32) {
        let (_, stream) = resolve_any(null, stream)?;
        put(priority, stream.priority)
    }

    fn cuStreamGetFlags / cuStreamGetFlags_ptsz(null; stream: u64, flags: *mut u32) {
        let (_, stream) = resolve_any(null, stream)?;
        put(flags, stream.flags)
    }

    fn cuStreamGetId / cuStreamGetId_ptsz(null; stream: u64, id: *mut u64) {
        let (_, found) = resolve_any(null, stream)?;
        // The legacy and per-thread streams have fixed numbers of their own.
        put(id, match found.kind {
            StreamKind::Legacy => 1,
            StreamKind::PerThread => 2,
            StreamKind::Created => found.id + 2,
        })
    }

    fn cuStreamGetCtx / cuStreamGetCtx_ptsz(null; stream: u64, context: *mut u64) {
        let (owner, stream) = resolve_any(null, stream)?;
        capture::refuse_on(&stream)?;
        put(context, owner.handle)
    }

    fn cuStreamGetCtx_v2 / cuStreamGetCtx_v2_ptsz(null;
        stream: u64,
        context: *mut u64,
        green: *mut u64,
    ) {
        let (owner, stream) = resolve_any(null, stream)?;
        capture::refuse_on(&stream)?;
        put_optional(green, 0);
        put(context, owner.handle)
    }

    fn cuStreamGetDevice / cuStreamGetDevice_ptsz(null; stream: u64, device: *mut i32) {
        resolve_any(null, stream)?;
        put(device, 0)
    }

    fn cuStreamWaitEvent / cuStreamWaitEvent_ptsz(null; stream: u64, event: u64, flags: u32) {
        const EXTERNAL: u32 = 1;
        let (context, stream) = resolve(null, stream)?;
        if flags & !EXTERNAL != 0 {
            return Err(INVALID_VALUE);
        }
        let event = driver().events.get(event).ok_or(INVALID_HANDLE)?;
        if flags & EXTERNAL != 0 {
            let captured = capture::add_work(&stream, &Work::WaitEvent(event))?;
            return if captured { Ok(()) } else { Err(ILLEGAL_STATE) };
        }
        if capture::wait(&stream, &event)? {
            return Ok(());
        }
        let waits = Waits::StreamForEvent {
            context: context.id,
            stream: stream.id,
            event: event.handle,
        };
        waits.run(|| {
            if let Some(record) = event.record()?
                && !record.is_reached()
            {
                stream.enqueue(&context, vec![Dependency::Record(record)], Work::Empty);
            }
            Ok(())
        })
    }

    fn cuStreamAddCallback / cuStreamAddCallback_ptsz(null;
        stream: u64,
        function: StreamCallback,
        data: *mut c_void,
        flags: u32,
    ) {
        if function.is_none() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (context, found) = resolve(null, stream)?;
        let data = data as usize;
        found.issue(&context, Work::Callback { function, data, stream })
    }

    fn cuStreamGetAttribute / cuStreamGetAttribute_ptsz(null;
        stream: u64,
        attribute: u32,
        value: *mut [u32; 16],
    ) {
        let (_, stream) = resolve_any(null, stream)?;
        let mut words = [0; 16];
        match attribute {
            ACCESS_POLICY_WINDOW | MEM_SYNC_DOMAIN => {}
            // The remote domain follows the default one.
            MEM_SYNC_DOMAIN_MAP => words[0] = 1 << 8,
            SYNCHRONISATION_POLICY => {
                words[0] = stream.synchronisation_policy.load(Ordering::Relaxed);
            }
            PRIORITY => words[0] = stream.priority as u32,
            _ => return Err(INVALID_VALUE),
        }
        put(value, words)
    }

    fn cuStreamSetAttribute / cuStreamSetAttribute_ptsz(null;
        stream: u64,
        attribute: u32,
        value: *const [u32; 16],
    ) {
        let (_, stream) = resolve_any(null, stream)?;
        let words = take(value)?;
        match attribute {
            SYNCHRONISATION_POLICY if (1..=4).contains(&words[0]) => {
                stream.synchronisation_policy.store(words[0], Ordering::Relaxed);
            }
            ACCESS_POLICY_WINDOW | MEM_SYNC_DOMAIN_MAP | MEM_SYNC_DOMAIN => {}
            PRIORITY if words[0] as i32 == stream.priority => {}
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    fn cuStreamCopyAttributes / cuStreamCopyAttributes_ptsz(null; to: u64, from: u64) {
        let (_, from) = resolve_any(null, from)?;
        let (_, to) = resolve_any(null, to)?;
        let policy = from.synchronisation_policy.load(Ordering::Relaxed);
        to.synchronisation_policy.store(policy, Ordering::Relaxed);
        Ok(())
    }
}
