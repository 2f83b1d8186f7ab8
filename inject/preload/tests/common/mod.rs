//! Runs programs with the injected library, and takes what they record as a tracer would: while
//! they run, from the rings in the session's folder.
#![allow(dead_code, unused_imports)]

mod drain;
#[path = "../../../../crates/cli/tests/common/limited.rs"]
mod limited;

pub use drain::{Call, Drained, never_full};

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn scratch() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("preload");
    fs::create_dir_all(&path).unwrap();
    path
}

fn done(mut command: Command) -> Output {
    limited::limit();
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}",
        output.status
    );
    output
}

/// Tests are processes of their own, several at a time: one builds, the others wait.
fn locked<T>(work: impl FnOnce() -> T) -> T {
    static THREADS: Mutex<()> = Mutex::new(());
    let _one = THREADS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let file = fs::File::create(scratch().join("lock")).unwrap();
    // SAFETY: an open file; unlocked when it is closed.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    work()
}

/// The injected library, built as it is for users.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        locked(|| {
            let out = scratch().join("libcutrace_preload.so");
            let mut script = Command::new(Path::new(HERE).join("link.sh"));
            script.arg(scratch().join("carried")).arg(&out);
            done(script);
            out
        })
    })
}

/// Compiles a file of tests/programs; `flags` come behind it.
pub fn compile(source: &str, output: &str, flags: &[&str]) -> PathBuf {
    locked(|| {
        let source = Path::new(HERE).join("tests/programs").join(source);
        let output = scratch().join(output);
        // Aside and renamed: another test may be running the last one.
        let aside = output.with_extension(format!("new.{}", std::process::id()));
        let plus = source.extension().is_some_and(|ending| ending == "cpp");
        let mut compiler = Command::new(if plus { "c++" } else { "cc" });
        compiler.args(["-O1", "-g", "-o"]).arg(&aside).arg(&source);
        compiler.arg(format!("-L{}", scratch().display()));
        compiler
            .arg(format!("-Wl,-rpath,{}", scratch().display()))
            .args(flags);
        done(compiler);
        fs::rename(&aside, &output).unwrap();
        output
    })
}

/// A library and a program for musl's C library and loader.
pub fn compile_musl(library: &str, program: &str) -> (PathBuf, PathBuf) {
    let folder = scratch().join("musl");
    fs::create_dir_all(&folder).unwrap();
    let build = |source: &str, output: PathBuf, flags: &[&str]| {
        let mut compiler = Command::new("musl-gcc");
        compiler.args(["-O1", "-o"]).arg(&output);
        compiler
            .arg(Path::new(HERE).join("tests/programs").join(source))
            .args(flags);
        done(compiler);
        output
    };
    (
        build(library, folder.join("libstress.so"), &["-shared", "-fPIC"]),
        build(program, folder.join("program"), &[]),
    )
}

/// libstress.so and a program linked to it.
pub fn stress(source: &str, output: &str) -> PathBuf {
    compile(
        "library.cpp",
        "libstress.so",
        &["-shared", "-fPIC", "-Wl,-soname,libstress.so"],
    );
    compile(
        source,
        output,
        &["-rdynamic", "-lstress", "-ldl", "-pthread"],
    )
}

/// A folder that the program and the test share.
pub struct Session {
    pub folder: PathBuf,
}

impl Session {
    pub fn new(options: &str) -> Session {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!(
            "/dev/shm/cutrace-test.{}.{number}",
            std::process::id()
        ));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("options"), options).unwrap();
        Session { folder }
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        limited::limit();
        limited::usual_signals(&mut command)
            .env("LD_PRELOAD", library())
            .env("CUTRACE_SESSION", &self.folder);
        command
    }

    /// Runs it to its end while a thread takes what it records.
    pub fn run(&self, command: &mut Command) -> Run {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command
            .spawn()
            .unwrap_or_else(|why| panic!("{command:?}: {why}"));
        self.follow(|| child.wait_with_output().unwrap())
    }

    /// Takes what is recorded until `work` is done.
    pub fn follow(&self, work: impl FnOnce() -> Output) -> Run {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let drainer = scope.spawn(|| {
                let mut drained = Drained::new(&self.folder);
                while !stop.load(Ordering::Acquire) {
                    drained.take();
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
                drained.take();
                drained
            });
            let output = work();
            stop.store(true, Ordering::Release);
            let drained = drainer.join().unwrap();
            Run {
                status: output.status,
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                processes: processes(&self.folder, &drained.said),
                drained,
            }
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a process said of itself.
#[derive(Default, Debug)]
pub struct Process {
    pub lines: Vec<String>,
    pub functions: HashMap<u16, String>,
}

fn processes(folder: &Path, said: &[(u32, String)]) -> HashMap<u32, Process> {
    let mut found: HashMap<u32, Process> = HashMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix("process.") else {
            continue;
        };
        let pid: u32 = rest.split('.').next().unwrap().parse().unwrap();
        let process = found.entry(pid).or_default();
        process.hear(&fs::read_to_string(&path).unwrap());
    }
    for (pid, text) in said {
        found.entry(*pid).or_default().hear(text);
    }
    found
}

impl Process {
    fn hear(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            if let ["function", number, _, name] = words[..] {
                let number = number.parse().unwrap();
                self.functions.insert(number, name.to_owned());
            } else {
                self.lines.push(line.to_owned());
            }
        }
    }
}

/// What came of a program.
pub struct Run {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub processes: HashMap<u32, Process>,
    pub drained: Drained,
}

impl Run {
    pub fn name(&self, call: &Call) -> &str {
        let process = self.processes.get(&call.pid);
        process
            .and_then(|process| process.functions.get(&call.function))
            .map_or("?", |name| name)
    }

    /// Calls by process and function.
    pub fn counts(&self) -> HashMap<(u32, String), u64> {
        let mut counts = HashMap::new();
        for (key, count) in self.drained.counts() {
            let name = self.processes[&key.0].functions[&key.1].clone();
            *counts.entry((key.0, name)).or_default() += count;
        }
        counts
    }

    /// Compares with the lines "expect PID NAME COUNT" that the program printed.
    pub fn assert_counts(&self) {
        let mut expected = HashMap::new();
        for line in self.stdout.lines() {
            if let ["expect", pid, name, count] = line.split(' ').collect::<Vec<_>>()[..] {
                expected.insert(
                    (pid.parse().unwrap(), name.to_owned()),
                    count.parse().unwrap(),
                );
            }
        }
        assert!(
            !expected.is_empty(),
            "the program said nothing: {}",
            self.stderr
        );
        assert_eq!(self.counts(), expected);
        assert_eq!(self.drained.dropped(), 0);
    }

    pub fn lines(&self, beginning: &str) -> Vec<&str> {
        let all = self.processes.values().flat_map(|process| &process.lines);
        all.map(String::as_str)
            .filter(|line| line.starts_with(beginning))
            .collect()
    }
}
