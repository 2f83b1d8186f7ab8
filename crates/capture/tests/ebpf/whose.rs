//! Of all that a machine does, one user's calls, or one cgroup's.

use super::calls::{flood, flood_options};
use super::common::{Recorded, ready};
use capture::ebpf::{self, AttachMode, Options, ProcessFilter, Target};
use capture::launch::{Command, Exit, Preparation, User, hold};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const EACH: u64 = 300;
const NOBODY: u32 = 65_534;

/// The program with its library, where everybody may read them.
fn public_flood() -> (tempfile::TempDir, PathBuf) {
    let (program, library) = flood();
    let folder = tempfile::tempdir().expect("a folder");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("opened");
    let copy = folder.path().join("flood");
    fs::copy(program, &copy).expect("copied");
    fs::copy(library, folder.path().join("libflood.so")).expect("copied");
    (folder, copy)
}

/// Runs a shell's line to its end, as root or as nobody.
fn ended(line: &str, nobody: bool) -> u32 {
    let command = Command {
        program: "sh".into(),
        args: vec!["-c".into(), line.into()],
        environment: Vec::new(),
    };
    let preparation = Preparation {
        user: nobody.then(|| User {
            uid: NOBODY,
            gid: NOBODY,
            groups: vec![NOBODY],
        }),
        ..Preparation::default()
    };
    let mut held = hold(&command, &preparation).expect("held");
    let pid = held.pid();
    held.release().expect("begun");
    assert_eq!(held.wait().expect("ended"), Exit::Code(0), "{line}");
    pid
}

/// What is recorded of everybody's calls while `run` runs, by process.
fn record(way: AttachMode, whose: ProcessFilter, run: impl FnOnce()) -> Vec<u32> {
    let options = Options {
        target: Target::All,
        whose,
        ..flood_options(None, way)
    };
    let recording = ebpf::start(&options, Recorded::default()).expect("attached");
    run();
    let (kept, report) = recording.finish();
    assert_eq!(kept.lost(), 0);
    // Returns of others' calls are not even looked at.
    assert_eq!(report.ended.unmatched, 0, "{way:?}");
    let calls = kept.begun().filter(|one| one.name.starts_with("flood_"));
    calls.map(|one| one.pid).collect()
}

#[test]
fn one_users_calls() {
    let Some(_turn) = ready() else {
        return;
    };
    let (folder, program) = public_flood();
    let line = format!(
        "LD_LIBRARY_PATH={} exec {} {EACH}",
        folder.path().display(),
        program.display()
    );
    for way in [AttachMode::Session, AttachMode::Multi] {
        for user in [NOBODY, 0] {
            let whose = ProcessFilter {
                user: Some(user),
                ..ProcessFilter::default()
            };
            let mut pids = (0, 0);
            let seen = record(way, whose, || {
                pids = (ended(&line, false), ended(&line, true));
            });
            let (meant, other) = match user {
                0 => pids,
                _ => (pids.1, pids.0),
            };
            let of = |pid: u32| seen.iter().filter(|one| **one == pid).count() as u64;
            assert_eq!((of(meant), of(other)), (4 * EACH, 0), "{way:?} {user}");
        }
    }
}

/// A folder of cgroups that is removed again.
struct Group(PathBuf);

impl Group {
    fn create(name: &str) -> Option<Group> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|words| words.get(2) == Some(&"cgroup2"))?[1]
            .to_owned();
        let folder = Path::new(&root).join(name);
        fs::create_dir_all(folder.join("below")).ok()?;
        Some(Group(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in [self.0.join("below"), self.0.clone()] {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn one_cgroups_calls() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(group) = Group::create(&format!("cutrace-test-{}", std::process::id())) else {
        let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|it| it == "1");
        assert!(
            !required,
            "no cgroup can be made, and everything is required"
        );
        eprintln!("skipped: no cgroup of version 2 can be made here");
        return;
    };
    let (program, _) = flood();
    let within = |folder: Option<&Path>| {
        let enter = folder.map_or(String::new(), |folder| {
            format!("echo $$ > {}/cgroup.procs; ", folder.display())
        });
        ended(&format!("{enter}exec {} {EACH}", program.display()), false)
    };
    let whose = ProcessFilter {
        cgroup: Some(ebpf::cgroup(&group.0).expect("known")),
        ..ProcessFilter::default()
    };
    // By its name alone it is the same.
    let name = Path::new("/").join(group.0.file_name().expect("a name"));
    assert_eq!(ebpf::cgroup(&name).ok(), whose.cgroup);
    let mut meant = HashSet::new();
    let seen = record(AttachMode::Session, whose, || {
        within(None);
        meant.insert(within(Some(&group.0)));
        meant.insert(within(Some(&group.0.join("below"))));
    });
    assert_eq!(seen.len() as u64, 2 * 4 * EACH);
    assert!(seen.iter().all(|pid| meant.contains(pid)));
}
