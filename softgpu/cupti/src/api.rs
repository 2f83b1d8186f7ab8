//! The C entry points, with the names and arguments of cupti_activity.h and cupti_callbacks.h.
#![allow(non_snake_case)]

use crate::{
    buffers::{self, Complete, Request},
    callbacks,
    choice::{self, CONCURRENT_KERNEL, KERNEL, MEMCPY, MEMSET, OVERHEAD, SYNCHRONIZATION},
    record::{self, ActivityRecord},
    source::{self, Activity},
    subscriber::{self, Callback},
};
use std::{
    ffi::{CStr, c_char, c_void},
    sync::atomic::{AtomicU32, Ordering},
};

const SUCCESS: u32 = 0;
const INVALID_PARAMETER: u32 = 1;
const INVALID_OPERATION: u32 = 7;
const MAX_LIMIT_REACHED: u32 = 12;
const NOT_INITIALIZED: u32 = 15;
const INVALID_KIND: u32 = 21;
const MULTIPLE_SUBSCRIBERS: u32 = 39;

/// CUPTI 13.0.
const VERSION: u32 = 130_000;

extern "C" fn happened(activity: *const Activity) {
    // SAFETY: softgpu passes a whole one.
    let activity = unsafe { &*activity };
    let record = match activity.kind {
        source::CALL if choice::wants_calls() => {
            // SAFETY: softgpu's names are C strings that last.
            let number = callbacks::number(unsafe { CStr::from_ptr(activity.name) });
            (choice::wants_call(number)).then(|| ActivityRecord::of_call(activity, number))
        }
        source::KERNEL => [CONCURRENT_KERNEL, KERNEL]
            .into_iter()
            .find(|kind| choice::wants_kind(*kind))
            .map(|kind| ActivityRecord::of_work(activity, kind)),
        source::COPY if choice::wants_kind(MEMCPY) => {
            Some(ActivityRecord::of_work(activity, MEMCPY))
        }
        source::FILL if choice::wants_kind(MEMSET) => {
            Some(ActivityRecord::of_work(activity, MEMSET))
        }
        source::WAIT if choice::wants_kind(SYNCHRONIZATION) => {
            Some(ActivityRecord::of_wait(activity))
        }
        _ => None,
    };
    if let Some(Some(record)) = record {
        buffers::add(record.bytes());
    }
}

/// Listens as long as anything is wanted.
fn choose(chosen: bool) -> u32 {
    if !chosen {
        return INVALID_KIND;
    }
    let listener: Option<source::Listener> = choice::wants_anything().then_some(happened);
    if source::listen(listener) {
        SUCCESS
    } else {
        NOT_INITIALIZED
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> u32 {
    if version.is_null() {
        return INVALID_PARAMETER;
    }
    unsafe { version.write(VERSION) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetTimestamp(timestamp: *mut u64) -> u32 {
    if timestamp.is_null() {
        return INVALID_PARAMETER;
    }
    unsafe { timestamp.write(now()) };
    SUCCESS
}

/// CUPTI's clock.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<Request>,
    complete: Option<Complete>,
) -> u32 {
    let (Some(request), Some(complete)) = (request, complete) else {
        return INVALID_PARAMETER;
    };
    buffers::register(request, complete);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    choose(choice::set_kind(kind, true))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    choose(choice::set_kind(kind, false))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableDriverApi(number: u32, enable: u8) -> u32 {
    choose(choice::set_function(number, enable != 0))
}

/// There are no records of runtime calls here: the driver's stand for them.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableRuntimeApi(_number: u32, _enable: u8) -> u32 {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushAll(_flag: u32) -> u32 {
    let start = now();
    buffers::flush();
    if choice::wants_kind(OVERHEAD)
        && let Some(record) = ActivityRecord::of_flush(start, now())
    {
        buffers::add(record.bytes());
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushPeriod(milliseconds: u32) -> u32 {
    buffers::set_period(milliseconds);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    place: *mut *mut u8,
) -> u32 {
    if buffer.is_null() || place.is_null() {
        return INVALID_PARAMETER;
    }
    unsafe {
        let last = *place;
        let next = if last.is_null() {
            buffer
        } else {
            match record::size(last.cast::<u32>().read_unaligned()) {
                Some(size) => last.add(size),
                None => return INVALID_KIND,
            }
        };
        if next as usize >= buffer as usize + valid {
            return MAX_LIMIT_REACHED;
        }
        *place = next;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: *mut c_void,
    _stream: u32,
    dropped: *mut usize,
) -> u32 {
    if dropped.is_null() {
        return INVALID_PARAMETER;
    }
    unsafe { dropped.write(buffers::take_dropped()) };
    SUCCESS
}

/// CUPTI_ACTIVITY_THREAD_ID_TYPE: softgpu's threads are the system's either way.
static THREAD_ID_TYPE: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn cuptiSetThreadIdType(kind: u32) -> u32 {
    THREAD_ID_TYPE.store(kind, Ordering::Relaxed);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetThreadIdType(kind: *mut u32) -> u32 {
    if kind.is_null() {
        return INVALID_PARAMETER;
    }
    unsafe { kind.write(THREAD_ID_TYPE.load(Ordering::Relaxed)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetCallbackName(
    domain: u32,
    number: u32,
    name: *mut *const c_char,
) -> u32 {
    let known = (domain == callbacks::DRIVER)
        .then(|| callbacks::name(number))
        .flatten();
    match known {
        Some(known) if !name.is_null() => {
            unsafe { name.write(known) };
            SUCCESS
        }
        _ => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe(
    subscriber: *mut usize,
    callback: Option<Callback>,
    data: *mut c_void,
) -> u32 {
    if subscriber.is_null() {
        return INVALID_PARAMETER;
    }
    if !subscriber::set(callback, data) {
        return MULTIPLE_SUBSCRIBERS;
    }
    unsafe { subscriber.write(subscriber::HANDLE) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiUnsubscribe(_subscriber: usize) -> u32 {
    subscriber::clear();
    SUCCESS
}

/// Only new nodes of graphs can be subscribed to.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableCallback(
    enable: u32,
    subscriber: usize,
    domain: u32,
    number: u32,
) -> u32 {
    if subscriber != subscriber::HANDLE || !subscriber::enable(enable != 0, domain, number) {
        return INVALID_PARAMETER;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetGraphNodeId(node: u64, id: *mut u64) -> u32 {
    match source::node_id(node) {
        Some(found) if !id.is_null() => {
            unsafe { id.write(found) };
            SUCCESS
        }
        _ => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiFinalize() -> u32 {
    subscriber::clear();
    if !source::listen(None) {
        return INVALID_OPERATION;
    }
    SUCCESS
}
