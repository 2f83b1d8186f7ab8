//! What is worth copying from behind pointers: values, structs or the parts of them that matter,
//! strings, and the first elements of arrays.

use super::{Count, Item, ParameterLocation, Plan, TEXT_BYTES, When, places};
use crate::attributes;
use crate::lookup::family;
use crate::model::{Direction, Extent, Function, Kind, Parameter, Struct};

/// Structs longer than this are copied in parts, those that [`PARTS`] names.
const STRUCT_BYTES: u32 = 256;
/// Numbers and handles kept of an array, at most.
const MOST_NUMBERS: u16 = 16;
/// Structs kept of an array, at most, and their bytes; at least one is.
const MOST_STRUCTS: u16 = 4;
const ARRAY_BYTES: u16 = 240;
/// Bytes kept of text in a buffer of the caller's.
const BUFFER_TEXT: u16 = 120;

/// The parts of long structs that are worth their bytes: offsets and lengths.
const PARTS: &[(&str, &[(u16, u16)])] = &[
    // The name; then the first numbers, down to the count of multiprocessors in runtime 12 and 13.
    ("cudaDeviceProp", &[(0, 64), (288, 104)]),
    // Planes come after; how many, of which kind and format is at the end.
    ("cudaEglFrame", &[(0, 96), (264, 16)]),
];

/// Arrays that structs point to: struct, pointer, count, and the bytes kept of an element.
const NESTED: &[(&str, &str, &str, u16)] = &[
    // Values are unions of 64 bytes; the longest in use has 32.
    ("CUlaunchConfig", "attrs", "numAttrs", 40),
    ("cudaLaunchConfig_t", "attrs", "numAttrs", 40),
    (
        "CUDA_BATCH_MEM_OP_NODE_PARAMS_v1",
        "paramArray",
        "count",
        48,
    ),
    (
        "CUDA_BATCH_MEM_OP_NODE_PARAMS_v2",
        "paramArray",
        "count",
        48,
    ),
    (
        "CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1",
        "extSemArray",
        "numExtSems",
        8,
    ),
    (
        "CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1",
        "extSemArray",
        "numExtSems",
        8,
    ),
    (
        "cudaExternalSemaphoreSignalNodeParams",
        "extSemArray",
        "numExtSems",
        8,
    ),
    (
        "cudaExternalSemaphoreWaitNodeParams",
        "extSemArray",
        "numExtSems",
        8,
    ),
    (
        "CUDA_MEM_ALLOC_NODE_PARAMS_v1",
        "accessDescs",
        "accessDescCount",
        12,
    ),
    (
        "cudaMemAllocNodeParams",
        "accessDescs",
        "accessDescCount",
        12,
    ),
    (
        "CUctxCreateParams",
        "execAffinityParams",
        "numExecAffinityParams",
        8,
    ),
];

/// Elements kept of such an array.
const MOST_NESTED: u16 = 4;

/// Arrays of sizes whose sum is what the call moves: however many there are, it is exact.
const SUMMED: &[(&str, &str)] = &[
    ("cuMemcpyBatchAsync", "sizes"),
    ("cudaMemcpyBatchAsync", "sizes"),
];

pub fn push(function: &'static Function, plan: &mut Plan) {
    for ((index, parameter), place) in function.parameters.iter().enumerate().zip(places(function))
    {
        let ParameterLocation::Words { first, count: 1 } = place else {
            continue;
        };
        if attributes::of_value(function, index).is_some() {
            plan.push(Item::Memory {
                arg: first,
                offset: 0,
                bytes: 8,
                at: attributes::when(function),
            });
            continue;
        }
        if let Some(key) = attributes::of_values(function, index)
            && let Extent::Counted(count_at) = function.parameters[key].extent
            && let Some(count) = count(function, count_at)
        {
            plan.push(Item::Gathered {
                arg: first,
                bytes: 8 * MOST_NUMBERS,
                count,
            });
            continue;
        }
        push_one(function, parameter, first, plan);
    }
    match function.returns.kind {
        Kind::Text => plan.push(Item::ReturnedText { bytes: TEXT_BYTES }),
        Kind::Pointer | Kind::Handle => plan.push(Item::Returned),
        _ => {}
    }
}

fn push_one(function: &'static Function, parameter: &Parameter, arg: u8, plan: &mut Plan) {
    let at = match parameter.direction {
        Direction::In => When::Enter,
        Direction::Out | Direction::InOut => When::Exit,
    };
    if parameter.extent == Extent::Text {
        return plan.push(Item::Text {
            arg,
            bytes: TEXT_BYTES,
            at,
        });
    }
    let Some(target) = parameter.kind.pointee() else {
        return;
    };
    match parameter.extent {
        Extent::Counted(index) => {
            let Some(count) = count(function, index) else {
                return;
            };
            // An array of pointers to void is an array of numbers.
            let stride = target.size as u16;
            if summed(function, parameter) {
                plan.push(Item::Sum { arg, count });
            }
            let bytes = match stride {
                0 => return,
                1 => BUFFER_TEXT,
                2..=8 => stride * MOST_NUMBERS,
                _ => stride * (ARRAY_BYTES / stride).clamp(1, MOST_STRUCTS),
            };
            plan.push(Item::Array {
                arg,
                stride,
                bytes,
                count,
                at,
            });
        }
        Extent::One if target.kind == Kind::Text => plan.push(Item::TextBehind {
            arg,
            bytes: TEXT_BYTES,
        }),
        Extent::One => match target.structure().filter(|_| target.kind == Kind::Struct) {
            Some(layout) => push_struct(layout, arg, at, plan),
            None if target.kind != Kind::Void && matches!(target.size, 1..=8) => {
                plan.push(Item::Memory {
                    arg,
                    offset: 0,
                    bytes: target.size as u16,
                    at,
                });
            }
            None => {}
        },
        Extent::Text | Extent::Opaque => {}
    }
}

fn push_struct(layout: &'static Struct, arg: u8, at: When, plan: &mut Plan) {
    let memory = |offset, bytes| Item::Memory {
        arg,
        offset,
        bytes,
        at,
    };
    if layout.size <= STRUCT_BYTES {
        plan.push(memory(0, layout.size as u16));
    } else if let Some((_, parts)) = PARTS.iter().find(|(name, _)| *name == layout.name) {
        for (offset, bytes) in *parts {
            plan.push(memory(*offset, *bytes));
        }
    }
    for (name, pointer, count, kept) in NESTED {
        if *name != layout.name {
            continue;
        }
        let (Some(pointer), Some(count)) = (layout.field(pointer), layout.field(count)) else {
            continue;
        };
        let Some(element) = pointer.kind.pointee() else {
            continue;
        };
        plan.push(Item::Nested {
            arg,
            pointer: pointer.offset as u16,
            count: count.offset as u16,
            count_bytes: count.kind.size as u8,
            stride: element.size as u16,
            kept: *kept,
            bytes: MOST_NESTED * *kept,
        });
    }
}

fn count(function: &'static Function, index: u8) -> Option<Count> {
    let row = function.parameters.get(usize::from(index))?;
    let ParameterLocation::Words { first, count: 1 } = places(function).nth(index.into())? else {
        return None;
    };
    let (held, behind) = match row.kind.pointee() {
        Some(target) => (target, true),
        None => (row.kind, false),
    };
    matches!(held.size, 4 | 8).then_some(Count {
        word: first,
        bytes: held.size as u8,
        behind,
    })
}

fn summed(function: &Function, parameter: &Parameter) -> bool {
    let family = family(function.name);
    SUMMED
        .iter()
        .any(|(name, sizes)| *name == family && *sizes == parameter.name)
}
