//! Calls of library functions: every one is seen, with its result.

use super::common::{compile, drivers, ready, run};
use capture::ebpf::{AttachMode, Options};
use capture::launch::Exit;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

fn names(library: &Path) -> Vec<String> {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm");
    let text = String::from_utf8(listed.stdout).expect("text");
    let name = |line: &str| {
        let [_, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let name = name.split('@').next()?;
        let after = name.strip_prefix("cu")?.chars().next()?;
        (kind == "T" && after.is_ascii_uppercase()).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[test]
fn every_export_of_real_drivers_is_seen_with_its_result() {
    let Some(_turn) = ready() else {
        return;
    };
    let program = compile("exports.c", "exports", &["-ldl"]);
    for driver in drivers() {
        let names = names(&driver);
        let list = program.with_extension("names");
        std::fs::write(&list, names.join("\n")).expect("written");
        let output = program.with_extension("output");
        let shell = format!(
            "{} {} {} > {}",
            program.display(),
            driver.display(),
            list.display(),
            output.display()
        );
        let plain = Command::new("sh").args(["-c", &shell]).status();
        assert!(plain.is_ok_and(|status| status.success()));
        let answers = |text: &str| -> HashMap<String, (u32, u32, i32)> {
            let line = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
                ["call", pid, name, result, signal] => Some((
                    name.to_owned(),
                    (
                        pid.parse().ok()?,
                        u32::from_str_radix(result, 16).ok()?,
                        signal.parse().ok()?,
                    ),
                )),
                _ => None,
            };
            text.lines().filter_map(line).collect()
        };
        let read = || std::fs::read_to_string(&output).expect("written");
        let plain = answers(&read());
        for way in [AttachMode::Session, AttachMode::Multi] {
            let options = Options {
                way: Some(way),
                ..Options::default()
            };
            let (exit, kept, report) = run(&options, &["sh", "-c", &shell]);
            assert_eq!(exit, Exit::Code(0));
            let traced = answers(&read());
            assert_eq!(traced.len(), names.len());
            let mut closed = HashMap::new();
            for event in kept.closed() {
                let status = event.status.as_ref().map(|status| status.code);
                closed.insert((event.pid, event.name.to_string()), status);
            }
            let counts = kept.counts();
            for (name, (pid, result, signal)) in &traced {
                let (_, plain_result, plain_signal) = plain[name];
                assert_eq!((*result, *signal), (plain_result, plain_signal), "{name}");
                let key = (*pid, name.clone());
                assert_eq!(counts.get(&key), Some(&1), "{name} {way:?}");
                // Calls that end their process do not return.
                if *signal == 0 {
                    let status = closed.get(&key).copied().flatten();
                    let wanted = cuda::function(name)
                        .is_none_or(|row| row.returns.text == "CUresult")
                        .then_some(i64::from(result.cast_signed()));
                    assert_eq!(status, wanted, "{name} {way:?}");
                }
            }
            assert_eq!((kept.lost(), report.ended.lost_ends), (0, 0));
            assert_eq!(report.ended.late_loads, 0, "{:?}", report.notes);
            let hooks = kept.backend.expect("begun").hooks;
            assert_eq!(
                (hooks.attached, hooks.total),
                (names.len() as u64, names.len() as u64)
            );
            eprintln!(
                "{}: {} functions by {}: attached in {:?}, taken off in {:?}",
                driver.display(),
                names.len(),
                way.as_str(),
                report.ended.attach,
                report.ended.detach
            );
        }
    }
}

/// A loop of calls by two threads, as fast as they can; and its library.
pub fn flood() -> (std::path::PathBuf, std::path::PathBuf) {
    let library = compile(
        "flood_library.c",
        "libflood.so",
        &["-shared", "-fPIC", "-Wl,-soname,libflood.so"],
    );
    let folder = library.parent().expect("a folder").display().to_string();
    let run_path = format!("-Wl,-rpath,{folder}");
    let program = compile(
        "flood.c",
        "flood",
        &["-L", &folder, &run_path, "-lflood", "-pthread"],
    );
    (program, library)
}

pub fn flood_options(ring_bytes: Option<u32>, way: AttachMode) -> Options {
    Options {
        libraries: vec![("libflood.so".into(), "flood_*".into())],
        ring_bytes,
        way: Some(way),
        ..Options::default()
    }
}

#[test]
fn what_two_threads_make_is_kept_or_counted_as_lost() {
    let Some(_turn) = ready() else {
        return;
    };
    let (program, _) = flood();
    let program = program.display().to_string();
    const EACH: u64 = 60_000;
    // A ring that is far too small, so that much is lost; and one that is not.
    for (ring, way) in [
        (Some(64 << 10), AttachMode::Session),
        (Some(64 << 10), AttachMode::Multi),
        (None, AttachMode::Session),
    ] {
        let options = flood_options(ring, way);
        let (exit, kept, report) = run(&options, &[&program, &EACH.to_string()]);
        assert_eq!(exit, Exit::Code(0));
        let calls = |name: &str| kept.begun().filter(|one| &*one.name == name).count() as u64;
        let ended = kept.closed().filter(|one| one.outputs.is_empty()).count() as u64;
        let begun = calls("flood_one") + calls("flood_two");
        assert_eq!(begun + kept.lost(), 4 * EACH, "{way:?} {:?}", report.notes);
        // What was kept was kept whole.
        assert_eq!((ended, report.ended.lost_ends), (begun, 0), "{way:?}");
        if ring.is_none() {
            assert_eq!(kept.lost(), 0);
        }
        eprintln!("{way:?}: {begun} kept, {} lost", kept.lost());
    }
}

#[test]
fn a_process_that_runs_already_is_traced_and_goes_on_undisturbed() {
    let Some(_turn) = ready() else {
        return;
    };
    let (program, _) = flood();
    // Calls until its input ends, then says how many it has made.
    let mut child = Command::new(&program)
        .arg("until-eof")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recording = capture::ebpf::start(
        &flood_options(None, AttachMode::Session),
        super::common::Recorded::default(),
    )
    .expect("attached");
    recording.adopt(child.id()).expect("there");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (kept, report) = recording.finish();
    let seen = kept.begun().count();
    assert!(seen > 10, "{seen} {:?}", report.notes);
    assert!(kept.begun().all(|event| event.pid == child.id()));
    // It goes on, with nothing attached to it.
    assert!(child.try_wait().expect("asked").is_none());
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success());
    let vanished = capture::ebpf::start(&Options::default(), super::common::Recorded::default())
        .expect("attached");
    let error = vanished.adopt(u32::MAX - 1).expect_err("nobody");
    assert!(error.to_string().contains("does not exist"), "{error}");
    vanished.finish();
}

#[test]
fn two_versions_of_a_library_are_told_apart() {
    let Some(_turn) = ready() else {
        return;
    };
    let drivers = drivers();
    let [one, .., two] = &drivers[..] else {
        return;
    };
    let program = compile("exports.c", "exports", &["-ldl"]);
    let list = program.with_extension("two");
    std::fs::write(&list, "cuInit\ncuDriverGetVersion\n").expect("written");
    let shell = format!(
        "{0} {1} {3} >/dev/null & {0} {2} {3} > /dev/null & wait",
        program.display(),
        one.display(),
        two.display(),
        list.display()
    );
    let (exit, kept, report) = run(&Options::default(), &["sh", "-c", &shell]);
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(report.libraries.len(), 2, "{:?}", report.libraries);
    let count = |name: &str| kept.begun().filter(|event| &*event.name == name).count();
    assert_eq!((count("cuInit"), count("cuDriverGetVersion")), (2, 2));
}

#[test]
fn ten_thousand_probes_are_attached_and_taken_off() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = Path::new(super::common::HERE).join("../../target/tmp/ebpf");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join("many.c");
    let functions: String = (0..10_000)
        .map(|number| format!("int many_{number}(int x) {{ return x + {number}; }}\n"))
        .collect();
    std::fs::write(&source, functions).expect("written");
    let library = folder.join("libmany.so");
    let built = Command::new("cc")
        .args(["-O0", "-shared", "-fPIC", "-Wl,-soname,libmany.so", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let program = compile("exports.c", "exports", &["-ldl"]);
    let list = program.with_extension("many");
    std::fs::write(&list, "many_0\nmany_9999\n").expect("written");
    let options = Options {
        libraries: vec![("libmany.so".into(), "many_*".into())],
        ..Options::default()
    };
    let words = [&program, &library, &list].map(|path| path.display().to_string());
    let (exit, kept, report) = run(&options, &[&words[0], &words[1], &words[2]]);
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(report.libraries[0].hooked, 10_000);
    let names: Vec<&str> = kept.begun().map(|event| &*event.name).collect();
    assert_eq!(names, ["many_0", "many_9999"]);
    eprintln!(
        "attached in {:?}, taken off in {:?}",
        report.ended.attach, report.ended.detach
    );
    // Functions that are not there leave nothing attached, and it is said.
    let nothing = Options {
        libraries: vec![("libmany.so".into(), "absent_*".into())],
        ..Options::default()
    };
    let (_, kept, report) = run(&nothing, &[&words[0], &words[1], &words[2]]);
    assert_eq!((kept.begun().count(), report.libraries.len()), (0, 0));
    assert!(
        report
            .notes
            .lines()
            .iter()
            .any(|note| note.contains("libmany.so")),
        "{:?}",
        report.notes
    );
}

#[test]
fn without_the_right_to_it_is_said() {
    let Some(_turn) = ready() else {
        return;
    };
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above. Nobody, without capabilities.
        unsafe {
            libc::setgid(65_534);
            libc::setuid(65_534);
        }
        let said = capture::ebpf::available()
            .err()
            .map(|error| error.to_string());
        let right = said.is_some_and(|text| text.contains("CAP_BPF"));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: the call writes the status and nothing else.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 0);
}
