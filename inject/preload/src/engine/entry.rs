//! A hooked function's row in the table that the code on every call reads: what it takes, by the
//! tables of CUDA's functions, and what of it is captured.

use super::clock;
use crate::layout::{
    Detail, Entry, Frame, HAS_OUTPUTS, HAS_RESULTS, HotCount, HotItem, HotKind, HotPlan, IS_BRIEF,
    ItemStores, Output, PayloadStore, SAVES_VECTORS,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::offset_of;
use cuda::capture::{Count, Item, When};
use event::ring::{CallSlot, PAYLOAD_BYTES, PayloadSlot, SLOT_ARGS, SLOT_BYTES, WITHIN_SHIFT};

/// Words copied for functions whose arguments are not known: more than any has.
const UNKNOWN_STACK_WORDS: usize = 24;
/// Runtime functions get new parameters under old names: a few words more than the table says.
const SPARE_STACK_WORDS: usize = 4;

const NO_COUNT: HotCount = HotCount {
    word: 0,
    bytes: 8,
    behind: false,
};

pub type Row = Option<&'static cuda::Function>;

/// A function as the newest and as older runtimes have it.
pub fn known(name: &[u8]) -> (Row, Row) {
    let Ok(name) = core::str::from_utf8(name) else {
        return (None, None);
    };
    (cuda::function(name), cuda::runtime_function(12, name))
}

/// `library` is the path of the file that the function is in, `thread` where threads keep their view
/// of their rings.
pub fn entry(name: &[u8], library: &[u8], number: u16, target: usize, thread: isize) -> Entry {
    let text = core::str::from_utf8(name).unwrap_or("");
    let major = core::str::from_utf8(library)
        .ok()
        .and_then(cuda::runtime_version);
    let (newest, older) = known(name);
    let rows = || newest.iter().chain(&older);
    let mut words = rows()
        .map(|row| cuda::capture::stack_words(row))
        .max()
        .unwrap_or(UNKNOWN_STACK_WORDS);
    if cuda::layer(text) == event::Layer::Runtime
        && newest.is_some_and(|row| row.parameters.len() > 4)
    {
        words = words.max(SPARE_STACK_WORDS);
    }
    let plan = cuda::capture::plan(text, major);
    let within = newest.and_then(|row| only_outputs(&plan, row, older));
    let payloads = if within.is_some() {
        0
    } else {
        plan.payload_slots()
    };
    let floats = rows().any(|row| {
        row.parameters
            .iter()
            .any(|one| one.kind.kind == cuda::Kind::Float)
    });
    let hot = newest
        .filter(|_| payloads > 0)
        .map(|row| compact(&plan, !returns_status(row)));
    let has_results = hot.as_ref().is_some_and(|plan| plan.count > plan.arguments);
    let mut flags = 0;
    if floats {
        flags |= SAVES_VECTORS;
    }
    if has_results {
        flags |= HAS_RESULTS;
    }
    let mut label = u32::from(number) | (payloads as u32) << 16;
    if let Some((_, first)) = within {
        flags |= HAS_OUTPUTS;
        label |= (first as u32 + 1) << (16 + WITHIN_SHIFT);
    }
    let detail = if payloads == 0 && words == 0 && !clock::is_hosts() {
        flags |= IS_BRIEF;
        Detail { thread }
    } else {
        leak(hot)
    };
    Entry {
        target,
        detail,
        slots: 1 + payloads as u8,
        flags,
        stack_words: words.next_multiple_of(2) as u16,
        label,
        outputs: within.map_or_else(Default::default, |(outputs, _)| outputs),
        gate: cuda::gate::class(text, flags & IS_BRIEF != 0),
        reserved: 0,
    }
}

/// The row of a function of our own, which takes words only and always succeeds.
pub fn own_entry(plan: &cuda::capture::Plan, number: u16, target: usize) -> Entry {
    let payloads = plan.payload_slots();
    let hot = (payloads > 0).then(|| compact(plan, true));
    let has_results = hot.as_ref().is_some_and(|plan| plan.count > plan.arguments);
    Entry {
        target,
        detail: leak(hot),
        slots: 1 + payloads as u8,
        flags: if has_results { HAS_RESULTS } else { 0 },
        stack_words: 0,
        label: u32::from(number) | (payloads as u32) << 16,
        outputs: Default::default(),
        gate: cuda::gate::ALWAYS,
        reserved: 0,
    }
}

fn leak(plan: Option<HotPlan>) -> Detail {
    Detail {
        plan: plan.map_or(core::ptr::null(), |plan| Box::leak(Box::new(plan))),
    }
}

/// The values to capture, if they are few and fit into words of the slot that no argument needs, and
/// the first such word.
fn only_outputs(
    plan: &cuda::capture::Plan,
    row: &'static cuda::Function,
    older: Row,
) -> Option<([Output; 2], usize)> {
    let words = |row: &'static cuda::Function| {
        let ends = cuda::capture::places(row).map(|place| match place {
            cuda::capture::ParameterLocation::Words { first, count } => {
                usize::from(first) + usize::from(count)
            }
            cuda::capture::ParameterLocation::Vector { .. } => 0,
        });
        ends.max().unwrap_or(0)
    };
    let first = words(row).max(older.map_or(0, words));
    let in_slot = |byte: usize| (offset_of!(CallSlot, args) + byte) as u8;
    let mut outputs = [Output::default(); 2];
    if plan.items().is_empty() || 8 * first + plan.bytes() > 8 * SLOT_ARGS || !returns_status(row) {
        return None;
    }
    for (number, (place, item)) in plan.placed().enumerate() {
        let Item::Memory {
            arg,
            offset: 0,
            bytes: bytes @ (4 | 8),
            at: When::Exit,
        } = item
        else {
            return None;
        };
        if usize::from(arg) >= SLOT_ARGS {
            return None;
        }
        *outputs.get_mut(number)? = Output {
            pointer: in_slot(8 * usize::from(arg)),
            place: in_slot(8 * first + place),
            last: bytes as u8 - 1,
        };
    }
    Some((outputs, first))
}

/// Whether its outputs are only valid if it returned 0.
fn returns_status(row: &cuda::Function) -> bool {
    matches!(row.returns.text, "CUresult" | "cudaError_t")
}

/// Where a word is, from the base of the common part's frame.
fn place_in_frame(word: u8) -> i16 {
    let (word, registers) = (i16::from(word), cuda::capture::REGISTER_WORDS as i16);
    if word < registers {
        Frame::from_base(offset_of!(Frame, arguments)) + word * 8
    } else {
        Frame::STACK_ARGUMENTS + (word - registers) * 8
    }
}

fn compact(plan: &cuda::capture::Plan, always_succeeds: bool) -> HotPlan {
    let none = HotItem {
        kind: HotKind::Argument,
        word: 0,
        offset: 0,
        bytes: 0,
        place: 0,
        pieces: ItemStores::default(),
        count: NO_COUNT,
        stride: 0,
        kept: 0,
    };
    let mut hot = HotPlan {
        pieces: core::ptr::null(),
        whole_arguments: ItemStores::default(),
        always_succeeds,
        slots: plan.payload_slots() as u8,
        arguments: 0,
        count: 0,
        items: [none; cuda::capture::MAX_ITEMS],
    };
    let mut pieces = Vec::new();
    let mut arguments = (Vec::new(), Vec::new());
    for (place, item) in plan.placed() {
        let mut one = HotItem {
            bytes: item.bytes() as u16,
            place: place as u16,
            ..none
        };
        describe(item, &mut one);
        match one.kind {
            HotKind::Argument => {
                hot.arguments += 1;
                cut(&mut arguments, one.word, place, item.bytes());
            }
            HotKind::MemoryIn | HotKind::MemoryOut => {
                let mut parts = (Vec::new(), Vec::new());
                if cut(&mut parts, 0, place, item.bytes()) {
                    one.pieces = keep(&mut pieces, parts);
                }
            }
            _ => {}
        }
        hot.items[usize::from(hot.count)] = one;
        hot.count += 1;
    }
    hot.whole_arguments = keep(&mut pieces, arguments);
    hot.pieces = pieces.leak().as_ptr();
    hot
}

/// Pieces of eight and of four bytes.
type Parts = (Vec<PayloadStore>, Vec<PayloadStore>);

/// Takes `bytes` bytes of a payload apart, which begin at `from` and go to `place`. False: they are no
/// multiple of four.
fn cut(parts: &mut Parts, from: i16, place: usize, bytes: usize) -> bool {
    let mut done = 0;
    while done < bytes {
        let (slot, within) = (
            (place + done) / PAYLOAD_BYTES,
            (place + done) % PAYLOAD_BYTES,
        );
        let (offset, room) = PayloadSlot::place(within);
        let piece = PayloadStore {
            from: from + done as i16,
            to: (slot * SLOT_BYTES + offset) as u16,
        };
        match room.min(bytes - done) {
            8.. => {
                parts.0.push(piece);
                done += 8;
            }
            4.. => {
                parts.1.push(piece);
                done += 4;
            }
            _ => return false,
        }
    }
    true
}

fn keep(pieces: &mut Vec<PayloadStore>, (long, short): Parts) -> ItemStores {
    let kept = ItemStores {
        first: pieces.len() as u16,
        long: long.len() as u8,
        short: short.len() as u8,
    };
    pieces.extend(long);
    pieces.extend(short);
    kept
}

/// What to copy, and from where.
fn describe(item: Item, one: &mut HotItem) {
    let by_time = |at, enter, exit| if at == When::Enter { enter } else { exit };
    let word = match item {
        Item::Arg { index } => index,
        Item::Vector { register } => {
            one.word = Frame::from_base(offset_of!(Frame, vectors)) + 16 * i16::from(register);
            return;
        }
        Item::Memory {
            arg, offset, at, ..
        } => {
            one.kind = by_time(at, HotKind::MemoryIn, HotKind::MemoryOut);
            one.offset = offset;
            arg
        }
        Item::Text { arg, at, .. } => {
            one.kind = by_time(at, HotKind::TextIn, HotKind::TextOut);
            arg
        }
        Item::TextBehind { arg, .. } => {
            one.kind = HotKind::TextBehind;
            arg
        }
        Item::Array {
            arg,
            stride,
            count,
            at,
            ..
        } => {
            one.kind = by_time(at, HotKind::ArrayIn, HotKind::ArrayOut);
            (one.stride, one.kept, one.count) = (stride, stride, in_words(count));
            arg
        }
        Item::Nested {
            arg,
            pointer,
            count,
            count_bytes,
            stride,
            kept,
            ..
        } => {
            one.kind = HotKind::Nested;
            one.offset = pointer;
            (one.stride, one.kept) = (stride, kept);
            one.count = HotCount {
                word: count as i16,
                bytes: count_bytes,
                behind: false,
            };
            arg
        }
        Item::Gathered { arg, count, .. } => {
            one.kind = HotKind::Gathered;
            one.count = in_words(count);
            arg
        }
        Item::Sum { arg, count } => {
            one.kind = HotKind::Sum;
            one.count = in_words(count);
            arg
        }
        Item::Returned => {
            one.kind = HotKind::Returned;
            0
        }
        Item::ReturnedText { .. } => {
            one.kind = HotKind::ReturnedText;
            0
        }
    };
    one.word = place_in_frame(word);
}

fn in_words(count: Count) -> HotCount {
    HotCount {
        word: place_in_frame(count.word),
        bytes: count.bytes,
        behind: count.behind,
    }
}
