//! What is not recorded is counted, whoever could not record it and for whatever reason: the calls in
//! the trace and those that are lost are together what the program says it made.

use super::{Run, compile, path, record, record_with};
use crate::common::{cutrace, read, skip};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A number that the program prints behind a word.
fn said(output: &Output, word: &str) -> f64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace();
    words
        .find(|found| *found == word)
        .and_then(|_| words.next()?.parse().ok())
        .unwrap_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            panic!("{}: no {word} in {text:?}: {errors}", output.status)
        })
}

/// Calls that were made, recorded and lost.
fn balance(run: &Run) -> (u64, u64, u64) {
    let lost = run.summary()["lost"].as_u64().expect("a number");
    let recorded = run.calls("cuCtxGetCurrent").count() as u64;
    let stderr = run.stderr();
    assert!(
        stderr.contains(&format!("Events lost: {lost}\n")),
        "{lost} lost: {stderr}"
    );
    (said(&run.output, "made") as u64, recorded, lost)
}

fn losses(case: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let command = [&[path(&program)], case].concat();
    let run = record(&["--method=preload"], &command);
    assert!(run.output.status.success(), "{case:?}: {}", run.stderr());
    run
}

fn limit_files(command: &mut Command) {
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let mut limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            limit.rlim_cur = limit.rlim_max.min(1024);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            Ok(())
        })
    };
}

#[test]
fn three_thousand_threads_need_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    for case in ["held", "held-in-child"] {
        let command = [path(&program), case, "3000"];
        let run = record_with(&["--method=preload"], &command, limit_files);
        assert!(run.output.status.success(), "{case}: {}", run.stderr());
        assert_eq!(balance(&run), (18_000, 18_000, 0), "{case}");
        // The limit is ours to raise, not the program's.
        assert_eq!(said(&run.output, "files") as u64, 1024);
        let mut threads: Vec<_> = run
            .calls("cuCtxGetCurrent")
            .map(|line| &line["tid"])
            .collect();
        threads.sort_by_key(|tid| tid.as_u64());
        threads.dedup();
        assert_eq!(threads.len(), 3000, "{case}");
    }
}

#[test]
fn programs_that_give_up_rights_are_recorded_all_the_same() {
    if !is_root() {
        return skip("only root can give up rights");
    }
    let empty = tempfile::tempdir().expect("a folder");
    for case in [
        &["setuid"][..],
        &["nofile"],
        &["pidns"],
        &["chroot", path(empty.path())],
    ] {
        let run = losses(case);
        let (made, recorded, lost) = balance(&run);
        assert_eq!((recorded, lost), (made, 0), "{case:?}: {}", run.stderr());
        // Each has its own number, and its own threads.
        let mut processes: Vec<_> = run
            .calls("cuCtxGetCurrent")
            .map(|line| &line["pid"])
            .collect();
        processes.dedup();
        processes.sort_by_key(|pid| pid.as_u64());
        processes.dedup();
        let expected = if case[0] == "pidns" { 2 } else { 3 };
        assert_eq!(processes.len(), expected, "{case:?}: {processes:?}");
    }
}

#[test]
fn a_program_that_may_write_no_file_has_its_calls_counted() {
    let run = losses(&["fsize"]);
    let (made, recorded, lost) = balance(&run);
    assert_eq!((recorded, lost), (0, made), "{}", run.stderr());
    assert_eq!(run.stderr().matches("calls were not recorded").count(), 1);
}

/// cutrace in a mount namespace of its own where a small file system is mounted on a folder.
pub struct Small {
    pub folder: TempDir,
    program: PathBuf,
    /// Percent of the disk that are left free.
    pub left_free: &'static str,
}

impl Small {
    pub fn new(program: &str) -> Option<Small> {
        if !is_root() {
            skip("only root can mount");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(program, folder.path());
        Some(Small {
            folder,
            program,
            left_free: "0",
        })
    }

    pub fn record(
        &self,
        mounted: &Path,
        size: &str,
        options: &[&str],
        trace: &Path,
        calls: u32,
        fill: Option<&str>,
    ) -> Run {
        let options = [&["--method=preload"], options].concat();
        let words = ["many", &calls.to_string()];
        self.run((mounted, size), &options, trace, &words, fill)
    }

    fn run(
        &self,
        (mounted, size): (&Path, &str),
        options: &[&str],
        trace: &Path,
        words: &[&str],
        fill: Option<&str>,
    ) -> Run {
        let trace = trace.to_owned();
        let script = "mount --make-rprivate / && mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" && keep=$3 && shift 3 && \
                      \"$@\"; status=$?; cp \"$trace\" \"$keep\"; exit $status";
        let kept = self.kept(&trace);
        let mut command = Command::new("unshare");
        command
            .args(["-m", "sh", "-c", script, "sh", size])
            .arg(mounted)
            .arg(&kept)
            .arg(cutrace().get_program())
            .args(["record", "--sim", "-o"])
            .arg(&trace)
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args(words)
            .env("trace", &trace)
            .envs(crate::common::SAME_GPU)
            .env("CUTRACE_KEEP_FREE", self.left_free)
            .envs(fill.map(|left| ("FILL", left)));
        let output = command.output().expect("unshare runs");
        Run {
            folder: tempfile::tempdir().expect("a folder"),
            output,
            lines: match trace.extension().is_some_and(|name| name == "jsonl") {
                true => read(&kept),
                false => Vec::new(),
            },
        }
    }

    /// Where the trace is afterwards.
    pub fn kept(&self, trace: &Path) -> PathBuf {
        self.folder
            .path()
            .join("kept")
            .with_extension(trace.extension().expect("a format"))
    }
}

#[test]
fn a_full_shared_memory_is_counted_once() {
    let Some(small) = Small::new("losses") else {
        return;
    };
    let trace = small.folder.path().join("trace.jsonl");
    let memory = Path::new("/dev/shm");
    // Filled by the program itself, once the session's folder is there: nothing left for a ring, and nothing
    // left for more than a few pages of one.
    for (size, least) in [("0", 0), ("65536", 100)] {
        let run = small.record(memory, "20m", &["--strict"], &trace, 200_000, Some(size));
        let (made, recorded, lost) = balance(&run);
        assert_eq!(recorded + lost, made, "{size}: {}", run.stderr());
        assert!(lost > 0 && recorded >= least, "{size}: {recorded} recorded");
        assert_eq!(run.output.status.code(), Some(125), "{}", run.stderr());
        let strict = format!("cutrace: --strict: {lost} events were lost\n");
        assert!(run.stderr().ends_with(&strict), "{}", run.stderr());
    }
    // Enough for all.
    let run = small.record(memory, "64m", &["--strict"], &trace, 20_000, None);
    assert_eq!(balance(&run), (20_000, 20_000, 0));
    assert!(run.output.status.success(), "{}", run.stderr());
}

/// What `report --json` says was lost.
pub fn reported(trace: &Path) -> u64 {
    let output = cutrace().args(["report", "--json"]).arg(trace).output();
    let output = output.expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("warning"), "the trace is whole: {said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["overview"]["lost"].as_u64().expect("a number")
}

/// GPU work is handed over by a file there, too.
#[test]
fn gpu_times_that_find_no_room_are_counted() {
    let Some(small) = Small::new("launches") else {
        return;
    };
    let trace = small.folder.path().join("trace.jsonl");
    let memory = Path::new("/dev/shm");
    // Filled by the program: never room again; room again when the tracer has read some; enough.
    let cases = [
        (Some("65536"), "4000", Some(true)),
        (Some("5000000"), "30000", None),
        (None, "1000", Some(false)),
    ];
    for (left, launches, loses) in cases {
        let options = ["--method=cupti", "--strict"];
        let words = ["2", launches];
        let run = small.run((memory, "20m"), &options, &trace, &words, left);
        let stderr = run.stderr();
        let made = 2 * launches.parse::<u64>().expect("a number");
        let ended = |line: &&serde_json::Value| line["layer"] == "gpu" && line["phase"] == "E";
        let recorded = run.lines.iter().filter(ended).count() as u64;
        let lost = run.summary()["lost"].as_u64().expect("a number");
        assert_eq!(recorded + lost, made, "{left:?}: {stderr}");
        // A buffer of CUPTI's is longer than what is left in the first case.
        assert!(recorded > 0 || loses == Some(true), "{left:?}: {stderr}");
        if let Some(loses) = loses {
            assert_eq!(lost > 0, loses, "{left:?}: {stderr}");
        }
        let words = format!("Events lost: {lost}\n");
        assert!(stderr.contains(&words), "{left:?}: {stderr}");
        let code = if lost > 0 { 125 } else { 0 };
        assert_eq!(run.output.status.code(), Some(code), "{left:?}: {stderr}");
        assert!(!stderr.contains("damaged"), "{left:?}: {stderr}");
    }
}

#[test]
fn a_full_disk_is_part_of_the_count() {
    let Some(small) = Small::new("losses") else {
        return;
    };
    let disk = small.folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let trace = disk.join("trace.jsonl");
    let run = small.record(&disk, "1m", &[], &trace, 100_000, None);
    assert!(run.output.status.success(), "{}", run.stderr());
    let (made, recorded, lost) = balance(&run);
    assert_eq!(recorded + lost, made, "{}", run.stderr());
    assert!((500..50_000).contains(&recorded), "{recorded} recorded");
    let words = format!("({lost} events are not in it)");
    assert!(run.stderr().contains(&words), "{}", run.stderr());
    assert_eq!(reported(&small.kept(&trace)), lost);
    let run = small.record(&disk, "1m", &["--strict"], &trace, 100_000, None);
    assert_eq!(run.output.status.code(), Some(125), "{}", run.stderr());
}

#[test]
fn a_full_disk_is_part_of_the_count_in_arrow_too() {
    let Some(small) = Small::new("losses") else {
        return;
    };
    let disk = small.folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let trace = disk.join("trace.arrows");
    // Room for some batches, for less than one, for hardly more than the head.
    for (size, made, least) in [
        ("1m", 600_000, 1000),
        ("160k", 300_000, 0),
        ("48k", 100_000, 0),
    ] {
        let run = small.record(&disk, size, &["--strict"], &trace, made, None);
        let said = run.stderr();
        assert_eq!(run.output.status.code(), Some(125), "{size}: {said}");
        let lost = said
            .lines()
            .find_map(|line| line.strip_prefix("Events lost: ")?.parse::<u64>().ok())
            .expect("a number");
        assert!(
            said.contains(&format!("({lost} events are not in it)")),
            "{said}"
        );
        let strict = format!("cutrace: --strict: {lost} events were lost\n");
        assert!(said.ends_with(&strict), "{said}");
        let kept = small.kept(&trace);
        assert_eq!(reported(&kept), lost, "{size}: {said}");
        let mut export = cutrace();
        export.args(["export", "-f", "jsonl"]).arg(&kept);
        let lines = export.output().expect("cutrace runs").stdout;
        let recorded = String::from_utf8_lossy(&lines)
            .lines()
            .filter(|line| line.contains("\"cuCtxGetCurrent\"") && line.contains("\"phase\":\"B\""))
            .count() as u64;
        assert_eq!(recorded + lost, u64::from(made), "{size}: {said}");
        assert!(recorded >= least, "{size}: {recorded} recorded");
    }
}

#[test]
fn the_first_process_of_a_namespace_is_recorded() {
    if !is_root() {
        return skip("only root can make a PID namespace");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    for own_proc in [true, false] {
        let mut command = vec!["unshare", "-pf"];
        command.extend(own_proc.then_some("--mount-proc"));
        command.extend([path(&program), "many", "100000"]);
        let begun = std::time::Instant::now();
        let run = record(&["--method=preload"], &command);
        assert!(run.output.status.success(), "{}", run.stderr());
        assert_eq!(balance(&run), (100_000, 100_000, 0), "{}", run.stderr());
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        let line = run.calls("cuCtxGetCurrent").next().expect("a call");
        assert_ne!(line["pid"], 1, "as it is known here: {line}");
        assert_eq!(line["pid"], line["tid"]);
    }
}

#[test]
fn short_threads_cost_little_and_what_they_cost_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("losses", folder.path());
    let (mut plain, mut traced) = (f64::MAX, f64::MAX);
    let mut stated = 0.0;
    for _ in 0..3 {
        let mut command = cutrace();
        command.args(["softgpu", "--"]).arg(&program);
        let output = command.args(["short", "4000"]).output().expect("runs");
        plain = plain.min(said(&output, "seconds"));
        let run = record(&["--method=preload"], &[path(&program), "short", "4000"]);
        assert_eq!(balance(&run), (20_000, 20_000, 0), "{}", run.stderr());
        let seconds = said(&run.output, "seconds");
        if seconds < traced {
            traced = seconds;
            stated = run.summary()["overhead"]["total_ns"]
                .as_f64()
                .expect("a cost")
                / 1e9;
        }
    }
    assert!(traced < 3.0 * plain + 0.05, "{plain} s became {traced} s");
    // A new thread alone takes some microseconds of ours.
    assert!(stated > 4000.0 * 1e-6, "{stated} s of {plain} and {traced}");
}

#[test]
fn jumps_out_of_signal_handlers_leave_nothing_uncounted() {
    let run = losses(&["jumps", "3000"]);
    let (made, recorded, lost) = balance(&run);
    let jumped = said(&run.output, "jumped") as u64;
    let interrupted = (recorded + lost).checked_sub(made);
    assert!(
        interrupted.is_some_and(|count| count <= jumped),
        "{made} made, {jumped} jumps, {recorded} recorded, {lost} lost"
    );
}
