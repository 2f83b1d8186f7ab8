//! Times in files count from the trace's start.

use crate::{Error, Result};

/// `time - start`, as far as a file can say it: 292 years either way.
pub fn since(start: u64, time: u64) -> Result<i64> {
    i64::try_from(i128::from(time) - i128::from(start)).map_err(|_| Error::Time { time, start })
}
