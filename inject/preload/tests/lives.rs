//! How programs live and end: libraries that come and go, threads, children, crashes, and a tracer
//! that is not there.

mod common;

use common::{Session, compile, compile_musl, library, stress};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::Duration;

const OPTIONS: &str = "lib libstress.so:s_*\n";

#[test]
fn a_library_that_is_closed_and_opened_again() {
    let built = compile(
        "library.cpp",
        "libstress.so",
        &["-shared", "-fPIC", "-Wl,-soname,libstress.so"],
    );
    let program = compile("reload.c", "reload", &["-ldl"]);
    let session = Session::new(OPTIONS);
    let run = session.run(session.command(program).arg(&built));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
}

#[test]
fn short_threads_give_their_rings_back() {
    let program = stress("churn.cpp", "churn");
    let session = Session::new(&format!("{OPTIONS}ring 256\n"));
    let run = session.run(session.command(program).arg("200"));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    assert!(
        run.drained.closed() > 1500,
        "{} closed",
        run.drained.closed()
    );
}

#[test]
fn children_by_shell_and_exec() {
    let program = stress("churn.cpp", "churn");
    let session = Session::new(OPTIONS);
    let path = program.display();
    let script = format!("{path} 3; ( {path} 2 ) ; exec {path} 1");
    let run = session.run(session.command("/bin/sh").args(["-c", &script]));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    // Three programs; the shell itself has nothing to say once it is gone.
    let programs = run
        .lines("process ")
        .iter()
        .filter(|line| line.ends_with("/churn"))
        .count();
    assert_eq!(programs, 3);
}

#[test]
fn a_program_that_becomes_another() {
    let program = stress("endings.cpp", "endings");
    let session = Session::new(OPTIONS);
    let run = session.run(session.command(&program).args(["exec", "5000"]));
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!((run.drained.total(), run.drained.dropped()), (10_000, 0));
    assert_eq!((run.processes.len(), run.lines("process ").len()), (1, 2));
}

#[test]
fn every_ending_leaves_all_calls_and_the_one_in_flight() {
    let program = stress("endings.cpp", "endings");
    for (how, signal, code) in [
        ("segv", Some(11), None),
        ("abort", Some(6), None),
        ("_exit", None, Some(3)),
        ("exit", None, Some(4)),
    ] {
        let session = Session::new(OPTIONS);
        let run = session.run(session.command(&program).args([how, "100000"]));
        assert_eq!(
            (run.status.signal(), run.status.code()),
            (signal, code),
            "{how}"
        );
        assert_eq!(run.drained.total(), 100_001, "{how}");
        assert_eq!(run.drained.dropped(), 0);
        let open = run.drained.open();
        assert_eq!(
            open.iter().map(|call| run.name(call)).collect::<Vec<_>>(),
            ["s_call"],
            "{how}"
        );
    }
}

#[test]
fn nothing_is_lost_when_the_program_is_killed() {
    let program = stress("endings.cpp", "endings");
    for round in 0..6u64 {
        let session = Session::new(OPTIONS);
        let mut child = session
            .command(&program)
            .arg("busy")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0u8; 6];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        let run = session.follow(|| {
            std::thread::sleep(Duration::from_millis(20 + round * 37));
            child.kill().unwrap();
            child.wait_with_output().unwrap()
        });
        assert_eq!(run.status.signal(), Some(9));
        // Each thread may have been in one call.
        let (taken, reserved) = (run.drained.slots_taken(), run.drained.slots_reserved());
        assert!(taken > 1000, "{taken} calls");
        assert!(reserved - taken <= 4, "{reserved} reserved, {taken} seen");
    }
}

#[test]
fn a_tracer_that_is_gone_leaves_the_program_running() {
    let program = stress("endings.cpp", "endings");
    let session = Session::new(&format!("{OPTIONS}ring 8192\n"));
    let begun = std::time::Instant::now();
    let output = session
        .command(&program)
        .args(["none", "1000000"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "held up for {:?}",
        begun.elapsed()
    );
    // What found no room was counted.
    let run = session.follow(|| output);
    assert_eq!(run.drained.total() + run.drained.dropped(), 1_000_000);
    assert!(run.drained.total() > 8000);
}

#[test]
fn a_folder_that_fills_up_costs_records_and_nothing_else() {
    let program = stress("endings.cpp", "endings");
    let session = Session::new(&format!("{OPTIONS}ring 65536\n"));
    let folder = std::ffi::CString::new(session.folder.to_str().unwrap()).unwrap();
    // A small disk of its own.
    let mount = |options: &std::ffi::CStr| {
        let kind = c"tmpfs".as_ptr();
        // SAFETY: C strings; mounts over the session's folder.
        unsafe { libc::mount(kind, folder.as_ptr(), kind, 0, options.as_ptr().cast()) == 0 }
    };
    if !mount(c"size=1m") {
        eprintln!("skipped: only root may mount");
        return;
    }
    std::fs::write(
        session.folder.join("options"),
        format!("{OPTIONS}ring 65536\n"),
    )
    .unwrap();
    let output = session
        .command(&program)
        .args(["none", "300000"])
        .output()
        .unwrap();
    let run = session.follow(|| output);
    // SAFETY: mounted above.
    unsafe { libc::umount2(folder.as_ptr(), libc::MNT_DETACH) };
    assert!(run.status.success(), "{}", run.status);
    let (taken, dropped) = (run.drained.total(), run.drained.dropped());
    assert_eq!(taken + dropped, 300_000);
    assert!((8000..20_000).contains(&taken), "{taken} taken");
}

#[test]
fn a_folder_without_room_for_a_ring_is_reported() {
    let program = stress("endings.cpp", "endings");
    // No ring fits into what this process may write; trying would be a fatal signal.
    let session = Session::new(OPTIONS);
    let mut command = session.command(&program);
    command.args(["exit", "1000"]);
    let limit = libc::rlimit {
        rlim_cur: 32 << 10,
        rlim_max: 32 << 10,
    };
    // SAFETY: only calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let run = session.run(&mut command);
    assert_eq!(run.status.code(), Some(4), "{}", run.stderr);
    assert_eq!(run.drained.total(), 0);
    assert_eq!(run.lines("note calls were not recorded").len(), 1);
    assert_eq!(run.drained.dropped(), 1001);
}

#[test]
fn a_session_that_cannot_be_written_harms_nothing() {
    let program = stress("endings.cpp", "endings");
    for folder in ["/nonexistent/folder", "", "/proc"] {
        let output = Command::new(&program)
            .args(["none", "1000"])
            .env("LD_PRELOAD", library())
            .env("CUTRACE_SESSION", folder)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{folder}: {output:?}"
        );
    }
}

#[test]
fn code_that_may_not_be_written_is_hooked_through_the_kernel() {
    let built = compile(
        "library.cpp",
        "libstress.so",
        &["-shared", "-fPIC", "-Wl,-soname,libstress.so"],
    );
    let program = compile("hardened.c", "hardened", &["-ldl"]);
    for from_the_start in [false, true] {
        let session = Session::new(OPTIONS);
        let mut command = session.command(&program);
        command.arg(&built).args(from_the_start.then_some("again"));
        let run = session.run(&mut command);
        assert!(run.status.success(), "{}", run.stderr);
        if run.stdout.contains("cannot harden") {
            eprintln!("skipped: this kernel has no PR_SET_MDWE");
            return;
        }
        run.assert_counts();
        assert_eq!(
            run.lines("library 0 hooked=18 exported=18 method=patch-by-kernel")
                .len(),
            1
        );
    }
}

#[test]
fn the_second_door_opens_late_and_says_so() {
    compile(
        "driver.c",
        "libcuda.so.1",
        &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"],
    );
    let program = compile("late.c", "late", &["-l:libcuda.so.1", "-ldl"]);
    let session = Session::new("");
    let run = session.run(
        session
            .command(&program)
            .arg(library())
            .env_remove("LD_PRELOAD"),
    );
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    assert_eq!(run.lines("note injected after CUDA was loaded").len(), 1);
    // The other door is open already: nothing happens twice.
    let session = Session::new("");
    let run = session.run(session.command(&program).arg(library()));
    assert_eq!(run.drained.total(), 1010, "{}", run.stderr);
    assert_eq!(run.lines("note ").len(), 0);
}

#[test]
fn another_c_library() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        eprintln!("skipped: no musl-gcc");
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none(),
            "must not be skipped here"
        );
        return;
    }
    let (built, program) = compile_musl("reload_library.c", "reload.c");
    let session = Session::new(OPTIONS);
    let run = session.run(session.command(program).arg(&built).arg("no namespaces"));
    assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    run.assert_counts();
}

#[test]
fn a_debugger_sees_through_the_hook() {
    let Ok(found) = Command::new("gdb").arg("--version").output() else {
        eprintln!("skipped: no gdb");
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none(),
            "must not be skipped here"
        );
        return;
    };
    assert!(found.status.success());
    let program = stress("endings.cpp", "endings");
    let session = Session::new(OPTIONS);
    let set = |name: &str, value: &str| format!("set environment {name} {value}");
    let output = Command::new("gdb")
        .args([
            "-batch",
            "-nx",
            "-ex",
            &set("LD_PRELOAD", &library().display().to_string()),
        ])
        .args([
            "-ex",
            &set("CUTRACE_SESSION", &session.folder.display().to_string()),
        ])
        .args([
            "-ex",
            "set startup-with-shell off",
            "-ex",
            "run abort 10",
            "-ex",
            "backtrace",
        ])
        .arg(&program)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let order: Vec<usize> = ["die_by_abort", "s_call", "main"]
        .iter()
        .filter_map(|name| {
            text.find(&format!("in {name} "))
                .or(text.find(&format!(" {name} (")))
        })
        .collect();
    assert_eq!(order.len(), 3, "{text}");
    assert!(order.is_sorted(), "{text}");
    let run = session.follow(|| output);
    assert_eq!(run.drained.total(), 11);
}

/// Calls that the program says it made, and what came of it.
fn limits(way: &str, options: &str) -> (u64, common::Run) {
    let program = stress("limits.c", "limits");
    let session = Session::new(&format!("{OPTIONS}{options}"));
    let run = session.run(session.command(&program).arg(way));
    assert!(run.status.success(), "{way}: {} {}", run.status, run.stderr);
    let made = run.stdout.trim().rsplit(' ').next().unwrap_or_default();
    (made.parse().expect("a count"), run)
}

#[test]
fn children_without_descriptors_go_on_in_their_parents_rings() {
    let (made, run) = limits("nofile", "");
    let (recorded, lost) = (run.drained.total(), run.drained.dropped());
    assert_eq!((recorded, lost), (made, 0));
    // Each said who it is, and rings of those that had ended were used again.
    assert_eq!(run.processes.len(), 301);
    assert!(run.drained.places() < 800, "{}", run.drained.places());
}

#[test]
fn locked_memory_does_not_grow_by_what_is_not_used() {
    let (made, run) = limits("locked", "");
    assert_eq!((run.drained.total(), run.drained.dropped()), (made, 0));
    let words: Vec<&str> = run.stdout.split_whitespace().collect();
    let kilobytes: u64 = words[1].parse().unwrap();
    assert!(kilobytes < 300 << 10, "{kilobytes} kB");
}

#[test]
fn little_address_space_is_left_to_the_program() {
    let (made, run) = limits("space", "");
    assert_eq!((run.drained.total(), run.drained.dropped()), (made, 0));
}

#[test]
fn older_kernels_give_memory_page_by_page() {
    let program = stress("stress.cpp", "stress");
    let session = Session::new(&format!("{OPTIONS}memory touch\n"));
    let run = session.run(session.command(&program).args(["2000", "40"]));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    let (made, run) = limits("nofile", "memory touch\n");
    assert_eq!((run.drained.total(), run.drained.dropped()), (made, 0));
}

#[test]
fn short_threads_share_a_few_rings() {
    let program = stress("churn.cpp", "churn");
    let session = Session::new(OPTIONS);
    let run = session.run(session.command(program).arg("500"));
    assert!(run.status.success(), "{}", run.stderr);
    run.assert_counts();
    assert!(run.drained.places() < 1500, "{}", run.drained.places());
    assert!(run.drained.spent() > 0);
}
