//! Arrays, attributes, unions, texts and floats of hand-made records.

use crate::call::Named;
use crate::call::Signature;
use cuda::capture::{Item, plan};
use event::{Arg, Value};

/// What a call's arguments and outputs are, as text; `bytes` fills the payload's pieces.
fn shown(
    name: &str,
    library: &str,
    args: [u64; 4],
    bytes: impl Fn(Item) -> Vec<u8>,
) -> (String, String) {
    let named = Named {
        name: name.into(),
        library: Some(library.into()),
    };
    let plan = plan(name, cuda::runtime_version(library));
    let signature = Signature::new(&named, &plan);
    let mut payload = Vec::new();
    for (_, item) in plan.placed() {
        let mut piece = bytes(item);
        piece.resize(item.bytes(), 0);
        payload.extend(piece);
    }
    let words = signature.words(args, &payload);
    let arguments = signature.arguments(&words, Some(&payload));
    let outputs = signature.outputs(&words, &payload);
    (text(&arguments), text(&outputs))
}

fn text(args: &[Arg]) -> String {
    let each: Vec<_> = args
        .iter()
        .map(|arg| format!("{}={}", arg.name, value(&arg.value)))
        .collect();
    each.join(" ")
}

fn value(one: &Value) -> String {
    match one {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Str(text) => text.to_string(),
        Value::List(list) => {
            let each: Vec<_> = list.iter().map(value).collect();
            format!("[{}]", each.join(", "))
        }
        Value::Map(fields) => format!("{{{}}}", text(fields)),
    }
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|each| each.to_le_bytes()).collect()
}

fn ints(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|each| each.to_le_bytes()).collect()
}

#[test]
fn launch_attributes_are_decoded_by_what_they_are() {
    for (name, library, config, attribute) in [
        (
            "cuLaunchKernelEx",
            "libcuda.so.1",
            "gridDimX=8 gridDimY=1 gridDimZ=1 blockDimX=64 blockDimY=1 blockDimZ=1 \
             sharedMemBytes=512 hStream=0x99",
            "CU_LAUNCH_ATTRIBUTE_",
        ),
        (
            "cudaLaunchKernelExC",
            "libcudart.so.12",
            "gridDim=[8, 1, 1] blockDim=[64, 1, 1] dynamicSmemBytes=512 stream=0x99",
            "cudaLaunchAttribute",
        ),
    ] {
        let (arguments, _) = shown(name, library, [0x7ffc, 0x40, 0, 0], |item| match item {
            Item::Memory { .. } => {
                let mut config = ints(&[8, 1, 1, 64, 1, 1, 512, 0]);
                config.extend(longs(&[0x99, 0x5000, 3]));
                config
            }
            Item::Nested { .. } => {
                let mut all = Vec::new();
                for (id, value) in [(4, [2, 1, 1]), (2, [1, 0, 0]), (8, [u32::MAX, 0, 0])] {
                    let mut one = ints(&[id, 0, value[0], value[1], value[2]]);
                    one.resize(40, 0);
                    all.extend(one);
                }
                all
            }
            _ => Vec::new(),
        });
        let expected = format!("config={{{config} attrs=[{{id={attribute}");
        assert!(arguments.starts_with(&expected), "{arguments}");
        for value in [
            "={clusterDim.x=2 clusterDim.y=1 clusterDim.z=1}",
            "={cooperative=1}",
            "={priority=-1}",
        ] {
            assert_eq!(arguments.matches(value).count(), 1, "{arguments}");
        }
        assert!(arguments.contains("}] numAttrs=3}"), "{arguments}");
    }
}

#[test]
fn texts_come_back_from_buffers_pointers_and_results() {
    let name = |_| b"NVIDIA H200\0rubbish".to_vec();
    let (arguments, outputs) = shown("cuDeviceGetName", "libcuda.so.1", [0x7ffc, 64, 0, 0], name);
    assert_eq!(
        (arguments.as_str(), outputs.as_str()),
        ("len=64 dev=0", "name=NVIDIA H200")
    );
    // No more than the caller has room for.
    let (_, outputs) = shown("cuDeviceGetName", "libcuda.so.1", [0x7ffc, 6, 0, 0], name);
    assert_eq!(outputs, "name=NVIDIA");
    let error = |_| b"out of memory".to_vec();
    let (arguments, outputs) = shown("cuGetErrorString", "libcuda.so.1", [2, 0x7ffc, 0, 0], error);
    assert_eq!(
        (arguments.as_str(), outputs.as_str()),
        ("error=CUDA_ERROR_OUT_OF_MEMORY", "pStr=out of memory")
    );
    let (_, outputs) = shown("cudaGetErrorString", "libcudart.so.13", [2, 0, 0, 0], error);
    assert_eq!(outputs, "returned=out of memory");
    let handle = |_| longs(&[0x5555]);
    let (_, outputs) = shown(
        "__cudaRegisterFatBinary",
        "libcudart.so.13",
        [1, 0, 0, 0],
        handle,
    );
    assert_eq!(outputs, "returned=0x5555");
}

#[test]
fn what_matters_of_device_properties_is_shown_in_both_layouts() {
    for (name, library, count_at) in [
        ("cudaGetDeviceProperties", "libcudart.so.13", 384),
        ("cudaGetDeviceProperties_v2", "libcudart.so.12", 388),
    ] {
        let (_, outputs) = shown(name, library, [0x7ffc, 0, 0, 0], |item| {
            let Item::Memory { offset, bytes, .. } = item else {
                return Vec::new();
            };
            let mut whole = vec![0; 1032];
            whole[..5].copy_from_slice(b"H200\0");
            whole[288..296].copy_from_slice(&(141u64 << 30).to_le_bytes());
            whole[360] = 9;
            whole[count_at] = 132;
            whole[offset.into()..(offset + bytes).into()].to_vec()
        });
        for field in [
            "prop={name=H200 ",
            "totalGlobalMem=151397597184",
            "major=9 minor=0",
            "multiProcessorCount=132",
        ] {
            assert!(outputs.contains(field), "{name} {field}: {outputs}");
        }
    }
}

#[test]
fn floats_in_registers_and_in_memory() {
    let (arguments, _) = shown(
        "cuTexRefSetMipmapLevelClamp",
        "libcuda.so.1",
        [0x10, 0, 0, 0],
        |item| match item {
            Item::Vector { register: 0 } => 0.5f32.to_le_bytes().to_vec(),
            _ => 12.25f32.to_le_bytes().to_vec(),
        },
    );
    let expected = "hTexRef=0x10 minMipmapLevelClamp=0.5 maxMipmapLevelClamp=12.25";
    assert_eq!(arguments, expected);
    let (_, outputs) = shown(
        "cuEventElapsedTime",
        "libcuda.so.1",
        [0x7ffc, 1, 2, 0],
        |_| 1.5f32.to_le_bytes().to_vec(),
    );
    assert_eq!(outputs, "pMilliseconds=1.5");
}

#[test]
fn arrays_are_as_long_as_their_count_says() {
    let (arguments, outputs) = shown(
        "cuModuleLoadDataEx",
        "libcuda.so.1",
        [0x7ffc, 0x8000, 2, 0x7000],
        |item| match item {
            Item::Array { stride: 4, .. } => ints(&[0, 7, 99]),
            Item::Array { .. } => longs(&[32, 4, 99]),
            Item::Memory { .. } => longs(&[0xa]),
            _ => longs(&[0x7100]),
        },
    );
    assert_eq!(
        arguments,
        "image=0x8000 numOptions=2 \
         options=[CU_JIT_MAX_REGISTERS, CU_JIT_OPTIMIZATION_LEVEL] optionValues=[0x20, 0x4]"
    );
    assert_eq!(outputs, "module=0xa");
    let (_, outputs) = shown(
        "cuGraphGetNodes",
        "libcuda.so.1",
        [1, 2, 3, 0],
        |item| match item {
            Item::Array { .. } => longs(&[0x11, 0x12, 0x13]),
            _ => longs(&[2]),
        },
    );
    assert_eq!(outputs, "nodes=[0x11, 0x12] numNodes=2");
    let access = |item| match item {
        Item::Array { .. } => ints(&[1, 0, 3]),
        _ => Vec::new(),
    };
    let (arguments, _) = shown(
        "cuMemSetAccess",
        "libcuda.so.1",
        [0x7f00, 4096, 0x7ffc, 1],
        access,
    );
    assert!(
        arguments.contains(
            "desc=[{location={type=CU_MEM_LOCATION_TYPE_DEVICE id=0} \
             flags=CU_MEM_ACCESS_FLAGS_PROT_READWRITE}] count=1"
        ),
        "{arguments}"
    );
    let (arguments, _) = shown(
        "cuStreamBatchMemOp_v2",
        "libcuda.so.1",
        [0x9, 2, 0x7ffc, 0],
        |item| match item {
            Item::Array { .. } => {
                let mut both = ints(&[2, 0]);
                both.extend(longs(&[0x7f00, 5, 0, 0, 0]));
                both.extend(ints(&[4, 0]));
                both.extend(longs(&[0x7f08, 1 << 40]));
                both
            }
            _ => Vec::new(),
        },
    );
    for part in [
        "writeValue={operation=CU_STREAM_MEM_OP_WRITE_VALUE_32 address=0x7f00 value=5 ",
        "waitValue={operation=CU_STREAM_MEM_OP_WAIT_VALUE_64 address=0x7f08 value64=1099511627776 ",
    ] {
        assert!(arguments.contains(part), "{arguments}");
    }
}

#[test]
fn attributes_have_the_type_of_their_kind() {
    let pool = |attribute: u64, name: &str| {
        shown(name, "libcuda.so.1", [0xa, attribute, 0x7ffc, 0], |_| {
            longs(&[0xffff_ffff_0000_0001])
        })
    };
    let (arguments, outputs) = pool(1, "cuMemPoolGetAttribute");
    assert_eq!(outputs, "value=1");
    assert!(!arguments.contains("value"), "{arguments}");
    let (arguments, outputs) = pool(4, "cuMemPoolSetAttribute");
    assert!(
        arguments.ends_with("attr=CU_MEMPOOL_ATTR_RELEASE_THRESHOLD value=18446744069414584321"),
        "{arguments}"
    );
    assert_eq!(outputs, "");
    let (_, outputs) = shown(
        "cuPointerGetAttributes",
        "libcuda.so.1",
        [3, 0x7000, 0x7100, 0x7f00],
        |item| match item {
            Item::Array { .. } => ints(&[2, 8, 11]),
            _ => longs(&[2, 0xdead_be01, 0x7f00]),
        },
    );
    assert_eq!(outputs, "data=[CU_MEMORYTYPE_DEVICE, true, 0x7f00]");
    let (_, outputs) = shown(
        "cuStreamGetAttribute",
        "libcuda.so.1",
        [0x9, 8, 0x7ffc, 0],
        |_| ints(&[5]),
    );
    assert_eq!(outputs, "value={priority=5}");
}

#[test]
fn descriptions_show_the_arm_that_is_meant() {
    let (_, outputs) = shown(
        "cudaGraphAddNode",
        "libcudart.so.13",
        [1, 2, 3, 4],
        |item| match item {
            Item::Memory { bytes: 256, .. } => {
                let mut node = ints(&[10, 0, 0, 0]);
                node.resize(256, 0);
                // After 16 bytes: the pool's 88 bytes, its access list, the size and the address.
                node[16 + 104..16 + 112].copy_from_slice(&4096u64.to_le_bytes());
                node[16 + 112..16 + 120].copy_from_slice(&0x7f00u64.to_le_bytes());
                node
            }
            Item::Memory { .. } => longs(&[0xd]),
            _ => longs(&[1]),
        },
    );
    assert!(
        outputs.contains("type=cudaGraphNodeTypeMemAlloc alloc={")
            && outputs.contains("dptr=0x7f00"),
        "{outputs}"
    );
    assert!(!outputs.contains("kernel="), "{outputs}");
    let handle = |_| (0..64).collect();
    let (_, outputs) = shown(
        "cudaIpcGetMemHandle",
        "libcudart.so.13",
        [1, 2, 0, 0],
        handle,
    );
    assert!(outputs.starts_with("handle=000102030405"), "{outputs}");
}
