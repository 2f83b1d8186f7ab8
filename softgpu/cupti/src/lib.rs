//! CUPTI's activity interface over softgpu: libcupti.so.13 for a machine without a GPU.
//!
//! Records have the layout of CUPTI 13.0. What happens on the device comes from softgpu's
//! libcuda.so.1 through a table of its own ([`source`]); with any other libcuda every function
//! answers CUPTI_ERROR_NOT_INITIALIZED. Callbacks, events, metrics and profiling are not here.

mod api;
mod buffers;
mod callbacks;
mod choice;
mod record;
mod source;
mod subscriber;
