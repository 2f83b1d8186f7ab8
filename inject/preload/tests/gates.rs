//! Gates that let calls by: the program does what it did, and what is recorded is what they say.

mod common;

use common::{Run, Session, compile};
use cuda::gate::{LAUNCHES, QUERIES, class};
use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters, GATE_CLOSED, GATE_SHED, GATES};
use std::mem::offset_of;

/// Runs the program with these gates.
fn run(options: &str, gates: &[(u8, u8)]) -> Run {
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
    compile("driver.c", "libcuda.so.1", &shared);
    let program = compile("gates.c", "gates", &["-l:libcuda.so.1"]);
    let session = Session::new(options);
    let mut page = vec![0; COUNTERS_SIZE];
    for (class, value) in gates {
        page[offset_of!(Counters, gates) + usize::from(*class)] = *value;
    }
    std::fs::write(session.folder.join(COUNTERS_FILE), page).expect("written");
    let run = session.run(&mut session.command(program));
    assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "wrong 0\n");
    assert_eq!(run.drained.dropped(), 0);
    run
}

fn count(run: &Run, name: &str) -> usize {
    let calls = run.drained.calls.iter();
    calls.filter(|call| run.name(call) == name).count()
}

const ASKS: &str = "cuDevicePrimaryCtxGetState";

#[test]
fn open_gates_let_everything_be_recorded() {
    let run = run("", &[]);
    for name in ["cuMemAlloc_v2", "cuLaunchKernel", "cuCtxSynchronize", ASKS] {
        assert_eq!(count(&run, name), 100, "{name}");
    }
}

#[test]
fn closed_gates_let_calls_by() {
    for options in ["", "stack\n", "clock host\n"] {
        let all: Vec<(u8, u8)> = (1..GATES as u8).map(|class| (class, GATE_CLOSED)).collect();
        let run = run(options, &all);
        assert_eq!(count(&run, "cuMemAlloc_v2"), 100, "{options}");
        for name in ["cuLaunchKernel", "cuCtxSynchronize", ASKS] {
            assert_eq!(count(&run, name), 0, "{options}{name}");
        }
    }
}

#[test]
fn one_gate_is_one_gate() {
    let run = run("", &[(LAUNCHES, GATE_CLOSED)]);
    assert_eq!(count(&run, "cuLaunchKernel"), 0);
    assert_eq!(count(&run, "cuCtxSynchronize"), 100);
}

#[test]
fn what_is_shed_is_recorded_if_it_fails() {
    assert_eq!(class(ASKS, true), QUERIES);
    let run = run("", &[(QUERIES, GATE_SHED)]);
    // The first thread's first call made its ring before.
    let recorded: Vec<_> = (run.drained.calls.iter())
        .filter(|call| run.name(call) == ASKS)
        .collect();
    assert_eq!(recorded.len(), 10);
    assert!(
        recorded
            .iter()
            .all(|call| call.result == 101 && call.args[0] == 1)
    );
    assert_eq!(run.drained.shed(QUERIES), 90);
}

#[test]
fn launches_are_shed_with_their_arguments_on_the_stack() {
    for options in ["", "stack\n", "clock host\n"] {
        let run = run(options, &[(LAUNCHES, GATE_SHED)]);
        let recorded: Vec<_> = (run.drained.calls.iter())
            .filter(|call| run.name(call) == "cuLaunchKernel")
            .collect();
        assert_eq!(recorded.len(), 10, "{options}");
        assert_eq!(run.drained.shed(LAUNCHES), 90, "{options}");
        for call in recorded {
            // Every argument is there, also of a call that is recorded when it has failed.
            assert_eq!((call.result, call.args), (1, [0, 1, 2, 3]), "{options}");
            let words = call.payload.chunks_exact(8).take(5);
            let low = |word: &[u8]| u32::from_le_bytes(word[..4].try_into().expect("four bytes"));
            assert_eq!(words.map(low).collect::<Vec<_>>(), [4, 5, 6, 70, 0x88]);
            assert!(call.exit >= call.enter);
        }
    }
}
