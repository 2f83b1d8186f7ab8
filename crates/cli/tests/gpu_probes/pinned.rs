//! Maps that other programs read while kernels run.

use super::{common::cutrace, program, skip};
use crate::common::repository;
use gpu_maps::Folder;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../../examples/gpu/host/watch.rs"]
mod watch;

/// The program with host_map_test in its kernel; it waits for a line before it launches again.
fn started(program: &Path, folder: &Path) -> Child {
    let object = repository().join("examples/gpu/objects/host_map_test.bpf.o");
    cutrace()
        .args(["gpu", "run"])
        .arg(object)
        .args(["--sim", "--no-summary", "--threads", "1024", "-o"])
        .arg(folder.join("trace.jsonl"))
        .arg("--pin")
        .arg(folder.join("pin"))
        .arg("--")
        .arg(program)
        .args(["wait", "1", "10", "4"])
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cutrace starts")
}

/// Until the pinned map has that many calls; the machine may be busy.
fn wait_for_calls(folder: &Path, calls: u64) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        // All three maps: they come one after the other.
        let opened = Folder::open(folder.join("pin")).ok();
        let whole = opened.filter(|folder| folder.maps().len() == 3);
        if let Some(Ok(map)) = whole.map(|folder| folder.map("call_count"))
            && map.spec().is_live
            && map.sum(0) == calls
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the live map has not come to {calls}");
}

fn go_on_and_end(mut child: Child) {
    let input = child.stdin.take();
    let _ = input.expect("piped").write_all(b"\n");
    let output = child.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("threads 80\n"));
}

#[test]
fn a_pinned_map_is_read_while_the_program_runs() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let child = started(&program, folder.path());
    wait_for_calls(folder.path(), 40);
    let live = Folder::open(folder.path().join("pin")).expect("pinned");
    let ids = live.map("thread_ids").expect("a map");
    assert_eq!((0..10).map(|key| ids.sum(key)).sum::<u64>(), 45);
    let names: Vec<&str> = live.maps().iter().map(|map| map.name.as_str()).collect();
    assert_eq!(names, ["thread_ids", "call_count", "timestamps"]);
    // The example that is in the documentation, from now to the end.
    let place = folder.path().join("pin");
    let watcher = std::thread::spawn(move || {
        let mut said = Vec::new();
        watch::watch(&place, "call_count", &mut said).expect("watched");
        String::from_utf8(said).expect("text")
    });
    go_on_and_end(child);
    let said = watcher.join().expect("it ends");
    assert!(said.ends_with("call_count at the end: [80]\n"), "{said}");
    let kept = Folder::open(folder.path().join("pin")).expect("pinned");
    let calls = kept.map("call_count").expect("a map");
    assert!(!calls.spec().is_live);
    assert_eq!(
        (0..10)
            .map(|thread| calls.number(0, thread))
            .collect::<Vec<_>>(),
        [Some(8); 10]
    );
}

/// The example in C, compiled; `None`: there is no compiler.
fn watch_in_c(folder: &Path) -> Option<PathBuf> {
    let root = repository();
    let made = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root.join("crates/gpu-maps/include"))
        .arg(root.join("examples/gpu/host/watch.c"))
        .arg("-o")
        .arg(folder.join("watch"))
        .status();
    match made {
        Ok(status) => {
            assert!(status.success(), "watch.c does not compile");
            Some(folder.join("watch"))
        }
        Err(_) => {
            skip("no C compiler (cc)");
            None
        }
    }
}

#[test]
fn a_pinned_map_is_read_from_c() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(watch) = watch_in_c(folder.path()) else {
        return;
    };
    let child = started(&program, folder.path());
    wait_for_calls(folder.path(), 40);
    let watcher = Command::new(watch)
        .arg(folder.path().join("pin"))
        .arg("call_count")
        .stdout(Stdio::piped())
        .spawn();
    let mut watcher = Ended(watcher.expect("it starts"));
    go_on_and_end(child);
    let mut said = String::new();
    let out = watcher.0.stdout.take().expect("piped");
    std::io::BufReader::new(out)
        .read_to_string(&mut said)
        .expect("text");
    assert!(said.ends_with("call_count at the end: 80\n"), "{said}");
}

/// It does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
