//! Ctrl-C while kernels run with probes: the program ends as it would, and what is known is said.

use super::{common::cutrace, program, repository};
use std::{
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Ends the program in order on Ctrl-C, while its kernels run: a thread waits for the signal.
const ENDS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
static sigset_t interrupts;
static void *wait_for_it(void *none) {
    int signal;
    sigwait(&interrupts, &signal);
    exit(7);
    return none;
}
__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupts, 0);
    pthread_create(&thread, 0, wait_for_it, 0);
}
"#;

fn ending_library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("ends.c"), folder.join("libends.so"));
    fs::write(&source, ENDS).expect("written");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source]);
    let built = command.arg("-lpthread").output().expect("a compiler");
    assert!(built.status.success(), "{built:?}");
    library
}

/// A whole process group, as a terminal's foreground is; killed with the test.
pub struct Group(pub Child);

impl Group {
    pub fn signal(&self, signal: i32) {
        // SAFETY: the group of a child that has not been waited for.
        unsafe { libc::kill(-(self.0.id() as i32), signal) };
    }

    /// Waits until the traced program has used so much time of a processor with CUDA in it.
    fn until_busy(&mut self, ticks: u64) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(120) {
            let ended = self.0.try_wait().expect("asked");
            assert!(ended.is_none(), "it ended by itself: {ended:?}");
            if self.program_ticks().is_some_and(|used| used >= ticks) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        panic!("the program did not become busy");
    }

    fn program_ticks(&self) -> Option<u64> {
        let pid = self.program()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let ticks = stat.rsplit_once(')')?.1.split_whitespace().nth(11)?;
        ticks.parse().ok()
    }

    /// The traced program, once it has CUDA in it.
    pub fn program(&self) -> Option<u32> {
        let own = self.0.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        children.split_whitespace().find_map(|pid| {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
            maps.contains("libcuda").then(|| pid.parse().ok())?
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.signal(libc::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

#[test]
fn ctrl_c_ends_the_program_as_without_probes_and_maps_are_shown() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let ends = ending_library(folder.path());
    for round in 0..10 {
        // In host memory, which outlives the program; and in the device's, which has to be read before it goes.
        let (object, ends) = match round % 3 {
            0 => ("host_map_test", None),
            1 => ("gpu_shared_map", None),
            _ => ("gpu_shared_map", Some(&ends)),
        };
        let object = repository().join(format!("examples/gpu/objects/{object}.bpf.o"));
        let mut command = cutrace();
        command
            .args(["gpu", "run", "--sim", "--no-summary", "-o"])
            .arg(folder.path().join("trace.jsonl"))
            .args([&object, Path::new("--"), Path::new("sh"), Path::new("-c")])
            // In the program, not in cutrace, which has the same signal to deal with.
            .args([
                "LD_PRELOAD=\"$ENDS${LD_PRELOAD:+:$LD_PRELOAD}\" exec \"$@\"",
                "sh",
            ])
            .arg(&program)
            .args(["vadd", "64", "256", "1000000"])
            .env("ENDS", ends.map_or(Path::new(""), |library| library))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut group = Group(command.spawn().expect("started"));
        group.until_busy(2 + 3 * round);
        group.signal(libc::SIGINT);
        let mut said = String::new();
        let mut errors = group.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut errors, &mut said).expect("readable");
        let status = group.0.wait().expect("ended");
        match ends {
            None => assert_eq!(status.signal(), Some(libc::SIGINT), "round {round}: {said}"),
            // 1 if its main thread noticed first that the runtime was going, and said so.
            Some(_) => assert!(
                matches!(status.code(), Some(1 | 7)),
                "round {round}: {status:?} {said}"
            ),
        }
        assert!(said.contains("=== GPU PROBES ==="), "round {round}: {said}");
        let has_map = said.lines().any(|line| line.starts_with("map "));
        assert!(has_map, "round {round}: {said}");
    }
}

#[test]
fn maps_that_died_with_the_program_are_said_to_be_missing() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = cutrace();
    command
        .args(["gpu", "count", "vectorAdd", "--sim", "--no-summary", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .args([Path::new("--"), &program])
        .args(["vadd", "64", "256", "1000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut group = Group(command.spawn().expect("started"));
    group.until_busy(20);
    // Nobody can be before that.
    let traced = group.program().expect("the program");
    // SAFETY: a process of ours.
    unsafe { libc::kill(traced as i32, libc::SIGKILL) };
    let mut said = String::new();
    let mut errors = group.0.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut errors, &mut said).expect("readable");
    assert_eq!(
        group.0.wait().expect("ended").signal(),
        Some(libc::SIGKILL),
        "{said}"
    );
    let note = " are missing: it ended before they could be read from the device";
    assert!(said.contains(note), "{said}");
    assert!(!said.contains("threads that entered"), "{said}");
}
