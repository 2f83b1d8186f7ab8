//! Programs whose code is not the file's: another tracer's probes must not destroy them.

use super::{common::cutrace, older::compile, read, ready};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Functions whose instructions are known: the first one is a push, and there is room behind it.
const DRIVER: &str = r#"
int cuInit(unsigned flags) { return 0; }
__asm__(".globl cuDriverGetVersion\n.type cuDriverGetVersion, @function\ncuDriverGetVersion:\n"
        "push %rbp\nmovl $12040, (%rdi)\nnopl 0(%rax)\nnopl 0(%rax)\nnopl 0(%rax)\nnopl 0(%rax)\n"
        "pop %rbp\nxor %eax, %eax\nret\n.size cuDriverGetVersion, . - cuDriverGetVersion\n");
"#;

/// Calls for so many tenths of a second. It may hook a function of the driver itself, at its entry or
/// behind its first instruction, and knows whether its calls still go where they should.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int replaced(int *version) { *version = 777; return 0; }
void behind(void);
__asm__(".globl behind\nbehind:\npop %rbp\njmp replaced\n");
static void patch(char *at, void *to) {
    char jump[14] = {0xff, 0x25};
    memcpy(jump + 6, &to, 8);
    char *page = (char *)((unsigned long)at & ~4095ul);
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) exit(3);
    memcpy(at, jump, 14);
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
}
int main(int count, char **words) {
    void *driver = dlopen(words[1], RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*version)(int *) = dlsym(driver, "cuDriverGetVersion");
    int found = 0, calls = 0, expected = 12040;
    init(0);
    if (!strcmp(words[3], "entry")) patch((char *)version, replaced), expected = 777;
    if (!strcmp(words[3], "behind")) patch((char *)version + 1, behind), expected = 777;
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < atoi(words[2]) * 100; i++, calls++, usleep(1000))
        if (version(&found) || found != expected) return 4;
    printf("%d\n", calls);
    return count != 4;
}
"#;

pub struct Programs {
    folder: tempfile::TempDir,
    driver: PathBuf,
    program: PathBuf,
}

impl Programs {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let flags = ["-shared", "-fPIC"];
        Programs {
            driver: compile(folder.path(), "libcuda.so.1", DRIVER, &flags),
            program: compile(folder.path(), "program", PROGRAM, &["-ldl"]),
            folder,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it, under `command`, and waits until it calls.
    pub fn start(&self, mut command: Command, tenths: &str, hooks: &str) -> Running {
        let mut child = command
            .args([&self.program, &self.driver])
            .args([tenths, hooks])
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("readable");
        assert_eq!(line, "ready\n");
        Running { child, output }
    }
}

/// A program that never ends must not keep the tests from it.
pub fn limited() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]);
    command
}

pub struct Running {
    pub child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Its calls, if it ended well.
    pub fn finish(mut self) -> u64 {
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "the program was harmed: {status:?}");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("readable");
        rest.trim().parse().expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn versions(trace: &Path) -> u64 {
    let is_call = |line: &&Value| line["name"] == "cuDriverGetVersion" && line["phase"] == "E";
    read(trace).iter().filter(is_call).count() as u64
}

/// Attaches for a while; what it said.
fn attach(options: &[&str], trace: &Path) -> String {
    let output = cutrace()
        .args(options)
        .args(["--method=ebpf", "-d", "0.5", "-o"])
        .arg(trace)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn functions_that_are_patched_in_memory_get_no_probe_on_the_patch() {
    let Some(_turn) = ready() else {
        return;
    };
    let programs = Programs::new();
    for hooks in ["entry", "behind"] {
        let running = programs.start(limited(), "40", hooks);
        let trace = programs.path("attached.jsonl");
        // Its parent is `timeout`; children come along.
        let pid = running.child.id().to_string();
        let said = attach(&["-p", &pid], &trace);
        let note = "not traced: a function of ";
        if hooks == "entry" {
            assert!(
                said.contains(note) && said.contains("has patched it"),
                "{said}"
            );
            assert_eq!(versions(&trace), 0);
        } else {
            assert!(!said.contains(note), "{said}");
            assert!(
                versions(&trace) > 10,
                "the first instruction is the file's: {said}"
            );
        }
        assert_eq!(running.finish(), 4_000, "{hooks}");
    }
}

#[test]
fn preload_and_ebpf_share_a_program_whichever_comes_first() {
    let Some(_turn) = ready() else {
        return;
    };
    let programs = Programs::new();
    let preloaded = |trace: &str| {
        let mut command = cutrace();
        command
            .args(["-q", "--method=preload", "-o"])
            .arg(programs.path(trace));
        command
    };
    // Preload first; probes come and go.
    let running = programs.start(preloaded("first.jsonl"), "40", "none");
    for _ in 0..2 {
        attach(&["-a"], &programs.path("attached.jsonl"));
    }
    let calls = running.finish();
    assert_eq!(
        (calls, versions(&programs.path("first.jsonl"))),
        (4_000, 4_000)
    );
    // The probes first: a program of that library runs when they come, another begins with them in.
    let other = programs.start(limited(), "30", "none");
    let mut everyone = cutrace()
        .args(["-a", "-q", "-d", "1", "-o"])
        .arg(programs.path("attached.jsonl"))
        .spawn()
        .expect("started");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let running = programs.start(preloaded("second.jsonl"), "30", "none");
    assert!(everyone.wait().expect("ended").success());
    assert_eq!((running.finish(), other.finish()), (3_000, 3_000));
}
