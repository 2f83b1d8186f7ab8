//! Running a command on softgpu: its libraries in front of whatever else would be found.

use super::{Command, LaunchError, library_path, preloadable, sanitizer};
use std::{env, path::Path};

/// Puts softgpu's libraries in front, and preloads the one that serves linked-in runtimes (`redirect`) behind
/// whatever else is preloaded.
pub fn add_softgpu(
    command: &mut Command,
    folder: &Path,
    redirect: &str,
) -> Result<(), LaunchError> {
    let asan = env::var_os("ASAN_OPTIONS");
    let asan = sanitizer::environment(&command.program, asan.as_deref());
    let environment = &mut command.environment;
    environment.extend(asan);
    let existing = env::var_os("LD_LIBRARY_PATH");
    let path = library_path(existing.as_deref(), folder)?;
    environment.push(("LD_LIBRARY_PATH".into(), path));
    let set = environment.iter().rfind(|(name, _)| name == "LD_PRELOAD");
    let existing = set.map(|(_, value)| value.clone());
    let mut preload = existing
        .or_else(|| env::var_os("LD_PRELOAD"))
        .unwrap_or_default();
    if !preload.is_empty() {
        preload.push(":");
    }
    preload.push(preloadable(&folder.join(redirect))?);
    environment.push(("LD_PRELOAD".into(), preload));
    Ok(())
}
