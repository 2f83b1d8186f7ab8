//! A program on softgpu that is attached to: it calls the driver in a loop until its standard input ends.

use super::common::{cutrace, skip, usual_signals};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A user who is not root.
pub const NOBODY: u32 = 65534;

const SOURCE: &str = r#"
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *wait_forever(void *nothing) { for (;;) pause(); return nothing; }
int main(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context, *now;
    if (!cuda) return 3;
    int (*init)(unsigned) = dlsym(cuda, "cuInit");
    int (*create)(void **, unsigned, int) = dlsym(cuda, "cuCtxCreate_v2");
    int (*current)(void **) = dlsym(cuda, "cuCtxGetCurrent");
    int (*alloc)(unsigned long *, unsigned long) = dlsym(cuda, "cuMemAlloc_v2");
    int (*release)(unsigned long) = dlsym(cuda, "cuMemFree_v2");
    if (init(0) || create(&context, 0, 0)) return 4;
    pthread_t thread;
    pthread_create(&thread, 0, wait_forever, 0);
    printf("%d %lx\n", getpid(), (unsigned long)current);
    fflush(stdout);
    long wrong = 0;
    struct pollfd input = { 0, POLLIN, 0 };
    while (poll(&input, 1, 5) == 0) {
        unsigned long at = 0;
        wrong += alloc(&at, 4096) != 0 || at == 0 || current(&now) != 0 || now != context || release(at) != 0;
    }
    printf("wrong %ld\n", wrong);
    return 7;
}
"#;

pub struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
    pub pid: u32,
    /// Where cuCtxGetCurrent is.
    function: u64,
    /// Its first bytes.
    code: Vec<u8>,
    pub folder: TempDir,
    /// Who attaches, if not we.
    pub tracer: Option<u32>,
}

/// None: there is no way to compile it so.
pub fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).expect("written");
    let mut command = Command::new("cc");
    command.args(["-O1", "-o"]).args([&to, &source]).args(flags);
    command.output().ok()?.status.success().then_some(to)
}

/// The same as another user, with a cache folder of its own.
fn as_user(command: Command, user: Option<u32>, folder: &Path) -> Command {
    let Some(user) = user else {
        return command;
    };
    let mut other = Command::new("setpriv");
    usual_signals(&mut other)
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .arg("--clear-groups")
        .arg(command.get_program())
        .args(command.get_args())
        .env("XDG_CACHE_HOME", folder)
        .env("HOME", folder)
        .current_dir(folder);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    other
}

impl Target {
    /// None: it cannot run here, which was said.
    pub fn start(user: Option<u32>) -> Option<Target> {
        let folder = tempfile::Builder::new();
        let folder = tempfile::Builder::tempdir_in(&folder, "/var/tmp").expect("a folder");
        if let Some(user) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(user)).expect("given away");
        }
        let flags = ["-ldl", "-lpthread"];
        let Some(program) = compile(folder.path(), "target", SOURCE, &flags) else {
            skip("there is no C compiler");
            return None;
        };
        let mut command = cutrace();
        command.args(["softgpu", "--"]).arg(program);
        let mut child = as_user(command, user, folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it begins");
        let mut words = line.split_whitespace();
        let pid = words.next().and_then(|word| word.parse().ok());
        let function = words
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        let mut target = Target {
            child,
            output,
            pid: pid.expect("its number"),
            function: function.expect("an address"),
            code: Vec::new(),
            folder,
            tracer: user,
        };
        target.code = target.read_code();
        Some(target)
    }

    /// A command as the one who attaches runs it.
    pub fn as_user(&self, command: Command) -> Command {
        as_user(command, self.tracer, self.folder.path())
    }

    fn read_code(&self) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; 16];
        let memory = fs::File::open(format!("/proc/{}/mem", self.pid)).expect("its memory");
        memory
            .read_exact_at(&mut bytes, self.function)
            .expect("its code");
        bytes
    }

    /// Whether a function's beginning is not what it was.
    pub fn has_jumps(&self) -> bool {
        self.read_code() != self.code
    }

    pub fn wait_for_jumps(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.has_jumps() {
            assert!(Instant::now() < until, "nobody attaches");
            sleep(Duration::from_millis(5));
        }
    }

    /// The file of a library that it has loaded.
    pub fn loaded(&self, name: &str) -> PathBuf {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("it runs");
        let line = maps.lines().find(|line| line.ends_with(name));
        let path = line.and_then(|line| line.split_whitespace().last());
        PathBuf::from(path.unwrap_or_else(|| panic!("{name} is not loaded")))
    }

    /// How many threads and open files it has; CUPTI's own thread, which stays with CUPTI, is not counted.
    pub fn threads_and_files(&self) -> [usize; 2] {
        ["task", "fd"].map(|what| {
            let entries = fs::read_dir(format!("/proc/{}/{what}", self.pid));
            let is_cuptis = |entry: &fs::DirEntry| {
                let name = fs::read_to_string(entry.path().join("comm"));
                name.is_ok_and(|name| name.trim() == "softgpu-cupti")
            };
            let entries = entries.expect("it runs").flatten();
            entries.filter(|entry| !is_cuptis(entry)).count()
        })
    }

    /// The same, once they are as they were before, or after a while: the thread that hands GPU times over looks ten
    /// times a second whether it is still needed.
    pub fn settled(&self, before: [usize; 2]) -> [usize; 2] {
        let until = Instant::now() + Duration::from_secs(10);
        while self.threads_and_files() != before && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
        self.threads_and_files()
    }

    pub fn signal(&self, signal: i32) {
        // cutrace, which has started it, stops with it.
        for pid in [self.pid, self.child.id()] {
            // SAFETY: a process of ours.
            unsafe { libc::kill(pid as i32, signal) };
        }
        sleep(Duration::from_millis(100));
    }

    /// Ends it: it has noticed nothing.
    pub fn ends_well(mut self) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("its words");
        let status = self.child.wait().expect("it ends");
        assert_eq!(
            (said.trim(), status.code()),
            ("wrong 0", Some(7)),
            "{status:?}"
        );
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
