//! Where activity comes from: softgpu's libcuda. The layouts are `softgpu_driver::activity`'s; a
//! test compares them (the crate itself must not be linked in, it is another library).

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

pub const TABLE_ID: [u8; 16] = *b"softgpu-activity";

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Activity {
    pub kind: u32,
    pub correlation: u32,
    pub start: u64,
    pub end: u64,
    pub name: *const c_char,
    pub result: u32,
    pub thread: u32,
    pub context: u32,
    pub stream: u32,
    pub graph: u32,
    pub registers: u32,
    pub node: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub static_shared: u32,
    pub dynamic_shared: u32,
    pub local: u32,
    pub value: u32,
    pub bytes: u64,
    pub from_device: bool,
    pub to_device: bool,
    pub pageable: bool,
    pub blocking: bool,
}

pub const CALL: u32 = 1;
pub const KERNEL: u32 = 2;
pub const COPY: u32 = 3;
pub const FILL: u32 = 4;
pub const WAIT: u32 = 5;

pub type Listener = extern "C" fn(*const Activity);

/// A graph has a new node.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GraphNode {
    pub graph: u64,
    pub node: u64,
    /// 0: the node was created; otherwise it turned out to be a copy of this one.
    pub original: u64,
    /// CUgraphNodeType.
    pub kind: u32,
}

pub type NodeListener = extern "C" fn(*const GraphNode);

#[repr(C)]
struct Table {
    bytes: usize,
    listen: extern "C" fn(Option<Listener>),
    listen_to_nodes: extern "C" fn(Option<NodeListener>),
    node_id: extern "C" fn(u64) -> u64,
}

/// Who is notified from now on. False: the driver is not softgpu.
pub fn listen(listener: Option<Listener>) -> bool {
    table().map(|table| (table.listen)(listener)).is_some()
}

/// The same for nodes of graphs.
pub fn listen_to_nodes(listener: Option<NodeListener>) -> bool {
    table()
        .map(|table| (table.listen_to_nodes)(listener))
        .is_some()
}

/// The number of a node, as work has it.
pub fn node_id(node: u64) -> Option<u64> {
    let id = (table()?.node_id)(node);
    (id != 0).then_some(id)
}

fn table() -> Option<&'static Table> {
    static TABLE: OnceLock<Option<usize>> = OnceLock::new();
    // SAFETY: softgpu's table lives as long as the process.
    (*TABLE.get_or_init(find)).map(|table| unsafe { &*(table as *const Table) })
}

fn find() -> Option<usize> {
    type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> u32;
    // SAFETY: the functions have these types in every libcuda.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return None;
        }
        let function = libc::dlsym(library, c"cuGetExportTable".as_ptr());
        if function.is_null() {
            return None;
        }
        let function = std::mem::transmute::<*mut c_void, GetExportTable>(function);
        let mut table = std::ptr::null();
        let found = function(&mut table, &TABLE_ID) == 0 && !table.is_null();
        (found && (*table.cast::<Table>()).bytes == size_of::<Table>()).then_some(table as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, GraphNode};
    use softgpu_driver::activity as theirs;
    use std::mem::{offset_of, size_of};

    #[test]
    fn both_sides_mean_the_same() {
        assert_eq!(super::TABLE_ID, theirs::TABLE_ID);
        assert_eq!(size_of::<super::Table>(), size_of::<theirs::Table>());
        assert_eq!(size_of::<Activity>(), size_of::<theirs::Activity>());
        assert_eq!(size_of::<GraphNode>(), size_of::<theirs::GraphNode>());
        assert_eq!(
            offset_of!(GraphNode, kind),
            offset_of!(theirs::GraphNode, kind)
        );
        macro_rules! same {
            ($($field:ident)*) => {$(
                assert_eq!(
                    offset_of!(Activity, $field),
                    offset_of!(theirs::Activity, $field),
                    stringify!($field)
                );
            )*};
        }
        same!(kind correlation start end name result thread context stream graph registers node);
        same!(grid block static_shared dynamic_shared local value bytes);
        same!(from_device to_device pageable blocking);
        assert_eq!(
            [
                super::CALL,
                super::KERNEL,
                super::COPY,
                super::FILL,
                super::WAIT
            ],
            [
                theirs::CALL,
                theirs::KERNEL,
                theirs::COPY,
                theirs::FILL,
                theirs::WAIT
            ]
        );
    }
}
