//! The libraries and programs this binary carries, and putting them where a program can load them.

use anyhow::{Context, Result, bail};
use std::{
    env, fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What other versions have unpacked goes when nobody has used it for so long.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);
/// How exactly it is known when a folder was last used.
const USED: Duration = Duration::from_secs(24 * 3600);

pub struct Embedded {
    pub name: &'static str,
    pub bytes: &'static [u8],
}

mod built {
    use super::Embedded;
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// The library among softgpu's that serves runtimes linked into programs.
pub const REDIRECT: &str = "libcutrace_redirect.so";

/// The folder with softgpu's libcuda.so.1, libcudart.so.12/.13, libcupti.so.13 and [`REDIRECT`], unpacked if need
/// be.
pub fn softgpu_folder() -> Result<PathBuf> {
    let folder = private_folder("softgpu", built::LIBRARIES)?;
    for library in built::LIBRARIES {
        unpack(&folder, library)?;
    }
    Ok(folder)
}

/// The library that is injected into traced programs, unpacked if need be.
pub fn preload_library() -> Result<PathBuf> {
    let folder = private_folder("preload", &[built::PRELOAD])?;
    unpack(&folder, &built::PRELOAD)
}

/// The library that the driver loads in traced programs, unpacked if need be.
pub fn activity_library() -> Result<PathBuf> {
    let folder = private_folder("activity", &[built::ACTIVITY])?;
    unpack(&folder, &built::ACTIVITY)
}

/// The library that puts probes into kernels, unpacked if need be.
pub fn probe_library() -> Result<PathBuf> {
    let folder = private_folder("probe", &[built::PROBE])?;
    unpack(&folder, &built::PROBE)
}

/// A folder of the user's cache for what can be made again.
pub fn cache_folder(kind: &str) -> Result<PathBuf> {
    private_folder(kind, &[])
}

/// A file for one run, which removes it.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let folder = private_folder("scratch", &[])?;
    Ok(folder.join(format!("{}.{name}", std::process::id())))
}

/// The demo program, unpacked if need be.
pub fn demo_program() -> Result<PathBuf> {
    let folder = private_folder("demo", &[built::DEMO])?;
    unpack(&folder, &built::DEMO)
}

/// A folder only this user can write, named after the contents so that versions never mix.
fn private_folder(kind: &str, contents: &[Embedded]) -> Result<PathBuf> {
    let name = format!("{kind}-{:016x}", fingerprint(contents));
    let mut refused = Vec::new();
    for base in bases() {
        let folder = base.join(&name);
        match make_private(&folder) {
            Ok(()) => return Ok(folder),
            Err(why) => refused.push(format!("{}: {why:#}", folder.display())),
        }
    }
    bail!(
        "no folder to unpack {kind} into:\n  {}\nset XDG_CACHE_HOME to a folder you can write",
        refused.join("\n  ")
    )
}

fn bases() -> Vec<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| {
            env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute() && home != Path::new("/"))
                .map(|home| home.join(".cache"))
        });
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    cache
        .map(|path| path.join("cutrace"))
        .into_iter()
        .chain([env::temp_dir().join(format!("cutrace-{user}"))])
        .collect()
}

/// Creates the folder and its parent 0700 and refuses what another user owns or can write: what lies
/// in there gets loaded into programs.
fn make_private(folder: &Path) -> Result<()> {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    for path in [folder.parent(), Some(folder)].into_iter().flatten() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
            bail!("{} is not a folder that only you can write", path.display());
        }
    }
    Ok(())
}

fn unpack(folder: &Path, what: &Embedded) -> Result<PathBuf> {
    let path = folder.join(what.name);
    let is_there = || fs::read(&path).is_ok_and(|found| found == what.bytes);
    if is_there() {
        mark_used(folder, SystemTime::now());
        return Ok(path);
    }
    // Written aside and put there whole, so that a second cutrace never loads half a library.
    let aside = folder.join(format!(".{}.{}", what.name, std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o755)
            .open(&aside)?;
        file.write_all(what.bytes)?;
        drop(file);
        // What a second cutrace was faster to put there stays: a program may have loaded it, and a
        // file of the same name would be another library to its loader.
        if fs::hard_link(&aside, &path).is_ok() || is_there() {
            return fs::remove_file(&aside);
        }
        fs::rename(&aside, &path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
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

/// FNV-1a: a name for the contents, not a defence (the folder's owner is).
fn fingerprint(contents: &[Embedded]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in contents {
        for chunk in part.bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
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
}
