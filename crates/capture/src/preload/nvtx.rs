//! NVTX: programs tell their ranges to the one library that NVTX_INJECTION64_PATH names.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

const VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// What the program is to find in its environment. Another tool is left in its place, and
/// that is said.
pub fn environment(library: &Path, say: Option<fn(&str)>) -> Option<(OsString, OsString)> {
    let taken = env::var_os(VARIABLE).filter(|tool| !tool.is_empty() && Path::new(tool) != library);
    match taken {
        None => Some((VARIABLE.into(), library.into())),
        Some(tool) => {
            if let Some(say) = say {
                let tool = PathBuf::from(tool);
                say(&format!(
                    "cutrace: NVTX ranges go to {}, named by {VARIABLE}: unset it to record them in the trace",
                    tool.display()
                ));
            }
            None
        }
    }
}
