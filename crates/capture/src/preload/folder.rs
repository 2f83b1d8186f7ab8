//! The session's folder: where the tracer leaves its options and traced processes their rings.

use super::PreloadError;
use super::session::Options;
use crate::live::WindowOptions;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Removed, with everything in it, when dropped.
///
/// A user's folder is entered by nobody else. The commands of root may become another user's (sudo, su,
/// setpriv), and must still find their options and leave their rings. Root's folder (0711) can be
/// entered by all and listed by nobody, and holds one with a name of 128 random bits, in which everybody
/// may make files (1733). Processes that do not know that name cannot get there: it is in the environment of traced
/// processes, which only their own user and root can read. A process that knows it is traced, and can say what it
/// likes of itself, but cannot list the folder, nor remove or replace what others left (the sticky
/// bit), the tracer's options least of all. The tracer opens what it finds there by [`open_left`], which
/// follows no link, waits for no pipe and takes no file that has another name, and it believes no contents
/// without looking.
#[derive(Debug)]
pub struct Folder {
    /// What is removed.
    outer: PathBuf,
    path: PathBuf,
    /// Locked while the session lives, so that another can tell what was left behind.
    _lock: Option<File>,
}

const PREFIX: &str = "cutrace.";
/// Folders younger than this may not have been locked yet.
const YOUNG: Duration = Duration::from_secs(60);
/// Room that a run should have for its rings; and what there must be at least.
const ROOM: [u64; 2] = [16 << 20, 128 << 10];
/// What is taken of it to see that it is there.
const TAKEN: u64 = 128 << 10;

impl Folder {
    /// A new folder, in memory where that is possible. `near`: where to try last, besides the usual
    /// places.
    pub fn create(near: Option<&Path>) -> Result<Self, PreloadError> {
        let here = std::env::current_dir().ok();
        let bases: Vec<PathBuf> = [
            Some(PathBuf::from("/dev/shm")),
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
            Some(std::env::temp_dir()),
            Some(PathBuf::from("/var/tmp")),
            near.and_then(|near| std::path::absolute(near).ok()),
            here,
        ]
        .into_iter()
        .flatten()
        .filter(|base| base.is_absolute())
        .collect();
        let mut refused = Vec::new();
        for room in ROOM {
            refused.clear();
            for base in &bases {
                match Folder::create_in(base, is_root(), room) {
                    Ok(folder) => {
                        remove_left_behind(base);
                        return Ok(folder);
                    }
                    Err(why) => refused.push(format!("{}: {why}", base.display())),
                }
            }
        }
        Err(PreloadError::NoFolder(refused))
    }

    fn create_in(base: &Path, shared: bool, room: u64) -> io::Result<Self> {
        let outer = create_in(base)?;
        let mut folder = Folder {
            path: outer.clone(),
            _lock: locked(&outer),
            outer,
        };
        if shared {
            folder.path = folder.outer.join(secret()?);
            DirBuilder::new().mode(0o700).create(&folder.path)?;
            // Whatever the umask is.
            fs::set_permissions(&folder.path, Permissions::from_mode(0o1733))?;
            fs::set_permissions(&folder.outer, Permissions::from_mode(0o711))?;
        }
        has_room(&folder.path, room)?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What injected code knows before it starts.
    pub fn write_options(&self, options: &Options) -> Result<(), PreloadError> {
        let path = self.path.join("options");
        let lines = option_lines(options)?;
        fs::write(&path, lines)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
            .map_err(|source| PreloadError::Options { path, source })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in memory or in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.outer);
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

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A name that nobody guesses.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether there is so much room. A full file system still makes folders: some of it is taken and given back, and all of
/// it where the file system does not say what is free. Not always all of it: memory is cleared when it is taken, which
/// every start would wait for.
fn has_room(folder: &Path, bytes: u64) -> io::Result<()> {
    let bytes = match free_bytes(folder) {
        Some(free) if free >= bytes => bytes.min(TAKEN),
        _ => bytes,
    };
    let path = folder.join("room");
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let length = libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
    // SAFETY: a plain system call on a descriptor we hold.
    let answer = match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    fs::remove_file(&path)?;
    match answer {
        // Not every file system can say it.
        Err(why) if why.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        answer => answer,
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: plain numbers, for the call to fill in.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a name that ends in NUL, and a structure of the right size.
    let asked = unsafe { libc::statvfs(path.as_ptr(), &mut found) };
    (asked == 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// A file that a traced process left: a plain one, with no other name. Nothing that is put in its place
/// holds the tracer up or makes it write elsewhere.
pub(crate) fn open_left(path: &Path, write: bool) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(write)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(file)
}

/// The contents of such a file; of one that is longer, its beginning.
pub(crate) fn read_left(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_left(path, false)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The folder, if nobody else holds it.
fn locked(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    // SAFETY: a plain system call on a descriptor we hold.
    let held = unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    (held == 0).then_some(folder)
}

/// Who has a session's folder, if its tracer still runs.
pub(crate) fn owner(session: &Path) -> Option<String> {
    let mut folders = session.ancestors();
    let (outer, pid) = folders.find_map(|folder| {
        let name = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?;
        Some((folder, name.split('.').next()?.to_owned()))
    })?;
    let is_held = outer.exists() && locked(outer).is_none();
    is_held.then(|| format!("(process {pid})"))
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
    match &options.window {
        Some(WindowOptions::Range { name }) => {
            let name = one_line("--window", name.clone())?;
            let _ = writeln!(text, "window range={name}");
        }
        Some(WindowOptions::Profiler) => text.push_str("window profiler\n"),
        _ => {}
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
    if options.operators {
        text.push_str("operators\n");
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

    #[test]
    fn the_folder_is_private_and_goes_away() {
        let base = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| {
            let found = fs::metadata(path).expect("there");
            found.permissions().mode() & 0o7777
        };
        for (shared, outer, inner) in [(false, 0o700, 0o700), (true, 0o711, 0o1733)] {
            let folder = Folder::create_in(base.path(), shared, 4096).expect("a folder");
            let path = folder.path().to_owned();
            assert_eq!((mode(&folder.outer), mode(&path)), (outer, inner));
            let named = path.file_name().expect("a name").len() == 32;
            assert_eq!(named, shared, "{}", path.display());
            folder.write_options(&Options::default()).expect("written");
            assert_eq!(mode(&path.join("options")), 0o644);
            fs::write(path.join("ring.1.1.0"), "x").expect("writable");
            drop(folder);
            assert!(!path.exists() && fs::read_dir(base.path()).expect("there").count() == 0);
        }
        assert!(Folder::create(None).is_ok());
    }

    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("plain"), "x").expect("written");
        assert!(open_left(&at("plain"), true).is_ok());
        std::os::unix::fs::symlink(at("plain"), at("link")).expect("linked");
        let pipe = std::ffi::CString::new(at("pipe").into_os_string().into_encoded_bytes());
        // SAFETY: a name that ends in NUL.
        assert_eq!(
            unsafe { libc::mkfifo(pipe.expect("a name").as_ptr(), 0o600) },
            0
        );
        for name in ["link", "pipe", "", "none"] {
            assert!(open_left(&at(name), true).is_err(), "{name}");
            assert!(open_left(&at(name), false).is_err(), "{name}");
        }
        fs::hard_link(at("plain"), at("second")).expect("linked");
        assert!(open_left(&at("plain"), true).is_err());
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
