//! Whose doings are recorded, of all that a machine does: a user's, a cgroup's.

use super::layout::{FILTER_CGROUP, FILTER_USER, Settings};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All that are set must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// Processes that run as this user.
    pub user: Option<u32>,
    /// The id of a cgroup; processes in it and in those below it.
    pub cgroup: Option<u64>,
}

impl ProcessFilter {
    pub fn is_anybodys(&self) -> bool {
        *self == ProcessFilter::default()
    }

    /// Whether a process may be meant, as far as can be told: others are left alone from the start.
    pub(in crate::ebpf) fn may_mean(&self, pid: u32) -> bool {
        let is_users = |user: u32| user_of(pid).is_none_or(|found| found == user);
        let is_groups = |group: u64| groups_of(pid).is_none_or(|found| found.contains(&group));
        self.user.is_none_or(is_users) && self.cgroup.is_none_or(is_groups)
    }

    /// Tells the programs.
    pub(in crate::ebpf) fn narrow(&self, settings: &mut Settings) {
        if let Some(user) = self.user {
            settings.user = user;
            settings.filter |= FILTER_USER;
        }
        if let Some(cgroup) = self.cgroup {
            settings.cgroup = cgroup;
            settings.filter |= FILTER_CGROUP;
        }
    }
}

/// Who a process runs as.
fn user_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The cgroup that a process is in, and those above it.
fn groups_of(pid: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = mounted(&fs::read_to_string("/proc/self/mounts").ok()?)?;
    let folder = root.join(name);
    let folders = folder.ancestors().take_while(|one| one.starts_with(&root));
    let found: Vec<u64> = folders.filter_map(id_of).collect();
    (!found.is_empty()).then_some(found)
}

/// Why a path names no cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("cgroup v2 is not mounted here")]
    NotMounted,
    #[error("{} is not a v2 cgroup: give a directory below {}", path.display(), root.display())]
    NoCgroup { path: PathBuf, root: PathBuf },
}

/// The id of a cgroup by its folder, or by its name as /proc/PID/cgroup has it.
pub fn cgroup(path: &Path) -> Result<u64, CgroupError> {
    if let Some(id) = id_of(path) {
        return Ok(id);
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = mounted(&mounts).ok_or(CgroupError::NotMounted)?;
    let name = path.strip_prefix("/").unwrap_or(path);
    id_of(&root.join(name)).ok_or_else(|| CgroupError::NoCgroup {
        path: path.to_owned(),
        root,
    })
}

/// Where cgroups of version 2 are.
fn mounted(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// The kernel's id of a cgroup is its folder's inode.
fn id_of(folder: &Path) -> Option<u64> {
    let found = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    let name = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a statfs; the call writes it and nothing else.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: as above, and the name ends in NUL.
    let known = unsafe { libc::statfs(name.as_ptr(), &mut system) };
    (known == 0 && system.f_type == libc::CGROUP2_SUPER_MAGIC).then(|| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_folders_of_their_own_file_system() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            mounted(mounts),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(mounted("nonsense\n"), None);
        assert_eq!(
            (id_of(Path::new("/")), id_of(Path::new("/none"))),
            (None, None)
        );
        let why = cgroup(Path::new("/no/such/group")).expect_err("none");
        assert!(why.to_string().contains("v2"), "{why}");
    }

    #[test]
    fn our_own_process_is_ours() {
        let own = std::process::id();
        // SAFETY: a question without side effects.
        let user = unsafe { libc::getuid() };
        let of = |user, cgroup| ProcessFilter { user, cgroup }.may_mean(own);
        assert!(of(None, None) && of(Some(user), None));
        assert!(!of(Some(user + 1), None));
        if let Some(groups) = groups_of(own) {
            assert!(groups.iter().all(|group| of(None, Some(*group))));
            assert!(!of(Some(user), Some(u64::MAX)));
        }
    }

    #[test]
    fn what_is_not_set_filters_nothing() {
        let mut settings = Settings::default();
        ProcessFilter::default().narrow(&mut settings);
        assert_eq!(settings, Settings::default());
        let whose = ProcessFilter {
            user: Some(0),
            cgroup: Some(7),
        };
        whose.narrow(&mut settings);
        assert_eq!(settings.filter, FILTER_USER | FILTER_CGROUP);
        assert_eq!((settings.user, settings.cgroup), (0, 7));
    }
}
