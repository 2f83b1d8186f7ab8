//! Functions whose name or signature is that of libcudart.so.12 alone.

mod device;
mod graph;
mod memory;
