//! BPF programs for the GPU: objects in, verified PTX out.
//!
//! Data flows one way: an ELF file → [`Object`] → [`verify`] → [`translate`] → PTX text. Nothing here
//! runs anything, touches a GPU or knows of kernels and their PTX: that is the injector's.
//!
//! What a caller does:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let object = gpubpf::Object::parse(&std::fs::read("probe.bpf.o")?)?;
//! for program in &object.programs {
//!     let verified = gpubpf::verify(&object, program)?;
//!     let translated = gpubpf::translate(&verified, &gpubpf::TranslateOptions::default());
//!     println!("{}", translated.functions);
//! }
//! # Ok(()) }
//! ```
//!
//! The convention between translated programs and the device runtime around them:
//!
//! - a program is `.func (.reg .b64 %result) NAME (.reg .b64 %context)`; the context is a generic
//!   address, of which it reads the first [`Verified::context_bytes`] bytes at most;
//! - the module defines `.global .align 16 .b8 __cutrace_maps[64 * maps]` before the program's text,
//!   laid out as [`map::descriptor`] says, in the order of [`Object::maps`] (moved up by
//!   [`TranslateOptions::first_map`] where several objects share a module);
//! - the module defines, before the program's text, a `.func (.reg .b64 %result)
//!   __cutrace_helper_N (.reg .b64 %a, .reg .b64 %b, .reg .b64 %c, .reg .b64 %d, .reg .b64 %e)`
//!   for each N of [`Translated::helpers`]; see [`helper`] for what they are passed. Arguments a
//!   helper does not take are 0. Pointers are generic addresses, aligned to 8 bytes.
//!
//! Everything here reads hostile input: no panic, no unbounded memory or recursion.

pub mod btf;
mod check;
mod counters;
mod decode;
mod disassemble;
pub mod format;
pub mod helper;
pub mod instruction;
pub mod map;
mod object;
mod translate;
mod verify;

pub use check::{Accepted, Check, CheckedProgram, RecordType, check};
pub use counters::Counters;
pub use map::{Map, MapKind};
pub use object::{
    Attach, Function, HostProgram, Line, MapError, MapFault, Object, ObjectError, Program,
    Sections, kernel_meant,
};
pub use translate::{
    Budget, Cost, Inline, Sum, TranslateOptions, Translated, helper_name, translate,
};
pub use verify::{
    Output, Reason, Refused, Verified, verify, verify_or_budget, verify_or_budget_within,
    verify_within,
};
