//! The exported functions that libcudart.so.12 and .13 have in common, a file a subject.

pub(crate) mod array;
mod array_run;
mod capture;
pub(crate) mod copy;
pub(crate) mod copy3d;
mod device;
mod errors;
mod event;
mod external;
pub(crate) mod function;
mod graph;
mod graph_copy;
mod graph_exec;
mod graph_nodes;
pub(crate) mod graph_params;
mod ipc;
mod launch;
mod library;
mod memory;
mod peer;
mod pool;
pub(crate) mod properties;
mod registration;
mod set;
mod stream;
mod symbol;
mod texture;
