//! What is attached is gone afterwards, however a run ends.

use super::calls::{flood, flood_options};
use super::common::{Recorded, compile, ready, run};
use capture::ebpf::{self, AttachMode, Options};
use capture::launch::Exit;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The kernel's numbers of links, programs and maps that this process holds.
fn held() -> Vec<(&'static str, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo").expect("there").flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        // A link also says whose program it is.
        let kinds = ["link_id", "prog_id", "map_id"];
        let of = |kind: &&'static str| {
            let line = text.lines().find_map(|line| line.strip_prefix(*kind))?;
            Some((*kind, line.trim_start_matches(':').trim().parse().ok()?))
        };
        found.extend(kinds.iter().find_map(of));
    }
    found
}

fn is_gone((kind, id): &(&str, u32)) -> bool {
    // SAFETY: asks for a descriptor by number; if there is one, it is closed again.
    unsafe {
        let descriptor = match *kind {
            "link_id" => libbpf_sys::bpf_link_get_fd_by_id(*id),
            "prog_id" => libbpf_sys::bpf_prog_get_fd_by_id(*id),
            _ => libbpf_sys::bpf_map_get_fd_by_id(*id),
        };
        if descriptor >= 0 {
            libc::close(descriptor);
        }
        descriptor == -libc::ENOENT
    }
}

#[test]
fn nothing_is_left_attached() {
    let Some(_turn) = ready() else {
        return;
    };
    let (program, _) = flood();
    for way in [AttachMode::Session, AttachMode::Multi, AttachMode::Single] {
        let mut child = Command::new(&program)
            .arg("until-eof")
            .stdin(Stdio::piped())
            .spawn()
            .expect("started");
        let before = held();
        assert_eq!(before, [], "{way:?}");
        let options = Options {
            system_calls: true,
            ..flood_options(None, way)
        };
        let recording = ebpf::start(&options, Recorded::default()).expect("attached");
        recording.adopt(child.id()).expect("there");
        let during = held();
        for kind in ["link_id", "prog_id", "map_id"] {
            assert!(during.iter().any(|one| one.0 == kind), "{way:?} {kind}");
        }
        assert!(!during.iter().any(is_gone), "{way:?}");
        // Vanished while it was watched.
        if way == AttachMode::Multi {
            child.kill().expect("there");
            child.wait().expect("ended");
        }
        recording.finish();
        assert_eq!(held(), [], "{way:?}");
        // The kernel lets go of them when nobody can be running them any more.
        let began = Instant::now();
        while !during.iter().all(is_gone) {
            let left: Vec<_> = during.iter().filter(|one| !is_gone(one)).collect();
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{way:?} {left:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(child.stdin.take());
        child.wait().expect("ended");
    }
}

#[test]
fn a_library_without_symbols_is_said() {
    let Some(_turn) = ready() else {
        return;
    };
    let flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-s"];
    let library = compile("flood_library.c", "libbare.so", &flags);
    let program = compile("exports.c", "exports", &["-ldl"]);
    let list = program.with_extension("none");
    fs::write(&list, "").expect("written");
    let options = Options {
        libraries: vec![("libbare.so".into(), "*".into())],
        ..Options::default()
    };
    let words = [&program, &library, &list].map(|path| path.display().to_string());
    let (exit, kept, report) = run(&options, &[&words[0], &words[1], &words[2]]);
    assert_eq!((exit, kept.begun().count()), (Exit::Code(0), 0));
    assert!(report.libraries.is_empty(), "{:?}", report.libraries);
    let said = |note: &String| note.contains("libbare.so") && note.contains("symbols");
    assert!(report.notes.lines().iter().any(said), "{:?}", report.notes);
}
