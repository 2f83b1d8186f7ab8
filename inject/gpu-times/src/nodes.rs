//! Nodes of CUDA graphs: which thread made one and when, and of which node it is a copy. The tracer finds the call by that.
//!
//! CUPTI calls back on the program's thread, inside the call that makes the node, perhaps with locks of its own held:
//! here is only taken down what it says.

use crate::{
    clock::monotonic,
    functions::{Functions, Refused},
};
use event::gpu_times::GraphNode;
use std::{
    ffi::c_void,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// CUPTI_CB_DOMAIN_RESOURCE, and two of its callbacks.
const RESOURCE: u32 = 3;
const CREATED: u32 = 13;
const CLONED: u32 = 20;

/// More between two looks are left out.
const MOST: usize = 1 << 20;

/// CUpti_ResourceData.
#[repr(C)]
struct ResourceData {
    context: *mut c_void,
    stream: *mut c_void,
    descriptor: *const GraphData,
}

/// The beginning of CUpti_GraphData.
#[repr(C)]
struct GraphData {
    graph: *mut c_void,
    original_graph: *mut c_void,
    node: *mut c_void,
    original_node: *mut c_void,
}

/// Who follows nodes, and what was seen since the last look.
struct Following {
    functions: &'static Functions,
    subscriber: usize,
    seen: Vec<GraphNode>,
}

static FOLLOWING: Mutex<Option<Following>> = Mutex::new(None);

fn following() -> MutexGuard<'static, Option<Following>> {
    FOLLOWING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on. Refused where CUPTI does not say of which node another is a copy.
pub fn follow(functions: &'static Functions) -> Result<(), Refused> {
    let subscriber = functions.subscribe(happened, RESOURCE, &[CREATED, CLONED])?;
    *following() = Some(Following {
        functions,
        subscriber,
        seen: Vec::new(),
    });
    Ok(())
}

/// No more; returns what was seen last.
pub fn stop() -> Vec<GraphNode> {
    let Some(last) = following().take() else {
        return Vec::new();
    };
    last.functions.unsubscribe(last.subscriber);
    last.seen
}

/// What was seen since this was asked last.
pub fn seen() -> Vec<GraphNode> {
    let mut following = following();
    let seen = following.as_mut().map(|it| &mut it.seen);
    seen.map(std::mem::take).unwrap_or_default()
}

extern "C" fn happened(_: *mut c_void, domain: u32, number: u32, data: *const c_void) {
    if domain != RESOURCE || !matches!(number, CREATED | CLONED) || data.is_null() {
        return;
    }
    // SAFETY: CUPTI gives these callbacks such data.
    let descriptor = unsafe { (*data.cast::<ResourceData>()).descriptor };
    if descriptor.is_null() {
        return;
    }
    let (node, original) = unsafe { ((*descriptor).node, (*descriptor).original_node) };
    let Some(functions) = following().as_ref().map(|it| it.functions) else {
        return;
    };
    // SAFETY: CUPTI gives nodes that live.
    let id = |node| unsafe { functions.node_id(node) };
    let Some(node) = id(node) else {
        return;
    };
    let original = match number {
        CLONED => id(original).unwrap_or(0),
        _ => 0,
    };
    let seen = GraphNode {
        at: monotonic(),
        // SAFETY: a question without side effects.
        thread: unsafe { libc::syscall(libc::SYS_gettid) } as u64,
        node,
        original,
    };
    if let Some(following) = following().as_mut().filter(|it| it.seen.len() < MOST) {
        following.seen.push(seen);
    }
}
