//! User objects, and the references graphs hold to them.

use std::ffi::c_void;

use crate::{
    abi::HostFn,
    entry::{api, put},
    graph,
    result::INVALID_VALUE,
    user_object::{UserObject, by_handle},
};

/// Graphs take over one of the caller's references instead of a new one.
const MOVE: u32 = 1;

api! {
    fn cuUserObjectCreate(
        object: *mut u64,
        data: *mut c_void,
        destroy: HostFn,
        count: u32,
        flags: u32,
    ) {
        const NO_DESTRUCTOR_SYNC: u32 = 1;
        if object.is_null() || destroy.is_none() || count == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(INVALID_VALUE);
        }
        put(object, UserObject::create(data as usize, destroy, count))
    }

    fn cuUserObjectRetain(object: u64, count: u32) {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        by_handle(object)?.retain(count)
    }

    fn cuUserObjectRelease(object: u64, count: u32) {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        by_handle(object)?.release(object, count)
    }

    fn cuGraphRetainUserObject(graph: u64, object: u64, count: u32, flags: u32) {
        let graph = graph::by_handle(graph)?;
        let found = by_handle(object)?;
        if count == 0 || flags & !MOVE != 0 {
            return Err(INVALID_VALUE);
        }
        graph.keep(object, found.kept()?, count);
        if flags & MOVE != 0 {
            found.release(object, count)?;
        }
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: u64, object: u64, count: u32) {
        if count == 0 {
            return Err(INVALID_VALUE);
        }
        graph::by_handle(graph)?.give_up(object, count)
    }
}
