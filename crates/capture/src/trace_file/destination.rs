//! Where a trace goes: a file of its own, one that was named, standard output, an open descriptor.

use crate::launch::user;
use event::Identity;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal},
    os::{
        fd::{AsFd, BorrowedFd, RawFd},
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use trace::ranks;

/// Why a trace cannot be written where it is to go.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// There is no place for a trace that was given no name.
    #[error(
        "cannot write {}, nor to the temporary folder: {source}; choose another place with -o FILE",
        path.display()
    )]
    Nowhere { path: PathBuf, source: io::Error },
    #[error("cannot write {}; choose another place with -o FILE", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {words}", path.display())]
    NoFolder { path: PathBuf, words: String },
    #[error(
        "-o fd:{0}: use a separate descriptor, 3 or above: cutrace -o fd:3 ./app 3>trace.jsonl"
    )]
    Standard(RawFd),
    #[error("-o fd:{0}: it is not open; type: cutrace -o fd:{0} ./app {0}>trace.jsonl")]
    NotOpen(RawFd),
    #[error("-o fd:{0}: it is open for reading only; type: {0}>trace.jsonl")]
    ReadOnly(RawFd),
    #[error(transparent)]
    Descriptor(#[from] io::Error),
}

/// Where traces go that are given no name.
pub const FOLDER: &str = "traces";

/// `-o -`: to the terminal as lines to read, to a pipe as JSONL.
pub const STDOUT: &str = "-";

/// `-o fd:3`: JSONL to a descriptor that the shell has opened.
const DESCRIPTOR: &str = "fd:";

/// A trace's file, before anything is written to it.
pub struct Destination {
    pub path: PathBuf,
    pub file: File,
    /// There was none of this name before.
    pub new: bool,
}

/// Without a path, a new `traces/trace_<now>.jsonl`; for a rank of a job, `traces/run_<run>/rank_<number>.jsonl`.
pub fn open(path: Option<&Path>, identity: &Identity) -> Result<Destination, DestinationError> {
    let Some(path) = path else {
        let (path, made) = unused(identity);
        return match made {
            Ok((file, new)) => Ok(Destination { path, file, new }),
            Err(source) => Err(DestinationError::Nowhere { path, source }),
        };
    };
    let path = match is_stream(path) {
        true => path.to_owned(),
        false => ranks::own_name(path, identity).unwrap_or_else(|| path.to_owned()),
    };
    if let Some(number) = descriptor(&path) {
        let file = inherited(number)?;
        return Ok(Destination {
            path,
            file,
            new: false,
        });
    }
    let made = if path == Path::new(STDOUT) {
        stdout().map(|file| (file, false))
    } else {
        if let Some(words) = missing_folder(&path) {
            return Err(DestinationError::NoFolder { path, words });
        }
        create(&path)
    };
    match made {
        Ok((file, new)) => Ok(Destination { path, file, new }),
        Err(source) => Err(DestinationError::File { path, source }),
    }
}

/// Whether it is no file that could be read again or put in order.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new(STDOUT) || descriptor(path).is_some()
}

/// What a trace is called where people read it.
pub fn in_words(path: &Path) -> String {
    match descriptor(path) {
        Some(number) => format!("descriptor {number}"),
        None if path == Path::new(STDOUT) => "standard output".into(),
        None => path.display().to_string(),
    }
}

/// The number in `fd:NUMBER`.
pub fn descriptor(path: &Path) -> Option<RawFd> {
    path.to_str()?.strip_prefix(DESCRIPTOR)?.parse().ok()
}

/// What the program prints must not come between the lines of its trace: it goes to standard error.
/// On a terminal both are there anyway.
fn stdout() -> io::Result<File> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if !file.is_terminal() {
        // SAFETY: both are open, and stay so.
        let moved = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
        if moved < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(file)
}

/// A descriptor that was open when cutrace was started. The program does not get it: the reader of the
/// trace waits for its end, not for the program's children.
fn inherited(number: RawFd) -> Result<File, DestinationError> {
    if number == libc::STDOUT_FILENO {
        return Ok(stdout()?);
    }
    if number < libc::STDOUT_FILENO || number == libc::STDERR_FILENO {
        return Err(DestinationError::Standard(number));
    }
    // SAFETY: questions about a number.
    let (flags, mode) = unsafe {
        (
            libc::fcntl(number, libc::F_GETFD),
            libc::fcntl(number, libc::F_GETFL),
        )
    };
    // What cutrace has opened itself is closed on exec.
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(DestinationError::NotOpen(number));
    }
    if mode & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(DestinationError::ReadOnly(number));
    }
    // SAFETY: it is open, and nobody else closes it.
    let copied = unsafe {
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        BorrowedFd::borrow_raw(number).try_clone_to_owned()
    };
    Ok(File::from(copied?))
}

/// Folders under the current one are made where they are missing. Elsewhere one is made in another, but not
/// in the root of the file system: that, or two of them, is a slip.
fn missing_folder(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|_| path.is_absolute())?;
    let missing: Vec<&Path> = (folder.ancestors())
        .take_while(|folder| !folder.exists())
        .collect();
    let (&missing, count) = (missing.last()?, missing.len());
    if count == 1 && missing.parent() != Some(Path::new("/")) {
        return None;
    }
    let mut words = format!("there is no folder {}", missing.display());
    let name = missing.file_name()?.to_str()?;
    let beside: Vec<String> = fs::read_dir(missing.parent()?)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    if let Some(meant) = names::misspelt(name, beside.iter().map(String::as_str)) {
        let meant = missing.with_file_name(meant);
        words.push_str(&format!("; did you mean {}?", meant.display()));
    }
    Some(words)
}

/// The file of this name, and whether it is new; one that is there already stays as it is.
fn create(path: &Path) -> io::Result<(File, bool)> {
    match create_new(path) {
        Ok(file) => Ok((file, true)),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            let mut options = private();
            Ok((options.create(true).truncate(false).open(path)?, false))
        }
        Err(why) => Err(why),
    }
}

/// Only its user reads it: traces say what programs were given. Under sudo it is theirs who asked for it.
fn create_new(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    if let Some(folder) = folder {
        make_folders(folder)?;
    }
    let file = private().create_new(true).open(path)?;
    user::give(&file)?;
    Ok(file)
}

/// Those that are missing, each given to who asked for them.
fn make_folders(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = (folder.ancestors())
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => {
                // What we have made, and not what somebody has put in its place since.
                let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
                user::give(&File::options().read(true).custom_flags(flags).open(path)?)?;
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600);
    options
}

/// A new file, here or, where nothing can be written, where temporary files go.
fn unused(identity: &Identity) -> (PathBuf, io::Result<(File, bool)>) {
    let here = unused_in(Path::new(FOLDER), identity);
    if here.1.is_ok() {
        return here;
    }
    for folder in [std::env::temp_dir(), "/var/tmp".into()] {
        // SAFETY: a question without side effects.
        let own = unsafe { libc::geteuid() };
        let folder = folder.join(format!("cutrace-traces-{own}"));
        let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
        // Everybody can make folders there: only our own is good enough.
        let is_ours = fs::symlink_metadata(&folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0);
        let found = is_ours.then(|| unused_in(&folder, identity));
        if let Some(found) = found.filter(|(_, made)| made.is_ok()) {
            return found;
        }
    }
    here
}

/// Named after the time; two runs in one second have two names.
fn unused_in(folder: &Path, identity: &Identity) -> (PathBuf, io::Result<(File, bool)>) {
    if let Some(path) = ranks::unused_path(folder, identity) {
        let made = create_new(&path);
        return (path, made.map(|file| (file, true)));
    }
    let time = local_time();
    let mut number = 1;
    loop {
        let more = if number == 1 {
            String::new()
        } else {
            format!("_{number}")
        };
        let path = folder.join(format!("trace_{time}{more}.jsonl"));
        // The name is taken also by a trace that has become Arrow.
        let made = match path.with_extension("arrows").exists() {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => create_new(&path),
        };
        match made {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            made => return (path, made.map(|file| (file, true))),
        }
    }
}

/// `yyyymmdd_hhmmss`
fn local_time() -> String {
    // SAFETY: all zeroes is a tm, and both calls write only to the places passed to them.
    let time = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut time);
        time
    };
    format!(
        "{:04}{:02}{:02}_{:02}{:02}{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}
