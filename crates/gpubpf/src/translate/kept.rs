//! Programs that only add: written into the kernel where they run, with what they add kept in registers
//! of the thread until it leaves. A counter at every memory access is then an addition of two registers.
//!
//! Lookups give a stand-in address, which tells additions which sum to use and is never followed.

use std::collections::BTreeSet;

use super::TranslateOptions;
use super::addition::{Addition, addition, targets};
use crate::counters::Counters;
use crate::helper;
use crate::instruction::{Callee, FRAME, Operation, Source};
use crate::map::{DESCRIPTOR_BYTES, DESCRIPTORS, MapKind, descriptor, spread_bytes};
use crate::object::{Attach, Object};
use crate::verify::facts::{AccessedMemory, HelperCall};
use crate::verify::liveness::{self, Live};
use crate::verify::{Verified, liveness::read};
use ptx::rewrite::SITE;

/// Sums that a program may keep: each takes two registers of the kernel.
const MOST_SUMS: usize = 12;

/// A number in a map's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub map: usize,
    /// From the map's first value, or the first of the thread's or multiprocessor's own.
    pub offset: u64,
    pub bytes: u8,
}

/// The sums a program adds to, if that is all it does.
pub fn slots(verified: &Verified<'_>, counters: &Counters) -> Option<Vec<Slot>> {
    let program = verified.program;
    if program.attach == Attach::Direct {
        return None;
    }
    let live = liveness::registers(&program.instructions);
    let targets = targets(verified);
    let mut slots = BTreeSet::new();
    let mut at = 0;
    while at < program.instructions.len() {
        if !verified.facts.reached[at] {
            at += 1;
            continue;
        }
        if let Some(found) = addition(verified, &live, &targets, at) {
            slots.extend(candidates(verified.object, counters, &found)?);
            if slots.len() > MOST_SUMS {
                return None;
            }
            at += found.length;
            continue;
        }
        let fits = match program.instructions[at].operation {
            Operation::Load { bytes, .. } => place_fits(verified, at, bytes),
            Operation::Store { bytes, .. } | Operation::Atomic { bytes, .. } => {
                matches!(
                    verified.facts.accesses.get(&at)?.place,
                    AccessedMemory::Stack { offset: Some(_) }
                ) && bytes <= 8
            }
            Operation::Call(Callee::Function(_)) => false,
            Operation::Call(Callee::Helper(number)) => call_fits(
                verified.object,
                counters,
                number,
                verified.facts.calls.get(&at)?,
            ),
            _ => true,
        };
        if !fits {
            return None;
        }
        at += 1;
    }
    (!slots.is_empty()).then(|| slots.into_iter().collect())
}

/// The sums that an addition may be meant for.
pub fn candidates(object: &Object, counters: &Counters, found: &Addition) -> Option<Vec<Slot>> {
    let AccessedMemory::Value { fixed, map, .. } = found.place else {
        return None;
    };
    let map = map?;
    let (spec, bytes) = (object.maps.get(map)?, counters.width(map)?);
    let slot = |offset| Slot { map, offset, bytes };
    if let Some(fixed) = fixed {
        let offset = fixed.key.checked_mul(spec.stride().into())? + fixed.offset;
        return Some(vec![slot(offset)]);
    }
    let all = u64::from(spec.max_entries) * u64::from(spec.value_size) / u64::from(bytes);
    if all > MOST_SUMS as u64 {
        return None;
    }
    Some((0..all).map(|word| slot(word * u64::from(bytes))).collect())
}

fn place_fits(verified: &Verified<'_>, at: usize, bytes: u8) -> bool {
    let Some(access) = verified.facts.accesses.get(&at) else {
        return false;
    };
    match access.place {
        AccessedMemory::Stack { offset } => offset.is_some(),
        AccessedMemory::Context { offset } => {
            let within = |offset: u32| offset % 8 + u32::from(bytes) <= 8;
            verified.program.attach != Attach::Memory || offset.is_some_and(within)
        }
        _ => false,
    }
}

fn call_fits(object: &Object, counters: &Counters, number: u32, call: &HelperCall) -> bool {
    let on_stack = call.memory.iter().flatten().all(|memory| {
        matches!(memory.place, AccessedMemory::Stack { offset: Some(_) }) && memory.bytes.is_some()
    });
    if !on_stack {
        return false;
    }
    match number {
        helper::MAP_LOOKUP => call
            .map
            .is_some_and(|map| counters.width(map).is_some() && object.maps.get(map).is_some()),
        // What only tells something.
        5 | 8 | 14 | 502..=505 | 508..=511 | 600 | 602 => true,
        _ => false,
    }
}

/// The address that stands for a map's first value.
pub fn stand_in(map: usize) -> u64 {
    (map as u64 + 1) << 32
}

/// The register that a sum is kept in.
pub fn register(options: &TranslateOptions, slot: &Slot) -> String {
    format!(
        "%cutrace_sum_{}_{}",
        options.first_map + slot.map,
        slot.offset
    )
}

/// Whether lanes may go different ways: not if all that is decided on is the same for every thread
/// that comes to one place.
pub fn diverges(verified: &Verified<'_>) -> bool {
    let code = &verified.program.instructions;
    let is_memory = verified.program.attach == Attach::Memory;
    // Registers, and as bit 15 the stack, that may differ from lane to lane at some instruction.
    const STACK: Live = 1 << 15;
    let mut varying: Live = 0;
    loop {
        let before = varying;
        for (at, instruction) in code.iter().enumerate() {
            let operation = &instruction.operation;
            let reads_varying = read(operation) & !(1 << FRAME) & varying != 0;
            let place = verified.facts.accesses.get(&at).map(|access| access.place);
            match operation {
                Operation::Load { dst, .. } => {
                    let same = match place {
                        Some(AccessedMemory::Stack { .. }) => varying & STACK == 0,
                        // Part of an addition, whose sum nobody looks at.
                        Some(AccessedMemory::Value { .. }) => true,
                        // The address differs; the rest the instruction says.
                        Some(AccessedMemory::Context { offset }) => {
                            !is_memory || offset.is_some_and(|offset| offset >= 8)
                        }
                        _ => false,
                    };
                    varying |= if same { 0 } else { 1 << dst };
                }
                Operation::Store { value, .. } => {
                    if let Source::Register(register) = value
                        && varying & 1 << register != 0
                    {
                        varying |= STACK;
                    }
                }
                Operation::Atomic { .. } if matches!(place, Some(AccessedMemory::Value { .. })) => {
                }
                Operation::Atomic { .. } => varying |= STACK | 0x3ff,
                Operation::Call(Callee::Helper(helper::MAP_LOOKUP)) => {
                    let kind = (verified.facts.calls.get(&at).and_then(|call| call.map))
                        .and_then(|map| verified.object.maps.get(map))
                        .map(|map| map.kind);
                    let per_thread = !matches!(kind, Some(MapKind::Array { .. } | MapKind::PerSm));
                    if per_thread || varying & STACK != 0 {
                        varying |= 1;
                    }
                }
                Operation::Call(_) => varying |= 1 | STACK,
                other => {
                    if let Some(register) = other.destination()
                        && reads_varying
                    {
                        varying |= 1 << register;
                    }
                }
            }
        }
        if varying == before {
            break;
        }
    }
    code.iter().enumerate().any(|(at, instruction)| {
        matches!(instruction.operation, Operation::Branch { .. })
            && verified.facts.reached[at]
            && read(&instruction.operation) & varying != 0
    })
}

/// Adds a sum to its map, for all lanes of the warp that leave together where they share the place.
pub fn flush(object: &Object, options: &TranslateOptions, slot: &Slot) -> String {
    let Some(map) = object.maps.get(slot.map) else {
        return String::new();
    };
    let sum = register(options, slot);
    let place = (options.first_map + slot.map) * DESCRIPTOR_BYTES;
    let word = |field: usize| format!("[{DESCRIPTORS}+{}]", place + field);
    let (base, copies, parts) = (
        word(descriptor::BASE),
        word(descriptor::COPIES),
        word(descriptor::PARTS),
    );
    let (offset, bits) = (slot.offset, u32::from(slot.bytes) * 8);
    let amount = if bits == 64 {
        "%cutrace_n"
    } else {
        "%cutrace_half"
    };
    let add = format!(
        "\tcvt.u32.u64 %cutrace_half, %cutrace_n;\n\
         \tred.relaxed.gpu.global.add.u{bits} [%cutrace_to+{offset}], {amount};\n"
    );
    let head = "\t.reg .pred %cutrace_p, %cutrace_q;\n\
        \t.reg .b32 %cutrace_half, %cutrace_lanes, %cutrace_same;\n\
        \t.reg .b64 %cutrace_n, %cutrace_to, %cutrace_most;\n";
    let label = format!("$L__cutrace_{SITE}_kept_{}_{offset}", slot.map);
    if matches!(map.kind, MapKind::PerThread { .. }) {
        let stride = map.stride();
        // Values of a key stand together, one for each thread.
        let (key, inner) = (offset / u64::from(stride), offset % u64::from(stride));
        let own = super::lookup::thread_number_text();
        return format!(
            "{{\n{head}{own}\
             \tld.global.u64 %cutrace_most, {copies};\n\
             \tld.global.u64 %cutrace_to, {base};\n\
             \tsetp.ge.u64 %cutrace_p, %cutrace_thread, %cutrace_most;\n\
             \t@%cutrace_p bra {label};\n\
             \tmad.lo.s64 %cutrace_most, %cutrace_most, {key}, %cutrace_thread;\n\
             \tmad.lo.s64 %cutrace_to, %cutrace_most, {stride}, %cutrace_to;\n\
             \tmov.b64 %cutrace_n, {sum};\n\
             {add}{label}:\n}}\n",
            add = add.replace(
                &format!("[%cutrace_to+{offset}]"),
                &format!("[%cutrace_to+{inner}]")
            ),
        );
    }
    let spread = spread_bytes(map);
    format!(
        "{{\n{head}\
         \tactivemask.b32 %cutrace_lanes;\n\
         \tmatch.all.sync.b64 %cutrace_same|%cutrace_p, {sum}, %cutrace_lanes;\n\
         \tpopc.b32 %cutrace_half, %cutrace_lanes;\n\
         \tcvt.u64.u32 %cutrace_n, %cutrace_half;\n\
         \tmul.lo.s64 %cutrace_n, %cutrace_n, {sum};\n\
         \tselp.b64 %cutrace_n, %cutrace_n, {sum}, %cutrace_p;\n\
         \tmov.u32 %cutrace_same, %lanemask_lt;\n\
         \tand.b32 %cutrace_same, %cutrace_same, %cutrace_lanes;\n\
         \tsetp.ne.s32 %cutrace_q, %cutrace_same, 0;\n\
         \tand.pred %cutrace_p, %cutrace_p, %cutrace_q;\n\
         \tsetp.eq.s64 %cutrace_q, %cutrace_n, 0;\n\
         \tor.pred %cutrace_p, %cutrace_p, %cutrace_q;\n\
         \t@%cutrace_p bra {label};\n\
         \tld.global.u32 %cutrace_lanes, {parts};\n\
         \tld.global.u64 %cutrace_to, {base};\n\
         \tsub.s32 %cutrace_lanes, %cutrace_lanes, 1;\n\
         \tmov.u32 %cutrace_half, %smid;\n\
         \tmin.u32 %cutrace_half, %cutrace_half, %cutrace_lanes;\n\
         \tcvt.u64.u32 %cutrace_most, %cutrace_half;\n\
         \tmad.lo.s64 %cutrace_to, %cutrace_most, {spread}, %cutrace_to;\n\
         {add}{label}:\n}}\n"
    )
}
