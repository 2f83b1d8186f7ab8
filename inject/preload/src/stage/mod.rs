//! Stage one: what every traced process loads.

pub mod attach;
mod brief;
mod embedded;
mod gate;
pub mod hot;
mod payload;
mod sanitizer;
mod stack;
pub mod start;
mod steps;
pub mod trigger;
mod whole;
