//! Where calls come from: native stacks through every kind of code, and Python's frames.

use super::{Run, record, record_with};
use crate::common::{repository, skip};
use serde_json::Value;
use std::{
    fs,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Command,
};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/stacks");

/// Compiles a file of this folder; once, though tests run beside each other.
fn build(compiler: &str, source: &str, output: &str, flags: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stacks");
    fs::create_dir_all(&folder).expect("a folder");
    let lock = fs::File::create(folder.join("lock")).expect("a file");
    // SAFETY: an open file; unlocked when it is closed.
    assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
    let (output, aside) = (folder.join(output), folder.join(format!("{output}.new")));
    let done = Command::new(compiler)
        .args(["-g", "-o"])
        .arg(&aside)
        .arg(Path::new(SOURCES).join(source))
        .args(flags)
        .output()
        .expect("a compiler");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    fs::rename(&aside, &output).expect("renamed");
    output
}

const WITHOUT_POINTERS: [&str; 4] = ["-O2", "-fomit-frame-pointer", "-pthread", "-ldl"];
const WITH_POINTERS: [&str; 4] = ["-O1", "-fno-omit-frame-pointer", "-pthread", "-ldl"];

fn chain() -> PathBuf {
    build("cc", "chain.c", "chain", &WITHOUT_POINTERS)
}

fn plug() -> PathBuf {
    let flags = ["-O2", "-fomit-frame-pointer", "-shared", "-fPIC"];
    build("c++", "plug.cpp", "libplug.so", &flags)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn names(call: &Value) -> Vec<&str> {
    let stack = call["stack"].as_array().expect("a stack");
    stack
        .iter()
        .map(|frame| frame["sym"].as_str().unwrap_or("?"))
        .collect()
}

/// The names up to `main`.
fn chain_of(call: &Value) -> Vec<&str> {
    let names = names(call);
    let main = names.iter().position(|name| *name == "main");
    names[..=main.unwrap_or_else(|| panic!("no main in {names:?}"))].to_vec()
}

fn is_cut(call: &Value) -> bool {
    let stack = call["stack"].as_array().expect("a stack");
    stack.iter().any(|frame| frame["kind"] == "cut")
}

fn only<'a>(run: &'a Run, name: &'a str) -> &'a Value {
    let calls: Vec<&Value> = run.calls(name).collect();
    assert_eq!(calls.len(), 1, "{}", run.stderr());
    calls[0]
}

fn assert_done(run: &Run) {
    assert!(run.output.status.success(), "{}", run.stderr());
    assert_eq!(run.output.stdout, b"done\n", "{}", run.stderr());
}

#[test]
fn with_and_without_frame_pointers() {
    for (name, flags) in [("chain", WITHOUT_POINTERS), ("chain-fp", WITH_POINTERS)] {
        let program = build("cc", "chain.c", name, &flags);
        let run = record(&["--stack"], &[text(&program)]);
        assert_done(&run);
        let call = only(&run, "cuInit");
        assert_eq!(chain_of(call), ["inner", "middle", "outer", "main"]);
        assert!(!is_cut(call), "{call}");
        // What libc calls is there as well, up to the very start.
        assert!(
            names(call).last().is_some_and(|last| *last == "_start"),
            "{call}"
        );
        let frame = &call["stack"][0];
        let source = fs::read_to_string(Path::new(SOURCES).join("chain.c")).expect("its source");
        let line = frame["line"].as_u64().expect("a line") as usize;
        let said = source.lines().nth(line - 1).expect("that line");
        assert!(
            said.contains("cuInit(number)") || said.contains("sink += result"),
            "{said}"
        );
        assert!(
            frame["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("stacks/chain.c"))
        );
        assert_eq!(frame["lib"], text(&program));
        assert!(frame["off"].as_u64().is_some_and(|offset| offset > 0));
        assert!(
            frame["addr"]
                .as_str()
                .is_some_and(|address| address.starts_with("0x"))
        );
    }
}

#[test]
fn only_where_they_are_asked_for() {
    let program = chain();
    let run = record(&["--stack=memory,!cuInit"], &[text(&program)]);
    assert!(only(&run, "cuInit").get("stack").is_none());
    let run = record(&[], &[text(&program)]);
    assert!(only(&run, "cuInit").get("stack").is_none());
    let run = record(&["--stack=memry"], &[text(&program)]);
    assert!(
        run.stderr().contains("--stack=memry: no category"),
        "{}",
        run.stderr()
    );
}

#[test]
fn from_threads_and_signal_handlers() {
    let program = chain();
    let of = |way: &str| record(&["--stack"], &[text(&program), way]);
    let run = of("thread");
    assert_done(&run);
    let call = only(&run, "cuInit");
    assert_eq!(
        names(call)[..4],
        ["inner", "middle", "outer", "thread_body"]
    );
    assert!(!is_cut(call), "{call}");
    for way in ["signal", "signal stack"] {
        let run = of(way);
        assert_done(&run);
        let call = only(&run, "cuInit");
        let chain = chain_of(call);
        assert_eq!(
            chain[..3],
            ["inner", "handler", "<signal handler called>"],
            "{way}"
        );
        // Through the C library's raise, which was interrupted.
        assert!(
            chain.ends_with(&["interrupted", "main"]),
            "{way}: {chain:?}"
        );
        assert!(!is_cut(call), "{way}: {call}");
    }
}

#[test]
fn from_other_stacks_and_from_ruins() {
    let program = chain();
    let run = record(&["--stack"], &[text(&program), "coroutine"]);
    assert_done(&run);
    let call = only(&run, "cuInit");
    assert_eq!(names(call)[..4], ["inner", "middle", "outer", "coroutine"]);
    let run = record(&["--stack"], &[text(&program), "hostile"]);
    assert_done(&run);
    let calls: Vec<&Value> = run.calls("cuInit").collect();
    assert_eq!(calls.len(), 18);
    for call in calls {
        // Whatever is found there, the first frame is known, and none is invented: all are code.
        assert_eq!(names(call)[0], "call_with", "{call}");
        let frames = call["stack"].as_array().expect("a stack");
        let invented = |frame: &&Value| frame.get("kind").is_none() && frame.get("lib").is_none();
        assert_eq!(frames.iter().find(invented), None, "{call}");
    }
}

#[test]
fn through_exceptions_in_a_library_that_comes_and_goes() {
    let (program, plug) = (chain(), plug());
    let run = record(&["--stack"], &[text(&program), "plug", text(&plug)]);
    assert_done(&run);
    let calls: Vec<&Value> = run.calls("cuInit").collect();
    assert_eq!(calls.len(), 4);
    for pair in calls.chunks(2) {
        let [unwinding, caught] = [pair[0], pair[1]].map(chain_of);
        let begins = ["inner", "middle", "outer", "plug::Guard::~Guard()"];
        assert_eq!(unwinding[..4], begins);
        assert!(
            unwinding
                .iter()
                .any(|name| name.starts_with("int plug::thrower<long>(")),
            "{unwinding:?}"
        );
        assert!(
            unwinding.ends_with(&["plug_call", "plugged", "main"]),
            "{unwinding:?}"
        );
        assert_eq!(
            caught,
            ["inner", "middle", "outer", "plug_call", "plugged", "main"]
        );
    }
}

#[test]
fn of_the_call_that_a_program_dies_in() {
    let plug = plug();
    let program = build("cc", "dies.c", "dies", &WITHOUT_POINTERS);
    let options = ["--stack", "--lib", "libplug.so:plug_*"];
    let run = record(&options, &[text(&program), text(&plug)]);
    let call = only(&run, "plug_die");
    assert_eq!(chain_of(call), ["last_words", "main"]);
    let ends = run.lines.iter().filter(|line| line["phase"] == "E");
    assert_eq!(ends.filter(|line| line["name"] == "plug_die").count(), 0);
}

/// Walks are remembered: one must not be mistaken for another.
#[test]
fn by_many_ways_to_one_place() {
    let pointers = ["-O2", "-fno-omit-frame-pointer", "-pthread", "-ldl"];
    for (name, flags) in [("ways", WITHOUT_POINTERS), ("ways-fp", pointers)] {
        let program = build("cc", "ways.c", name, &flags);
        let run = record(&["--stack"], &[text(&program)]);
        assert_done(&run);
        let calls: Vec<&Value> = run.calls("cuInit").collect();
        assert_eq!(calls.len(), 4 * 40 * 32, "{}", run.stderr());
        for call in calls {
            let way = call["details"]["Flags"].as_u64().expect("a number");
            let mut expected = vec!["leaf".to_owned()];
            for level in (0..5).rev() {
                let bit = if way >> level & 1 == 1 { "one" } else { "zero" };
                expected.push(format!("{bit}_{level}"));
            }
            if way & 1024 != 0 {
                expected.push("bent".to_owned());
            }
            expected.push("all".to_owned());
            assert_eq!(names(call)[..expected.len()], expected, "{call}");
        }
    }
}

#[test]
fn by_many_ways_through_python() {
    let interpreters = interpreters();
    if interpreters.is_empty() {
        return skip("there is no Python with ctypes");
    }
    for (interpreter, version) in interpreters {
        let script = Path::new(SOURCES).join("ways.py");
        let run = record(&["--stack"], &[&interpreter, text(&script)]);
        assert!(run.output.status.success(), "{}", run.stderr());
        let calls: Vec<&Value> = run.calls("cuMemFree_v2").collect();
        assert_eq!(calls.len(), 60 * 5, "{version}: {}", run.stderr());
        for call in calls {
            let way = call["details"]["dptr"].as_str().expect("an address");
            let mut way = u64::from_str_radix(&way[2..], 16).expect("in hex");
            let frames = call["stack"].as_array().expect("a stack").iter();
            let python = frames.filter(|frame| frame["kind"] == "python");
            let lines: Vec<u64> = (python.skip(1))
                .map(|frame| frame["line"].as_u64().expect("a line"))
                .collect();
            for (place, line) in lines.iter().enumerate() {
                // The module's own line comes last; a generator is called from where nothing is said of.
                let is_generators = place + 1 == lines.len() && *line == 51;
                assert!(
                    is_generators || *line == way % 100,
                    "{version}: {lines:?} {call}"
                );
                way /= 100;
            }
            assert_eq!(way, 0, "{version}: {lines:?}");
        }
    }
}

/// Interpreters of this machine, by version.
fn interpreters() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let names = (9..=14).map(|minor| format!("python3.{minor}"));
    let given = std::env::var("CUTRACE_PYTHONS").unwrap_or_default();
    let given = given.split(':').filter(|name| !name.is_empty());
    let all = given
        .map(str::to_owned)
        .chain(names)
        .chain(["python3".into()]);
    for name in all {
        let asked = Command::new(&name)
            .args([
                "-c",
                "import ctypes, sys; print('%d.%d' % sys.version_info[:2])",
            ])
            .output();
        if let Ok(output) = asked
            && output.status.success()
        {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if found.iter().all(|(_, known)| *known != version) {
                found.push((name, version));
            }
        }
    }
    found
}

#[test]
fn pythons_frames() {
    let interpreters = interpreters();
    if interpreters.is_empty() {
        return skip("there is no Python with ctypes");
    }
    for (interpreter, version) in interpreters {
        let script = Path::new(SOURCES).join("nested.py");
        let run = record(&["--stack"], &[&interpreter, text(&script)]);
        assert!(run.output.status.success(), "{}", run.stderr());
        eprintln!("Python {version}");
        pythons_frames_are_right(&run, &version, text(&script));
    }
}

fn pythons_frames_are_right(run: &Run, version: &str, script: &str) {
    let qualified = |new: &'static str, old: &'static str| {
        if matches!(version, "3.9" | "3.10") {
            old
        } else {
            new
        }
    };
    let inlined = matches!(version, "3.12" | "3.13" | "3.14");
    let calls: Vec<&Value> = run.calls("cuMemAlloc_v2").collect();
    assert_eq!(calls.len(), 303);
    let python = |call: &Value| -> Vec<(String, u64)> {
        let frames = call["stack"].as_array().expect("a stack").iter();
        let frames = frames.filter(|frame| frame["kind"] == "python");
        let frames = frames.inspect(|frame| {
            let file = frame["file"].as_str().expect("a file");
            assert!(file == script || file == "<string>", "{frame}");
        });
        frames
            .map(|frame| {
                let name = frame["sym"].as_str().expect("a name").to_owned();
                (name, frame["line"].as_u64().expect("a line"))
            })
            .collect()
    };
    let expected = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
        list.iter()
            .map(|(name, line)| ((*name).to_owned(), *line))
            .collect()
    };
    assert_eq!(
        python(calls[0]),
        expected(&[
            ("allocate", 8),
            (qualified("Model.forward", "forward"), 13),
            ("train", 22),
            ("<module>", 32),
        ]),
        "{version}: {}",
        calls[0]
    );
    // Native frames lie between them, and none of the interpreter's own.
    let frames = names(calls[0]);
    let place = |name: &str| frames.iter().position(|frame| *frame == name);
    assert!(
        place("allocate") < place(qualified("Model.forward", "forward")),
        "{frames:?}"
    );
    assert!(
        frames
            .iter()
            .all(|name| !name.starts_with("_PyEval_EvalFrameDefault")),
        "{frames:?}"
    );
    assert_eq!(frames.last(), Some(&"_start"), "{frames:?}");
    assert!(!is_cut(calls[0]), "{}", calls[0]);
    assert_eq!(
        python(calls[1]),
        expected(&[
            ("allocate", 8),
            (qualified("Model.generate", "generate"), 17),
            ("train", 23),
            ("<module>", 32),
        ]),
        "{version}"
    );
    let mut lambda = vec![("allocate", 8)];
    if !inlined {
        lambda.push((
            qualified("train.<locals>.<lambda>.<locals>.<listcomp>", "<listcomp>"),
            25,
        ));
    }
    lambda.push((qualified("train.<locals>.<lambda>", "<lambda>"), 25));
    lambda.extend([("train", 26), ("<module>", 32)]);
    assert_eq!(python(calls[2]), expected(&lambda), "{version}");
    for (number, call) in calls[3..].iter().enumerate() {
        let made = format!("made_{}", number % 3);
        let frames = python(call);
        assert_eq!(frames[1], (made, number as u64 + 2), "{version}: {call}");
        assert_eq!(frames[2], ("<module>".to_owned(), 38), "{version}");
    }
}

#[test]
fn of_children() {
    let program = chain();
    let script = format!("{0} plain >/dev/null & {0} thread; wait", text(&program));
    let run = record_with(&["--stack"], &["/bin/sh", "-c", &script], |command| {
        command.current_dir(repository());
    });
    let calls: Vec<&Value> = run.calls("cuInit").collect();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(names(call)[..3], ["inner", "middle", "outer"], "{call}");
    }
}
