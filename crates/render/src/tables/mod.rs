//! The tables of `cutrace report`, one a file: from a report to lines of text.

mod categories;
mod coverage;
mod gpu;
mod idle;
mod ioctls;
mod section;
mod summary;
mod top;

pub use categories::categories;
pub use coverage::coverage;
pub use gpu::gpu;
pub use idle::idle;
pub use ioctls::ioctls;
pub use summary::summary;
pub use top::top;
