//! Context switches of the GPU, as its front end (FECS) records them: whose context had it, from when
//! to when. The driver hands the records to each client that binds an event buffer; what other users' contexts
//! do is shown to root only.

mod record;
mod rm;
mod source;
mod watch;

pub use record::{Switch, SwitchPhase, decode};
pub use rm::RmError;
pub use source::FECS;
pub use watch::{FecsReport, FecsWatch, available};
