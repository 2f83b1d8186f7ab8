//! The C entry points, one subject a file. Names and arguments are those of cuda.h.

#![allow(non_snake_case)]

mod capture;
mod context;
mod copy;
mod device;
mod error;
mod event;
mod function;
mod graph;
mod graph_exec;
mod graph_memory_node;
mod graph_node;
mod graph_node_params;
mod host_memory;
mod init;
mod launch;
mod library;
mod link;
mod managed;
mod memory;
mod memory_operation;
mod memset;
mod module;
mod occupancy;
mod old_launch;
mod peer;
mod pointer;
mod pool;
mod primary;
mod proc_address;
mod profiler;
mod stream;
mod user_object;
mod virtual_memory;
