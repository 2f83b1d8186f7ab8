//! Memory that comes and goes.

use super::{field, fields, first, map, number, product};
use crate::call::role::{Foreign, Physical};
use crate::call::state::{Allocation, Freed, ProcessState};
use event::{Arg, Event, Memory, MemoryOp, MemorySpace, Value, What};

pub fn allocated(call: &Event, space: MemorySpace, process: &mut ProcessState) -> Option<Memory> {
    let (ptr, size) = if space == MemorySpace::Array {
        let names = ["pHandle", "array", "mipmappedArray"];
        let element = element_bytes(call);
        let ptr = first(call, &names)?;
        if let Some(element) = element {
            process.set_array(ptr, element);
        }
        (ptr, element.and_then(|element| array_bytes(call, element)))
    } else if let Some(pitched) = fields(call, "pitchedDevPtr") {
        let extent = fields(call, "extent")?;
        let height = number(extent, "height")?;
        let size = product(&[number(pitched, "pitch")?, height, number(extent, "depth")?]);
        (number(pitched, "ptr")?, size)
    } else if let Some(node) = fields(call, "nodeParams") {
        (number(node, "dptr")?, number(node, "bytesize"))
    } else {
        // The address is the one thing that comes back first.
        let ptr = first(call, &["dptr", "devPtr", "pp", "ptr", "pHost"])?;
        (ptr, size_of(call))
    };
    process.allocate(ptr, Allocation { size, space });
    Some(Memory {
        op: MemoryOp::Alloc,
        size,
        ptr,
        space: Some(space),
    })
}

fn size_of(call: &Event) -> Option<u64> {
    if let Some(size) = first(call, &["bytesize", "size"]) {
        return Some(size);
    }
    let pitch = first(call, &["pPitch", "pitch"])?;
    product(&[pitch, first(call, &["Height", "height"])?])
}

/// Bytes of an array's element, by the driver's description or the runtime's.
fn element_bytes(call: &Event) -> Option<u64> {
    if let Some(channels) = fields(call, "desc") {
        let bits = ["x", "y", "z", "w"].map(|name| number(channels, name));
        let bits: u64 = bits
            .into_iter()
            .try_fold(0u64, |sum, bits| sum.checked_add(bits?))?;
        return Some(bits / 8);
    }
    let array = description(call)?;
    let channel = match field(array, "Format")?
        .as_str()?
        .strip_prefix("CU_AD_FORMAT_")?
    {
        "UNSIGNED_INT8" | "SIGNED_INT8" => 1,
        "UNSIGNED_INT16" | "SIGNED_INT16" | "HALF" => 2,
        "UNSIGNED_INT32" | "SIGNED_INT32" | "FLOAT" => 4,
        // These name their channels themselves.
        "UNORM_INT8X1" | "SNORM_INT8X1" => return Some(1),
        "UNORM_INT8X2" | "SNORM_INT8X2" | "UNORM_INT16X1" | "SNORM_INT16X1" => return Some(2),
        "UNORM_INT8X4" | "SNORM_INT8X4" | "UNORM_INT16X2" | "SNORM_INT16X2" => return Some(4),
        "UNORM_INT_101010_2" => return Some(4),
        "UNORM_INT16X4" | "SNORM_INT16X4" => return Some(8),
        // Blocks of texels and planes of video: how large they are only the driver knows.
        _ => return None,
    };
    product(&[channel, number(array, "NumChannels")?])
}

fn description(call: &Event) -> Option<&[Arg]> {
    fields(call, "pAllocateArray").or_else(|| fields(call, "pMipmappedArrayDesc"))
}

fn array_bytes(call: &Event, element: u64) -> Option<u64> {
    let mut extent = if let Some(array) = description(call) {
        let depth = number(array, "Depth").unwrap_or(0);
        [number(array, "Width")?, number(array, "Height")?, depth]
    } else if let Some(extent) = fields(call, "extent") {
        [
            number(extent, "width")?,
            number(extent, "height")?,
            number(extent, "depth")?,
        ]
    } else {
        [first(call, &["width"])?, first(call, &["height"])?, 0]
    };
    let levels = first(call, &["numMipmapLevels", "numLevels"]).unwrap_or(1);
    let mut bytes = 0u64;
    for _ in 0..levels.clamp(1, 64) {
        // A height or depth of 0 means that the array has no such dimension.
        let [width, height, depth] = extent.map(|size| size.max(1));
        bytes = bytes.checked_add(product(&[element, width, height, depth])?)?;
        extent = extent.map(|size| size / 2);
    }
    Some(bytes)
}

pub fn freed(call: &Event, process: &mut ProcessState) -> Option<Memory> {
    let names = [
        "dptr",
        "devPtr",
        "p",
        "ptr",
        "hArray",
        "hMipmappedArray",
        "array",
        "mipmappedArray",
    ];
    // Freeing nothing is allowed, and frees nothing.
    let ptr = first(call, &names).filter(|ptr| *ptr != 0)?;
    match process.free(ptr) {
        Freed::Known(allocation) => Some(gone(ptr, Some(allocation))),
        Freed::Unknown => Some(gone(ptr, None)),
        Freed::Foreign => None,
    }
}

fn gone(ptr: u64, known: Option<Allocation>) -> Memory {
    Memory {
        op: MemoryOp::Free,
        size: known.and_then(|allocation| allocation.size),
        ptr,
        space: known.map(|allocation| allocation.space),
    }
}

/// Memory without an address comes with `cuMemCreate`, and goes when its last handle is released
/// and its last mapping is gone, whichever is later. What it is known by is its handle.
pub fn physical(step: Physical, call: &Event, process: &mut ProcessState) -> Vec<What> {
    let handle = first(call, &["handle"]);
    let (ptr, size) = (first(call, &["ptr"]), first(call, &["size"]));
    let freed = match step {
        Physical::Create => {
            let Some(handle) = handle else {
                return Vec::new();
            };
            let space = match on_host(call) {
                true => MemorySpace::Host,
                false => MemorySpace::Device,
            };
            process
                .physical
                .create(handle, Some(Allocation { size, space }));
            return vec![What::Memory(Memory {
                op: MemoryOp::Alloc,
                size,
                ptr: handle,
                space: Some(space),
            })];
        }
        Physical::Import => {
            // Of another process: it does not come from here, and does not go here.
            if let Some(handle) = handle {
                process.physical.create(handle, None);
            }
            return Vec::new();
        }
        Physical::Retain => {
            if let (Some(handle), Some(address)) = (handle, first(call, &["addr"])) {
                process.physical.retain(handle, address);
            }
            return Vec::new();
        }
        Physical::Map => {
            if let (Some(handle), Some(ptr), Some(size)) = (handle, ptr, size) {
                process.physical.map(handle, ptr, size);
            }
            return Vec::new();
        }
        Physical::Release => match handle {
            Some(handle) => process.physical.release(handle).into_iter().collect(),
            None => Vec::new(),
        },
        Physical::Unmap => match (ptr, size) {
            (Some(ptr), Some(size)) => process.physical.unmap(ptr, size),
            _ => Vec::new(),
        },
    };
    let each = freed.into_iter();
    each.map(|(handle, allocation)| What::Memory(gone(handle, Some(allocation))))
        .collect()
}

fn on_host(call: &Event) -> bool {
    let kind = || {
        let location = map(field(fields(call, "prop")?, "location")?)?;
        field(location, "type").and_then(Value::as_str)
    };
    kind().is_some_and(|kind| kind.starts_with("CU_MEM_LOCATION_TYPE_HOST"))
}

/// The memory belongs to its creator; here only its place is learnt, for copies to know it.
pub fn foreign(step: Foreign, call: &Event, process: &mut ProcessState) {
    match step {
        Foreign::Open => {
            let size = || number(fields(call, "bufferDesc")?, "size");
            if let Some(ptr) = first(call, &["pdptr", "devPtr", "ptr_out", "ptr"]) {
                let space = MemorySpace::Device;
                process.see(
                    ptr,
                    Allocation {
                        size: size(),
                        space,
                    },
                );
            }
        }
        Foreign::Close => {
            if let Some(ptr) = first(call, &["dptr", "devPtr"]) {
                process.forget(ptr);
            }
        }
    }
}
