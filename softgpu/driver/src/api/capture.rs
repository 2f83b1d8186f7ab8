//! Stream capture.

use std::cell::RefCell;

use crate::{
    abi::EdgeData,
    capture::{self, Capturing, GLOBAL},
    entry::{api, put, put_optional, stream_api, take, take_array},
    graph,
    result::{Answer, INVALID_VALUE},
    stream::{NullStream, resolve},
    thread,
};

// CUstreamCaptureStatus.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn status(part: Option<&Capturing>) -> u32 {
    match part {
        None => NONE,
        Some(part) if part.capture.is_invalid() => INVALIDATED,
        Some(_) => ACTIVE,
    }
}

thread_local! {
    /// Arrays given out by cuStreamGetCaptureInfo: valid until the thread's next call, which is
    /// more than the documentation promises.
    static GIVEN: RefCell<(Vec<u64>, Vec<EdgeData>)> = RefCell::default();
}

/// Where cuStreamGetCaptureInfo puts its answers.
struct Places {
    status: *mut u32,
    id: *mut u64,
    graph: *mut u64,
    nodes: *mut *const u64,
    edges: *mut *const EdgeData,
    count: *mut usize,
}

unsafe fn info(null: NullStream, stream: u64, places: Places) -> Answer {
    let (context, found) = resolve(null, stream)?;
    capture::ask_implicit(&context, &found)?;
    let part = capture::of(&found);
    let now = status(part.as_ref());
    unsafe {
        put(places.status, now)?;
        let Some(part) = part.filter(|_| now == ACTIVE) else {
            return Ok(());
        };
        put_optional(places.id, part.capture.id);
        put_optional(places.graph, part.capture.graph.handle);
        GIVEN.with_borrow_mut(|(nodes, edges)| {
            *nodes = part.frontier;
            *edges = vec![EdgeData::default(); nodes.len()];
            put_optional(places.nodes, nodes.as_ptr());
            put_optional(places.edges, edges.as_ptr());
            put_optional(places.count, nodes.len());
        });
    }
    Ok(())
}

fn begin(null: NullStream, stream: u64, mode: u32) -> Answer {
    let (_, stream) = resolve(null, stream)?;
    capture::begin(&stream, mode, None)
}

unsafe fn update(
    null: NullStream,
    stream: u64,
    nodes: *const u64,
    count: usize,
    flags: u32,
) -> Answer {
    const SET: u32 = 1;
    if flags > SET {
        return Err(INVALID_VALUE);
    }
    let nodes = unsafe { take_array(nodes, count)? };
    let (_, stream) = resolve(null, stream)?;
    capture::update_frontier(&stream, nodes, flags == SET)
}

api! {
    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        let wanted = take(mode)?;
        put(mode, thread::exchange_capture_mode(wanted))
    }
}

stream_api! {
    fn cuStreamBeginCapture / cuStreamBeginCapture_ptsz(null; stream: u64) {
        begin(null, stream, GLOBAL)
    }

    fn cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz(null; stream: u64, mode: u32) {
        begin(null, stream, mode)
    }

    fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz(null;
        stream: u64,
        graph: u64,
        dependencies: *const u64,
        _data: *const EdgeData,
        count: usize,
        mode: u32,
    ) {
        let (_, stream) = resolve(null, stream)?;
        let graph = graph::by_handle(graph)?;
        let after = take_array(dependencies, count)?;
        if !after.iter().all(|node| graph.nodes().by_handle.contains_key(node)) {
            return Err(INVALID_VALUE);
        }
        capture::begin(&stream, mode, Some((graph, after)))
    }

    fn cuStreamEndCapture / cuStreamEndCapture_ptsz(null; stream: u64, graph: *mut u64) {
        let (_, stream) = resolve(null, stream)?;
        if graph.is_null() {
            return Err(INVALID_VALUE);
        }
        put(graph, 0)?;
        put(graph, capture::end(&stream)?.handle)
    }

    fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz(null; stream: u64, place: *mut u32) {
        let (context, stream) = resolve(null, stream)?;
        capture::ask_implicit(&context, &stream)?;
        put(place, status(capture::of(&stream).as_ref()))
    }

    fn cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz(null;
        stream: u64,
        status: *mut u32,
        id: *mut u64,
    ) {
        let (graph, nodes) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (edges, count) = (std::ptr::null_mut(), std::ptr::null_mut());
        let places = Places { status, id, graph, nodes, edges, count };
        info(null, stream, places)
    }

    fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz(null;
        stream: u64,
        status: *mut u32,
        id: *mut u64,
        graph: *mut u64,
        nodes: *mut *const u64,
        count: *mut usize,
    ) {
        let edges = std::ptr::null_mut();
        info(null, stream, Places { status, id, graph, nodes, edges, count })
    }

    fn cuStreamGetCaptureInfo_v3 / cuStreamGetCaptureInfo_v3_ptsz(null;
        stream: u64,
        status: *mut u32,
        id: *mut u64,
        graph: *mut u64,
        nodes: *mut *const u64,
        edges: *mut *const EdgeData,
        count: *mut usize,
    ) {
        info(null, stream, Places { status, id, graph, nodes, edges, count })
    }

    fn cuStreamUpdateCaptureDependencies / cuStreamUpdateCaptureDependencies_ptsz(null;
        stream: u64,
        nodes: *const u64,
        count: usize,
        flags: u32,
    ) {
        update(null, stream, nodes, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2 / cuStreamUpdateCaptureDependencies_v2_ptsz(null;
        stream: u64,
        nodes: *const u64,
        _data: *const EdgeData,
        count: usize,
        flags: u32,
    ) {
        update(null, stream, nodes, count, flags)
    }
}
