//! The tables say what CUDA's documentation says, in the places people look first.

use cuda::{Direction, Extent, Kind, StructValue, Value, enum_name, function, structure};
use event::Layer;

#[test]
fn tables_are_sorted_and_consistent() {
    for table in [cuda::functions(), cuda::older_functions()] {
        assert!(table.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
    for function in cuda::functions().iter().chain(cuda::older_functions()) {
        assert!(function.parameters.len() <= 16, "{}", function.name);
        for parameter in function.parameters {
            if let Extent::Counted(index) = parameter.extent {
                let count = &function.parameters[usize::from(index)];
                let integer = count.kind.pointee().unwrap_or(count.kind);
                assert!(
                    matches!(integer.kind, Kind::Signed | Kind::Unsigned),
                    "{}",
                    function.name
                );
            }
            if parameter.direction != Direction::In {
                assert_eq!(
                    parameter.kind.kind,
                    Kind::Pointer,
                    "{} {}",
                    function.name,
                    parameter.name
                );
            }
        }
    }
}

#[test]
fn per_thread_variants_are_the_same_functions() {
    for (variant, plain) in [
        ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2"),
        ("cudaLaunchKernel_ptsz", "cudaLaunchKernel"),
    ] {
        assert_eq!(function(variant).unwrap().name, plain);
    }
    assert_eq!(cuda::family("cuMemcpyHtoD_v2_ptds"), "cuMemcpyHtoD");
    assert_eq!(
        cuda::family("cuTexRefSetAddress2D_v3"),
        "cuTexRefSetAddress2D"
    );
    assert_eq!(cuda::family("my_value"), "my_value");
}

/// nvcc writes `__cudaLaunchKernel` where the programmer writes `<<<…>>>` or cudaLaunchKernel.
#[test]
fn functions_of_nvcc_are_asked_for_by_their_public_names() {
    let all = || cuda::functions().iter().chain(cuda::older_functions());
    let is_public = |name: &str| all().any(|function| function.name == name);
    let mut hidden = 0;
    for name in all().map(|function| function.name) {
        match name.strip_prefix("__").filter(|public| is_public(public)) {
            Some(public) => {
                hidden += 1;
                assert_eq!(cuda::public_name(name), public);
                assert_eq!(cuda::public_name(&format!("{name}_ptsz")), public);
            }
            None => assert_eq!(cuda::public_name(name), cuda::family(name)),
        }
    }
    assert_eq!(hidden, 2);
}

#[test]
fn names_that_changed_their_meaning() {
    let parameters = |major, name| {
        let function = cuda::runtime_function(major, name).unwrap();
        function
            .parameters
            .iter()
            .map(|parameter| parameter.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        parameters(12, "cudaMemAdvise"),
        ["devPtr", "count", "advice", "device"]
    );
    assert_eq!(
        parameters(13, "cudaMemAdvise"),
        ["devPtr", "count", "advice", "location"]
    );
    assert_eq!(parameters(12, "cudaMalloc"), parameters(13, "cudaMalloc"));
    let properties = |major| {
        let function = cuda::runtime_function(major, "cudaGetDeviceProperties").unwrap();
        function.parameters[0]
            .kind
            .pointee()
            .unwrap()
            .structure()
            .unwrap()
    };
    assert!(properties(12).field("clockRate").is_some());
    assert!(properties(13).field("clockRate").is_none());
    // Gone in 13, but a program may still have it.
    assert!(function("cudaThreadSynchronize").is_some());
    assert!(cuda::runtime_function(13, "cudaNoSuchThing").is_none());
}

#[test]
fn signatures() {
    let show = |name: &str| {
        let function = function(name).unwrap();
        let parameters: Vec<_> = function
            .parameters
            .iter()
            .map(|p| {
                format!(
                    "{:?} {} {}: {:?}",
                    p.direction, p.kind.text, p.name, p.extent
                )
            })
            .collect();
        format!(
            "{} {name}({})\n",
            function.returns.text,
            parameters.join(", ")
        )
    };
    let shown: String = [
        "cuInit",
        "cuMemAlloc_v2",
        "cuMemAlloc",
        "cuMemcpyHtoD_v2",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuDeviceGetName",
        "cuGetErrorString",
        "cuGraphGetNodes",
        "cuModuleLoadDataEx",
        "cuStreamBeginCapture_v2",
        "cudaMalloc",
        "cudaMemcpyAsync",
        "cudaLaunchKernel",
        "cudaGetErrorString",
        "__cudaRegisterFunction",
        "cuProfilerStart",
        "cuGraphicsGLRegisterImage",
    ]
    .map(show)
    .concat();
    insta::assert_snapshot!(shown);
}

#[test]
fn names_of_results_and_enums() {
    assert_eq!(cuda::result_name(Layer::Driver, 0), Some("CUDA_SUCCESS"));
    assert_eq!(
        cuda::result_name(Layer::Driver, 700),
        Some("CUDA_ERROR_ILLEGAL_ADDRESS")
    );
    assert_eq!(
        cuda::result_name(Layer::Runtime, 2),
        Some("cudaErrorMemoryAllocation")
    );
    assert_eq!(cuda::result_name(Layer::Runtime, 12345), None);
    assert_eq!(cuda::result_name(Layer::Syscall, 0), None);
    assert_eq!(
        enum_name("cudaMemcpyKind", 1),
        Some("cudaMemcpyHostToDevice")
    );
    assert_eq!(enum_name("CUmemorytype", 2), Some("CU_MEMORYTYPE_DEVICE"));
    assert_eq!(enum_name("CUjit_option", 0), Some("CU_JIT_MAX_REGISTERS"));
    assert_eq!(
        enum_name("CUdevice_attribute", 16),
        Some("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT")
    );
    assert_eq!(
        enum_name("CUshared_carveout", -1),
        Some("CU_SHAREDMEM_CARVEOUT_DEFAULT")
    );
    assert_eq!(enum_name("CUresult", i64::MIN), None);
    assert_eq!(enum_name("NoSuchEnum", 0), None);
}

/// The driver's own words for its results, recorded on hardware.
#[test]
fn result_names_agree_with_the_driver() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/driver/h200-580.159.04.txt"
    );
    let recorded = std::fs::read_to_string(path).unwrap();
    let mut compared = 0;
    for line in recorded.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("error") {
            continue;
        }
        let (Some(value), Some(name)) = (words.next(), words.next()) else {
            panic!("{line}")
        };
        assert_eq!(
            enum_name("CUresult", value.parse().unwrap()),
            Some(name),
            "{line}"
        );
        compared += 1;
    }
    assert!(compared > 90, "{compared}");
}

#[test]
fn values_as_people_read_them() {
    let shown = |name: &str, index: usize, raw: u64| {
        let kind = function(name).unwrap().parameters[index].kind;
        Value { kind, raw }.to_string()
    };
    assert_eq!(shown("cudaMemcpy", 3, 1), "cudaMemcpyHostToDevice");
    assert_eq!(shown("cudaMemcpy", 3, 77), "77");
    assert_eq!(shown("cudaMemcpy", 2, 4096), "4096");
    assert_eq!(shown("cudaMemcpy", 0, 0), "NULL");
    assert_eq!(shown("cudaMemcpy", 0, 0x7f00_0000), "0x7f000000");
    assert_eq!(
        shown("cuMemHostAlloc", 2, 3),
        "CU_MEMHOSTALLOC_DEVICEMAP|CU_MEMHOSTALLOC_PORTABLE"
    );
    assert_eq!(
        shown("cuMemHostAlloc", 2, 0x81),
        "CU_MEMHOSTALLOC_PORTABLE|0x80"
    );
    assert_eq!(shown("cuMemHostAlloc", 2, 0), "0");
    assert_eq!(shown("cuStreamCreate", 1, 0), "CU_STREAM_DEFAULT");
    assert_eq!(shown("cuStreamSynchronize", 0, 1), "CU_STREAM_LEGACY");
    assert_eq!(shown("cudaStreamSynchronize", 0, 2), "cudaStreamPerThread");
    // Only the low half of the register belongs to an int.
    assert_eq!(shown("cudaSetDevice", 0, 0xdead_beef_ffff_ffff), "-1");
    assert_eq!(
        shown("cuGraphInstantiateWithFlags", 2, 1 << 40),
        "0x10000000000"
    );
}

#[test]
fn structs_as_people_read_them() {
    let layout = structure("CUDA_MEMCPY2D").unwrap();
    assert_eq!((layout.name, layout.size), ("CUDA_MEMCPY2D_v2", 128));
    let mut bytes = vec![0; 128];
    for (name, value) in [
        ("srcMemoryType", 1),
        ("dstMemoryType", 2),
        ("WidthInBytes", 64),
        ("Height", 3),
    ] {
        bytes[layout.field(name).unwrap().offset as usize] = value;
    }
    assert_eq!(
        cuda::format::read(layout.field("Height").unwrap(), &bytes),
        Some(3)
    );
    insta::assert_snapshot!(
        StructValue {
            layout,
            bytes: &bytes
        }
        .to_string()
    );
    assert_eq!(
        StructValue {
            layout,
            bytes: &bytes[..10]
        }
        .to_string(),
        "{srcXInBytes=0}"
    );

    for (name, size) in [
        ("CUlaunchConfig", 56),
        ("CUmemAllocationProp", 32),
        ("CUDA_KERNEL_NODE_PARAMS", 72),
        ("cudaMemcpy3DParms", 160),
        ("cudaLaunchConfig_t", 56),
        ("dim3", 12),
    ] {
        assert_eq!(
            structure(name).map(|layout| layout.size),
            Some(size),
            "{name}"
        );
    }
}

/// Whatever bits a program passes, and however short its memory is cut.
#[test]
fn formatting_never_fails() {
    let bytes = vec![0xff; 1 << 14];
    let mut structs = 0;
    for function in cuda::functions().iter().chain(cuda::older_functions()) {
        for parameter in function.parameters {
            for raw in [0, 1, 0x8000_0000, u64::MAX] {
                let _ = Value {
                    kind: parameter.kind,
                    raw,
                }
                .to_string();
            }
            let held = parameter.kind.pointee().unwrap_or(parameter.kind);
            let Some(layout) = held.structure() else {
                continue;
            };
            structs += 1;
            for length in [
                0,
                1,
                7,
                layout.size as usize / 2,
                layout.size as usize,
                bytes.len(),
            ] {
                let shown = StructValue {
                    layout,
                    bytes: &bytes[..length],
                }
                .to_string();
                assert!(shown.starts_with('{') && shown.ends_with('}'));
            }
            for field in layout.fields {
                assert!(
                    field.offset + field.kind.size * field.count <= layout.size,
                    "{}",
                    layout.name
                );
            }
        }
    }
    assert!(structs > 200, "{structs}");
}
