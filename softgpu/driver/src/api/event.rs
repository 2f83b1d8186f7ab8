//! Events.

use std::sync::Arc;

use crate::{
    activity::Waits,
    capture,
    entry::{api, put, stream_api},
    event::{BLOCKING_SYNC, DISABLE_TIMING, Event, EventRecording, INTERPROCESS},
    result::{Answer, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, NOT_READY, NOT_SUPPORTED},
    state::driver,
    stream::{NullStream, resolve},
    thread,
    work::Work,
};

fn find(handle: u64) -> Answer<Arc<Event>> {
    thread::usable()?;
    driver().events.get(handle).ok_or(INVALID_HANDLE)
}

/// Pending recordings and waits keep the event's record; the handle is gone at once.
fn destroy(handle: u64) -> Answer {
    thread::current()?;
    driver()
        .events
        .remove(handle)
        .map(|_| ())
        .ok_or(INVALID_HANDLE)
}

fn record(null: NullStream, event: u64, stream: u64, flags: u32) -> Answer {
    const EXTERNAL: u32 = 1;
    let (context, stream) = resolve(null, stream)?;
    if flags & !EXTERNAL != 0 {
        return Err(INVALID_VALUE);
    }
    let event = driver().events.get(event).ok_or(INVALID_HANDLE)?;
    if event.context != context.handle {
        return Err(INVALID_HANDLE);
    }
    if flags & EXTERNAL != 0 {
        let captured = capture::add_work(&stream, &Work::RecordEvent(event))?;
        return if captured { Ok(()) } else { Err(ILLEGAL_STATE) };
    }
    if capture::record(&stream, &event)? {
        return Ok(());
    }
    capture::check_implicit(&context, &stream)?;
    EventRecording::enqueue(&event, &context, &stream, Vec::new());
    Ok(())
}

fn elapsed(start: u64, end: u64) -> Answer<f32> {
    let (start, end) = (find(start)?, find(end)?);
    start.until(&end)
}

api! {
    fn cuEventCreate(event: *mut u64, flags: u32) {
        if event.is_null() || flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
            return Err(INVALID_VALUE);
        }
        let context = thread::usable()?;
        if flags & INTERPROCESS != 0 {
            return Err(if flags & DISABLE_TIMING == 0 { INVALID_VALUE } else { NOT_SUPPORTED });
        }
        let handle = driver().events.fresh();
        let made = Event::new(handle, context.handle, flags);
        driver().events.insert(handle, Arc::new(made));
        put(event, handle)
    }

    fn cuEventDestroy(event: u64) {
        destroy(event)
    }

    fn cuEventDestroy_v2(event: u64) {
        destroy(event)
    }

    fn cuEventQuery(event: u64) {
        let context = thread::usable()?;
        match find(event)?.record()? {
            Some(record) if !record.is_reached() => Err(NOT_READY),
            _ => context.healthy(),
        }
    }

    fn cuEventSynchronize(event: u64) {
        let context = thread::usable()?;
        let event = find(event)?;
        let owner = driver().contexts.get(event.context);
        let waits = Waits::Event {
            context: owner.as_ref().map_or(context.id, |owner| owner.id),
            event: event.handle,
        };
        waits.run(|| {
            if let Some(record) = event.record()? {
                record.wait();
            }
            if let Some(owner) = owner {
                owner.printed.flush();
            }
            context.healthy()
        })
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64) {
        if milliseconds.is_null() {
            return Err(INVALID_HANDLE);
        }
        put(milliseconds, elapsed(start, end)?)
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: u64, end: u64) {
        if milliseconds.is_null() {
            return Err(INVALID_HANDLE);
        }
        put(milliseconds, elapsed(start, end)?)
    }
}

stream_api! {
    fn cuEventRecord / cuEventRecord_ptsz(null; event: u64, stream: u64) {
        record(null, event, stream, 0)
    }

    fn cuEventRecordWithFlags / cuEventRecordWithFlags_ptsz(null; event: u64, stream: u64, flags: u32) {
        record(null, event, stream, flags)
    }
}
