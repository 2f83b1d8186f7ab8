//! A hooked function's row in the table that the code on every call reads: what it takes, by the
//! tables of CUDA's functions, and what of it is captured.

use crate::layout::{Entry, HAS_RESULTS, HotItem, HotKind, HotPlan, SAVES_VECTORS};
use alloc::boxed::Box;
use cuda::capture::{Item, When};
use event::ring::PAYLOAD_BYTES;

/// Words copied for functions whose arguments are not known: more than any has.
const UNKNOWN_STACK_WORDS: usize = 24;
/// Runtime functions get new parameters under old names: a few words more than the table says.
const SPARE_STACK_WORDS: usize = 4;

pub type Row = Option<&'static cuda::Function>;

/// A function as the newest and as older runtimes have it.
pub fn known(name: &[u8]) -> (Row, Row) {
    let Ok(name) = core::str::from_utf8(name) else {
        return (None, None);
    };
    (cuda::function(name), cuda::runtime_function(12, name))
}

pub fn entry(name: &[u8], number: u16, target: usize) -> Entry {
    let text = core::str::from_utf8(name).unwrap_or("");
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
    let plan = cuda::capture::plan(text);
    let payloads = plan.payload_slots();
    let floats = rows().any(|row| {
        row.parameters
            .iter()
            .any(|one| one.kind.kind == cuda::Kind::Float)
    });
    let hot = newest
        .filter(|_| payloads > 0)
        .map(|row| compact(&plan, row));
    let has_results = hot.as_ref().is_some_and(|plan| plan.count > plan.arguments);
    let mut flags = 0;
    if floats {
        flags |= SAVES_VECTORS;
    }
    if has_results {
        flags |= HAS_RESULTS;
    }
    Entry {
        target,
        plan: hot.map_or(core::ptr::null(), |plan| Box::leak(Box::new(plan))),
        slots: 1 + payloads as u8,
        flags,
        stack_words: words.next_multiple_of(2) as u16,
        label: u32::from(number) | (payloads as u32) << 16,
        reserved: 0,
    }
}

/// Where a word is, from the base of the common part's frame: see `stage::hot`.
fn place_in_frame(word: u8) -> i16 {
    let (word, registers) = (i16::from(word), cuda::capture::REGISTER_WORDS as i16);
    if word < registers {
        word * 8 - 80
    } else {
        16 + (word - registers) * 8
    }
}

fn compact(plan: &cuda::capture::Plan, row: &cuda::Function) -> HotPlan {
    let none = HotItem {
        kind: HotKind::Argument,
        whole: false,
        word: 0,
        offset: 0,
        bytes: 0,
        place: 0,
        spot: 0,
    };
    let mut hot = HotPlan {
        always_succeeds: row.returns.kind == cuda::Kind::Void,
        slots: plan.payload_slots() as u8,
        arguments: 0,
        count: 0,
        items: [none; cuda::capture::MAX_ITEMS],
    };
    for (place, item) in plan.placed() {
        let (kind, word, offset) = match item {
            Item::Arg { index } => (HotKind::Argument, index, 0),
            Item::Memory {
                arg,
                offset,
                at: When::Enter,
                ..
            } => (HotKind::MemoryIn, arg, offset),
            Item::Memory {
                arg,
                offset,
                at: When::Exit,
                ..
            } => (HotKind::MemoryOut, arg, offset),
            Item::Text {
                arg,
                at: When::Enter,
                ..
            } => (HotKind::TextIn, arg, 0),
            Item::Text {
                arg,
                at: When::Exit,
                ..
            } => (HotKind::TextOut, arg, 0),
        };
        // A slot has 28 bytes, its commit word, and 32 bytes.
        let (slot, within) = (place / PAYLOAD_BYTES, place % PAYLOAD_BYTES);
        let bytes = item.bytes();
        let in_one_part = within + bytes <= 28 || within >= 28;
        hot.items[usize::from(hot.count)] = HotItem {
            kind,
            whole: in_one_part && matches!(bytes, 4 | 8),
            word: place_in_frame(word),
            offset,
            bytes: bytes as u16,
            place: place as u16,
            spot: (slot * 64 + if within < 28 { within } else { within + 4 }) as u16,
        };
        hot.count += 1;
        hot.arguments += u16::from(kind == HotKind::Argument);
    }
    hot
}
