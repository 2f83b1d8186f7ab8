//! Libraries that come while another tracer watches the loader.

use super::{common::cutrace, older::compile, read, ready};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::fd::{FromRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const DRIVER: &str = r#"
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
"#;

/// A program that loads the driver late, on request.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 2;
    void *driver = dlopen(words[1], RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*version)(int *) = dlsym(driver, "cuDriverGetVersion");
    int found = 0;
    init(0);
    for (int i = 0; i < 100; i++) version(&found);
    return found != 12040 || count != 2;
}
"#;

struct Program {
    folder: tempfile::TempDir,
    driver: PathBuf,
    program: PathBuf,
}

/// A process that waits for its word; ended with the test.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    fn new(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Program {
            driver: compile(folder.path(), "libcuda.so.1", DRIVER, &["-shared", "-fPIC"]),
            program: compile(folder.path(), "program", PROGRAM, flags),
            folder,
        }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace.jsonl")
    }

    /// Runs it under preload until it waits.
    fn start(&self) -> Waiting {
        let mut child = cutrace()
            .args(["--method=preload", "-o"])
            .args([&self.trace(), &self.program, &self.driver])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("readable");
        assert_eq!(line, "ready\n");
        Waiting(child)
    }

    /// Lets it load and call; how many calls were recorded, and what was said.
    fn finish(&self, mut waiting: Waiting) -> (usize, String) {
        let mut input = waiting.0.stdin.take().expect("piped");
        input.write_all(b"\n").expect("written");
        let mut said = String::new();
        let errors = waiting.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut BufReader::new(errors), &mut said).expect("readable");
        let status = waiting.0.wait().expect("ended");
        assert!(
            status.success(),
            "the program was harmed: {status:?} {said}"
        );
        let is_call = |line: &&Value| line["name"] == "cuDriverGetVersion" && line["phase"] == "E";
        (read(&self.trace()).iter().filter(is_call).count(), said)
    }
}

/// Watches the whole machine until it is dropped; its probes are in place.
struct Everyone(Waiting);

impl Everyone {
    fn start(trace: &Path) -> Self {
        let child = cutrace()
            .args(["-a", "-q", "-d", "60", "-o"])
            .arg(trace)
            .spawn()
            .expect("started");
        let everyone = Everyone(Waiting(child));
        // It has its probes when it watches: a program that has been seen says so.
        let folder = tempfile::tempdir().expect("a folder");
        let driver = compile(folder.path(), "libcuda.so.1", DRIVER, &["-shared", "-fPIC"]);
        let program = compile(folder.path(), "other", PROGRAM, &["-ldl"]);
        for _ in 0..60 {
            let mut other = Command::new(&program);
            let other = other
                .arg(&driver)
                .stdin(Stdio::piped())
                .stdout(Stdio::null());
            let other = other.spawn().expect("started");
            let mut other = Waiting(other);
            let mut input = other.0.stdin.take().expect("piped");
            input.write_all(b"\n").expect("written");
            assert!(other.0.wait().expect("ended").success());
            std::thread::sleep(std::time::Duration::from_millis(700));
            let text = fs::read_to_string(trace).unwrap_or_default();
            if text.contains("cuDriverGetVersion") {
                return everyone;
            }
        }
        panic!("-a saw nothing in {}", trace.display());
    }
}

#[test]
fn libraries_are_hooked_whoever_else_watches_the_loader() {
    let Some(_turn) = ready() else {
        return;
    };
    let program = Program::new(&["-ldl"]);
    let all = program.folder.path().join("all.jsonl");
    // The program first, its library after somebody has begun to watch the loader; and when that one is gone.
    for gone in [false, true] {
        let waiting = program.start();
        let everyone = Everyone::start(&all);
        if gone {
            let id = everyone.0.0.id() as i32;
            // SAFETY: our own child, which has not been waited for.
            unsafe { libc::kill(id, libc::SIGINT) };
            let mut everyone = everyone;
            assert!(everyone.0.0.wait().expect("ended").success());
            let (calls, said) = program.finish(waiting);
            assert_eq!(calls, 100, "{said}");
        } else {
            let (calls, said) = program.finish(waiting);
            assert_eq!(calls, 100, "{said}");
            assert!(!said.contains("not hooked"), "{said}");
        }
    }
    // Somebody watches first.
    let _everyone = Everyone::start(&all);
    let (calls, said) = program.finish(program.start());
    assert_eq!(calls, 100, "{said}");
}

/// A probe of perf's kind.
fn uprobe(path: &Path, offset: u64) -> Option<OwnedFd> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?;
    let name = std::ffi::CString::new(path.to_str()?).ok()?;
    // type, size, config, period, sample_type, read_format, flags, wakeup, bp_type, config1, config2, …
    let mut words = [0u64; 14];
    words[0] = kind.trim().parse::<u64>().ok()? | (size_of_val(&words) as u64) << 32;
    words[7] = name.as_ptr() as u64;
    words[8] = offset;
    // SAFETY: the attributes are as long as they say, and the name outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, words.as_ptr(), -1, 0, -1, 0) };
    // SAFETY: a new descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Where in a loader's file its function for debuggers is.
fn debug_function(loader: &Path) -> Option<u64> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(loader)
        .output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let line = text.lines().find(|line| line.contains("_dl_debug_state"))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

#[test]
fn a_library_that_came_behind_our_back_is_named() {
    let Some(_turn) = ready() else {
        return;
    };
    // A loader of its own: nobody else's programs meet this probe.
    let folder = tempfile::tempdir().expect("a folder");
    let loader = folder.path().join("ld.so");
    fs::copy("/lib64/ld-linux-x86-64.so.2", &loader).expect("copied");
    let interpreter = format!("-Wl,--dynamic-linker={}", loader.display());
    let program = Program::new(&["-ldl", &interpreter]);
    let offset = debug_function(&loader).expect("a function");
    let mut code = [0; 1];
    std::os::unix::fs::FileExt::read_exact_at(
        &File::open(&loader).expect("there"),
        &mut code,
        offset,
    )
    .expect("readable");
    for gone in [false, true] {
        let waiting = program.start();
        let probe = uprobe(&loader, offset).expect("a uprobe");
        let probe = (!gone).then_some(probe);
        let (calls, said) = program.finish(waiting);
        drop(probe);
        // With `endbr64` before it, the `ret` that we jump from is not where probes go.
        if code[0] != 0xc3 {
            assert_eq!(calls, 100, "{said}");
            continue;
        }
        assert_eq!(calls, 0, "{said}");
        let note = format!(
            "{} is not hooked, its calls are missing",
            program.driver.display()
        );
        assert!(said.contains(&note), "{gone}: {said}");
    }
}
