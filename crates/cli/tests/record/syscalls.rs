//! `--method=syscall`: what is hard on a tracer that stops threads, and that no program is harmed.

use super::{Run, compile, read};
use crate::common::cutrace;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The program, and a folder with stand-ins of the driver's files.
struct Place {
    folder: TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = compile("syscalls", folder.path());
        for name in ["nvidiactl", "nvidia-uvm"] {
            let file = fs::File::create(folder.path().join(name)).expect("created");
            file.set_len(1 << 16).expect("room to map");
        }
        Place { folder, program }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn trace(&self) -> PathBuf {
        self.path().join("trace.jsonl")
    }

    fn record(&self, case: &str, number: u32) -> Command {
        self.record_with(&[], case, number)
    }

    fn record_with(&self, options: &[&str], case: &str, number: u32) -> Command {
        let mut command = cutrace();
        command
            .args(["record", "--method=syscall", "-o"])
            .arg(self.trace())
            .args(options)
            .arg("--")
            .arg(&self.program)
            .arg(case)
            .arg(self.path())
            .arg(number.to_string());
        command
    }

    /// The program by itself.
    fn start(&self, case: &str, number: u32) -> Child {
        Command::new(&self.program)
            .arg(case)
            .arg(self.path())
            .arg(number.to_string())
            .spawn()
            .expect("it starts")
    }

    /// What is in the trace, when nothing else is wanted of the run.
    fn traced(self) -> Run {
        Run {
            lines: read(&self.trace()),
            folder: self.folder,
            output: Output {
                status: Default::default(),
                stdout: Vec::new(),
                stderr: Vec::new(),
            },
        }
    }

    fn run(self, case: &str, number: u32) -> Run {
        let output = self.record(case, number).output().expect("cutrace runs");
        let lines = read(&self.trace());
        let run = Run {
            folder: self.folder,
            output,
            lines,
        };
        assert!(run.output.status.success(), "{case}: {}", run.stderr());
        run
    }

    /// What the program said in its file.
    fn said(&self) -> String {
        fs::read_to_string(self.path().join("said")).unwrap_or_default()
    }

    fn wait_until_said(&self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{:?}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ioctls that have ended.
fn ioctls(run: &Run) -> Vec<&Value> {
    let ended = run.of_type("ioctl").filter(|line| line["phase"] == "E");
    ended.collect()
}

fn threads(run: &Run) -> usize {
    let all: BTreeSet<_> = run
        .of_type("ioctl")
        .map(|line| line["tid"].as_u64())
        .collect();
    all.len()
}

#[test]
fn every_ioctl_once_decoded() {
    let run = Place::new().run("plain", 50);
    assert_eq!(ioctls(&run).len(), 50);
    let last = ioctls(&run)[49];
    assert_eq!(last["decoded"]["name"], "NV_ESC_RM_FREE");
    assert_eq!(last["decoded"]["status"], "NV_OK");
    assert_eq!(
        last["details"]["stand_in"],
        Value::Null,
        "said at the beginning"
    );
    let opened: Vec<_> = run.of_type("syscall").collect();
    assert_eq!(opened.len(), 2, "{opened:?}");
    assert_eq!(opened[0]["name"], "openat");
    assert!(opened[1]["details"]["fd"].as_u64().is_some());
    assert!(run.stderr().contains("IOCTL calls: 50"), "{}", run.stderr());
}

#[test]
fn two_hundred_threads() {
    let run = Place::new().run("threads", 200);
    assert_eq!((ioctls(&run).len(), threads(&run)), (4000, 200));
    assert_eq!(run.summary()["open"], 0);
}

#[test]
fn a_program_that_forks_in_a_loop() {
    let run = Place::new().run("forks", 150);
    assert_eq!((ioctls(&run).len(), threads(&run)), (150, 150));
}

#[test]
fn children_by_vfork_and_clone3() {
    let run = Place::new().run("vfork", 1);
    assert_eq!((ioctls(&run).len(), threads(&run)), (4, 2));
    let run = Place::new().run("clone3", 1);
    assert_eq!((ioctls(&run).len(), threads(&run)), (2, 2));
}

#[test]
fn exec_from_a_thread() {
    let run = Place::new().run("exec", 1);
    assert_eq!(ioctls(&run).len(), 4);
    // The program that came goes by the number of the first thread.
    assert_eq!(threads(&run), 1);
}

#[test]
fn stops_and_signals_are_the_programs_own() {
    Place::new().run("stops", 1);
    let run = Place::new().run("signals", 200);
    assert!(ioctls(&run).len() >= 200);
}

#[test]
fn programs_with_filters_of_their_own() {
    let run = Place::new().run("seccomp", 5);
    // The last is answered by the program's own filter, which goes before ours.
    assert_eq!(ioctls(&run).len(), 5);
}

#[test]
fn descriptors_that_change_hands() {
    let run = Place::new().run("descriptors", 1);
    let names: Vec<_> = (ioctls(&run).iter())
        .map(|line| line["decoded"]["name"].as_str().expect("named"))
        .collect();
    assert_eq!(names, ["UVM_FREE", "UVM_FREE", "NV_ESC_RM_FREE"]);
    let mapped = run.of_type("syscall").filter(|line| line["name"] == "mmap");
    assert_eq!(mapped.count(), 2);
}

/// What is closed and unmapped of the driver's files, and of no others, in every thread.
#[test]
fn closes_and_unmaps() {
    let run = Place::new().run("closes", 8);
    let ended = |name: &'static str| {
        let lines = run.of_type("syscall");
        lines.filter(move |line| line["phase"] == "E" && line["name"] == name)
    };
    // A copy, two files, and ten of each thread; one that fails is nobody's file any more.
    assert_eq!(ended("close").count(), 3 + 8 * 10);
    assert!(ended("close").all(|line| line["status"] == 0));
    let closed = |name: &str| {
        let begun = run.of_type("syscall").filter(|line| line["phase"] == "B");
        let paths = begun.filter(|line| line["name"] == "close");
        let path = |line: &Value| line["details"]["path"].as_str().unwrap_or("").to_owned();
        paths.filter(|line| path(line).ends_with(name)).count()
    };
    assert_eq!((closed("nvidiactl"), closed("nvidia-uvm")), (2, 81));
    assert_eq!(ended("munmap").count(), 2);
    let words = run.stderr();
    assert!(!words.contains("not recorded"), "{words}");
}

/// A program whose own filter might mind is left alone, and that is said.
#[test]
fn a_filter_of_its_own_before_the_driver_is_used() {
    let run = Place::new().run("own_filter_first", 1);
    assert_eq!(ioctls(&run).len(), 1);
    let words = run.stderr();
    assert!(words.contains("has its own seccomp filters"), "{words}");
}

#[test]
fn exit_status_and_fatal_signal_are_passed_on() {
    for (script, code) in [("exit 7", Some(7)), ("kill -9 $$", None)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let status = cutrace()
            .args(["record", "--method=syscall", "-q", "-o"])
            .arg(folder.path().join("t.jsonl"))
            .args(["--", "sh", "-c", script])
            .status()
            .expect("cutrace runs");
        assert_eq!(status.code(), code, "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("t.jsonl");
    let output = cutrace()
        .args(["record", "--method=syscall", "-o"])
        .arg(&trace)
        .args(["--", "/nonexistent/command"])
        .output()
        .expect("cutrace runs");
    assert_eq!(output.status.code(), Some(127));
    assert!(!trace.exists(), "nothing ran");
}

/// What goes on when the command has ended goes on unharmed: the tracer stays, and ends with it.
#[test]
fn a_daemon_is_left_behind_unharmed() {
    let place = Place::new();
    let output = place.record("daemon", 1).output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("cutrace-ptrace"), "{said}");
    place.wait_until_said("\n");
    assert_eq!(place.said(), "well\n");
}

/// Killed in the middle: the program does not notice.
#[test]
fn the_program_outlives_a_tracer_that_is_killed() {
    let place = Place::new();
    let mut cutrace = place
        .record("lasting", 1500)
        .stderr(Stdio::null())
        .spawn()
        .expect("cutrace starts");
    place.wait_until_said("begun");
    std::thread::sleep(Duration::from_millis(100));
    end(&mut cutrace);
    place.wait_until_said("begun\nwell");
}

/// The process that traces is killed, not we: another takes its threads over, and goes on recording.
#[test]
fn a_tracer_that_is_killed_has_a_successor() {
    let place = Place::new();
    let cutrace = place
        .record("through", 4000)
        .stderr(Stdio::piped())
        .spawn()
        .expect("cutrace starts");
    place.wait_until_said("begun ");
    let said = place.said();
    let mut words = said.split_whitespace().skip_while(|word| *word != "begun");
    let program: u32 = (words.nth(1))
        .and_then(|pid| pid.parse().ok())
        .expect("a number");
    std::thread::sleep(Duration::from_millis(200));
    let first = tracer_of(program);
    assert_ne!(first, 0);
    let killed = Command::new("kill")
        .args(["-9", &first.to_string()])
        .status();
    assert!(killed.is_ok_and(|status| status.success()));
    let began = Instant::now();
    while [0, first].contains(&tracer_of(program)) {
        assert!(began.elapsed() < Duration::from_secs(2), "nobody came");
    }
    let output = cutrace.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("was killed and replaced"), "{said}");
    // Two threads and a child; what they say of the moment between is for whoever reads it.
    let told = place.said();
    eprintln!("{told}");
    assert_eq!(told.matches("well: ").count(), 3, "{told}");
    let run = place.traced();
    assert_eq!(threads(&run), 3);
    // What was under way was left without an end, what came later is whole.
    let open = run.summary()["open"].as_u64().expect("a number");
    assert!(open <= 3, "{open}");
    let last = ioctls(&run).last().map(|line| line["ts"].as_f64());
    assert!(last.flatten() > Some(3_000.0), "{last:?}");
}

fn end(child: &mut Child) {
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

/// A process that runs already, from outside.
#[test]
fn attached_and_let_go() {
    let place = Place::new();
    let mut program = place.start("late", 5);
    place.wait_until_said("begun");
    let mut tracer = attach(&place, program.id())
        .spawn()
        .expect("cutrace starts");
    wait_for_tracer(program.id(), &mut tracer);
    let_it_settle();
    fs::write(place.path().join("go"), "").expect("written");
    place.wait_until_said("well");
    assert!(program.wait().expect("ended").success());
    assert!(tracer.wait().expect("it ends with the process").success());
    let lines = read(&place.trace());
    let ended = |line: &&Value| line["type"] == "ioctl" && line["phase"] == "E";
    assert_eq!(lines.iter().filter(ended).count(), 5);
}

/// All threads of a process that has many, and one with a filter of its own.
#[test]
fn attached_to_many_threads_and_to_filters() {
    for (case, number, expected) in [("late_threads", 40, (200, 40)), ("late_filter", 5, (5, 1))] {
        let place = Place::new();
        let mut program = place.start(case, number);
        place.wait_until_said("begun");
        let mut tracer = attach(&place, program.id())
            .spawn()
            .expect("cutrace starts");
        // The last thread is attached to last.
        for tid in tasks(program.id()) {
            wait_for_tracer(tid, &mut tracer);
        }
        let_it_settle();
        fs::write(place.path().join("go"), "").expect("written");
        place.wait_until_said("well");
        assert!(program.wait().expect("ended").success(), "{case}");
        assert!(tracer.wait().expect("it ends with the process").success());
        let run = place.traced();
        assert_eq!((ioctls(&run).len(), threads(&run)), expected, "{case}");
    }
}

fn tasks(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let names = entries.map(|entry| entry.expect("read").file_name());
    names
        .map(|name| name.to_str().expect("a number").parse().expect("a number"))
        .collect()
}

/// A debugger has the process: nothing is taken from it, and the message says who it is.
#[test]
fn a_process_that_a_debugger_has() {
    let place = Place::new();
    let mut program = place.start("late", 5);
    place.wait_until_said("begun");
    let mut debugger = place.start("hold", program.id());
    place.wait_until_said("held");
    let output = attach(&place, program.id()).output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    let name = format!("already traced by process {} (syscalls)", debugger.id());
    assert!(said.contains(&name), "{said}");
    assert_eq!(tracer_of(program.id()), debugger.id());
    fs::write(place.path().join("go"), "").expect("written");
    assert!(debugger.wait().expect("ended").success());
    assert!(program.wait().expect("ended").success());
}

/// A program that would trace its own child is told that it cannot, as under any tracer.
#[test]
fn a_debugger_as_the_program() {
    let run = Place::new().run("debug", 1);
    assert_eq!(ioctls(&run).len(), 1);
}

/// A setuid program runs, without its rights where the tracer has none, and with them under root.
#[test]
fn setuid_programs() {
    let id = Command::new("id").arg("-u").output().expect("id");
    if id.stdout != b"0\n" {
        return crate::common::skip("only root makes a setuid program");
    }
    for (user, expected) in [(65534, "ordinary\n"), (0, "root\n")] {
        let place = Place::new();
        let rights = fs::Permissions::from_mode(0o4755);
        fs::set_permissions(&place.program, rights).expect("setuid");
        for entry in fs::read_dir(place.path()).expect("read") {
            let path = entry.expect("read").path();
            if path != place.program {
                chown(&path, Some(user), None).expect("given away");
            }
        }
        chown(place.path(), Some(user), None).expect("given away");
        let binary = place.path().join("cutrace");
        let original = env!("CARGO_BIN_EXE_cutrace");
        // Linked or, by another process, copied: a file that this one has written may be open in a child
        // that another test has just forked, and cannot be executed then.
        let copied = fs::hard_link(original, &binary).is_ok()
            || Command::new("cp")
                .arg(original)
                .arg(&binary)
                .status()
                .is_ok_and(|done| done.success());
        assert!(copied);
        let output = Command::new(&binary)
            .args(["record", "--method=syscall", "-o"])
            .arg(place.trace())
            .arg("--")
            .arg(&place.program)
            .args(["rights".as_ref(), place.path()])
            .uid(user)
            .gid(user)
            .env("HOME", place.path())
            .env("XDG_CACHE_HOME", place.path().join("cache"))
            .output()
            .expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(place.said(), expected, "{said}");
        assert_eq!(ioctls(&place.traced()).len(), 1, "{said}");
    }
}

/// Calls that are too short leave no record, and what they did is known all the same.
#[test]
fn only_what_lasts() {
    for (least, expected) in [("1ns", 50), ("3600s", 0)] {
        let place = Place::new();
        let output = place
            .record_with(&["--min-duration", least], "plain", 50)
            .output()
            .expect("cutrace runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("were left out"), "{said}");
        let run = place.traced();
        assert_eq!(ioctls(&run).len(), expected, "{said}");
        assert_eq!(run.of_type("ioctl").count(), 2 * expected, "{said}");
    }
}

/// Ctrl-C lets go of the process, which goes on.
#[test]
fn let_go_before_the_end() {
    let place = Place::new();
    let mut program = place.start("late", 5);
    place.wait_until_said("begun");
    let mut tracer = attach(&place, program.id())
        .spawn()
        .expect("cutrace starts");
    wait_for_tracer(program.id(), &mut tracer);
    // A second tracer is told who has it.
    let second = attach(&place, program.id()).output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(125), "{said}");
    assert!(said.contains("is already traced by process"), "{said}");
    let interrupt = Command::new("kill")
        .args(["-INT", &tracer.id().to_string()])
        .status();
    assert!(interrupt.is_ok_and(|status| status.success()));
    assert!(tracer.wait().expect("it ends").success());
    assert_eq!(tracer_of(program.id()), 0);
    fs::write(place.path().join("go"), "").expect("written");
    place.wait_until_said("well");
    assert!(program.wait().expect("ended").success());
}

fn attach(place: &Place, pid: u32) -> Command {
    let mut command = cutrace();
    command
        .args(["record", "--method=syscall", "-o"])
        .arg(place.trace())
        .args(["-p", &pid.to_string()]);
    command
}

fn wait_for_tracer(pid: u32, tracer: &mut Child) {
    let began = Instant::now();
    while tracer_of(pid) == 0 {
        let ended = tracer.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "cutrace ended: {ended:?}");
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A thread that has a tracer is stopped once more before its calls are watched; nothing shows that
/// from outside.
fn let_it_settle() {
    std::thread::sleep(Duration::from_secs(1));
}

/// Who traces a process; 0 is nobody.
fn tracer_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = (status.lines()).find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|pid| pid.trim().parse().ok()).unwrap_or(0)
}

/// What is below the calls of a function, call by call: `RM_ALLOC NV01_MEMORY_LOCAL_USER`.
fn below(run: &Run, function: &str) -> Vec<Vec<String>> {
    let calls = run.calls(function).map(|call| call["op_id"].as_u64());
    let of = |call: Option<u64>| {
        let ended = (run.lines.iter())
            .filter(|line| line["phase"] == "E" && line["parent"].as_u64() == call);
        let system = ended.filter(|line| line["type"] == "ioctl" || line["type"] == "syscall");
        system.map(name).collect()
    };
    calls.map(of).collect()
}

fn name(line: &Value) -> String {
    assert!(line["correlation"].is_u64(), "in an API call: {line}");
    let decoded = &line["decoded"];
    let name = decoded["name"].as_str().or(line["name"].as_str());
    let name = name.expect("a name").replace("NV_ESC_", "");
    match decoded["class"].as_str().or(decoded["control"].as_str()) {
        Some(what) => {
            let what = what.rsplit("_CTRL_CMD_").next().unwrap_or(what);
            format!("{name} {what}")
        }
        None => name,
    }
}

/// As a real libcuda's: the order that was measured on an H200.
#[test]
fn ioctls_lie_in_the_calls_that_make_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("memory_calls", folder.path());
    let run = super::record(&["--method=preload,syscall"], &[super::path(&program)]);
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_eq!(run.output.stdout, b"", "every call succeeds");
    let allocation = ["UVM_CREATE_EXTERNAL_RANGE", "UVM_MAP_EXTERNAL_ALLOCATION"];
    let mut device = vec![
        "RM_ALLOC NV01_MEMORY_LOCAL_USER",
        "RM_CONTROL REGISTER_VIDMEM",
    ];
    device.extend(allocation);
    assert_eq!(below(&run, "cuMemAlloc_v2"), [device]);
    let mut host = vec!["RM_ALLOC_MEMORY NV01_MEMORY_SYSTEM_OS_DESCRIPTOR"];
    host.extend(allocation);
    assert_eq!(below(&run, "cuMemAllocHost_v2"), [host]);
    let managed = [
        "mmap",
        "UVM_VALIDATE_VA_RANGE",
        "UVM_DISABLE_READ_DUPLICATION",
    ];
    assert_eq!(below(&run, "cuMemAllocManaged"), [managed]);
    let freed = ["RM_CONTROL UNREGISTER_VIDMEM", "UVM_FREE", "RM_FREE"];
    assert_eq!(below(&run, "cuMemFree_v2")[0], freed);
    let start = &below(&run, "cuInit")[0];
    assert!(start.len() > 100, "{}", start.len());
    for expected in [
        "openat",
        "RM_ALLOC NV01_ROOT_CLIENT",
        "CARD_INFO",
        "UVM_INITIALIZE",
    ] {
        assert!(
            start.iter().any(|name| name == expected),
            "{expected}: {start:?}"
        );
    }
    let unnamed = |line: &&Value| line["decoded"]["name"].is_null();
    assert_eq!(run.of_type("ioctl").filter(unnamed).count(), 0);
    let report = cutrace()
        .args(["report", "ioctls"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    for words in [
        "GPU memory",
        "UVM: 31 ranges",
        "make no ioctl",
        "channels created",
        "Timeslice",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    assert!(run.stderr().contains("Time by layer"), "{}", run.stderr());
}

/// What lies in no call is said, with what can be told of why.
#[test]
fn ioctls_in_no_call_have_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compile("outside", folder.path());
    let file = folder.path().join("nvidiactl");
    fs::write(&file, "").expect("written");
    let command = [super::path(&program), super::path(&file)];
    let run = super::record(&["--method=preload,syscall"], &command);
    assert!(run.output.status.success(), "{}", run.stderr());
    let report = cutrace()
        .args(["report", "ioctls", "--json"])
        .arg(run.trace())
        .output()
        .expect("cutrace runs");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let reasons = report["ioctls"]["outside"]["reasons"].as_array();
    let reasons: Vec<_> = (reasons.expect("a list").iter())
        .map(|row| (row["why"].as_str().unwrap_or(""), row["calls"].as_u64()))
        .collect();
    let expected = [
        ("before_the_first", 1),
        ("between_calls", 2),
        ("after_the_last", 1),
        ("thread_without_calls", 1),
    ];
    assert_eq!(reasons, expected.map(|(why, calls)| (why, Some(calls))));
}
