//! What calls mean, reported exactly once, whichever layers are seen.

use super::calls::{Traced, lines};
use cuda::capture::{Item, plan};

/// Calls one after the other, in one thread, a nanosecond each.
struct Script {
    traced: Traced,
    thread: usize,
    time: u64,
}

type Piece = (&'static str, Vec<u8>);

impl Script {
    fn new() -> Self {
        let mut traced = Traced::new();
        let thread = traced.thread(7, 7);
        Script {
            traced,
            thread,
            time: 10,
        }
    }

    /// A call that is left at once. Arguments past the fourth word and what pointers lead to
    /// are given by the parameters' names; other words are 1.
    fn call(&mut self, name: &'static str, args: [u64; 4], pieces: &[Piece]) {
        let open = self.begin(name, args, pieces);
        self.end(open, 0);
    }

    fn begin(&mut self, name: &'static str, args: [u64; 4], pieces: &[Piece]) -> u64 {
        let payload = payload(name, pieces);
        self.time += 10;
        self.traced
            .begin(self.thread, name, self.time, args, &payload)
    }

    fn end(&mut self, open: u64, result: u32) {
        self.time += 10;
        let time = self.time;
        self.traced.ring(self.thread).end(open, time, result);
    }

    /// The lines that tell what was meant.
    fn told(self) -> Vec<String> {
        let (records, totals) = self.traced.finish();
        assert_eq!(totals.late, 0);
        let told = |line: &String| {
            let starts = ["memory ", "transfer ", "launch "];
            starts.iter().any(|start| line.starts_with(start))
        };
        lines(&records).into_iter().filter(told).collect()
    }
}

fn payload(name: &str, pieces: &[Piece]) -> Vec<u8> {
    let table = cuda::runtime_function(13, name).expect("known");
    let words: Vec<_> = cuda::capture::places(table).collect();
    let word_of = |wanted: &str| {
        let index = table.parameters.iter().position(|row| row.name == wanted);
        match words[index.unwrap_or_else(|| panic!("{name} has no {wanted}"))] {
            cuda::capture::ParameterLocation::Words { first, .. } => first,
            cuda::capture::ParameterLocation::Vector { .. } => panic!("a float"),
        }
    };
    let mut payload = Vec::new();
    for (_, item) in plan(name, Some(13)).placed() {
        let given = |word: u8, kind: &str| {
            let piece = pieces.iter().find(|(wanted, _)| {
                let (parameter, wanted_kind) = wanted.split_once(':').unwrap_or((wanted, ""));
                wanted_kind == kind && word_of(parameter) == word
            });
            piece.map(|(_, bytes)| bytes.clone())
        };
        let mut bytes = match item {
            Item::Arg { index } => given(index, "word").unwrap_or(longs(&[1])),
            Item::Memory { arg, .. } | Item::Text { arg, .. } | Item::TextBehind { arg, .. } => {
                given(arg, "").unwrap_or_default()
            }
            Item::Array { arg, .. } | Item::Gathered { arg, .. } => {
                given(arg, "").unwrap_or_default()
            }
            Item::Nested { arg, .. } => given(arg, "nested").unwrap_or_default(),
            Item::Sum { arg, .. } => given(arg, "sum").unwrap_or_default(),
            _ => Vec::new(),
        };
        bytes.resize(item.bytes(), 0);
        payload.extend(bytes);
    }
    payload
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|each| each.to_le_bytes()).collect()
}

fn ints(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|each| each.to_le_bytes()).collect()
}

#[test]
fn memory_of_every_kind_comes_and_goes() {
    let mut script = Script::new();
    let allocations: [(&'static str, [u64; 4], &'static str, u64); 10] = [
        ("cuMemAlloc_v2", [1, 64, 0, 0], "dptr", 0x1000),
        ("cuMemAllocAsync", [1, 65, 0, 0], "dptr", 0x2000),
        ("cuMemAllocFromPoolAsync", [1, 66, 2, 0], "dptr", 0x3000),
        ("cudaMallocAsync", [1, 67, 0, 0], "devPtr", 0x4000),
        ("cudaMallocFromPoolAsync", [1, 68, 2, 0], "ptr", 0x5000),
        ("cuMemAllocHost_v2", [1, 69, 0, 0], "pp", 0x6000),
        ("cuMemHostAlloc", [1, 70, 0, 0], "pp", 0x7000),
        ("cudaHostAlloc", [1, 71, 0, 0], "pHost", 0x8000),
        ("cuMemAllocManaged", [1, 72, 1, 0], "dptr", 0x9000),
        ("cudaMallocManaged", [1, 73, 1, 0], "devPtr", 0xa000),
    ];
    for (name, args, out, address) in allocations {
        script.call(name, args, &[(out, longs(&[address]))]);
    }
    for (name, address) in [
        ("cuMemFree_v2", 0x1000),
        ("cuMemFreeAsync", 0x2000),
        ("cudaFreeAsync", 0x4000),
        ("cudaFree", 0x3000),
        ("cuMemFreeHost", 0x6000),
        ("cudaFreeHost", 0x7000),
    ] {
        script.call(name, [address, 0, 0, 0], &[]);
    }
    assert_eq!(
        script.told(),
        [
            "memory alloc Some(64) 0x1000 Some(\"device\")",
            "memory alloc Some(65) 0x2000 Some(\"device\")",
            "memory alloc Some(66) 0x3000 Some(\"device\")",
            "memory alloc Some(67) 0x4000 Some(\"device\")",
            "memory alloc Some(68) 0x5000 Some(\"device\")",
            "memory alloc Some(69) 0x6000 Some(\"host\")",
            "memory alloc Some(70) 0x7000 Some(\"host\")",
            "memory alloc Some(71) 0x8000 Some(\"host\")",
            "memory alloc Some(72) 0x9000 Some(\"managed\")",
            "memory alloc Some(73) 0xa000 Some(\"managed\")",
            "memory free Some(64) 0x1000 Some(\"device\")",
            "memory free Some(65) 0x2000 Some(\"device\")",
            "memory free Some(67) 0x4000 Some(\"device\")",
            "memory free Some(66) 0x3000 Some(\"device\")",
            "memory free Some(69) 0x6000 Some(\"host\")",
            "memory free Some(70) 0x7000 Some(\"host\")",
        ]
    );
}

#[test]
fn memory_of_graphs_comes_and_goes_with_its_nodes() {
    let mut script = Script::new();
    // The pool's 88 bytes, its access list, the size and the address.
    let node = |size, address| {
        let mut node = vec![0; 104];
        node.extend(longs(&[size, address]));
        ("nodeParams", node)
    };
    let outer = script.begin(
        "cudaGraphAddMemAllocNode",
        [1, 2, 0, 0],
        &[node(64, 0x1000)],
    );
    script.call("cuGraphAddMemAllocNode", [1, 2, 0, 0], &[node(64, 0x1000)]);
    script.end(outer, 0);
    script.call("cuGraphAddMemAllocNode", [1, 2, 0, 0], &[node(65, 0x2000)]);
    let pointer = [("dptr:word", longs(&[0x1000]))];
    script.call("cuGraphAddMemFreeNode", [1, 2, 0, 0], &pointer);
    script.call("cuMemFreeAsync", [0x2000, 0, 0, 0], &[]);
    assert_eq!(
        script.told(),
        [
            "memory alloc Some(64) 0x1000 Some(\"device\")",
            "memory alloc Some(65) 0x2000 Some(\"device\")",
            "memory free Some(64) 0x1000 Some(\"device\")",
            "memory free Some(65) 0x2000 Some(\"device\")",
        ]
    );
}

#[test]
fn pitched_memory_and_arrays_have_their_real_sizes() {
    let mut script = Script::new();
    let pitched = [("dptr", longs(&[0x1000])), ("pPitch", longs(&[512]))];
    script.call("cuMemAllocPitch_v2", [1, 1, 400, 10], &pitched);
    let pitched = [("devPtr", longs(&[0x2000])), ("pitch", longs(&[512]))];
    script.call("cudaMallocPitch", [1, 1, 400, 10], &pitched);
    // 4 channels of 32 bits, 16 × 8; then 3 levels of 8 × 8 × 1 of 2 bytes.
    let channels = ("desc", ints(&[32, 32, 32, 32, 2]));
    let handle = ("array", longs(&[0xa1]));
    script.call("cudaMallocArray", [1, 1, 16, 8], &[handle, channels]);
    let description = [longs(&[8, 8, 0]), ints(&[2, 1, 0])].concat();
    let mipmapped = [
        ("pHandle", longs(&[0xa2])),
        ("pMipmappedArrayDesc", description),
    ];
    script.call("cuMipmappedArrayCreate", [1, 1, 3, 0], &mipmapped);
    script.call("cudaFreeArray", [0xa1, 0, 0, 0], &[]);
    script.call("cuMipmappedArrayDestroy", [0xa2, 0, 0, 0], &[]);
    assert_eq!(
        script.told(),
        [
            "memory alloc Some(5120) 0x1000 Some(\"device\")",
            "memory alloc Some(5120) 0x2000 Some(\"device\")",
            "memory alloc Some(2048) 0xa1 Some(\"array\")",
            "memory alloc Some(168) 0xa2 Some(\"array\")",
            "memory free Some(2048) 0xa1 Some(\"array\")",
            "memory free Some(168) 0xa2 Some(\"array\")",
        ]
    );
}

#[test]
fn virtual_memory_is_counted_by_what_is_created() {
    let mut script = Script::new();
    let size = 2 << 20;
    script.call(
        "cuMemAddressReserve",
        [1, 8 * size, 0, 0],
        &[("ptr", longs(&[0x10_0000]))],
    );
    for handle in [1, 2] {
        let made = [("handle", longs(&[handle])), ("prop", ints(&[1, 0, 1, 0]))];
        script.call("cuMemCreate", [1, size, 1, 0], &made);
    }
    script.call("cuMemMap", [0x10_0000, size, 0, 1], &[]);
    script.call("cuMemMap", [0x10_0000 + size, size, 0, 2], &[]);
    script.call("cuMemRelease", [1, 0, 0, 0], &[]);
    // The addresses are the device's now.
    script.call("cuMemcpy", [0x10_0000, 0x7f00_0000, 64, 0], &[]);
    script.call("cuMemUnmap", [0x10_0000, 2 * size, 0, 0], &[]);
    script.call("cuMemRelease", [2, 0, 0, 0], &[]);
    script.call("cuMemAddressFree", [0x10_0000, 8 * size, 0, 0], &[]);
    assert_eq!(
        script.told(),
        [
            "memory alloc Some(2097152) 0x1 Some(\"device\")",
            "memory alloc Some(2097152) 0x2 Some(\"device\")",
            "transfer H2D 64",
            "memory free Some(2097152) 0x1 Some(\"device\")",
            "memory free Some(2097152) 0x2 Some(\"device\")",
        ]
    );
}

#[test]
fn other_processes_memory_is_no_allocation_and_is_known_to_copies() {
    let mut script = Script::new();
    let opened = [("devPtr", longs(&[0x5000]))];
    script.call("cudaIpcOpenMemHandle", [1, 0, 0, 0], &opened);
    script.call("cudaMemcpy", [0x99, 0x5000, 32, 4], &[]);
    script.call("cudaIpcCloseMemHandle", [0x5000, 0, 0, 0], &[]);
    script.call("cudaMemcpy", [0x99, 0x5000, 32, 4], &[]);
    assert_eq!(script.told(), ["transfer D2H 32", "transfer H2H 32"]);
}

#[test]
fn copies_in_batches_and_in_three_dimensions() {
    let mut script = Script::new();
    script.call(
        "cuMemAlloc_v2",
        [1, 1 << 20, 0, 0],
        &[("dptr", longs(&[0x10_0000]))],
    );
    let batch = [
        ("dsts", longs(&[0x10_0000, 0x10_0100, 0x50])),
        ("srcs", longs(&[0x50, 0x60, 0x10_0200])),
        ("sizes", longs(&[100, 20, 3])),
        ("sizes:sum", longs(&[123])),
    ];
    script.call("cudaMemcpyBatchAsync", [1, 1, 1, 3], &batch);
    // More than were kept: the sum is whole.
    let (many, sum) = (longs(&[10; 16]), longs(&[1000]));
    let batch = [
        ("dsts", longs(&[0x10_0000; 16])),
        ("srcs", longs(&[0x50; 16])),
        ("sizes", many),
        ("sizes:sum", sum),
    ];
    script.call("cuMemcpyBatchAsync_v2", [1, 1, 1, 100], &batch);
    // 10 × 2 × 3 of bytes; with an array of 16-byte elements of these.
    let mut parameters = vec![0; 160];
    parameters[128..152].copy_from_slice(&longs(&[10, 2, 3]));
    parameters[152] = 1;
    script.call("cudaMemcpy3D", [1, 0, 0, 0], &[("p", parameters.clone())]);
    let made = [
        ("array", longs(&[0xa1])),
        ("desc", ints(&[32, 32, 32, 32, 2])),
    ];
    script.call("cudaMallocArray", [1, 1, 16, 8], &made);
    parameters[64..72].copy_from_slice(&longs(&[0xa1]));
    script.call("cudaMemcpy3DAsync", [1, 0, 0, 0], &[("p", parameters)]);
    let mut copy = vec![0; 112];
    copy[0] = 1;
    copy[8..16].copy_from_slice(&longs(&[0x10_0000]));
    copy[40] = 1;
    copy[48..56].copy_from_slice(&longs(&[0x10_8000]));
    copy[80..104].copy_from_slice(&longs(&[4, 5, 6]));
    script.call(
        "cuMemcpy3DBatchAsync_v2",
        [1, 1, 0, 0],
        &[("opList", copy.clone())],
    );
    script.call("cuMemcpy3DBatchAsync_v2", [9, 1, 0, 0], &[("opList", copy)]);
    script.call(
        "cuMemcpyAtoA_v2",
        [0xa1, 0, 0xa2, 0],
        &[("ByteCount:word", longs(&[77]))],
    );
    script.call(
        "cuMemcpyPeer",
        [1, 2, 3, 4],
        &[("ByteCount:word", longs(&[88]))],
    );
    let told = script.told();
    assert_eq!(
        told[1..],
        [
            "transfer H2D 120",
            "transfer D2H 3",
            "transfer H2D 1000",
            "transfer H2D 60",
            "memory alloc Some(2048) 0xa1 Some(\"array\")",
            "transfer H2D 960",
            "transfer D2D 120",
            "transfer D2D 77",
            "transfer P2P 88",
        ]
    );
}

/// The runtime's call and the driver's inside of it are one operation; each alone is one too.
#[test]
fn each_operation_is_told_once_whichever_layers_are_seen() {
    type Row = (&'static str, [u64; 4], Vec<Piece>);
    let parameters = {
        let mut parameters = vec![0; 160];
        parameters[0..8].copy_from_slice(&longs(&[0xa9]));
        parameters[128..152].copy_from_slice(&longs(&[10, 2, 1]));
        parameters[152] = 2;
        parameters
    };
    let structure = {
        let mut copy = vec![0; 200];
        copy[32] = 3;
        copy[120] = 1;
        copy[176..200].copy_from_slice(&longs(&[160, 2, 1]));
        copy
    };
    let pairs: [(Row, Row, Option<&str>, &str); 5] = [
        (
            (
                "cudaMalloc",
                [1, 4096, 0, 0],
                vec![("devPtr", longs(&[0x7f00]))],
            ),
            (
                "cuMemAlloc_v2",
                [1, 4096, 0, 0],
                vec![("dptr", longs(&[0x7f00]))],
            ),
            Some("memory alloc Some(4096) 0x7f00 Some(\"device\")"),
            "memory alloc Some(4096) 0x7f00 Some(\"device\")",
        ),
        (
            ("cudaFree", [0x7f00, 0, 0, 0], vec![]),
            ("cuMemFree_v2", [0x7f00, 0, 0, 0], vec![]),
            Some("memory free None 0x7f00 None"),
            "memory free None 0x7f00 None",
        ),
        (
            (
                "cudaMemcpyToSymbol",
                [1, 2, 64, 0],
                vec![("kind:word", longs(&[1]))],
            ),
            ("cuMemcpyHtoD_v2", [1, 2, 64, 0], vec![]),
            Some("transfer H2D 64"),
            "transfer H2D 64",
        ),
        // The runtime alone does not know how large the elements of an array are that it did not
        // see made: the driver's call knows the bytes.
        (
            ("cudaMemcpy3D", [1, 0, 0, 0], vec![("p", parameters)]),
            ("cuMemcpy3D_v2", [1, 0, 0, 0], vec![("pCopy", structure)]),
            None,
            "transfer D2H 320",
        ),
        (
            (
                "cudaLaunchKernel",
                [0x40, (1 << 32) | 8, 1, (1 << 32) | 64],
                vec![],
            ),
            (
                "cuLaunchKernel",
                [0xf1, 8, 1, 1],
                vec![("blockDimX:word", longs(&[64]))],
            ),
            Some("launch 0x40 [8, 1, 1] [64, 1, 1] 1 on Some(1)"),
            "launch 0xf1 [8, 1, 1] [64, 1, 1] 1 on Some(1)",
        ),
    ];
    for (outer, inner, outer_alone, inner_alone) in pairs {
        let mut script = Script::new();
        script.call(outer.0, outer.1, &outer.2);
        assert_eq!(
            script.told(),
            Vec::from_iter(outer_alone),
            "{} alone",
            outer.0
        );
        let mut script = Script::new();
        script.call(inner.0, inner.1, &inner.2);
        assert_eq!(script.told(), [inner_alone], "{} alone", inner.0);
        let mut script = Script::new();
        let open = script.begin(outer.0, outer.1, &outer.2);
        script.call(inner.0, inner.1, &inner.2);
        script.end(open, 0);
        let both = outer_alone.unwrap_or(inner_alone);
        assert_eq!(script.told(), [both], "{} in {}", inner.0, outer.0);
    }
    // What is freed inside is not forgotten outside.
    let mut script = Script::new();
    script.call("cudaMalloc", [1, 64, 0, 0], &[("devPtr", longs(&[0x7f00]))]);
    let open = script.begin("cudaFree", [0x7f00, 0, 0, 0], &[]);
    script.call("cuMemFree_v2", [0x7f00, 0, 0, 0], &[]);
    script.end(open, 0);
    let freed = "memory free Some(64) 0x7f00 Some(\"device\")";
    assert_eq!(script.told()[1..], [freed]);
    // The runtime's call fails after the driver's has done its work, and undoes it.
    let mut script = Script::new();
    let open = script.begin("cudaMalloc", [1, 64, 0, 0], &[]);
    script.call(
        "cuMemAlloc_v2",
        [1, 64, 0, 0],
        &[("dptr", longs(&[0x7f00]))],
    );
    script.end(open, 2);
    script.call("cuMemFree_v2", [0x7f00, 0, 0, 0], &[]);
    assert_eq!(
        script.told(),
        [
            "memory alloc Some(64) 0x7f00 Some(\"device\")",
            "memory free Some(64) 0x7f00 Some(\"device\")",
        ]
    );
}

fn name(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

const MANGLED: &str = "_Z9vectorAddPKfS0_Pfi";
const WRITTEN: &str = "vectorAdd(float const*, float const*, float*, int)";

#[test]
fn kernels_are_named_however_they_were_found() {
    let mut script = Script::new();
    let sizes = [("blockDimX:word", longs(&[32]))];
    let found = [("pKernel", longs(&[0xa1])), ("name", name(MANGLED))];
    script.call("cuLibraryGetKernel", [1, 2, 3, 0], &found);
    script.call("cuLaunchKernel", [0xa1, 1, 1, 1], &sizes);
    script.call(
        "cuKernelGetFunction",
        [1, 0xa1, 0, 0],
        &[("pFunc", longs(&[0xa2]))],
    );
    script.call("cuLaunchKernel", [0xa2, 1, 1, 1], &sizes);
    script.call("cuFuncGetName", [1, 0xa3, 0, 0], &[("name", name(MANGLED))]);
    script.call("cuLaunchCooperativeKernel", [0xa3, 1, 1, 1], &sizes);
    let config = [ints(&[1, 1, 1, 32, 1, 1, 0, 0]), longs(&[9, 0, 0])].concat();
    script.call(
        "cuLaunchKernelEx",
        [1, 0xa1, 0, 0],
        &[("config", config.clone())],
    );
    let registered = [("deviceName", name(MANGLED))];
    script.call("__cudaRegisterFunction", [1, 0xb1, 1, 1], &registered);
    script.call(
        "cudaLaunchKernelExC",
        [1, 0xb1, 0, 0],
        &[("config", config)],
    );
    script.call(
        "cudaGetFuncBySymbol",
        [1, 0xb1, 0, 0],
        &[("functionPtr", longs(&[0xb2]))],
    );
    script.call("cuLaunchKernel", [0xb2, 1, 1, 1], &sizes);
    script.call("cuFuncSetBlockShape", [0xa1, 16, 4, 1], &[]);
    script.call("cuFuncSetSharedSize", [0xa1, 256, 0, 0], &[]);
    script.call("cuLaunchGrid", [0xa1, 5, 6, 0], &[]);
    let mut list = [
        longs(&[0xa1]),
        ints(&[2, 1, 1, 8, 1, 1, 0, 0]),
        longs(&[3, 0]),
    ]
    .concat();
    list.extend(
        [
            longs(&[0xa2]),
            ints(&[4, 1, 1, 8, 1, 1, 0, 0]),
            longs(&[3, 0]),
        ]
        .concat(),
    );
    script.call(
        "cuLaunchCooperativeKernelMultiDevice",
        [1, 2, 0, 0],
        &[("launchParamsList", list)],
    );
    let told = script.told();
    assert_eq!(told.len(), 9, "{told:?}");
    for line in &told {
        assert!(line.starts_with(&format!("launch {WRITTEN} [")), "{line}");
    }
    assert!(
        told[6].ends_with("[5, 6, 1] [16, 4, 1] 256 on Some(0)"),
        "{}",
        told[6]
    );
    assert!(told[7].contains("[2, 1, 1] [8, 1, 1]"), "{}", told[7]);
    assert!(told[8].contains("[4, 1, 1] [8, 1, 1]"), "{}", told[8]);
}

#[test]
fn nodes_of_graphs_say_which_kernel_they_run() {
    let mut script = Script::new();
    let found = [("hfunc", longs(&[0xa1])), ("name", name(MANGLED))];
    script.call("cuModuleGetFunction", [1, 2, 3, 0], &found);
    let node = [longs(&[0xa1]), ints(&[4, 1, 1, 32, 1, 1, 0, 0])].concat();
    let pieces = [("nodeParams", node), ("phGraphNode", longs(&[0xd1]))];
    script.call("cuGraphAddKernelNode_v2", [1, 2, 0, 0], &pieces);
    script.call(
        "__cudaRegisterFunction",
        [1, 0xb1, 1, 1],
        &[("deviceName", name(MANGLED))],
    );
    let mut any = vec![0; 256];
    any[16..24].copy_from_slice(&longs(&[0xb1]));
    any[24] = 4;
    script.call("cudaGraphAddNode", [1, 2, 0, 0], &[("nodeParams", any)]);
    let (records, _) = script.traced.finish();
    let nodes: Vec<_> = lines(&records)
        .into_iter()
        .filter(|line| line.starts_with("E") && line.contains("GraphAdd"))
        .collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    for node in nodes {
        assert!(node.contains(&format!("kernel={WRITTEN})")), "{node}");
    }
}
