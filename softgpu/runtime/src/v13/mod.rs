//! Functions whose name or signature is that of libcudart.so.13 alone.

mod device;
mod graph;
mod memory;
