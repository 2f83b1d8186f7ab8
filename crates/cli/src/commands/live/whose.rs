//! What processes are called and which container they are in, by /proc: each is looked up once.

use capture::process_name;
use std::{collections::HashMap, fs};

/// The container that a process is in, as its cgroup says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The first twelve digits of its id, as `docker ps` prints them.
    pub id: String,
    /// Kubernetes's UID of its pod.
    pub pod: String,
}

#[derive(Debug, Clone, Default)]
pub struct Named {
    pub name: String,
    pub container: Container,
}

/// Processes that are remembered.
const MOST: usize = 4_096;

#[derive(Default)]
pub struct Whose(HashMap<u32, Named>);

impl Whose {
    pub fn of(&mut self, pid: u32) -> &Named {
        if self.0.len() >= MOST && !self.0.contains_key(&pid) {
            self.0.clear();
        }
        self.0.entry(pid).or_insert_with(|| look(pid))
    }

    /// Whether the process is there.
    pub fn is_running(pid: u32) -> bool {
        fs::metadata(format!("/proc/{pid}")).is_ok()
    }
}

fn look(pid: u32) -> Named {
    let name = process_name::of_running(pid).map_or_else(String::new, |found| found.name);
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    Named {
        name,
        container: Container::of(&cgroup),
    }
}

impl Container {
    /// By the lines of /proc/PID/cgroup; empty outside of containers.
    pub fn of(cgroup: &str) -> Self {
        let mut found = Container::default();
        for part in cgroup.lines().flat_map(|line| line.split('/')) {
            let part = part.strip_suffix(".scope").unwrap_or(part);
            let part = part.strip_suffix(".slice").unwrap_or(part);
            // docker-<id>.scope, cri-containerd-<id>.scope, libpod-<id>.scope, <id>
            let last = part.rsplit('-').next().unwrap_or(part);
            if last.len() == 64 && last.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                found.id = last[..12].to_owned();
            }
            // kubepods-burstable-pod<uid>.slice, with '_' for '-'; or pod<uid>
            let pod = part.rsplit_once("-pod").map(|(_, uid)| uid);
            if let Some(uid) = pod.or_else(|| part.strip_prefix("pod"))
                && is_uid(uid)
            {
                found.pod = uid.replace('_', "-");
            }
        }
        found
    }
}

/// `8f1f2c5e-…`: 32 digits in five groups.
fn is_uid(text: &str) -> bool {
    text.len() == 36
        && (text.bytes()).all(|byte| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_in_cgroups() {
        let id = "0123456789abcdef".repeat(4);
        let pod = "8f1f2c5e-1111-2222-3333-444455556666";
        let of = |path: String| Container::of(&format!("0::{path}\n"));
        let docker = of(format!("/system.slice/docker-{id}.scope"));
        assert_eq!((&*docker.id, &*docker.pod), ("0123456789ab", ""));
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
                pod.replace('-', "_")
            ),
            format!("/kubepods/besteffort/pod{pod}/{id}"),
        ] {
            let found = of(path);
            assert_eq!((&*found.id, &*found.pod), ("0123456789ab", pod));
        }
        for none in [
            "/",
            "/user.slice/user-1000.slice/session-2.scope",
            "/podman/x",
        ] {
            assert_eq!(of(none.into()), Container::default());
        }
    }
}
