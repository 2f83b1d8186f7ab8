//! cuLink: several PTX texts into one image.

use std::{
    ffi::{CStr, c_char, c_void},
    sync::{Arc, PoisonError},
};

use super::module::read_file;
use crate::{
    engine,
    entry::{api, put, put_optional, take_text},
    image::{self, JitLog, LoadError, Texts},
    module::Linker,
    result::{Answer, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU},
    state::driver,
    thread,
};

// CUjitInputType.
const CUBIN: u32 = 0;
const PTX: u32 = 1;
const LAST: u32 = 5;

fn find(handle: u64) -> Answer<Arc<Linker>> {
    driver().linkers.get(handle).ok_or(INVALID_HANDLE)
}

unsafe fn create(
    count: u32,
    options: *const u32,
    values: *mut *mut c_void,
    place: *mut u64,
) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    thread::usable()?;
    let linker = Linker::default();
    let log = unsafe { JitLog::from_options(count, options, values)? };
    *linker.log.lock().unwrap_or_else(PoisonError::into_inner) = log;
    let handle = driver().linkers.fresh();
    driver().linkers.insert(handle, Arc::new(linker));
    unsafe { put(place, handle) }
}

/// Adds an input: its PTX is checked when the link is completed.
fn add(linker: &Linker, kind: u32, texts: Result<Texts, LoadError>) -> Answer {
    if kind > LAST {
        return Err(INVALID_VALUE);
    }
    if kind == CUBIN {
        return Err(NO_BINARY_FOR_GPU);
    }
    let texts = texts.map_err(|error| error.code)?;
    let mut inputs = linker.inputs.lock().unwrap_or_else(PoisonError::into_inner);
    inputs.extend(texts.0);
    Ok(())
}

unsafe fn add_data(state: u64, kind: u32, data: *const c_void, size: usize) -> Answer {
    let linker = find(state)?;
    if data.is_null() || size == 0 {
        return Err(INVALID_VALUE);
    }
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    let texts = match kind {
        PTX => image::from_bytes(text),
        _ => image::from_bytes(bytes),
    };
    add(&linker, kind, texts.map_err(LoadError::from))
}

unsafe fn add_file(state: u64, kind: u32, path: *const c_char) -> Answer {
    let linker = find(state)?;
    add(&linker, kind, read_file(unsafe { take_text(path)? }))
}

api! {
    fn cuLinkCreate(
        count: u32,
        options: *const u32,
        values: *mut *mut c_void,
        state: *mut u64,
    ) {
        create(count, options, values, state)
    }

    fn cuLinkCreate_v2(
        count: u32,
        options: *const u32,
        values: *mut *mut c_void,
        state: *mut u64,
    ) {
        create(count, options, values, state)
    }

    fn cuLinkAddData(
        state: u64,
        kind: u32,
        data: *const c_void,
        size: usize,
        _name: *const c_char,
        _count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
    ) {
        add_data(state, kind, data, size)
    }

    fn cuLinkAddData_v2(
        state: u64,
        kind: u32,
        data: *const c_void,
        size: usize,
        _name: *const c_char,
        _count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
    ) {
        add_data(state, kind, data, size)
    }

    fn cuLinkAddFile(
        state: u64,
        kind: u32,
        path: *const c_char,
        _count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
    ) {
        add_file(state, kind, path)
    }

    fn cuLinkAddFile_v2(
        state: u64,
        kind: u32,
        path: *const c_char,
        _count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
    ) {
        add_file(state, kind, path)
    }

    fn cuLinkComplete(state: u64, image: *mut *mut c_void, size: *mut usize) {
        let linker = find(state)?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        let inputs = linker.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if inputs.is_empty() {
            return Err(INVALID_IMAGE);
        }
        let log = linker.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = engine::build(&Texts(inputs.clone())) {
            log.finish(&error.log, 0.0);
            return Err(error.code);
        }
        log.finish("", 0.0);
        let mut output = linker.output.lock().unwrap_or_else(PoisonError::into_inner);
        let linked = output.insert(image::linked(&inputs));
        put(image, linked.as_mut_ptr().cast())?;
        put_optional(size, linked.len());
        Ok(())
    }

    fn cuLinkDestroy(state: u64) {
        driver().linkers.remove(state).map(|_| ()).ok_or(INVALID_HANDLE)
    }
}
