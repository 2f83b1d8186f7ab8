//! Stage one: what every traced process loads.

mod brief;
mod embedded;
pub mod hot;
mod payload;
mod sanitizer;
mod stack;
pub mod start;
pub mod trigger;
