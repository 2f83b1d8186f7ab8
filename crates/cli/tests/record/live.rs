//! Windows of a run, its last seconds, a bound on the cost: on a program that says itself when its steps were.

use super::{Run, compile, path, program, record};
use crate::common::cutrace;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The steps program with softgpu, under `options`.
fn steps(options: &[&str], words: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("steps", folder.path());
    let command = [&[path(&program)], words].concat();
    record(&[&["--method=preload"], options].concat(), &command)
}

/// The numbers that launches of the first kernel have as their block size: the step, plus 1.
fn launched(lines: &[Value], kernel: &str) -> Vec<u64> {
    let launches = lines.iter().filter(|line| {
        line["type"] == "kernel" && line["op"] == "launch" && line["kernel"] == kernel
    });
    launches
        .map(|line| line["block"][0].as_u64().expect("a number") - 1)
        .collect()
}

fn calls(run: &Run, name: &str) -> usize {
    run.calls(name).count()
}

#[test]
fn a_window_of_steps_is_those_steps() {
    let run = steps(&["--window", "40..50"], &["80", "5000"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let expected: Vec<u64> = (40..50).collect();
    assert_eq!(
        launched(&run.lines, "forward"),
        expected,
        "{}",
        run.stderr()
    );
    assert_eq!(launched(&run.lines, "backward"), expected);
    // What a full trace has of these steps, and nothing of the others.
    assert_eq!(calls(&run, "cuLaunchKernel"), 50);
    assert_eq!(calls(&run, "cuMemcpyHtoD_v2"), 10);
    assert_eq!(calls(&run, "cuCtxSynchronize"), 10);
    assert_eq!(calls(&run, "cuMemAlloc_v2"), 0);
    let summary = run.summary();
    assert_eq!(summary["lost"], 0);
    let watched = &summary["watched"];
    let length = watched["end_ns"].as_u64().zip(watched["start_ns"].as_u64());
    let length = length.map(|(end, start)| end - start).expect("watched");
    assert!((45_000_000..2_000_000_000).contains(&length), "{length}");
}

#[test]
fn steps_are_counted_while_hooks_are_closed() {
    // Hooks are closed for a while if the window is seconds away: 500 steps of 10 ms.
    let run = steps(&["--window", "500..503", "-v"], &["520", "10000"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_eq!(
        launched(&run.lines, "forward"),
        [500, 501, 502],
        "{}",
        run.stderr()
    );
    assert_eq!(
        launched(&run.lines, "layer"),
        [500, 500, 500, 501, 501, 501, 502, 502, 502]
    );
}

#[test]
fn steps_before_the_loop_was_known_are_there_too() {
    let run = steps(&["--window", "2..4"], &["60", "10000"]);
    assert_eq!(launched(&run.lines, "forward"), [2, 3], "{}", run.stderr());
    assert_eq!(calls(&run, "cuLaunchKernel"), 10);
}

#[test]
fn a_window_that_never_comes_is_said() {
    let run = steps(&["--window", "500..510"], &["60", "10000"]);
    assert!(run.output.status.success());
    assert_eq!(calls(&run, "cuLaunchKernel"), 0);
    let stderr = run.stderr();
    assert!(stderr.contains("the program had 60 steps"), "{stderr}");
}

#[test]
fn a_window_of_time_is_by_the_clock() {
    let run = steps(&["--window", "after=1.5s,for=500ms"], &["30", "100000"]);
    let found = launched(&run.lines, "forward");
    // Of 30 steps of 100 ms those that began from 1.5 s to 2 s; the start takes its time, too.
    assert!((1..=7).contains(&found.len()), "{found:?} {}", run.stderr());
    assert!(
        found.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{found:?}"
    );
    assert!(
        found[0] >= 5 && *found.last().expect("some") < 21,
        "{found:?}"
    );
}

#[test]
fn a_window_is_what_the_program_says() {
    let run = steps(
        &["--window", "profiler"],
        &["30", "1000", "start=10", "stop=14"],
    );
    assert_eq!(
        launched(&run.lines, "forward"),
        [10, 11, 12, 13],
        "{}",
        run.stderr()
    );
    assert_eq!(calls(&run, "cuLaunchKernel"), 20);
}

#[test]
fn a_window_is_a_range() {
    let Some(program) = program("nvtx") else {
        return;
    };
    let run = record(
        &["--method=preload", "--window", "range=step"],
        &[path(&program), "5"],
    );
    assert!(run.output.status.success(), "{}", run.stderr());
    let named = |name: &str| {
        let lines = run.lines.iter();
        lines
            .filter(|line| line["name"] == name && line["phase"] == "B")
            .count()
    };
    assert_eq!(
        (named("step"), named("set up"), named("cudaMalloc")),
        (5, 0, 0)
    );
    assert_eq!(run.of_type("not_watched").count(), 4);
    let two = record(
        &["--method=preload", "--window", "1..3,range=step"],
        &[path(&program), "5"],
    );
    let ranges = |run: &Run| {
        let lines = run.of_type("range");
        lines
            .filter(|line| line["name"] == "step" && line["phase"] == "B")
            .count()
    };
    assert_eq!(ranges(&two), 2, "{}", two.stderr());
    // Steps far shorter than the tracer needs to hear of them: each has one launch.
    let short = record(
        &["--method=preload", "--window", "100..110,range=step"],
        &[path(&program), "120"],
    );
    assert_eq!(ranges(&short), 10, "{}", short.stderr());
    assert_eq!(calls(&short, "cuLaunchKernel"), 10, "{}", short.stderr());
}

/// A recorder, its folder, and what its program prints.
struct Flight {
    folder: TempDir,
    child: Child,
}

impl Flight {
    fn start(options: &[&str], words: &[&str]) -> Flight {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile("steps", folder.path());
        let child = cutrace()
            .args(["record", "--sim", "--method=preload", "-o"])
            .arg(folder.path().join("run.arrows"))
            .args(options)
            .arg("--")
            .arg(program)
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cutrace runs");
        Flight { folder, child }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for a step of the program.
    fn until_step(&mut self, step: u64) {
        let out = self.child.stdout.as_mut().expect("piped");
        let line = format!("step {step} ");
        let mut lines = BufReader::with_capacity(1, out)
            .lines()
            .map_while(Result::ok);
        assert!(
            lines.any(|read| read.starts_with(&line)),
            "the program got to step {step}"
        );
    }

    fn end(mut self) -> (Output, TempDir) {
        let mut rest = Vec::new();
        self.child
            .stdout
            .take()
            .map(|mut out| out.read_to_end(&mut rest));
        let output = self.child.wait_with_output().expect("it ends");
        (output, self.folder)
    }
}

/// The traces in a folder, by name.
fn traces(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("there").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "steps")
        .collect();
    names.sort();
    names
}

fn lines(trace: &Path) -> Vec<Value> {
    let output = cutrace()
        .arg("cat")
        .arg(trace)
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn flown(options: &[&str], words: &[&str]) -> (Output, TempDir) {
    Flight::start(options, words).end()
}

#[test]
fn nothing_is_written_when_nothing_happens() {
    let (output, folder) = flown(&["--flight", "2s"], &["20", "1000"]);
    assert!(output.status.success());
    assert_eq!(traces(folder.path()), Vec::<String>::new());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("Trace: none"), "{stderr}");
    assert!(!stderr.contains("Next:"), "{stderr}");
}

#[test]
fn an_exit_status_writes_the_last_seconds() {
    let (output, folder) = flown(&["--flight", "1s"], &["300", "10000", "exit=3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(traces(folder.path()), ["run-exit-3.arrows"]);
    let lines = lines(&folder.path().join("run-exit-3.arrows"));
    let steps = launched(&lines, "forward");
    // Of 3 s and more the last, whole to the end.
    assert_eq!(steps.last(), Some(&299));
    assert!((30..250).contains(&steps.len()), "{}", steps.len());
    assert!(
        steps.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{steps:?}"
    );
    let summary = lines.last().expect("a summary");
    assert_eq!(summary["lost"], 0);
    assert!(summary["watched"]["start_ns"].as_u64() > lines[0]["start_ns"].as_u64());
}

#[test]
fn the_programs_death_writes_the_last_seconds() {
    for (signal, name) in [("9", "run-signal-9.arrows"), ("11", "run-signal-11.arrows")] {
        let (_, folder) = flown(
            &["--flight", "5s"],
            &["50", "2000", &format!("kill={signal}")],
        );
        assert_eq!(traces(folder.path()), [name]);
        let steps = launched(&lines(&folder.path().join(name)), "backward");
        assert_eq!(steps, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn an_error_writes_a_snapshot_named_after_it() {
    let (output, folder) = flown(&["--flight", "5s"], &["300", "10000", "oom=50"]);
    assert!(output.status.success());
    assert_eq!(traces(folder.path()), ["run-out-of-memory.arrows"]);
    let lines = lines(&folder.path().join("run-out-of-memory.arrows"));
    let failed = |line: &&Value| line["result"] == "CUDA_ERROR_OUT_OF_MEMORY";
    assert_eq!(lines.iter().filter(failed).count(), 1);
    // What came right behind it is there as well, what came later is not.
    let steps = launched(&lines, "forward");
    assert!(steps.contains(&50) && !steps.contains(&290), "{steps:?}");
}

#[test]
fn a_slow_step_writes_a_snapshot() {
    let options = ["--flight", "5s", "--trigger", "slow=30"];
    let (output, folder) = flown(&options, &["100", "10000", "slow=60", "exit=3"]);
    // It is the only trigger that was asked for.
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(traces(folder.path()), ["run-slow-step.arrows"], "{stderr}");
    assert!(
        launched(
            &lines(&folder.path().join("run-slow-step.arrows")),
            "forward"
        )
        .contains(&60)
    );
}

/// As a wait for a collective that one of the others never joins.
#[test]
fn a_call_that_does_not_return_writes_a_snapshot() {
    let options = ["--flight", "5s", "--trigger", "stuck=1s"];
    let (output, folder) = flown(&options, &["60", "10000", "stuck=40", "exit=3"]);
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(traces(folder.path()), ["run-stuck.arrows"], "{stderr}");
    let lines = lines(&folder.path().join("run-stuck.arrows"));
    let steps = launched(&lines, "forward");
    // Written while the call was still under way.
    assert_eq!(steps.last(), Some(&40), "{steps:?}");
    let waits = |phase: &str| {
        let lines = lines.iter();
        lines
            .filter(|line| line["name"] == "cuCtxSynchronize" && line["phase"] == phase)
            .count()
    };
    assert_eq!(waits("B"), waits("E") + 1);
}

#[test]
fn who_asks_gets_a_snapshot_and_the_program_no_signal() {
    let mut flight = Flight::start(&["--flight", "5s"], &["400", "10000"]);
    flight.until_step(40);
    let pid = flight.child.id().to_string();
    let snap = cutrace()
        .args(["snap", &pid])
        .output()
        .expect("cutrace runs");
    assert!(snap.status.success(), "{snap:?}");
    let path = PathBuf::from(String::from_utf8(snap.stdout).expect("text").trim());
    assert_eq!(path, flight.at("run-asked.arrows"));
    assert!(launched(&lines(&path), "forward").contains(&40));
    // A signal does the same.
    Command::new("kill")
        .args(["-USR1", &pid])
        .status()
        .expect("sent");
    let second = flight.at("run-asked-2.arrows");
    let began = Instant::now();
    while !second.exists() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (output, folder) = flight.end();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        traces(folder.path()),
        ["run-asked-2.arrows", "run-asked.arrows"]
    );
}

#[test]
fn a_killed_recorder_leaves_the_last_seconds() {
    let mut flight = Flight::start(&["--flight", "5s"], &["1000", "5000"]);
    flight.until_step(400);
    flight.child.kill().expect("killed");
    let (_, folder) = flight.end();
    let left = folder.path().join("run.flight");
    assert!(left.is_dir(), "{:?}", traces(folder.path()));
    // The next recorder says so.
    let program = folder.path().join("steps");
    let next = cutrace()
        .args([
            "record",
            "--sim",
            "--method=preload",
            "--flight",
            "1s",
            "-o",
        ])
        .arg(folder.path().join("other.arrows"))
        .arg("--")
        .arg(program)
        .args(["1", "0"])
        .output()
        .expect("cutrace runs");
    let words = format!("cutrace snap --recover {}", left.display());
    assert!(
        String::from_utf8_lossy(&next.stderr).contains(&words),
        "{next:?}"
    );
    let recovered = cutrace()
        .args(["snap", "--recover"])
        .arg(&left)
        .output()
        .expect("cutrace runs");
    assert!(recovered.status.success(), "{recovered:?}");
    assert_eq!(traces(folder.path()), ["run-recovered.arrows"]);
    let steps = launched(
        &lines(&folder.path().join("run-recovered.arrows")),
        "forward",
    );
    // All but what was still on its way.
    assert!(steps.last() > Some(&100), "{steps:?}");
    assert!(
        steps.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{steps:?}"
    );
}

/// What was shed of a class.
fn shed(run: &Run, class: &str) -> u64 {
    let calls = &run.summary()["shed"]["calls"];
    calls[class].as_u64().expect("a number")
}

#[test]
fn what_costs_too_much_is_shed_and_counted() {
    let words = ["400", "5000", "questions=1000"];
    let full = steps(&[], &words);
    let asked = calls(&full, "cuDriverGetVersion");
    assert_eq!(asked, 400_000, "{}", full.stderr());
    let run = steps(&["--budget", "0.1%"], &words);
    assert!(run.output.status.success(), "{}", run.stderr());
    let queries = shed(&run, "queries");
    let recorded = calls(&run, "cuDriverGetVersion") as u64;
    assert_eq!(recorded + queries, 400_000, "{}", run.stderr());
    assert!(queries > 200_000, "{queries} shed: {}", run.stderr());
    let launched = calls(&run, "cuLaunchKernel") as u64;
    assert_eq!(launched + shed(&run, "launches"), 2002);
    assert_eq!(calls(&run, "cuMemAlloc_v2"), 1);
    assert_eq!(calls(&run, "cuCtxSynchronize"), 400);
    assert!(run.stderr().contains("Shed: "), "{}", run.stderr());
    assert_eq!(run.summary()["lost"], 0);
}

#[test]
fn launches_are_shed_last_and_reports_say_so() {
    let words = ["200", "0", "launches=2000"];
    let made = 200 * 2005 + 2;
    let run = steps(&["--budget", "0.1%"], &words);
    assert!(run.output.status.success(), "{}", run.stderr());
    let stderr = run.stderr();
    let (hidden, recorded) = (shed(&run, "launches"), calls(&run, "cuLaunchKernel") as u64);
    assert_eq!(hidden + recorded, made, "{stderr}");
    assert!(hidden > made / 2, "{hidden} {stderr}");
    let count = |number: u64| {
        let digits = number.to_string();
        digits.split_at(digits.len() - 3).0.to_owned() + "," + digits.split_at(digits.len() - 3).1
    };
    let said = format!("Shed: {} of {} launches", count(hidden), count(made));
    assert!(stderr.contains(&said), "{said}: {stderr}");
    assert!(stderr.contains(&format!("{} more were not recorded", count(hidden))));
    // Nobody knows from some of the launches when the GPU was idle, or what a step is.
    let unknown = "unknown: calls were left out (--budget 0.1%)";
    assert!(stderr.contains(unknown), "{stderr}");
    assert!(!stderr.contains("Loop:"), "{stderr}");
    // Where launches are counted, they are all recorded.
    for option in [["--window", "0..200"], ["--flight", "1s"]] {
        let run = steps(
            &[&["--budget", "0.1%"][..], &option].concat(),
            &["200", "0", "launches=500"],
        );
        assert!(!run.stderr().contains(" launches, "), "{}", run.stderr());
        assert!(
            !run.stderr().contains("more were not recorded"),
            "{}",
            run.stderr()
        );
    }
}

#[test]
fn contradictions_are_said_before_the_program_starts() {
    let refused = |options: &[&str]| {
        let output = cutrace()
            .arg("record")
            .args(options)
            .args(["--", "true"])
            .output();
        let output = output.expect("cutrace runs");
        assert!(!output.status.success(), "{options:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--flight", "1s", "--window", "1..2"]).contains("choose one"));
    assert!(refused(&["--flight", "1s", "-o", "-"]).contains("snapshots are files"));
    assert!(refused(&["--trigger", "exit"]).contains("--flight"));
}
