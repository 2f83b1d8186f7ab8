//! What a call that succeeded meant: memory came or went, bytes moved, a kernel was launched.

use super::role::{Role, Route};
use super::state::{Allocation, ProcessState};
use event::{
    Arg, Direction, Event, Launch, Memory, MemoryOp, MemorySpace, Name, Transfer, Value, What,
};

/// None where the call did nothing, or where what was captured does not say what it did.
pub fn of(
    role: Role,
    call: &Event,
    kernel: Option<Name>,
    process: &mut ProcessState,
) -> Option<What> {
    match role {
        Role::None => None,
        Role::Allocate(space) => allocated(call, space, process).map(What::Memory),
        Role::Free => freed(call, process).map(What::Memory),
        Role::Transfer(route) => transferred(call, route, process).map(What::Transfer),
        Role::Launch => launched(call, kernel).map(What::Launch),
    }
}

/// The handle of the kernel that a launch names.
pub fn kernel_handle(call: &Event) -> Option<u64> {
    first(call, &["f", "func", "kernel"])
}

fn allocated(call: &Event, space: MemorySpace, process: &mut ProcessState) -> Option<Memory> {
    let (ptr, size) = match call.arg("pitchedDevPtr") {
        Some(Value::Map(pitched)) => {
            let extent = fields(call, "extent")?;
            let height = number(extent, "height")?;
            let size = product(&[number(pitched, "pitch")?, height, number(extent, "depth")?]);
            (number(pitched, "ptr")?, size)
        }
        _ => {
            // The handle is the one thing that comes back first.
            let ptr = first(
                call,
                &["dptr", "devPtr", "pp", "ptr", "pHost", "handle", "pHandle"],
            )?;
            (ptr, size_allocated(call))
        }
    };
    process.allocate(ptr, Allocation { size, space });
    Some(Memory {
        op: MemoryOp::Alloc,
        size,
        ptr,
        space: Some(space),
    })
}

fn size_allocated(call: &Event) -> Option<u64> {
    if let Some(size) = first(call, &["bytesize", "size"]) {
        return Some(size);
    }
    if let Some(pitch) = first(call, &["pPitch", "pitch"]) {
        return product(&[pitch, first(call, &["Height", "height"])?]);
    }
    let array = fields(call, "pAllocateArray")?;
    let element = match array
        .iter()
        .find(|field| &*field.name == "Format")?
        .value
        .as_str()?
    {
        "CU_AD_FORMAT_UNSIGNED_INT8" | "CU_AD_FORMAT_SIGNED_INT8" => 1,
        "CU_AD_FORMAT_UNSIGNED_INT16" | "CU_AD_FORMAT_SIGNED_INT16" | "CU_AD_FORMAT_HALF" => 2,
        "CU_AD_FORMAT_UNSIGNED_INT32" | "CU_AD_FORMAT_SIGNED_INT32" | "CU_AD_FORMAT_FLOAT" => 4,
        _ => return None,
    };
    // A height or depth of 0 means that the array has no such dimension.
    let extent = |name| number(array, name).map(|size| size.max(1));
    product(&[
        element,
        number(array, "NumChannels")?,
        number(array, "Width")?,
        extent("Height")?,
        extent("Depth").unwrap_or(1),
    ])
}

fn freed(call: &Event, process: &mut ProcessState) -> Option<Memory> {
    let names = ["dptr", "devPtr", "p", "ptr", "handle", "hArray"];
    // Freeing nothing is allowed, and frees nothing.
    let ptr = first(call, &names).filter(|ptr| *ptr != 0)?;
    let known = process.free(ptr);
    Some(Memory {
        op: MemoryOp::Free,
        size: known.and_then(|allocation| allocation.size),
        ptr,
        space: known.map(|allocation| allocation.space),
    })
}

fn transferred(call: &Event, route: Route, process: &ProcessState) -> Option<Transfer> {
    let copy = fields(call, "pCopy");
    let size = match copy {
        Some(copy) => {
            let width = number(copy, "WidthInBytes")?;
            product(&[
                width,
                number(copy, "Height")?,
                number(copy, "Depth").unwrap_or(1),
            ])?
        }
        None => match first(call, &["ByteCount", "count"]) {
            Some(size) => size,
            None => product(&[first(call, &["width"])?, first(call, &["height"])?])?,
        },
    };
    let (src, dst) = match copy {
        Some(copy) => (end_of(copy, "src"), end_of(copy, "dst")),
        None => (
            first(call, &["src", "srcHost", "srcDevice", "srcArray"]),
            first(call, &["dst", "dstHost", "dstDevice", "dstArray"]),
        ),
    };
    let by_address = || {
        let on_device = |address: Option<u64>| {
            address
                .and_then(|address| process.space_of(address))
                .is_some_and(|space| space != MemorySpace::Host)
        };
        between(on_device(src), on_device(dst))
    };
    let direction = match route {
        Route::Known(direction) => direction,
        Route::ByAddress => by_address(),
        Route::ByKind => match call.arg("kind").and_then(Value::as_str)? {
            "cudaMemcpyHostToDevice" => Direction::HostToDevice,
            "cudaMemcpyDeviceToHost" => Direction::DeviceToHost,
            "cudaMemcpyDeviceToDevice" => Direction::DeviceToDevice,
            "cudaMemcpyHostToHost" => Direction::HostToHost,
            // Symbols are on the device; of the rest the addresses know.
            _ if call.name.contains("ToSymbol") => Direction::HostToDevice,
            _ if call.name.contains("FromSymbol") => Direction::DeviceToHost,
            _ => by_address(),
        },
        Route::ByStruct => {
            let copy = copy?;
            let on_device = |name| {
                let kind = copy
                    .iter()
                    .find(|field| &*field.name == name)?
                    .value
                    .as_str()?;
                Some(kind != "CU_MEMORYTYPE_HOST")
            };
            between(on_device("srcMemoryType")?, on_device("dstMemoryType")?)
        }
    };
    Some(Transfer {
        direction,
        size,
        duration: call.duration(),
        src,
        dst,
    })
}

/// The address that a copy's description means on one side.
fn end_of(copy: &[Arg], side: &str) -> Option<u64> {
    let kind = copy
        .iter()
        .find(|field| *field.name == *format!("{side}MemoryType"))?
        .value
        .as_str()?;
    let place = match kind {
        "CU_MEMORYTYPE_HOST" => "Host",
        "CU_MEMORYTYPE_ARRAY" => "Array",
        _ => "Device",
    };
    number(copy, &format!("{side}{place}"))
}

fn between(from_device: bool, to_device: bool) -> Direction {
    match (from_device, to_device) {
        (false, false) => Direction::HostToHost,
        (false, true) => Direction::HostToDevice,
        (true, false) => Direction::DeviceToHost,
        (true, true) => Direction::DeviceToDevice,
    }
}

fn launched(call: &Event, kernel: Option<Name>) -> Option<Launch> {
    let config = fields(call, "config").unwrap_or(&call.args);
    let kernel = kernel.or_else(|| Some(format!("{:#x}", kernel_handle(call)?).into()))?;
    let shared = ["sharedMemBytes", "sharedMem", "dynamicSmemBytes"];
    Some(Launch {
        kernel,
        grid: sizes(config, "gridDim")?,
        block: sizes(config, "blockDim")?,
        shared: shared.iter().find_map(|name| number(config, name))?,
    })
}

/// `gridDim` as one value, or as `gridDimX`, `gridDimY` and `gridDimZ`.
fn sizes(args: &[Arg], name: &str) -> Option<[u32; 3]> {
    let list = args.iter().find(|arg| &*arg.name == name);
    let mut sizes = [0; 3];
    for (place, size) in sizes.iter_mut().enumerate() {
        let found = match list.map(|arg| &arg.value) {
            Some(Value::List(list)) => list.get(place)?.as_u64()?,
            _ => number(args, &format!("{name}{}", ["X", "Y", "Z"][place]))?,
        };
        *size = u32::try_from(found).ok()?;
    }
    Some(sizes)
}

/// The first of these parameters that the call has.
fn first(call: &Event, names: &[&str]) -> Option<u64> {
    names
        .iter()
        .find_map(|name| call.arg(name))
        .and_then(Value::as_u64)
}

fn fields<'a>(call: &'a Event, name: &str) -> Option<&'a [Arg]> {
    match call.arg(name)? {
        Value::Map(fields) => Some(fields),
        _ => None,
    }
}

fn number(fields: &[Arg], name: &str) -> Option<u64> {
    fields
        .iter()
        .find(|field| &*field.name == name)?
        .value
        .as_u64()
}

fn product(factors: &[u64]) -> Option<u64> {
    factors
        .iter()
        .try_fold(1u64, |product, factor| product.checked_mul(*factor))
}
