//! `-a` narrowed: `--uid`, `--cgroup`.

use super::{
    common::{cutrace, program},
    read, ready,
};
use std::{collections::HashSet, os::unix::process::CommandExt};

const NOBODY: u32 = 65_534;

#[test]
fn one_users_processes_of_all() {
    let Some(_turn) = ready() else {
        return;
    };
    let Some(program) = program("driver_api") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.jsonl");
    let mut tracer = cutrace()
        .args(["-q", "-a", "--uid", "65534", "-d", "4", "-o"])
        .arg(&path)
        .spawn()
        .expect("started");
    let home = tempfile::tempdir_in("/tmp").expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(home.path(), open).expect("opened");
    let line = format!("echo $$; exec {} >/dev/null", program.display());
    let mut nobodys = HashSet::new();
    while tracer.try_wait().expect("asked").is_none() {
        for user in [0, NOBODY] {
            let output = cutrace()
                .args(["softgpu", "--", "sh", "-c", &line])
                .env("HOME", home.path())
                .env("XDG_CACHE_HOME", home.path().join(user.to_string()))
                .uid(user)
                .output()
                .expect("started");
            assert!(output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            if user == NOBODY {
                nobodys.insert(said.trim().parse::<u64>().expect("a number"));
            }
        }
    }
    assert!(tracer.wait().expect("ended").success());
    let lines = read(&path);
    let calls = lines.iter().filter(|line| line["type"] == "userspace");
    let seen: HashSet<u64> = calls.filter_map(|line| line["pid"].as_u64()).collect();
    assert!(!seen.is_empty());
    assert!(seen.is_subset(&nobodys), "{seen:?} {nobodys:?}");
}

#[test]
fn what_cannot_be_narrowed_is_said() {
    let said = |words: &[&str]| {
        let output = cutrace().args(words).output().expect("started");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = said(&["--uid", "0", "true"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cutrace -a --uid"), "{text}");
    let (code, text) = said(&["-a", "--uid", "no such user"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no such user here"), "{text}");
    let (code, text) = said(&["-a", "--cgroup", "/no/such/cgroup"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("v2"), "{text}");
    let (code, text) = said(&["-a", "--uid", "0", "--method=preload"]);
    assert_eq!(code, Some(125), "{text}");
    assert!(text.contains("not the whole machine"), "{text}");
    let (code, text) = said(&["-a", "--uid", "0", "--method=uvm"]);
    assert_eq!(code, Some(125), "{text}");
    assert!(text.contains("--uid, --cgroup"), "{text}");
}
