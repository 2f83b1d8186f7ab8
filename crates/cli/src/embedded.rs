//! The libraries and programs this binary carries, and putting them where a program can load them.

use anyhow::{Context, Result, bail};
use capture::source::{Library, Softgpu};
use fingerprint::{Fingerprint, fingerprint};
use flate2::read::GzDecoder;
use std::{
    env, fs,
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What other versions have unpacked goes when nobody has used it for so long.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);
/// How exactly it is known when a folder was last used.
const USED: Duration = Duration::from_secs(24 * 3600);

/// How much of a file is looked at in one go.
const PIECE: usize = 64 << 10;

mod fingerprint;

/// A file that the build script has compressed.
pub struct Embedded {
    name: &'static str,
    /// Of the file, unpacked.
    size: usize,
    fingerprint: u64,
    packed: &'static [u8],
}

impl Embedded {
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.size);
        GzDecoder::new(self.packed).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether a file has these contents. It may have been damaged: a full disk, a machine that went down.
    fn is_at(&self, path: &Path) -> bool {
        // By pieces: fresh memory for all of it takes longer than reading it.
        let of_file = || -> io::Result<Option<u64>> {
            let mut file = fs::File::open(path)?;
            if file.metadata()?.len() != self.size as u64 {
                return Ok(None);
            }
            let mut piece = vec![0; PIECE];
            let mut found = Fingerprint::default();
            loop {
                let mut length = 0;
                while length < PIECE {
                    match file.read(&mut piece[length..])? {
                        0 => break,
                        count => length += count,
                    }
                }
                found.add(&piece[..length]);
                if length < PIECE {
                    return Ok(Some(found.finish()));
                }
            }
        };
        of_file().is_ok_and(|found| found == Some(self.fingerprint))
    }
}

mod built {
    use super::Embedded;
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// The library among softgpu's that serves runtimes linked into programs.
const REDIRECT: &str = "libcutrace_redirect.so";

/// The folder with softgpu's libcuda.so.1, libcudart.so.12/.13, libcupti.so.13 and [`REDIRECT`], unpacked if need
/// be.
pub fn softgpu_folder() -> Result<PathBuf> {
    unpacked("softgpu", built::LIBRARIES)
}

/// Where hooks look for libraries first: a program on softgpu loads softgpu's.
pub fn library_folders(simulate: bool) -> Result<Vec<PathBuf>> {
    match simulate {
        true => Ok(vec![softgpu_folder()?]),
        false => Ok(Vec::new()),
    }
}

/// softgpu, as runs need it.
pub fn softgpu() -> Result<Softgpu> {
    Ok(Softgpu {
        folder: softgpu_folder()?,
        redirect: REDIRECT,
    })
}

/// Writes softgpu's libraries to a folder that the user names, and says what they are called.
pub fn write_softgpu(folder: &Path) -> Result<Vec<&'static str>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for library in built::LIBRARIES {
        let path = folder.join(library.name);
        let written = library.bytes().and_then(|bytes| fs::write(&path, bytes));
        written.with_context(|| path.display().to_string())?;
    }
    Ok(built::LIBRARIES
        .iter()
        .map(|library| library.name)
        .collect())
}

/// A library that goes into traced programs, unpacked if need be.
pub fn library(library: Library) -> Result<PathBuf> {
    let (kind, embedded) = match library {
        Library::Preload => ("preload", built::PRELOAD),
        Library::GpuTimes => ("gpu-times", built::GPU_TIMES),
        Library::GpuProbes => ("gpu-probes", built::GPU_PROBES),
    };
    let name = embedded.name;
    Ok(unpacked(kind, &[embedded])?.join(name))
}

/// The demo program, unpacked if need be.
pub fn demo_program() -> Result<PathBuf> {
    Ok(unpacked("demo", &[built::DEMO])?.join(built::DEMO.name))
}

/// A folder of the user's cache for what can be made again.
pub fn cache_folder(kind: &str) -> Result<PathBuf> {
    let folder = private_cache()
        .context("neither XDG_CACHE_HOME nor HOME names a folder")?
        .join(format!("{kind}-{:016x}", name_of_all(&[])));
    make(&folder, PRIVATE)?;
    Ok(folder)
}

/// A folder of the user's cache for the files of one lake in an object store. Those of lakes that were not looked at for long are
/// removed.
pub fn lake_cache(identity: &str) -> Result<PathBuf> {
    let folder = private_cache()
        .context("neither XDG_CACHE_HOME nor HOME names a folder to keep the lake's files in")?
        .join(format!("lake-{:016x}", fingerprint(identity.as_bytes())));
    make(&folder, PRIVATE)?;
    let now = SystemTime::now();
    mark_used(&folder, now);
    forget_others(&folder, now);
    Ok(folder)
}

/// A file for one run, which removes it. The command can read it, whoever it runs as.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let folder = unpacked("scratch", &[])?;
    Ok(folder.join(format!("{}.{name}", std::process::id())))
}

/// There is no place from which programs could load a library.
#[derive(Debug, thiserror::Error)]
#[error(
    "no folder to unpack {kind} into, that programs can load from:\n  {}\n\
     set XDG_CACHE_HOME to a folder that you can write and that is not mounted noexec",
    .refused.join("\n  ")
)]
pub struct NoPlace {
    kind: String,
    refused: Vec<String>,
}

/// The folder with these, in the first place that works: one that can be written, where no other user
/// can change what is loaded into programs, and from which code can be mapped (not `noexec`). Named
/// after the contents, so that versions never mix.
fn unpacked(kind: &str, contents: &[Embedded]) -> Result<PathBuf> {
    let name = format!("{kind}-{:016x}", name_of_all(contents));
    let mut refused = Vec::new();
    for base in bases() {
        let folder = base.join(&name);
        match unpack_all(&folder, contents) {
            Ok(()) => return Ok(folder),
            Err(why) => refused.push(format!("{}: {why:#}", folder.display())),
        }
    }
    let kind = kind.to_owned();
    Err(NoPlace { kind, refused }.into())
}

fn unpack_all(folder: &Path, contents: &[Embedded]) -> Result<()> {
    // LD_PRELOAD and LD_LIBRARY_PATH are split at these, and know no way to quote them.
    let splits = |byte: &u8| b":;".contains(byte) || byte.is_ascii_whitespace();
    if folder.as_os_str().as_bytes().iter().any(splits) {
        bail!("the loader cannot take a path with ':', ';' or a space in it");
    }
    make(folder, if is_root() { READABLE } else { PRIVATE })?;
    for what in contents {
        let path = unpack(folder, what)?;
        mappable(&path).context("programs cannot load from there (a noexec mount?)")?;
    }
    Ok(())
}

/// Only the user enters.
const PRIVATE: u32 = 0o700;
/// Root's commands may become any user's (sudo, su, setpriv), and must still find their libraries: all
/// can read, only root can write.
const READABLE: u32 = 0o755;

fn user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

fn is_root() -> bool {
    user() == 0
}

fn variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(name)?);
    (path.is_absolute() && path != Path::new("/") && path.is_dir()).then_some(path)
}

/// Where the user keeps what can be made again.
fn private_cache() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    let cache = named.or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(cache.join("cutrace"))
}

/// Places for libraries, the best first.
fn bases() -> Vec<PathBuf> {
    let own = format!("cutrace-{}", user());
    let mut bases = Vec::new();
    if is_root() {
        // Others cannot enter root's home.
        bases.extend(private_cache().filter(|cache| reachable(cache)));
        bases.push(PathBuf::from("/var/cache/cutrace"));
    } else {
        bases.extend(private_cache());
        bases.extend(variable("XDG_RUNTIME_DIR").map(|path| path.join("cutrace")));
    }
    for folder in [env::temp_dir(), "/var/tmp".into(), "/dev/shm".into()] {
        bases.push(folder.join(&own));
    }
    if is_root() {
        // Good enough for commands that stay root's.
        bases.extend(private_cache());
    }
    // Beside the traces, where nobody else can put another folder in its place.
    let here = env::current_dir().ok().filter(|here| nobody_elses(here));
    bases.extend(here.map(|here| here.join(format!(".{own}"))));
    bases.retain(|base| base.is_absolute());
    bases
}

/// Whether everybody can get to a folder, as far as there is one.
fn reachable(folder: &Path) -> bool {
    let enters = |path: &Path| fs::metadata(path).map_or(true, |found| found.mode() & 1 != 0);
    let owned = |path: &Path| fs::metadata(path).map_or(true, |found| found.uid() == 0);
    folder.ancestors().skip(1).all(enters) && owned(folder)
}

/// Whether only this user and root decide what is in a folder.
fn nobody_elses(folder: &Path) -> bool {
    let found = fs::metadata(folder);
    found.is_ok_and(|found| [0, user()].contains(&found.uid()) && found.mode() & 0o022 == 0)
}

/// Creates the folder and its parent and refuses what another user owns or can write: what lies in
/// there gets loaded into programs. Folders above them are the system's or the user's own; /tmp and its
/// like are sticky, so that nobody can put another in the place of ours.
fn make(folder: &Path, mode: u32) -> Result<()> {
    for path in [folder.parent(), Some(folder)].into_iter().flatten() {
        let made = fs::DirBuilder::new().mode(mode).create(path);
        match made {
            // The umask may have taken what others need.
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(mode))?,
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            // ~/.cache itself may be missing; nobody else is to enter it.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let above = fs::DirBuilder::new()
                    .recursive(true)
                    .mode(mode)
                    .create(path);
                above?;
            }
            Err(why) => return Err(why.into()),
        }
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() || found.uid() != user() || found.mode() & 0o022 != 0 {
            bail!("{} is not a folder that only you can write", path.display());
        }
        // Made by another version, or for another use.
        if found.mode() & mode != mode {
            fs::set_permissions(path, fs::Permissions::from_mode(found.mode() | mode))?;
        }
    }
    Ok(())
}

/// Maps a page of it as a program's loader would.
fn mappable(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    // SAFETY: a new mapping of a file that is open, at an address of the kernel's choice; nobody else
    // knows of it before it is gone.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            1,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(page, 1);
    }
    Ok(())
}

fn unpack(folder: &Path, what: &Embedded) -> Result<PathBuf> {
    let path = folder.join(what.name);
    if what.is_at(&path) {
        mark_used(folder, SystemTime::now());
        return Ok(path);
    }
    // Written aside and put there whole, so that a second cutrace never loads half a library.
    let aside = folder.join(format!(".{}.{}", what.name, std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o755)
            .open(&aside)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        file.write_all(&what.bytes()?)?;
        drop(file);
        // What a second cutrace was faster to put there stays: a program may have loaded it, and a
        // file of the same name would be another library to its loader.
        if fs::hard_link(&aside, &path).is_ok() || what.is_at(&path) {
            return fs::remove_file(&aside);
        }
        fs::rename(&aside, &path)
    };
    let written = write().with_context(|| format!("cannot write {}", path.display()));
    if written.is_err() {
        // What there was no room for takes none.
        let _ = fs::remove_file(&aside);
    }
    written?;
    forget_others(folder, SystemTime::now());
    Ok(path)
}

/// A folder that is in use is not forgotten; where that cannot be said, it is unpacked again one day.
fn mark_used(folder: &Path, now: SystemTime) {
    if is_older(folder, now, USED) {
        let _ = fs::File::open(folder).and_then(|opened| opened.set_modified(now));
    }
}

fn is_older(folder: &Path, now: SystemTime, than: Duration) -> bool {
    let used = fs::symlink_metadata(folder).and_then(|found| found.modified());
    used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > than))
}

/// Removes the folders beside this one that other versions have unpacked the same into, and that were not used
/// for long. What cannot be removed stays.
fn forget_others(folder: &Path, now: SystemTime) {
    let kind = folder
        .file_name()
        .and_then(|name| name.to_str()?.rsplit_once('-'));
    let (Some((kind, _)), Some(Ok(beside))) = (kind, folder.parent().map(fs::read_dir)) else {
        return;
    };
    for other in beside.flatten() {
        let name = other.file_name();
        let version = name
            .to_str()
            .and_then(|name| name.strip_prefix(kind)?.strip_prefix('-'));
        let is_version = version.is_some_and(|version| {
            version.len() == 16 && version.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let is_folder = other.file_type().is_ok_and(|kind| kind.is_dir());
        if is_version
            && is_folder
            && other.path() != folder
            && is_older(&other.path(), now, FORGOTTEN)
        {
            let _ = fs::remove_dir_all(other.path());
        }
    }
}

/// A number that names these contents together.
fn name_of_all(contents: &[Embedded]) -> u64 {
    let each = contents.iter().map(|part| part.fingerprint.to_le_bytes());
    fingerprint(&each.collect::<Vec<_>>().concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_nobody_uses_are_removed() {
        let base = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let make = |name: &str, days: u64| {
            let folder = base.path().join(name);
            fs::create_dir(&folder).expect("made");
            fs::write(folder.join("libsome.so"), "code").expect("written");
            let used = now - Duration::from_secs(days * 24 * 3600);
            let opened = fs::File::open(&folder).expect("there");
            opened.set_modified(used).expect("set");
            folder
        };
        let own = make("preload-0000000000000001", 400);
        let old = make("preload-0000000000000002", 31);
        let in_use = make("preload-0000000000000003", 31);
        let recent = make("preload-0000000000000004", 29);
        let other_kind = make("softgpu-0000000000000005", 400);
        let not_ours = make("preload-mine", 400);
        mark_used(&in_use, now);
        forget_others(&own, now);
        assert!(!old.exists());
        for kept in [own, in_use, recent, other_kind, not_ours] {
            assert!(kept.join("libsome.so").exists(), "{}", kept.display());
        }
    }

    #[test]
    fn what_is_carried_is_what_was_built_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("library");
        let all = [
            built::DEMO,
            built::PRELOAD,
            built::GPU_TIMES,
            built::GPU_PROBES,
        ];
        for embedded in all.iter().chain(built::LIBRARIES) {
            let mut bytes = embedded.bytes().expect("unpacks");
            fs::write(&path, &bytes).expect("written");
            assert!(embedded.is_at(&path), "{}", embedded.name);
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("written");
            assert!(!embedded.is_at(&path), "{}", embedded.name);
            fs::write(&path, &bytes[..at]).expect("written");
            assert!(!embedded.is_at(&path), "{}", embedded.name);
        }
    }
}
