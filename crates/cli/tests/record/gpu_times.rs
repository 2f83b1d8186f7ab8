//! When work ran: softgpu's libcupti stands for NVIDIA's, everything else is what runs on a GPU.

use super::{Run, compile, path, program, record, record_with};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A piece of work: what its beginning says, and when it ended.
pub struct Work<'a> {
    pub begun: &'a Value,
    pub end: f64,
}

pub fn work(run: &Run) -> Vec<Work<'_>> {
    let mut begun = HashMap::new();
    let mut found = Vec::new();
    for line in run.of_type("gpu") {
        let id = line["op_id"].as_u64().expect("an id");
        if line["phase"] == "B" {
            begun.insert(id, line);
        } else {
            found.push(Work {
                begun: begun.remove(&id).expect("it began"),
                end: line["ts"].as_f64().expect("a time"),
            });
        }
    }
    assert!(begun.is_empty(), "work that never ended");
    found
}

/// The calls that may have caused work, by their ids.
pub fn causes(run: &Run) -> HashMap<u64, &Value> {
    let calls = run.of_type("userspace");
    calls
        .filter(|line| line["phase"] == "B" && line["correlation"] == line["op_id"])
        .map(|line| (line["op_id"].as_u64().expect("an id"), line))
        .collect()
}

#[test]
fn kernels_copies_and_memsets_are_counted_and_have_their_calls() {
    for (name, kernels, copies, memsets) in [
        ("vector_add", 1, 3, 0),
        ("threads8", 80, 160, 0),
        ("graph", 16, 16, 4),
    ] {
        let Some(program) = program(name) else {
            return;
        };
        let run = record(&[], &[path(&program)]);
        let (work, causes) = (work(&run), causes(&run));
        let of = |category: &str| {
            let of_category = |work: &&Work| work.begun["category"] == category;
            work.iter().filter(of_category).count()
        };
        assert_eq!(
            (of("kernel"), of("transfer"), of("memory")),
            (kernels, copies, memsets),
            "{name}: {}",
            run.stderr()
        );
        for work in &work {
            let id = work.begun["correlation"].as_u64().expect("a call");
            let call = causes.get(&id).expect("the call is in the trace");
            let (called, start) = (call["ts"].as_f64(), work.begun["ts"].as_f64());
            assert!(called < start, "{name}: {call} {}", work.begun);
            assert!(start <= Some(work.end));
            assert_eq!(call["layer"], "driver");
        }
        let clocks = run.summary()["clocks"].as_array().expect("clocks");
        let cupti = clocks.iter().find(|clock| clock["source"] == "cupti");
        assert!(
            cupti.is_some_and(|clock| clock["error_ns"].as_u64() < Some(100_000)),
            "{clocks:?}"
        );
    }
}

#[test]
fn what_cupti_takes_for_itself_is_told_on_demand() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record(&["-v"], &[path(&launches), "2", "200", "kill"]);
    assert!(
        run.stderr().contains("CUPTI buffer flush: "),
        "{}",
        run.stderr()
    );
}

#[test]
fn nodes_of_a_graph_are_told_apart() {
    let Some(program) = program("graph") else {
        return;
    };
    let run = record(&[], &[path(&program)]);
    let (mut launches, mut nodes) = (HashSet::new(), HashSet::new());
    for work in work(&run) {
        let details = &work.begun["details"];
        if let Some(node) = details["node"].as_u64() {
            nodes.insert((details["graph"].as_u64(), node));
            launches.insert(work.begun["correlation"].as_u64());
        }
    }
    // Two graphs: one of 5 nodes, one of 4; each launched four times.
    assert_eq!((nodes.len(), launches.len()), (9, 8), "{}", run.stderr());
}

/// Work of a graph leads to the call that captured it: the same kernel, whatever launched the graph.
#[test]
fn work_of_a_graph_has_the_call_that_put_it_there() {
    let Some(program) = program("graph") else {
        return;
    };
    let run = record(&[], &[path(&program)]);
    let calls: HashMap<u64, &Value> = (run.of_type("userspace"))
        .filter(|line| line["phase"] == "B")
        .filter_map(|line| Some((line["op_id"].as_u64()?, line)))
        .collect();
    let kernels: HashMap<u64, &Value> = (run.of_type("kernel"))
        .filter_map(|line| Some((line["op_id"].as_u64()?, &line["kernel"])))
        .collect();
    let mut named = 0;
    let all = work(&run);
    let of_graphs = all
        .iter()
        .filter(|work| work.begun["details"]["node"].is_u64());
    for work in of_graphs {
        let origin = &work.begun["details"]["origin"];
        let call = origin["op_id"].as_u64().and_then(|id| calls.get(&id));
        let call = call.unwrap_or_else(|| panic!("no origin: {}", work.begun));
        assert_ne!(call["op_id"], work.begun["correlation"]);
        let ids = [&call["op_id"], &call["parent"]];
        let launched = ids.iter().find_map(|id| kernels.get(&id.as_u64()?));
        if let Some(kernel) = launched {
            assert_eq!(**kernel, work.begun["name"], "{call}");
            named += 1;
        }
    }
    assert!(named >= 4, "{named} kernels of captured launches");
}

/// The answer is known by construction: a kernel is only added or captured inside a range of its own name.
#[test]
fn work_of_graphs_inside_graphs_has_the_call_that_put_it_there() {
    let Some(program) = program("graph_origins") else {
        return;
    };
    let run = record(&["--graph-nodes"], &[path(&program)]);
    let spans: HashMap<u64, &Value> = (run.of_type("userspace").chain(run.of_type("range")))
        .filter(|line| line["phase"] == "B")
        .filter_map(|line| Some((line["op_id"].as_u64()?, line)))
        .collect();
    let mut kernels = Vec::new();
    for work in work(&run) {
        let details = &work.begun["details"];
        if details["node"].is_null() {
            continue;
        }
        let mut at = details["origin"]["op_id"].as_u64();
        let range = loop {
            let around = at.and_then(|id| spans.get(&id));
            let around = around.unwrap_or_else(|| panic!("no origin: {}", work.begun));
            if around["type"] == "range" {
                break around["name"].as_str().expect("a name");
            }
            at = around["parent"].as_u64();
        };
        let name = work.begun["name"].as_str().expect("a name");
        assert!(
            name.starts_with(&format!("{range}(")),
            "{name} from {range}"
        );
        kernels.push(range);
    }
    kernels.sort_unstable();
    let count = |name| kernels.iter().filter(|kernel| **kernel == name).count();
    // Once plain, twice nested, once cloned, twice updated.
    assert_eq!((count("outside"), count("inChild")), (4, 4), "{kernels:?}");
    assert_eq!((count("outsideLater"), count("inChildLater")), (2, 2));
    assert_eq!((count("inBody"), count("inOther")), (3, 0));
    assert_eq!(kernels.len() - count("inSwitch"), 15);
}

/// The shapes of `launches.c`: of each thread in the order of its launches.
pub fn check_shapes(run: &Run, expected: usize) {
    let (work, causes) = (work(run), causes(run));
    let mut linked = HashSet::new();
    for work in &work {
        let id = work.begun["correlation"].as_u64().expect("a call");
        let call = &causes[&id]["details"];
        let details = &work.begun["details"];
        assert_eq!(details["grid"][0], call["gridDimX"], "{}", work.begun);
        assert_eq!(details["block"][0], call["blockDimX"], "{}", work.begun);
        assert!(linked.insert(id), "two kernels of one launch");
    }
    let told = linked.len() + untimed(run);
    assert_eq!(told, expected, "{}", run.stderr());
}

/// Pieces of work that events could not be put around, as the run says: on a machine that is busy with
/// other things some come too fast, or before there is a clock to tell their times by.
pub fn untimed(run: &Run) -> usize {
    let said = run.stderr();
    // "CUDA events timed 7 of 8 GPU operations"
    let Some((before, _)) = said.split_once(" GPU operations; the others") else {
        return 0;
    };
    let numbers: Vec<usize> = (before.rsplit(' ').take(3))
        .filter_map(|word| word.parse().ok())
        .collect();
    let [came, timed] = numbers[..] else {
        panic!("how many there were: {said}");
    };
    assert!(timed > came / 2, "{said}");
    came - timed
}

#[test]
fn launches_of_many_threads_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record(&["-e", "kernel"], &[path(&launches), "8", "2500"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    check_shapes(&run, 20_000);
}

#[test]
fn a_program_that_uses_cupti_itself_sees_what_it_would_see_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record(&["-e", "kernel"], &[path(&launches), "4", "100", "cupti"]);
    assert_eq!(String::from_utf8_lossy(&run.output.stdout), "seen 400\n");
    // What ran before is CUPTI's; from then on it is timed by events.
    check_shapes(&run, 800);
    let by_events = |work: &&Work| work.begun["details"]["source"] == "events";
    let timed = work(&run).iter().filter(by_events).count();
    assert_eq!(timed + untimed(&run), 400);
    assert!(
        run.stderr()
            .contains("uses CUPTI itself (cuptiActivityRegisterCallbacks)"),
        "{}",
        run.stderr()
    );
}

#[test]
fn a_killed_process_leaves_what_it_had_handed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record(&["-e", "kernel"], &[path(&launches), "4", "100", "kill"]);
    check_shapes(&run, 400);
    assert!(
        run.stderr().contains("was killed or crashed"),
        "{}",
        run.stderr()
    );
}

#[test]
fn waits_that_nobody_tells_are_named() {
    let run = record(&["--waits", "--method", "preload"], &["true"]);
    let said = run.stderr();
    assert_eq!(run.output.status.code(), Some(125), "{said}");
    assert!(said.contains("CUPTI records waits; add cupti"), "{said}");
}

#[test]
fn waits_are_told_with_what_was_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let waits = compile("waits", folder.path());
    let run = record(&["--waits"], &[path(&waits), "4", "50"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let calls: HashMap<u64, &Value> = (run.of_type("userspace"))
        .filter(|line| line["phase"] == "B")
        .map(|line| (line["op_id"].as_u64().expect("an id"), line))
        .collect();
    let mut seen = HashMap::new();
    let mut events = HashSet::new();
    for wait in run.of_type("gpu_wait").filter(|line| line["phase"] == "B") {
        let call = calls[&wait["correlation"].as_u64().expect("a call")];
        let name = wait["name"].as_str().expect("a name");
        assert_eq!(
            (&wait["category"], &wait["tid"]),
            (&"sync".into(), &call["tid"])
        );
        match name {
            "wait for stream" | "stream waits for event" => {
                assert_eq!(wait["stream"], call["stream"], "{wait}");
            }
            _ => assert!(wait["stream"].is_null(), "{wait}"),
        }
        if name.contains("event") {
            events.insert(wait["details"]["event"].as_u64().expect("an event"));
        }
        let called = call["name"].as_str().expect("a name");
        *seen.entry((name, called)).or_insert(0) += 1;
    }
    let expected = [
        (("wait for stream", "cuStreamSynchronize"), 200),
        (("wait for event", "cuEventSynchronize"), 4),
        (("stream waits for event", "cuStreamWaitEvent"), 4),
        (("wait for context", "cuCtxSynchronize"), 1),
    ];
    assert_eq!(seen, expected.into(), "{}", run.stderr());
    assert_eq!(events.len(), 4, "an event of each thread");
    // Work is what it was, and waits are no part of it.
    assert_eq!(work(&run).len(), 200);
    let run = record(&[], &[path(&waits), "1", "5"]);
    assert_eq!(run.of_type("gpu_wait").count(), 0, "nobody asked for waits");
}

#[test]
fn a_client_of_mps_is_told_what_that_means() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let socket = folder.path().join("control");
    let _daemon = UnixListener::bind(&socket).expect("bound");
    let digits = format!("{:05x}", std::process::id() & 0xfffff);
    let name = SocketAddr::from_abstract_name(&digits).expect("a name");
    let _server = UnixListener::bind_addr(&name).expect("bound");
    let words = "under MPS: kernels of other clients may run on the GPU at the same time";
    let (early, late) = (["mps", path(&socket)], ["served", &*digits]);
    for (method, client) in [("preload,cupti", early), ("preload,events", late)] {
        for (more, expected) in [(&client[..], true), (&[], false)] {
            let program = [&[path(&launches), "1", "3"][..], more].concat();
            let run = record_with(&["--method", method], &program, |command| {
                command.env("CUDA_MPS_PIPE_DIRECTORY", folder.path());
            });
            assert!(run.output.status.success(), "{}", run.stderr());
            assert_eq!(run.stderr().contains(words), expected, "{}", run.stderr());
            assert_eq!(work(&run).len(), 3);
        }
    }
}

#[test]
fn another_tools_injection_keeps_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let launches = compile("launches", folder.path());
    let run = record_with(&[], &[path(&launches), "1", "1"], |command| {
        command.env("CUDA_INJECTION64_PATH", "/nonexistent/tool.so");
    });
    assert!(run.output.status.success());
    assert_eq!(work(&run).len(), 0);
    assert!(
        run.stderr().contains("names another tool's library"),
        "{}",
        run.stderr()
    );
    let run = record(&["--method", "preload"], &[path(&launches), "1", "1"]);
    assert_eq!(work(&run).len(), 0);
    assert!(causes(&run).is_empty(), "nobody asked for causes");
}
