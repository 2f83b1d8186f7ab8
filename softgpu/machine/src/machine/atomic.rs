//! atom and red: one lane after another, each by the host's own atomic instructions.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use super::address::Want;
use super::execute::Executor;
use super::registers::{Bits, View};
use super::trouble::Outcome;
use super::wide;
use crate::program::code::{Atomic, AtomicOp, AtomicType, NONE, Space};

mod float;

impl Executor<'_, '_> {
    pub fn atomic(&mut self, view: View, atomic: &Atomic, active: u32) -> Outcome {
        let access = &atomic.access;
        let bytes = u64::from(access.bytes);
        let want = Want::new(
            bytes * u64::from(access.regs.len.max(1)),
            "atomic operation",
        );
        let pointers = self.pointers(view, access, active, want)?;
        let destinations = self.listed(access.regs);
        let values = self.listed(atomic.values);
        let swaps = self.listed(atomic.swap);
        let is_wide = destinations.len() == 2
            && bytes == 8
            && matches!(atomic.op, AtomicOp::CompareSwap | AtomicOp::Exchange);
        if is_wide {
            for lane in Bits(active) {
                let join = |regs: &[u32]| match regs {
                    [low, high] => {
                        u128::from(view.get(*low)[lane]) | u128::from(view.get(*high)[lane]) << 64
                    }
                    _ => 0,
                };
                let compare = (atomic.op == AtomicOp::CompareSwap).then(|| join(values));
                let new = if compare.is_some() {
                    join(swaps)
                } else {
                    join(values)
                };
                // SAFETY: checked for 16 aligned bytes.
                let old = unsafe { wide::swap(pointers[lane], compare, new) };
                for (half, &reg) in destinations.iter().enumerate() {
                    if reg != NONE {
                        view.get_mut(reg)[lane] = (old >> (64 * half)) as u64;
                    }
                }
            }
            return Ok(());
        }
        // Floats add a little differently in global and in shared memory.
        let is_shared = |pointer: u64| {
            let shared = &self.block.shared;
            access.space == Space::Shared
                || (pointer >= shared.start() && pointer < shared.start() + shared.size())
        };
        for (index, (&value, &dst)) in values.iter().zip(destinations).enumerate() {
            let offset = index as u64 * bytes;
            let operands = *view.get(value);
            let swap = swaps.first().map(|&reg| *view.get(reg));
            for lane in Bits(active) {
                let pointer = pointers[lane] + offset;
                let is_global = !is_shared(pointer);
                let new = swap.map_or(0, |lanes| lanes[lane]);
                let old = one(atomic, pointer, operands[lane], new, is_global);
                if dst != NONE {
                    view.get_mut(dst)[lane] = old;
                }
            }
        }
        Ok(())
    }
}

/// One lane's operation at a checked, aligned pointer; the old value.
fn one(atomic: &Atomic, pointer: u64, value: u64, swap: u64, is_global: bool) -> u64 {
    let signed = atomic.ty == AtomicType::Signed;
    let is_integer = signed || atomic.ty == AtomicType::Unsigned;
    // SAFETY (all): the pointer was checked for the element's size and alignment.
    match atomic.access.bytes {
        2 => {
            let word = unsafe { AtomicU16::from_ptr(pointer as *mut u16) };
            match atomic.op {
                AtomicOp::CompareSwap => {
                    let result = word.compare_exchange(value as u16, swap as u16, SeqCst, SeqCst);
                    u64::from(result.unwrap_or_else(|old| old))
                }
                AtomicOp::Exchange => u64::from(word.swap(value as u16, SeqCst)),
                op => u64::from(update16(word, |old| {
                    float::combine(op, atomic.ty, u64::from(old), value, is_global) as u16
                })),
            }
        }
        4 if is_integer => {
            let word = unsafe { AtomicU32::from_ptr(pointer as *mut u32) };
            u64::from(integer32(
                word,
                atomic.op,
                signed,
                value as u32,
                swap as u32,
            ))
        }
        4 => {
            let word = unsafe { AtomicU32::from_ptr(pointer as *mut u32) };
            u64::from(update32(word, |old| {
                float::combine(atomic.op, atomic.ty, u64::from(old), value, is_global) as u32
            }))
        }
        _ if is_integer => {
            let word = unsafe { AtomicU64::from_ptr(pointer as *mut u64) };
            integer64(word, atomic.op, signed, value, swap)
        }
        _ => {
            let word = unsafe { AtomicU64::from_ptr(pointer as *mut u64) };
            update64(word, |old| {
                float::combine(atomic.op, atomic.ty, old, value, is_global)
            })
        }
    }
}

macro_rules! update {
    ($name:ident, $atomic:ty, $word:ty) => {
        fn $name(word: &$atomic, new: impl Fn($word) -> $word) -> $word {
            let mut old = word.load(SeqCst);
            loop {
                match word.compare_exchange_weak(old, new(old), SeqCst, SeqCst) {
                    Ok(old) => return old,
                    Err(now) => old = now,
                }
            }
        }
    };
}
update!(update16, AtomicU16, u16);
update!(update32, AtomicU32, u32);
update!(update64, AtomicU64, u64);

macro_rules! integer {
    ($name:ident, $update:ident, $atomic:ty, $word:ty, $signed:ty) => {
        fn $name(word: &$atomic, op: AtomicOp, signed: bool, value: $word, swap: $word) -> $word {
            match op {
                AtomicOp::Add => word.fetch_add(value, SeqCst),
                AtomicOp::Exchange => word.swap(value, SeqCst),
                AtomicOp::CompareSwap => word
                    .compare_exchange(value, swap, SeqCst, SeqCst)
                    .unwrap_or_else(|old| old),
                AtomicOp::And => word.fetch_and(value, SeqCst),
                AtomicOp::Or => word.fetch_or(value, SeqCst),
                AtomicOp::Xor => word.fetch_xor(value, SeqCst),
                AtomicOp::Min if signed => {
                    $update(word, |old| (old as $signed).min(value as $signed) as $word)
                }
                AtomicOp::Max if signed => {
                    $update(word, |old| (old as $signed).max(value as $signed) as $word)
                }
                AtomicOp::Min => word.fetch_min(value, SeqCst),
                AtomicOp::Max => word.fetch_max(value, SeqCst),
                AtomicOp::Inc => $update(word, |old| if old >= value { 0 } else { old + 1 }),
                AtomicOp::Dec => $update(word, |old| {
                    if old == 0 || old > value {
                        value
                    } else {
                        old - 1
                    }
                }),
            }
        }
    };
}
integer!(integer32, update32, AtomicU32, u32, i32);
integer!(integer64, update64, AtomicU64, u64, i64);
