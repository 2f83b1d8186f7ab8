//! softgpu's libcuda.so.1: the driver API over the software device of `softgpu_machine`.
//!
//! [`api`] holds the C entry points, one subject a file; they check their arguments and call the
//! objects beside it: [`device`], [`context`], [`stream`], [`event`], [`allocation`], [`module`],
//! [`graph`]. Work flows one way: an entry point makes a [`work::Work`], a stream (or a capture)
//! takes it, a thread of [`pool`] runs it, [`engine`] runs kernels.

mod abi;
pub mod activity;
mod allocation;
mod api;
mod arena;
mod capture;
mod context;
mod copy;
mod device;
mod engine;
mod entry;
mod event;
mod exports;
mod foreign_runtime;
mod graph;
mod graph_memory;
mod handle;
mod image;
mod injection;
mod launch;
mod library;
mod module;
mod notice;
mod occupancy;
mod plan;
mod pool;
mod primary;
mod printf;
pub mod resman;
mod resource;
mod result;
mod state;
mod stream;
mod thread;
mod user_object;
mod virtual_memory;
mod work;

pub use exports::version_script;
