//! Adding a source is one folder and two lines: `load/` is the folder, its `mod` is below, its value in [`SOURCES`]. It
//! is recorded for real, alone and beside another.

mod load; // the first line

use capture::{
    ebpf::ProcessFilter,
    launch::Exit,
    source::{self, Methods, Plan, Registry, RunOptions, Subject},
    syscall,
    trace_file::TraceFile,
};
use event::{Layer, Meta, Record};
use load::Most;
use std::path::Path;

static SOURCES: Registry = Registry(&[
    &syscall::SYSCALL,
    &load::LOAD, // the second line
]);

/// A command that takes a while, watched by these.
fn run(names: &str) -> RunOptions {
    let sources = names.split(',');
    let sources = sources.map(|name| SOURCES.named(name).expect("in the registry"));
    RunOptions {
        subject: Subject::Command {
            program: "sh".into(),
            arguments: vec!["-c".into(), "sleep 0.3; exit 3".into()],
        },
        methods: Methods::These(sources.collect()),
        ..RunOptions::default()
    }
}

/// Records into a file, and says what is in it: the sources that began, and the loads in their order.
fn recorded(run: &RunOptions, trace: &Path) -> (Vec<String>, Vec<u64>) {
    let meta = Meta {
        command: run.words(),
        start_ns: capture::clock::monotonic(),
        ..Meta::default()
    };
    let plan = Plan::of(run, SOURCES).expect("a plan");
    let file = TraceFile::create(Some(trace), meta).expect("a file");
    let mut ran = source::record(run, &plan, file).expect("a run");
    assert_eq!(ran.exit, Exit::Code(3));
    let most = ran.said.results::<Most>().expect("the source's own result");
    let note = format!("the load was {} at most", most.0);
    assert!(
        ran.said.observed.notes.contains(&note),
        "{:?}",
        ran.said.observed.notes
    );
    let finished = ran.file.finish(|_| {});
    assert!(finished.failure.is_none(), "{:?}", finished.failure);
    let mut reader = trace::open(trace).expect("a trace");
    let began = reader.meta().backends.iter();
    let began = began.map(|backend| backend.name.clone()).collect();
    let mut loads = Vec::new();
    for record in reader.by_ref() {
        if let Record::Event(event) = record.expect("whole")
            && event.layer == Layer::Os
            && &*event.name == "load"
        {
            loads.push(event.start);
        }
    }
    assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
    (began, loads)
}

#[test]
fn the_example_is_recorded_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (began, loads) = recorded(&run("load"), &folder.path().join("alone.jsonl"));
    assert_eq!(began, ["load"]);
    assert!(loads.len() >= 3, "{} samples", loads.len());
    assert!(loads.is_sorted());
}

#[test]
fn the_example_is_recorded_beside_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (began, loads) = recorded(&run("load,syscall"), &folder.path().join("both.arrows"));
    assert_eq!(began, ["syscall", "load"]);
    assert!(loads.len() >= 3, "{} samples", loads.len());
    assert!(loads.is_sorted());
}

#[test]
fn the_line_is_all_that_the_command_line_needs() {
    assert_eq!(SOURCES.names(), ["syscall", "load"]);
    let row = "| load | the machine's load, a hundred times a second | /proc |";
    assert!(SOURCES.table().iter().any(|line| line == row));
    let findings = SOURCES.all().flat_map(|source| source.findings());
    let found = findings.into_iter().find(|finding| finding.name == "load");
    assert!(found.expect("doctor has a line of it").found.is_ok());
    let mut everything = run("load");
    everything.methods = Methods::All;
    let plan = Plan::of(&everything, SOURCES).expect("a plan");
    assert!(plan.names().contains(&"load"), "{plan:?}");
    // Its refusal has the same words wherever it is asked for.
    let words = "it cannot tell users and cgroups apart (--uid, --cgroup)";
    everything.whose = ProcessFilter {
        user: Some(1),
        ..ProcessFilter::default()
    };
    let plan = Plan::of(&everything, SOURCES).expect("a plan");
    let left_out = format!("left out: load: {words}");
    assert!(plan.left_out.contains(&left_out), "{plan:?}");
    everything.methods = run("load").methods;
    let refused = Plan::of(&everything, SOURCES).expect_err("refused");
    assert_eq!(refused.to_string(), format!("--method=load: {words}"));
}
