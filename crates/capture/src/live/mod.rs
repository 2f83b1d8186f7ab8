//! Recording only what matters: windows of a run, the last seconds before something happens, a bound on the cost.
//!
//! Decisions are made on records in the order of time, behind the merge ([`window`], [`flight`]), so they are exact. The
//! program's hooks follow with a small delay: [`gates`] lets calls by that nobody wants.

pub mod budget;
pub mod flight;
pub mod gates;
pub mod slowdown;
pub mod steps;
pub mod trigger;
pub mod window;

pub use flight::{FlightOptions, Snapshot};
pub use gates::Gates;
pub use trigger::{Reason, Trigger};
pub use window::{WindowOptions, WindowStage};
