//! Pure functions over events: nothing here reads, writes or prints.
#![forbid(unsafe_code)]

mod counts;
pub mod frees;
mod gauge;
pub mod leaks;
pub mod memory;
mod rate;
mod sites;

pub use counts::{Counts, counts};
pub use gauge::Curve;
pub use rate::Rate;
pub use sites::Place;
