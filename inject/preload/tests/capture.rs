//! What is captured of a call beyond its first arguments, by the plan that the tracer reads with.

mod common;

use common::{Call, Run, Session, compile};
use cuda::capture::{Item, plan};

fn run() -> Run {
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
    compile("driver.c", "libcuda.so.1", &shared);
    let program = compile("capture.c", "capture", &["-l:libcuda.so.1"]);
    let session = Session::new("");
    let run = session.run(&mut session.command(program));
    assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.drained.dropped(), 0);
    run
}

/// The calls of a function, in order.
fn calls<'a>(run: &'a Run, name: &str) -> Vec<&'a Call> {
    let mut calls: Vec<&Call> = run
        .drained
        .calls
        .iter()
        .filter(|call| run.name(call) == name)
        .collect();
    calls.sort_by_key(|call| call.enter);
    calls
}

/// The bytes of the plan's items, in order.
fn pieces(name: &str, call: &Call) -> Vec<Vec<u8>> {
    let piece = |(at, item): (usize, Item)| call.payload[at..at + item.bytes()].to_vec();
    plan(name, None).placed().map(piece).collect()
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

#[test]
fn arguments_outputs_strings_and_structs() {
    let run = run();
    let allocations = calls(&run, "cuMemAlloc_v2");
    assert_eq!(allocations.len(), 3);
    assert_eq!((allocations[0].args[1], allocations[0].result), (4096, 0));
    assert_eq!(
        number(&pieces("cuMemAlloc_v2", allocations[0])[0]),
        0x7f00_0000_1000 + 4096
    );
    assert_eq!(
        number(&pieces("cuMemAlloc_v2", allocations[2])[0]),
        0x7f00_0000_1000 + 77
    );
    assert_eq!(allocations[1].result, 1);
    assert!(allocations[0].exit > allocations[0].enter);

    let launch = calls(&run, "cuLaunchKernel")[0];
    assert_eq!(launch.args, [0x1234, 1, 2, 3]);
    let rest: Vec<u64> = pieces("cuLaunchKernel", launch)
        .iter()
        .map(|piece| number(piece))
        .collect();
    assert_eq!(
        rest[..5]
            .iter()
            .map(|word| word & 0xffff_ffff)
            .collect::<Vec<_>>(),
        [4, 5, 6, 7, 0x88]
    );
    assert_eq!(rest[6], 0);

    let name = |call: &&Call| {
        let pieces = pieces("cuModuleGetFunction", call);
        pieces
            .iter()
            .find(|piece| piece.len() > 8)
            .map(|piece| text(piece))
            .unwrap()
    };
    let names: Vec<String> = calls(&run, "cuModuleGetFunction")
        .iter()
        .map(name)
        .collect();
    assert_eq!(
        names,
        ["_Z9vectorAddPKfS0_Pfi", "missing", "", "edges", "edges"]
    );

    let launches = calls(&run, "cuLaunchKernelEx");
    let config = |call: &Call| pieces("cuLaunchKernelEx", call)[0].clone();
    let words = |bytes: &[u8]| -> Vec<u64> { bytes.chunks(4).take(7).map(number).collect() };
    assert_eq!(words(&config(launches[0])), [10, 20, 30, 40, 50, 60, 70]);
    assert_eq!(number(&config(launches[0])[32..40]), 0x99);
    for unreadable in &launches[1..3] {
        assert_eq!(unreadable.result, 400);
        assert!(config(unreadable).iter().all(|byte| *byte == 0));
    }
}

/// The pieces of the payload that are of one kind.
fn of_kind(name: &str, call: &Call, wanted: impl Fn(&Item) -> bool) -> Vec<Vec<u8>> {
    let plan = plan(name, None);
    let kinds = plan.items().iter().map(wanted);
    let chosen = pieces(name, call).into_iter().zip(kinds);
    chosen
        .filter(|(_, wanted)| *wanted)
        .map(|(piece, _)| piece)
        .collect()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(number).collect()
}

#[test]
fn arrays_texts_that_come_back_and_floats() {
    let run = run();
    let one = |name: &str| calls(&run, name)[0];
    let whole = |name: &str| pieces(name, one(name));
    assert_eq!(text(&whole("cuDeviceGetName")[0]), "a device");
    assert_eq!(text(&whole("cudaGetErrorString")[0]), "an error");
    assert_eq!(text(&whole("cuGetErrorString")[0]), "no error");
    let clamp = whole("cuTexRefSetMipmapLevelClamp");
    let floats: Vec<f32> = clamp
        .iter()
        .map(|piece| f32::from_bits(number(&piece[..4]) as u32))
        .collect();
    assert_eq!(floats, [0.5, 12.25]);

    let batch = "cuMemcpyBatchAsync_v2";
    let batches = calls(&run, batch);
    let sum = |call| number(&of_kind(batch, call, |item| matches!(item, Item::Sum { .. }))[0]);
    let arrays = |call| of_kind(batch, call, |item| matches!(item, Item::Array { .. }));
    assert_eq!(sum(batches[0]), (0..100).sum::<u64>());
    assert_eq!(numbers(&arrays(batches[0])[2]), (0..16).collect::<Vec<_>>());
    // What is not mapped is not read, and the rest is.
    assert_eq!(sum(batches[1]), 5 + 6);
    assert_eq!(numbers(&arrays(batches[1])[1]), [0; 16]);
    assert_eq!(numbers(&arrays(batches[1])[2])[..3], [5, 6, 0]);
    assert_eq!((batches[2].result, sum(batches[2])), (1, 0));

    let nodes = of_kind("cuGraphGetNodes", one("cuGraphGetNodes"), |item| {
        matches!(item, Item::Array { .. })
    });
    assert_eq!(numbers(&nodes[0])[..4], [0x100, 0x101, 0x102, 0]);
    let values = of_kind(
        "cuPointerGetAttributes",
        one("cuPointerGetAttributes"),
        |item| matches!(item, Item::Gathered { .. }),
    );
    assert_eq!(
        (number(&values[0][..4]), number(&values[0][8..12])),
        (42, 49)
    );

    let launches = calls(&run, "cuLaunchKernelEx");
    let attributes = |call| {
        let nested = of_kind("cuLaunchKernelEx", call, |item| {
            matches!(item, Item::Nested { .. })
        });
        let each = |bytes: &[u8]| [&bytes[..4], &bytes[8..12], &bytes[36..40]].map(number);
        nested[0].chunks(40).map(each).collect::<Vec<_>>()
    };
    assert_eq!(
        attributes(launches[3]),
        [[1, 0, 77], [2, 10, 77], [3, 20, 77], [4, 30, 77]]
    );
    assert_eq!(
        attributes(launches[4]),
        [[1, 0, 77], [2, 10, 77], [0; 3], [0; 3]]
    );
    assert_eq!(attributes(launches[5]), [[0; 3]; 4]);
}

#[test]
fn two_values_lie_in_the_call_s_own_slot() {
    let run = run();
    let name = "cuDevicePrimaryCtxGetState";
    let states = calls(&run, name);
    let values = |call: &Call| -> Vec<u64> {
        pieces(name, call)
            .iter()
            .map(|piece| number(piece))
            .collect()
    };
    let captured: Vec<_> = states[..4].iter().map(|call| values(call)).collect();
    assert_eq!(captured, [[0x11, 0x22], [0, 0x22], [0x11, 0], [0x11, 0x22]]);
    assert_eq!((states[4].result, states[4].args[1]), (101, 0xdead_0000));
}

#[test]
fn a_payload_at_both_ends_of_a_ring() {
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
    compile("driver.c", "libcuda.so.1", &shared);
    let program = compile("around.c", "around", &["-l:libcuda.so.1"]);
    let session = Session::new("ring 256\n");
    let run = session.run(&mut session.command(program));
    assert!(run.status.success() && run.stdout.is_empty());
    assert_eq!(run.drained.dropped(), 0);
    let launches = calls(&run, "cuLaunchKernel");
    let extended = calls(&run, "cuLaunchKernelEx");
    let clamps = calls(&run, "cuTexRefSetMipmapLevelClamp");
    assert_eq!(
        (launches.len(), extended.len(), clamps.len()),
        (1000, 1000, 1000)
    );
    let low = |word: u64| word & 0xffff_ffff;
    for (i, call) in (1..).zip(launches) {
        let rest = pieces("cuLaunchKernel", call);
        let rest: Vec<u64> = rest.iter().map(|piece| low(number(piece))).collect();
        assert_eq!(rest, (1..=7).map(|more| i + more).collect::<Vec<_>>());
    }
    for (i, call) in (1..).zip(extended) {
        let config = &pieces("cuLaunchKernelEx", call)[0];
        let words: Vec<u64> = config[..28].chunks(4).map(number).collect();
        assert_eq!(words, (0..7).map(|more| i + more).collect::<Vec<_>>());
        assert_eq!(number(&config[32..40]), i + 7);
    }
    for call in clamps {
        let floats = pieces("cuTexRefSetMipmapLevelClamp", call);
        let floats = floats
            .iter()
            .map(|piece| f32::from_bits(number(&piece[..4]) as u32));
        assert_eq!(floats.collect::<Vec<_>>(), [0.5, 12.25]);
    }
}

#[test]
fn filtered_functions_are_left_alone() {
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];
    compile("driver.c", "libcuda.so.1", &shared);
    let program = compile("capture.c", "capture", &["-l:libcuda.so.1"]);
    let session = Session::new("filter memory,cuLaunch*,!cuLaunchKernelEx,!cuTex*\n");
    let run = session.run(&mut session.command(program));
    assert!(run.status.success());
    let mut seen: Vec<String> = run.counts().into_keys().map(|(_, name)| name).collect();
    seen.sort();
    assert_eq!(seen, ["cuLaunchKernel", "cuMemAlloc_v2"]);
    assert_eq!(
        run.lines("library 0 hooked=2 exported=14 method=patch")
            .len(),
        1
    );
}
