//! The stand-in device files: plain files called nvidiactl, nvidia0 and nvidia-uvm in a private
//! folder. They answer every ioctl with ENOTTY, which is why the caller fills in replies itself.

use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::steps::File;

/// Names the folder for the files, instead of a private one; it is then left in place.
pub const FOLDER_VARIABLE: &str = "CUTRACE_SOFTGPU_DEV";

/// Large enough for every mapping the sequences make; the files have holes, not contents.
const FILE_LENGTH: u64 = 64 << 20;

pub struct DeviceFiles {
    folder: PathBuf,
}

impl DeviceFiles {
    pub fn create() -> io::Result<Self> {
        let (folder, private) = match std::env::var_os(FOLDER_VARIABLE) {
            Some(folder) if !folder.is_empty() => (PathBuf::from(folder), false),
            _ => (private_folder()?, true),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        for file in [File::Control, File::Gpu, File::Uvm] {
            let path = folder.join(name(file));
            // What is there is taken as it is: whoever named the folder may have made them.
            if !path.exists() {
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(path)?
                    .set_len(FILE_LENGTH)?;
            }
        }
        if private {
            remove_at_exit(&folder);
        }
        Ok(Self { folder })
    }

    /// Opens one of the files as libcuda opens the device.
    pub fn open(&self, file: File, flags: i32) -> io::Result<OwnedFd> {
        let path = CString::new(self.folder.join(name(file)).as_os_str().as_bytes())?;
        let fd = unsafe { libc::openat(libc::AT_FDCWD, path.as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn name(file: File) -> &'static str {
    match file {
        File::Control => "nvidiactl",
        File::Gpu => "nvidia0",
        File::Uvm => "nvidia-uvm",
    }
}

/// A folder of this process in one of this user: `cutrace-softgpu-UID/PID`.
fn private_folder() -> io::Result<PathBuf> {
    let user = unsafe { libc::geteuid() };
    let base = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if Path::new(&folder).is_dir() => PathBuf::from(folder),
        _ => std::env::temp_dir(),
    };
    let shared = base.join(format!("cutrace-softgpu-{user}"));
    match DirBuilder::new().mode(0o700).create(&shared) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // The name is easy to guess: somebody else's folder, or a link, is not for us.
            let found = fs::symlink_metadata(&shared)?;
            if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "not a private folder",
                ));
            }
        }
        Err(error) => return Err(error),
    }
    remove_stale(&shared);
    Ok(shared.join(std::process::id().to_string()))
}

/// Folders of processes that were killed before they could remove them.
fn remove_stale(shared: &Path) {
    let Ok(entries) = fs::read_dir(shared) else {
        return;
    };
    for entry in entries.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        let gone = |pid| unsafe { libc::kill(pid, 0) } != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if pid.is_some_and(gone) {
            remove(&entry.path());
        }
    }
}

/// Only what was put there: never a whole tree.
fn remove(folder: &Path) {
    for file in [File::Control, File::Gpu, File::Uvm] {
        let _ = fs::remove_file(folder.join(name(file)));
    }
    let _ = fs::remove_dir(folder);
    // Goes when the last process of the user goes.
    if let Some(shared) = folder.parent() {
        let _ = fs::remove_dir(shared);
    }
}

static TO_REMOVE: OnceLock<(PathBuf, u32)> = OnceLock::new();

fn remove_at_exit(folder: &Path) {
    if TO_REMOVE
        .set((folder.to_owned(), std::process::id()))
        .is_ok()
    {
        unsafe { libc::atexit(at_exit) };
    }
}

extern "C" fn at_exit() {
    // A forked child runs this too, but the folder is its parent's.
    if let Some((folder, owner)) = TO_REMOVE.get()
        && *owner == std::process::id()
    {
        remove(folder);
    }
}
