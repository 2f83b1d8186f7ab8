//! Pure functions over events: nothing here reads, writes or prints.
//!
//! [`Analysis`] sweeps once over a trace's records, in time order, and gives a [`Report`]. What
//! it keeps is bounded by open spans, threads, streams and distinct names, never by the length
//! of the trace.
#![forbid(unsafe_code)]

mod analysis;
pub mod bins;
pub mod blocks;
mod brief;
mod brief_sweep;
mod call_tree;
mod captures;
pub mod categories;
pub mod contexts;
pub mod correlation;
pub mod diff;
pub mod driver_objects;
pub mod findings;
pub mod frees;
pub mod functions;
mod gauge;
pub mod gpu;
mod host;
pub mod idle;
mod intervals;
pub mod ioctls;
pub mod leaks;
pub mod live;
mod loops;
pub mod managed;
pub mod memory;
mod nesting;
pub mod operators;
pub mod outside;
mod overview;
pub mod pace;
mod passed;
mod pending;
pub mod phases;
mod pinned;
mod quantiles;
pub mod ranges;
mod rate;
mod roles;
pub mod samples;
mod sites;
mod stored;
mod symbols;
mod top;
pub mod transfers;
mod union_by_end;
pub mod waits;
pub mod working;

pub use analysis::{Analysis, CALL_SOURCES, REQUEST_SOURCES, Report, Wall};
pub use bins::Bins;
pub use brief::Brief;
pub use brief_sweep::TopSweep;
pub use categories::Categories;
pub use correlation::Correlation;
pub use cuda::public_name;
pub use driver_objects::DriverObjects;
pub use functions::Functions;
pub use gauge::Curve;
pub use gpu::Gpu;
pub use host::HostTime;
pub use idle::Idle;
pub use intervals::Union;
pub use ioctls::Ioctls;
pub use managed::Managed;
pub use names::{base_name, demangled, distinct, short_name};
pub use nesting::{Began, Below, Ended, Nesting, Open, SpanHistory, Thread, ThreadId, Threads};
pub use operators::Operators;
pub use overview::{Counts, LayerCount, Overview, counts};
pub use phases::Phases;
pub use pinned::HostKind;
pub use quantiles::Quantiles;
pub use ranges::Ranges;
pub use rate::Rate;
pub use roles::Role;
pub use sites::CallSite;
pub use symbols::{Symbol, SymbolId, Symbols};
pub use top::Longest;
pub use working::Working;
