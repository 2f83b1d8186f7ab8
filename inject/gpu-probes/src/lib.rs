//! The library that puts probes into the kernels of a traced program.
//!
//! Loaded beside the injected library, which calls the functions here in place of the driver's own
//! where a program loads device code, launches kernels or gives up a context (`instead`). What is
//! loaded gets its probes (`load`), their maps get memory in each context (`context`), and when a
//! context ends its maps are left in the session's folder for the tracer (`dump`), and also while it
//! lives, at intervals and before a signal ends the program (`reading`). Rings and host maps are files
//! that the tracer maps too, so they outlive the program.
//!
//! Inert without the session's orders. Whatever fails here, the program gets what it would have had.

mod clock;
mod compare;
mod context;
mod driver;
mod dump;
mod error;
mod host_maps;
mod image;
mod instead;
mod interrupt;
mod load;
mod notes;
mod reading;
mod rewritten;
mod shared;
mod state;
mod triton;

/// How the injected library knows this one.
#[unsafe(no_mangle)]
pub static cutrace_stand_ins: u32 = 1;
