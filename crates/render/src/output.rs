//! What every picture of a trace has in common: it is fed records and writes itself out.

use event::{Record, Summary};
use std::io;

/// One way to show a trace, fed its records in order.
pub trait Output {
    fn record(&mut self, record: &Record) -> io::Result<()>;
    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()>;
}
