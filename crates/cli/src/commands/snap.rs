//! `cutrace snap`: a snapshot of a flight recording, now; or a trace of what a killed recorder has left.

use crate::{arguments::Snap, say::say};
use anyhow::{Result, bail};
use capture::live::flight::{find_recorder, recover};
use std::{process::ExitCode, time::Duration};

/// How long a snapshot may take to write.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(options: Snap) -> Result<ExitCode> {
    let path = match options {
        Snap::Recover { folder } => recover(&folder)?.path,
        Snap::Now { pid } => {
            let Some(recorder) = find_recorder(pid) else {
                say!(
                    "cutrace: process {pid} is neither 'cutrace --flight' nor recorded by one that you may look into"
                );
                return Ok(ExitCode::from(1));
            };
            match recorder.snap(PATIENCE) {
                Ok(Some(path)) => path,
                Ok(None) => {
                    say!(
                        "cutrace: cutrace {} has not written a snapshot",
                        recorder.pid
                    );
                    return Ok(ExitCode::from(1));
                }
                Err(why) => bail!("cannot signal cutrace {}: {why}", recorder.pid),
            }
        }
    };
    super::print(format!("{}\n", path.display()).as_bytes())
}
