//! The one subscriber, and its callbacks about nodes of graphs.
//!
//! As NVIDIA's: a node is created and, if it is a copy, cloned then; both inside the call that makes it.

use crate::source::{self, GraphNode};
use std::{
    ffi::c_void,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// What a subscriber gets for a name.
pub const HANDLE: usize = 1;

/// CUPTI_CB_DOMAIN_RESOURCE, and what of it is known here.
const RESOURCE: u32 = 3;
const NODE_CREATED: u32 = 13;
const NODE_CLONED: u32 = 20;

#[derive(Clone, Copy)]
struct Subscriber {
    callback: Option<Callback>,
    data: usize,
    created: bool,
    cloned: bool,
}

static SUBSCRIBER: Mutex<Option<Subscriber>> = Mutex::new(None);

/// CUpti_ResourceData.
#[repr(C)]
struct ResourceData {
    context: u64,
    stream: u64,
    descriptor: *const GraphData,
}

/// CUpti_GraphData.
#[repr(C)]
struct GraphData {
    graph: u64,
    original_graph: u64,
    node: u64,
    original_node: u64,
    node_type: u32,
    dependency: u64,
    executable: u64,
}

fn subscriber() -> MutexGuard<'static, Option<Subscriber>> {
    SUBSCRIBER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// False: there is one.
pub fn set(callback: Option<Callback>, data: *mut c_void) -> bool {
    let mut subscriber = subscriber();
    let is_free = subscriber.is_none();
    subscriber.get_or_insert(Subscriber {
        callback,
        data: data as usize,
        created: false,
        cloned: false,
    });
    is_free
}

pub fn clear() {
    source::listen_to_nodes(None);
    *subscriber() = None;
}

/// False: there is no such callback, or nobody for it.
pub fn enable(enable: bool, domain: u32, number: u32) -> bool {
    let wanted = match subscriber().as_mut() {
        Some(subscriber) if domain == RESOURCE => {
            match number {
                NODE_CREATED => subscriber.created = enable,
                NODE_CLONED => subscriber.cloned = enable,
                _ => return false,
            }
            subscriber.created || subscriber.cloned
        }
        _ => return false,
    };
    source::listen_to_nodes(wanted.then_some(happened as source::NodeListener))
}

extern "C" fn happened(node: *const GraphNode) {
    // SAFETY: softgpu passes a whole one.
    let node = unsafe { &*node };
    let number = match node.original {
        0 => NODE_CREATED,
        _ => NODE_CLONED,
    };
    let Some(subscriber) = *subscriber() else {
        return;
    };
    let is_wanted = match number {
        NODE_CREATED => subscriber.created,
        _ => subscriber.cloned,
    };
    let Some(callback) = subscriber.callback.filter(|_| is_wanted) else {
        return;
    };
    let graph = GraphData {
        graph: node.graph,
        original_graph: 0,
        node: node.node,
        original_node: node.original,
        node_type: node.kind,
        dependency: 0,
        executable: 0,
    };
    let resource = ResourceData {
        context: 0,
        stream: 0,
        descriptor: &graph,
    };
    // SAFETY: the subscriber's function, with what CUPTI gives it.
    unsafe {
        callback(
            subscriber.data as *mut c_void,
            RESOURCE,
            number,
            (&raw const resource).cast(),
        );
    }
}
