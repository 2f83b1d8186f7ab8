//! What a call costs: direct, hooked (read by a consumer and not), through a naive hook, and under
//! uftrace, bpftrace and ltrace where they are installed and allowed. The kinds take turns, so that whatever else the
//! machine does falls on all of them.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Session, compile, library};
use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters, GATE_CLOSED, GATES};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const CALLS: &str = "1000000";
const KINDS: [&str; 3] = ["trivial", "output", "launch"];

fn main() {
    let rounds = std::env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(9);
    let driver = compile(
        "driver.c",
        "libcuda.so.1",
        &["-shared", "-fPIC", "-O2", "-Wl,-soname,libcuda.so.1"],
    );
    let program = compile(
        "../../../../bench/preload/calls.c",
        "calls",
        &["-O2", "-l:libcuda.so.1", "-pthread"],
    );
    let naive = compile(
        "../../../../bench/preload/naive.c",
        "libnaive.so",
        &["-O2", "-shared", "-fPIC", "-ldl"],
    );
    library();

    let mut times: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    let mut lost = 0;
    for _ in 0..rounds {
        let mut note = |way: &'static str, text: &str| {
            for kind in KINDS {
                let time = text
                    .lines()
                    .find_map(|line| line.strip_prefix(kind)?.trim().parse().ok());
                times
                    .entry((way, kind))
                    .or_default()
                    .push(time.expect("the program prints its times"));
            }
        };
        note("direct", &plain(Command::new(&program).arg(CALLS)));
        // Nobody reads, and the ring is never full: what is measured is the producer alone.
        let session = Session::new("");
        let stop = AtomicBool::new(false);
        let text = std::thread::scope(|scope| {
            scope.spawn(|| common::never_full(&session.folder, &stop));
            let text = plain(session.command(&program).arg(CALLS));
            stop.store(true, Ordering::Relaxed);
            text
        });
        note("hooked, not read", &text);
        drop(session);
        let session = Session::new("");
        let run = session.run(session.command(&program).arg(CALLS));
        lost += run.drained.dropped();
        note("hooked, drained", &run.stdout);
        drop(session);
        // Nobody watches: --window.
        let session = Session::new("");
        let mut page = vec![0; COUNTERS_SIZE];
        let gates = offset_of!(Counters, gates);
        page[gates..gates + GATES].fill(GATE_CLOSED);
        std::fs::write(session.folder.join(COUNTERS_FILE), page).expect("written");
        let run = session.run(session.command(&program).arg(CALLS));
        note("gates closed", &run.stdout);
        drop(session);
        let session = Session::new("stack\n");
        let run = session.run(session.command(&program).arg(CALLS));
        lost += run.drained.dropped();
        note("with --stack", &run.stdout);
        drop(session);
        // Tools that many have at hand, where they are; ltrace stops the program twice a call.
        let mut ltrace = Command::new("ltrace");
        let functions = "cuInit+cuMemAlloc_v2+cuLaunchKernel";
        ltrace
            .args(["-c", "-o", "/dev/null", "-e", functions])
            .arg(&program)
            .arg("1000");
        if let Ok(output) = ltrace.output() {
            note("ltrace -c", &String::from_utf8_lossy(&output.stdout));
        }
        let mut uftrace = Command::new("uftrace");
        let folder = std::env::temp_dir().join(format!("cutrace-bench.{}", std::process::id()));
        uftrace
            .args(["record", "--force", "-d"])
            .arg(&folder)
            .arg(&program)
            .arg("100000");
        if let Ok(output) = uftrace.output() {
            note("uftrace record", &String::from_utf8_lossy(&output.stdout));
        }
        let _ = std::fs::remove_dir_all(&folder);
        // A line of JSON at entry and at return, as its users write it.
        let mut bpftrace = Command::new("bpftrace");
        bpftrace.args(["-o", "/dev/null", "-e", &bpf_program(&driver)]);
        bpftrace
            .arg("-c")
            .arg(format!("{} 20000", program.display()));
        if let Ok(output) = bpftrace.output()
            && output.stdout.windows(6).any(|word| word == b"launch")
        {
            note("bpftrace printf", &String::from_utf8_lossy(&output.stdout));
        }
        note(
            "naive hook",
            &plain(Command::new(&program).arg(CALLS).env("LD_PRELOAD", &naive)),
        );
    }

    println!("ns a call, least and median of {rounds} interleaved rounds; drained: {lost} lost");
    println!("{:<22}{:>18}{:>18}{:>18}", "", KINDS[0], KINDS[1], KINDS[2]);
    for way in [
        "direct",
        "hooked, not read",
        "hooked, drained",
        "gates closed",
        "with --stack",
        "naive hook",
        "uftrace record",
        "bpftrace printf",
        "ltrace -c",
    ] {
        print!("{way:<22}");
        for kind in KINDS {
            let Some(mut all) = times.get(&(way, kind)).cloned() else {
                print!("{:>18}", "not installed");
                continue;
            };
            all.sort_by(f64::total_cmp);
            print!("{:>18}", shown(all[0], all[all.len() / 2]));
        }
        println!();
    }
    for kind in KINDS {
        let least = |way| times[&(way, kind)].iter().copied().fold(f64::MAX, f64::min);
        let ratio = least("with --stack") / least("hooked, drained");
        println!("{kind}: with --stack {ratio:.2} times as long as without, drained both");
    }
    for threads in ["1", "4"] {
        let session = Session::new("");
        let run = session.run(session.command(&program).args(["3000000", threads]));
        let rate: f64 = run
            .stdout
            .trim()
            .trim_start_matches("rate ")
            .parse()
            .expect("a rate");
        let (taken, lost) = (run.drained.total(), run.drained.dropped());
        println!(
            "{threads} threads: {:.1} million calls a second, {taken} taken, {lost} lost",
            rate / 1e6
        );
    }
}

fn bpf_program(library: &std::path::Path) -> String {
    let probes = |kind: &str| {
        let names = ["cuInit", "cuMemAlloc_v2", "cuLaunchKernel"];
        let probe = |name| format!("{kind}:{}:{name}", library.display());
        names.map(probe).join(",")
    };
    let line = r#"printf("{\"name\":\"%s\",\"ts\":%lu}\n", probe, nsecs);"#;
    let (begin, end) = (probes("uprobe"), probes("uretprobe"));
    format!("{begin} {{ {line} }} {end} {{ {line} }}")
}

fn shown(least: f64, median: f64) -> String {
    let digits = if least < 1000.0 { 1 } else { 0 };
    format!("{least:.digits$} / {median:.digits$}")
}

fn plain(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}
