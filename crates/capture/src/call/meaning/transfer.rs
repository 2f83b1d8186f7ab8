//! Bytes that move.

use super::{field, fields, first, list, map, number, product};
use crate::call::role::Route;
use crate::call::signature::TOTAL;
use crate::call::state::ProcessState;
use event::{Arg, Direction, Event, MemorySpace, Transfer, Value, What};

pub fn moved(call: &Event, route: Route, process: &ProcessState) -> Vec<What> {
    let transfers = match route {
        Route::Batch => batch(call, process),
        Route::Batch3D => batch_3d(call, process),
        Route::Parameters => parameters(call, process).into_iter().collect(),
        _ => one(call, route, process).into_iter().collect(),
    };
    transfers.into_iter().map(What::Transfer).collect()
}

fn one(call: &Event, route: Route, process: &ProcessState) -> Option<Transfer> {
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
    let direction = match route {
        Route::Known(direction) => direction,
        Route::ByKind => match call.arg("kind").and_then(Value::as_str).and_then(by_kind) {
            Some(direction) => direction,
            // Symbols are on the device; of the rest the addresses know.
            None if call.name.contains("ToSymbol") => Direction::HostToDevice,
            None if call.name.contains("FromSymbol") => Direction::DeviceToHost,
            None => by_address(process, src, dst),
        },
        Route::ByStruct => {
            let copy = copy?;
            // Unified addressing: the addresses know.
            let on_device = |kind: &str, address| match field(copy, kind)?.as_str()? {
                "CU_MEMORYTYPE_HOST" => Some(false),
                "CU_MEMORYTYPE_UNIFIED" => Some(is_on_device(process, address)),
                _ => Some(true),
            };
            between(
                on_device("srcMemoryType", src)?,
                on_device("dstMemoryType", dst)?,
            )
        }
        _ => by_address(process, src, dst),
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
    // Copies between devices are of arrays and of addresses.
    let place = match field(copy, &format!("{side}MemoryType"))?.as_str()? {
        "CU_MEMORYTYPE_HOST" => "Host",
        "CU_MEMORYTYPE_ARRAY" => "Array",
        _ => "Device",
    };
    number(copy, &format!("{side}{place}"))
}

/// The bytes of a copy's extent. Where an array takes part, widths count its elements.
fn extent_size(copy: &[Arg], array: Option<u64>, process: &ProcessState) -> Option<u64> {
    let element = match array {
        Some(array) => process.array_element(array)?,
        None => 1,
    };
    let extent = map(field(copy, "extent")?)?;
    product(&[
        element,
        number(extent, "width")?,
        number(extent, "height")?,
        number(extent, "depth")?,
    ])
}

/// `cudaMemcpy3D` and its kin.
fn parameters(call: &Event, process: &ProcessState) -> Option<Transfer> {
    let copy = fields(call, "p")?;
    let array = |name: &str| number(copy, name).filter(|array| *array != 0);
    let arrays = [array("srcArray"), array("dstArray")];
    let size = extent_size(copy, arrays[0].or(arrays[1]), process)?;
    let end =
        |array: Option<u64>, name: &str| array.or_else(|| number(map(field(copy, name)?)?, "ptr"));
    let (src, dst) = (end(arrays[0], "srcPtr"), end(arrays[1], "dstPtr"));
    let direction = match field(copy, "kind") {
        None => Direction::Peer,
        Some(kind) => kind
            .as_str()
            .and_then(by_kind)
            .unwrap_or_else(|| by_address(process, src, dst)),
    };
    Some(Transfer {
        direction,
        size,
        duration: call.duration(),
        src,
        dst,
    })
}

/// Many copies, told together by the way they go. All sizes are in the sum; the way of those that
/// were not kept is taken to be the last one's.
fn batch(call: &Event, process: &ProcessState) -> Vec<Transfer> {
    let numbers = |name| list(call, name).unwrap_or_default().iter();
    let mut transfers = Vec::new();
    let mut last = None;
    let mut kept = 0u64;
    for ((src, dst), size) in numbers("srcs").zip(numbers("dsts")).zip(numbers("sizes")) {
        let (src, dst) = (src.as_u64(), dst.as_u64());
        let size = size.as_u64().unwrap_or(0);
        kept = kept.saturating_add(size);
        last = Some((by_address(process, src, dst), src, dst));
        add(
            call,
            &mut transfers,
            by_address(process, src, dst),
            size,
            src,
            dst,
        );
    }
    let total = first(call, &[TOTAL]).unwrap_or(kept);
    if let Some((direction, src, dst)) = last
        && total > kept
    {
        add(call, &mut transfers, direction, total - kept, src, dst);
    }
    transfers
}

fn add(
    call: &Event,
    transfers: &mut Vec<Transfer>,
    direction: Direction,
    size: u64,
    src: Option<u64>,
    dst: Option<u64>,
) {
    let known = transfers.iter_mut().find(|one| one.direction == direction);
    match known {
        Some(known) => known.size = known.size.saturating_add(size),
        None => transfers.push(Transfer {
            direction,
            size,
            duration: call.duration(),
            src,
            dst,
        }),
    }
}

/// Nothing where more copies were asked for than were kept: a part of the bytes would be a lie.
fn batch_3d(call: &Event, process: &ProcessState) -> Vec<Transfer> {
    let copies = list(call, "opList").unwrap_or_default();
    if first(call, &["numOps"]) != Some(copies.len() as u64) {
        return Vec::new();
    }
    let mut transfers = Vec::new();
    for copy in copies {
        let Some((size, src, dst)) = map(copy).and_then(|copy| one_3d(copy, process)) else {
            return Vec::new();
        };
        let direction = by_address(process, src, dst);
        add(call, &mut transfers, direction, size, src, dst);
    }
    transfers
}

fn one_3d(copy: &[Arg], process: &ProcessState) -> Option<(u64, Option<u64>, Option<u64>)> {
    let side = |name| {
        let side = map(field(copy, name)?)?;
        let array = number(side, "op.array.array");
        Some((array.or_else(|| number(side, "op.ptr.ptr")), array))
    };
    let (src, src_array) = side("src")?;
    let (dst, dst_array) = side("dst")?;
    let size = extent_size(copy, src_array.or(dst_array), process)?;
    Some((size, src, dst))
}

fn by_kind(kind: &str) -> Option<Direction> {
    match kind {
        "cudaMemcpyHostToDevice" => Some(Direction::HostToDevice),
        "cudaMemcpyDeviceToHost" => Some(Direction::DeviceToHost),
        "cudaMemcpyDeviceToDevice" => Some(Direction::DeviceToDevice),
        "cudaMemcpyHostToHost" => Some(Direction::HostToHost),
        _ => None,
    }
}

fn by_address(process: &ProcessState, src: Option<u64>, dst: Option<u64>) -> Direction {
    between(is_on_device(process, src), is_on_device(process, dst))
}

fn is_on_device(process: &ProcessState, address: Option<u64>) -> bool {
    let space = address.and_then(|address| process.space_of(address));
    space.is_some_and(|space| space != MemorySpace::Host)
}

fn between(from_device: bool, to_device: bool) -> Direction {
    match (from_device, to_device) {
        (false, false) => Direction::HostToHost,
        (false, true) => Direction::HostToDevice,
        (true, false) => Direction::DeviceToHost,
        (true, true) => Direction::DeviceToDevice,
    }
}
