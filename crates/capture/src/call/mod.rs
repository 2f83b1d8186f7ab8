//! Calls of functions, however they were seen: raw steps of threads become events with names,
//! arguments, outputs and meanings. Back ends that watch calls feed the same [`Assembler`] and tell
//! it of their processes through [`Origin`].

mod assemble;
mod demangle;
mod driver_names;
mod filter;
mod for_cupti;
pub mod item;
pub mod loaded;
pub mod meaning;
pub(crate) mod order;
mod origin;
pub mod packed;
mod parameter;
mod remote;
mod role;
mod signature;
mod stacks;
mod state;
mod stubs;
pub mod symbols;
pub mod value;

pub use assemble::{Assembler, Limits, Totals};
pub use demangle::demangled;
pub use filter::Filter;
pub use origin::{Named, Origin};
#[cfg(test)]
pub use signature::Signature;
