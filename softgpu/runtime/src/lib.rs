//! The CUDA runtime library (libcudart.so.12, .13) over a driver library found at run time.
//!
//! Every exported function is defined in `api` (both versions), `v12` or `v13` with the `cuda!`
//! macro of `call`; `build.rs` reads those names and makes stubs for the rest of NVIDIA's export
//! list. Handles of the driver (streams, events, graphs, pools, arrays) are handed through as
//! they are, so runtime and driver calls mix freely.
#![allow(non_snake_case)]

#[macro_use]
mod call;

mod api;
mod context;
mod driver;
mod error;
mod error_table;
mod registry;
mod types;

#[cfg(feature = "cuda12")]
mod v12;
#[cfg(not(feature = "cuda12"))]
mod v13;

mod stubs {
    //! Exports of NVIDIA's library that are not implemented: they answer cudaErrorNotSupported.
    include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
}

/// What `cudaRuntimeGetVersion` answers.
pub const RUNTIME_VERSION: i32 = if cfg!(feature = "cuda12") {
    12090
} else {
    13000
};

/// The functions of NVIDIA's library that this one implements.
pub use stubs::IMPLEMENTED;
/// The functions of NVIDIA's library that this one has as stubs only.
pub use stubs::STUBS;
