//! Arrays, and what pointers lead to in memory. They are read through the kernel, but for
//! arrays in structs that the callee has just walked: launches have them.

use super::{LOWEST, Payload, carefully, in_one_page, text};
use crate::layout::{HotCount, HotItem, HotKind};
use crate::sys;

/// Elements that a sum runs over, at most.
const MOST_SUMMED: usize = 1 << 20;

pub unsafe fn write(
    payload: &Payload,
    item: &HotItem,
    pointer: usize,
    frame: *const u8,
    success: bool,
) {
    // SAFETY: the frame is the common part's.
    let count = || unsafe { count_in_words(frame, item.count) };
    match item.kind {
        HotKind::ArrayIn => array(payload, item, pointer, count(), false),
        HotKind::ArrayOut if success => array(payload, item, pointer, count(), false),
        HotKind::Nested => {
            let field = |offset: usize, bytes| match pointer < LOWEST {
                true => 0,
                false => number(pointer.wrapping_add(offset), bytes, success),
            };
            let count = field(item.count.word as usize, item.count.bytes);
            // The struct says that there are none: nobody looks here.
            if count > 0 {
                let at = field(item.offset.into(), 8);
                array(payload, item, at, count, success);
            }
        }
        HotKind::Gathered if success => gathered(payload, item, pointer, count()),
        HotKind::Sum => {
            let sum = sum(pointer, count()).to_le_bytes();
            // SAFETY: as long as that.
            unsafe { payload.put(item.place.into(), sum.as_ptr(), sum.len()) }
        }
        HotKind::TextBehind if success => {
            let at = if pointer < LOWEST {
                0
            } else {
                number(pointer, 8, true)
            };
            // SAFETY: not read directly.
            unsafe { text(payload, item, at, false) }
        }
        _ => {}
    }
}

unsafe fn count_in_words(frame: *const u8, count: HotCount) -> usize {
    // SAFETY: one of the words of the frame.
    let held = unsafe { word_at(frame, count.word) };
    let value = match count.behind {
        true if held < LOWEST => 0,
        true => number(held, count.bytes, false),
        false => held,
    };
    if count.bytes == 4 {
        // Lengths are never negative; one that is means none.
        usize::try_from(value as u32 as i32).unwrap_or(0)
    } else {
        value
    }
}

unsafe fn word_at(frame: *const u8, place: i16) -> usize {
    unsafe { frame.offset(place.into()).cast::<usize>().read() }
}

/// A number in memory; 0 where there is none. `walked`: the callee has read it.
fn number(at: usize, bytes: u8, walked: bool) -> usize {
    if walked && in_one_page(at, 8) {
        // SAFETY: mapped, for the callee has been in this page.
        let value = unsafe { (at as *const u64).read_unaligned() };
        return if bytes == 4 {
            value as u32 as usize
        } else {
            value as usize
        };
    }
    let mut buffer = [0u8; 8];
    sys::read_own_memory(at, &mut buffer[..usize::from(bytes.min(8))]);
    usize::from_le_bytes(buffer)
}

/// The first elements, and zeros after them.
fn array(payload: &Payload, item: &HotItem, at: usize, count: usize, walked: bool) {
    let (place, room) = (usize::from(item.place), usize::from(item.bytes));
    let (stride, kept) = (usize::from(item.stride), usize::from(item.kept).max(1));
    let elements = if at < LOWEST {
        0
    } else {
        count.min(room / kept)
    };
    let put = |place, from, bytes| {
        if walked && in_one_page(from, bytes) {
            // SAFETY: the callee has read this element.
            unsafe { payload.put(place, from as *const u8, bytes) }
        } else {
            carefully(payload, place, from, bytes);
        }
    };
    if stride == kept {
        put(place, at, elements * kept);
    } else {
        for index in 0..elements {
            put(place + index * kept, at.wrapping_add(index * stride), kept);
        }
    }
    payload.zero(place + elements * kept, room - elements * kept);
}

/// 8 bytes behind each pointer.
fn gathered(payload: &Payload, item: &HotItem, at: usize, count: usize) {
    let (place, room) = (usize::from(item.place), usize::from(item.bytes));
    let elements = if at < LOWEST { 0 } else { count.min(room / 8) };
    for index in 0..elements {
        let from = number(at.wrapping_add(index * 8), 8, false);
        if from < LOWEST {
            payload.zero(place + index * 8, 8);
        } else {
            carefully(payload, place + index * 8, from, 8);
        }
    }
    payload.zero(place + elements * 8, room - elements * 8);
}

fn sum(at: usize, count: usize) -> u64 {
    let mut sum = 0u64;
    let (mut done, count) = (0, count.min(MOST_SUMMED));
    while at >= LOWEST && done < count {
        let mut numbers = [0u64; 64];
        let part = numbers.len().min(count - done);
        // SAFETY: any bytes are numbers.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast::<u8>(), part * 8) };
        let read = sys::read_own_memory(at.wrapping_add(done * 8), bytes);
        for number in numbers.iter().take(read / 8) {
            sum = sum.saturating_add(*number);
        }
        if read < part * 8 {
            break;
        }
        done += part;
    }
    sum
}
