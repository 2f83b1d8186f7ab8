//! A file that appears under its name when it is whole, and not at all if it never is.

use crate::launch::user;
use std::{
    ffi::{CString, OsString},
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
        },
    },
    path::{Path, PathBuf},
};

/// Why it is not there.
#[derive(Debug, thiserror::Error)]
pub enum UnfinishedError {
    #[error("cannot write {}; choose another place with -o", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Finish { path: PathBuf, source: io::Error },
}

pub struct Unfinished {
    file: File,
    path: PathBuf,
    name: Name,
}

/// What it is called until it is whole.
enum Name {
    /// A device or a pipe, written to as it is: a file in its place would take it away from everybody.
    Own,
    /// Nothing: it vanishes with the process. This is what it is called for a moment at the end.
    None(PathBuf),
    /// This, where the file system has no files without names.
    Aside(PathBuf),
}

impl Unfinished {
    /// Readable by its owner alone: it says what the program did. Missing folders are made.
    pub fn create(path: &Path) -> Result<Self, UnfinishedError> {
        let why_not = |source| UnfinishedError::Create {
            path: path.to_owned(),
            source,
        };
        // Where a link leads: the link itself stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (file, name) = Self::open(&path).map_err(why_not)?;
        Ok(Unfinished { file, path, name })
    }

    fn open(path: &Path) -> io::Result<(File, Name)> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok((options.open(path)?, Name::Own));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)?;
        let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!(".{}.part", std::process::id()));
        let aside = path.with_file_name(name);
        let unnamed = options.clone().custom_flags(libc::O_TMPFILE).open(folder);
        match unnamed {
            Ok(file) if Path::new(&within_proc(&file)).exists() => Ok((file, Name::None(aside))),
            _ => Ok((options.create_new(true).open(&aside)?, Name::Aside(aside))),
        }
    }

    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// What is there already keeps its mode and its owner; what is new is its user's alone, under sudo
    /// that of who called it.
    fn as_before(&self) -> io::Result<()> {
        let Ok(before) = fs::metadata(&self.path) else {
            return user::give(&self.file);
        };
        let now = self.file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            // Somebody else's stays readable for them; but who may not give files away cannot.
            let _ = fchown(&self.file, Some(before.uid()), Some(before.gid()));
        }
        let mode = before.mode() & 0o777;
        self.file.set_permissions(fs::Permissions::from_mode(mode))
    }

    pub fn finish(self) -> Result<(), UnfinishedError> {
        let why_not = |source| UnfinishedError::Finish {
            path: self.path.clone(),
            source,
        };
        if !matches!(self.name, Name::Own) {
            self.as_before().map_err(why_not)?;
        }
        let named = match &self.name {
            Name::Own => return Ok(()),
            Name::Aside(aside) => Ok(aside),
            Name::None(aside) => link(&self.file, aside).map(|()| aside),
        };
        named
            .and_then(|aside| fs::rename(aside, &self.path))
            .map_err(why_not)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Name::Aside(aside) | Name::None(aside) = &self.name {
            // After `finish` there is nothing under this name.
            let _ = fs::remove_file(aside);
        }
    }
}

fn within_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name one.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(within_proc(file))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: both names end in NUL and outlive the call.
    let linked = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    match linked {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_there_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("page.html");
        let mode = || fs::metadata(&path).expect("there").mode() & 0o777;
        Unfinished::create(&path)
            .and_then(Unfinished::finish)
            .expect("finished");
        assert_eq!(mode(), 0o600);
        for before in [0o640, 0o644, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(before)).expect("set");
            Unfinished::create(&path)
                .and_then(Unfinished::finish)
                .expect("finished");
            assert_eq!(mode(), before);
        }
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("new/trace.csv");
        let names = || {
            let found = fs::read_dir(folder.path().join("new")).expect("made");
            found.flatten().count()
        };
        let file = Unfinished::create(&path).expect("made");
        drop(file);
        assert_eq!(names(), 0);
        for text in ["one", "two"] {
            let file = Unfinished::create(&path).expect("made");
            file.writer()
                .and_then(|mut writer| writer.write_all(text.as_bytes()))
                .expect("written");
            file.finish().expect("finished");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(names(), 1);
        }
    }
}
