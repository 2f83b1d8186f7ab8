//! Maps that programs only add to. Nobody sees such a value before the host does, so it need not lie in
//! one place while kernels run: each multiprocessor may have a copy, and a thread may keep what it
//! adds in a register until it leaves.

use crate::helper;
use crate::instruction::{Callee, Operation, Wide};
use crate::map::MapKind;
use crate::object::Object;
use crate::translate::addition::{addition, targets};
use crate::verify::facts::AccessedMemory;
use crate::verify::{Verified, liveness};

/// By map: the bytes of the numbers that are added to, 0 where it is used otherwise, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    widths: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MapUse {
    Nothing,
    Added(u8),
    Other,
}

impl Counters {
    /// Of all programs of an object that run on the GPU: one that reads a value spoils it for all.
    pub fn of(object: &Object, programs: &[Verified<'_>]) -> Counters {
        // What programs of the host do to maps is not known here.
        let at_first = |map| match object.is_on_host(map) {
            true => MapUse::Other,
            false => MapUse::Nothing,
        };
        let mut seen: Vec<MapUse> = (0..object.maps.len()).map(at_first).collect();
        for verified in programs {
            look(verified, &mut seen);
        }
        let widths = object
            .maps
            .iter()
            .zip(&seen)
            .map(|(map, seen)| match *seen {
                MapUse::Added(width)
                    if can_wait(map.kind)
                        && map.initial.is_none()
                        && map.value_size.is_multiple_of(width.into()) =>
                {
                    width
                }
                _ => 0,
            });
        Counters {
            widths: widths.collect(),
        }
    }

    /// Bytes of the numbers in a map that is only added to.
    pub fn width(&self, map: usize) -> Option<u8> {
        self.widths.get(map).copied().filter(|width| *width > 0)
    }

    /// Whether each multiprocessor has a copy of a map that all threads share.
    pub fn is_spread(&self, object: &Object, map: usize) -> bool {
        self.width(map).is_some()
            && matches!(
                object.maps.get(map).map(|map| map.kind),
                Some(MapKind::Array { .. })
            )
    }
}

/// Arrays on the device; those in the host's memory are there to be read at any time.
fn can_wait(kind: MapKind) -> bool {
    matches!(
        kind,
        MapKind::Array { number: 2 | 1503 } | MapKind::PerThread { number: 1502 } | MapKind::PerSm
    )
}

fn note(seen: &mut [MapUse], map: Option<usize>, what: MapUse) {
    let Some(map) = map else {
        // It may be any of them.
        seen.fill(MapUse::Other);
        return;
    };
    if let Some(place) = seen.get_mut(map) {
        *place = match (*place, what) {
            (MapUse::Nothing, what) => what,
            (known, what) if known == what => known,
            _ => MapUse::Other,
        };
    }
}

fn look(verified: &Verified<'_>, seen: &mut [MapUse]) {
    let code = &verified.program.instructions;
    let facts = &verified.facts;
    let live = liveness::registers(code);
    let targets = targets(verified);
    let mut at = 0;
    while at < code.len() {
        if !facts.reached[at] {
            at += 1;
            continue;
        }
        if let Some(found) = addition(verified, &live, &targets, at) {
            if let AccessedMemory::Value { map, .. } = found.place {
                note(seen, map, MapUse::Added(found.bytes));
            }
            at += found.length;
            continue;
        }
        match facts.accesses.get(&at).map(|access| access.place) {
            Some(AccessedMemory::Value { map, .. }) => note(seen, map, MapUse::Other),
            Some(AccessedMemory::Mixed) => note(seen, None, MapUse::Other),
            _ => {}
        }
        match code[at].operation {
            Operation::Call(Callee::Helper(number)) => call(verified, at, number, seen),
            Operation::Constant {
                value: Wide::MapValue { map, .. },
                ..
            } => note(seen, Some(map), MapUse::Other),
            _ => {}
        }
        at += 1;
    }
}

fn call(verified: &Verified<'_>, at: usize, number: u32, seen: &mut [MapUse]) {
    let Some(call) = verified.facts.calls.get(&at) else {
        return;
    };
    for memory in call.memory.iter().flatten() {
        match memory.place {
            AccessedMemory::Value { map, .. } => note(seen, map, MapUse::Other),
            AccessedMemory::Mixed => note(seen, None, MapUse::Other),
            _ => {}
        }
    }
    let takes_map = helper::find(number).is_some_and(|helper| {
        let is_map = |argument: &helper::Argument| matches!(argument, helper::Argument::Map(_));
        helper.arguments.iter().any(is_map)
    });
    match number {
        helper::MAP_LOOKUP if call.map.is_some() => {}
        helper::GPU_HISTOGRAM => note(seen, call.map, MapUse::Added(8)),
        _ if takes_map => note(seen, call.map, MapUse::Other),
        _ => {}
    }
}
