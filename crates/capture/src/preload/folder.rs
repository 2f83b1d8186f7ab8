//! The session's folder: where the tracer leaves its options and traced processes their rings.

use super::PreloadError;
use super::session::Options;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Removed, with everything in it, when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

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
                Ok(path) => return Ok(Folder { path }),
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
        let path = base.join(format!("cutrace.{}.{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left by another process that had our id.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(why) => return Err(why),
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
    fn options_are_lines() {
        let options = Options {
            libraries: vec![("libnccl.so*".into(), "nccl*".into())],
            filter: Some(Filter::parse("memory,!query")),
            ring_slots: Some(64),
            ..Options::default()
        };
        let lines = option_lines(&options).expect("plain");
        assert_eq!(
            lines,
            "lib libnccl.so*:nccl*\nfilter memory,!query\nring 64\n"
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
