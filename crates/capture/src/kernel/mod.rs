//! What this machine's kernel has that can be hooked: functions, tracepoints, their arguments.
//!
//! Reading only, from /proc/kallsyms, tracefs and BTF. Nothing here attaches anything; as much of it
//! as the kernel lets this user see works without root.

mod btf;
mod lore;
mod names;
mod resolve;
mod symbols;
mod tracefs;

pub use btf::{Btf, Function as BtfFunction};
pub use lore::{SILENT, lore, lore_of_group, silence};
pub use names::{base_name, is_variant};
pub use resolve::{Missing, Resolved, resolve};
pub use symbols::{Function, Functions};
pub use tracefs::{Field, Tracefs, Tracepoint};
