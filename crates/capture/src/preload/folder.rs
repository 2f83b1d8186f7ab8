//! The session's folder: where the tracer leaves its options and traced processes their rings.

use super::PreloadError;
use super::session::Options;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Removed, with everything in it, when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked while the session lives, so that another can tell what was left behind.
    _lock: Option<File>,
}

const PREFIX: &str = "cutrace.";
/// Folders younger than this may not have been locked yet.
const YOUNG: Duration = Duration::from_secs(60);

impl Folder {
    /// A new folder that only this user can enter, in memory where that is possible.
    pub fn create() -> Result<Self, PreloadError> {
        let bases = [
            Some(PathBuf::from("/dev/shm")),
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
            Some(std::env::temp_dir()),
        ];
        let mut refused = Vec::new();
        for base in bases
            .into_iter()
            .flatten()
            .filter(|base| base.is_absolute())
        {
            match create_in(&base) {
                Ok(path) => {
                    remove_left_behind(&base);
                    let _lock = locked(&path);
                    return Ok(Folder { path, _lock });
                }
                Err(why) => refused.push(format!("{}: {why}", base.display())),
            }
        }
        Err(PreloadError::NoFolder(refused))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What injected code is told before it starts.
    pub fn write_options(&self, options: &Options) -> Result<(), PreloadError> {
        let path = self.path.join("options");
        fs::write(&path, option_lines(options)?)
            .map_err(|source| PreloadError::Options { path, source })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in memory or in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn create_in(base: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}.{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left by another process that had our id.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(why) => return Err(why),
        }
    }
}

/// The folder, if nobody else holds it.
fn locked(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    // SAFETY: a plain system call on a descriptor we hold.
    let held = unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    (held == 0).then_some(folder)
}

/// A tracer that was killed leaves its folder, and the memory of its rings with it.
fn remove_left_behind(base: &Path) {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes());
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        if ours
            && found.is_dir()
            && found.uid() == user
            && age.is_some_and(|age| age > YOUNG)
            && locked(&path).is_some()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn option_lines(options: &Options) -> Result<String, PreloadError> {
    let mut text = String::new();
    for (library, functions) in &options.libraries {
        let what = one_line("--lib", format!("{library}:{functions}"))?;
        let _ = writeln!(text, "lib {what}");
    }
    if let Some(filter) = &options.filter {
        let _ = writeln!(text, "filter {}", one_line("-e", filter.for_injection())?);
    }
    if let Some(filter) = &options.stacks {
        let _ = writeln!(
            text,
            "stack {}",
            one_line("--stack", filter.text().to_owned())?
        );
    }
    for name in &options.intact {
        let _ = writeln!(text, "intact {}", one_line("a uprobe", name.clone())?);
    }
    if let Some(slots) = options.ring_slots {
        let _ = writeln!(text, "ring {slots}");
    }
    Ok(text)
}

fn one_line(what: &'static str, text: String) -> Result<String, PreloadError> {
    if text.contains(['\n', '\r', '\0']) {
        return Err(PreloadError::LineBreak { what, text });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preload::Filter;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_folder_is_private_and_goes_away() {
        let folder = Folder::create().expect("a folder");
        let path = folder.path().to_owned();
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(path.join("ring.1.1.0"), "x").expect("writable");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_tracer_left_is_removed_and_a_living_one_is_not() {
        let base = tempfile::tempdir().expect("a folder");
        let long_ago = std::time::SystemTime::now() - 2 * YOUNG;
        let folder = |name: &str, age| {
            let path = base.path().join(name);
            fs::create_dir(&path).expect("made");
            fs::write(path.join("ring.1.1.0"), "x").expect("written");
            let times = fs::FileTimes::new().set_modified(age);
            File::open(&path)
                .and_then(|file| file.set_times(times))
                .expect("set");
            path
        };
        let left = folder("cutrace.1.0", long_ago);
        let living = folder("cutrace.2.0", long_ago);
        let young = folder("cutrace.3.0", std::time::SystemTime::now());
        let other = folder("other", long_ago);
        let _lock = locked(&living).expect("free");
        remove_left_behind(base.path());
        assert!(!left.exists());
        assert!(living.exists() && young.exists() && other.exists());
    }

    #[test]
    fn options_are_lines() {
        let options = Options {
            libraries: vec![("libnccl.so*".into(), "nccl*".into())],
            filter: Some(Filter::parse("memory,!query")),
            stacks: Some(Filter::parse("kernel")),
            ring_slots: Some(64),
            intact: vec!["cudaLaunchKernel".into()],
            ..Options::default()
        };
        let lines = option_lines(&options).expect("plain");
        assert_eq!(
            lines,
            "lib libnccl.so*:nccl*\nfilter memory,!query\nstack kernel\nintact cudaLaunchKernel\nring 64\n"
        );
        let filter = Some(Filter::parse("a\nlib x:y"));
        assert!(
            option_lines(&Options {
                filter,
                ..Options::default()
            })
            .is_err()
        );
    }
}
