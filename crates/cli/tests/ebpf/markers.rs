//! Markers that a program was built with (`usdt:`): each once, with what the compiler had where.

use super::{common::cutrace, read, ready};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const ROUNDS: i64 = 6;

fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ebpf/markers.c");
    let to = folder.join(name);
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .arg(&to)
        .args(flags)
        .args([source, "-ldl"])
        .output()
        .expect("a compiler");
    assert!(built.status.success(), "{built:?}");
    to
}

/// A hooks file on the markers of a file, by globs.
fn hooks(folder: &Path, of: &Path) -> PathBuf {
    let file = folder.join("hooks.toml");
    let text = r#"
[[hook]]
probe = "usdt:FILE:demo:h*"
args = { round = "arg0:i32" }

[[hook]]
probe = ["usdt:FILE:demo:no_such", "usdt:FILE:de?o:plain"]
args = { a = "arg0:i32", b = "arg1:i64", c = "arg2:u16", d = "arg3:i8", e = "arg4:u8", f = "arg5:i32", g = "arg6:i32", h = "arg7:u32", i = "arg8:str", j = "arg9:i16", k = "arg10", l = "arg11:u32" }

[[hook]]
name = "some"
probe = "usdt:FILE:*:plain"
args = { round = "arg0:i32", first = "*arg8:u8" }
when = 'round < -3 && arg11 != 0'

[[hook]]
name = "undecided"
probe = "usdt:FILE:demo:plain"
args = { k = "arg10" }
when = "k == 1"

[[hook]]
name = "more"
probe = "usdt:FILE:demo:heard"
args = { second = "arg1" }
"#;
    fs::write(&file, text.replace("FILE", &of.display().to_string())).expect("written");
    file
}

fn details(lines: &[Value], name: &str) -> Vec<Value> {
    let named = lines.iter().filter(|line| line["name"] == name);
    named.map(|line| line["details"].clone()).collect()
}

/// Every marker of so many rounds, and nothing else.
fn are_all_there(lines: &[Value], said: &str) {
    let heard: Vec<Value> = (0..ROUNDS).map(|i| json!({ "round": i })).collect();
    assert_eq!(details(lines, "demo:heard"), heard, "{said}");
    let plain = (0..ROUNDS).map(|i| {
        json!({
            "a": -i, "b": -5, "c": 60_000 + i, "d": -i, "e": 0x5a, "f": 100 * (i + 2) - 500, "g": -500,
            "h": 70 + i, "i": format!("round {i}"), "j": -300, "l": 4_000_000_000u64 + i as u64
        })
    });
    assert_eq!(
        details(lines, "demo:plain"),
        plain.collect::<Vec<_>>(),
        "{said}"
    );
    let some = (4..ROUNDS).map(|i| json!({ "round": -i, "first": u64::from(b'r') }));
    assert_eq!(details(lines, "some"), some.collect::<Vec<_>>(), "{said}");
    assert_eq!(details(lines, "undecided"), [Value::Null; 0], "{said}");
    assert_eq!(details(lines, "more").len() as i64, ROUNDS, "{said}");
    let plain = lines.iter().find(|line| line["name"] == "demo:plain");
    let plain = plain.expect("seen");
    assert_eq!(
        (&plain["layer"], &plain["phase"]),
        (&json!("library"), &Value::Null)
    );
    // What could not be read is said, and why.
    for part in [
        "demo:plain: arg10 (8f@%xmm0) is not an integer of 1, 2, 4 or 8 bytes: recorded without it",
        "not hooked: undecided: demo:plain: its condition cannot be evaluated: arg10",
        "demo:heard: it has 1 argument: recorded without it",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// What a program says when nobody listens.
fn is_left_alone(program: &Path, words: &[&str]) {
    let output = Command::new(program).args(words).output().expect("started");
    assert_eq!(output.stdout, b"0\n");
}

#[test]
fn markers_of_programs_and_of_libraries_that_are_loaded_later() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = build(folder, "markers", &[]);
    let library = build(folder, "markers.so", &["-shared", "-fPIC", "-DLIBRARY"]);
    let (rounds, loaded) = (ROUNDS.to_string(), library.display().to_string());
    // The last as a kernel would that attaches one by one, and whose programs cannot wait for pages.
    for (file, words, kernel) in [
        (&program, &[&*rounds][..], None),
        (&library, &[&*rounds, &*loaded], None),
        (&library, &[&*rounds, &*loaded], Some("5.15")),
    ] {
        is_left_alone(&program, words);
        let (hooks, trace) = (hooks(folder, file), folder.join("trace.jsonl"));
        let output = cutrace()
            .args(["record", "-v", "--method=kernel", "--hooks"])
            .args([&hooks, Path::new("-o"), &trace, &program])
            .args(words)
            .envs(kernel.map(|kernel| ("CUTRACE_PRETEND_KERNEL", kernel)))
            .output()
            .expect("started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let singly = said.contains(&format!(" of {} (uprobe)", file.display()));
        assert!(singly || kernel.is_none(), "{said}");
        // Its counter told the program that somebody listens.
        let heard = String::from_utf8_lossy(&output.stdout);
        assert!(heard.starts_with(&format!("{ROUNDS}\n")), "{heard}{said}");
        are_all_there(&read(&trace), &said);
        is_left_alone(&program, words);
    }
}

#[test]
fn markers_of_a_process_that_runs_already() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = build(folder, "markers", &[]);
    let hooks = hooks(folder, &program);
    let mut text = fs::read_to_string(&hooks).expect("there");
    text += &format!(
        "[[hook]]\nprobe = \"usdt:{}:demo:tick\"\n",
        program.display()
    );
    fs::write(&hooks, text).expect("written");
    let mut target = Command::new(&program)
        .args(["wait", &ROUNDS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let words = folder.join("words");
    let mut tracer = cutrace()
        .args(["record", "-v", "--method=kernel", "-o", "-", "--hooks"])
        .arg(&hooks)
        .args(["-p", &target.id().to_string()])
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&words).expect("a file"))
        .spawn()
        .expect("started");
    let mut lines = Vec::new();
    let mut told = false;
    let mut input = target.stdin.take().expect("piped");
    let output = BufReader::new(tracer.stdout.take().expect("piped"));
    let told_at_all = std::thread::spawn(move || {
        for line in output.lines() {
            let line: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            // From the first that is seen on, all are.
            if line["name"] == "demo:tick" && !told {
                input.write_all(b"\n").expect("told");
                told = true;
            }
            lines.push(line);
        }
        (lines, told)
    });
    // Its end is to be heard of while the trace goes on, or it stays.
    let ended = target.wait_with_output().expect("waited");
    assert!(tracer.wait().expect("waited").success());
    let (lines, told) = told_at_all.join().expect("read");
    let said = fs::read_to_string(&words).expect("there");
    assert!(told, "{said}");
    assert_eq!(ended.stdout, format!("{ROUNDS}\n").as_bytes(), "{said}");
    are_all_there(&lines, &said);
    is_left_alone(&program, &[&ROUNDS.to_string()]);
}

#[test]
fn markers_are_listed_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), "markers", &[]);
    let shown = program.display().to_string();
    let said = |words: &[&str]| {
        let output = cutrace().args(words).output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.code())
    };
    let (listed, code) = said(&["probes", "-v", &format!("usdt:{shown}:demo:?ea*")]);
    let expected = format!("usdt:{shown}:demo:heard\n    arg0 i32 %eax\n");
    assert_eq!((listed, code), (expected, Some(0)));
    let (listed, _) = said(&["probes", &format!("usdt:{shown}:*")]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert_eq!(
        said(&["probes", &format!("usdt:{shown}:demo:x*")]).1,
        Some(1)
    );
    let hooks = hooks(folder.path(), &program).display().to_string();
    let (checked, code) = said(&["hooks", "check", &hooks]);
    assert_eq!(code, Some(0));
    for line in [
        format!("  not   usdt:{shown}:demo:no_such: 0 markers of {shown}\n"),
        format!("  takes usdt:{shown}:de?o:plain: 1 markers of {shown}\n"),
    ] {
        assert!(checked.contains(&line), "{checked}");
    }
}
