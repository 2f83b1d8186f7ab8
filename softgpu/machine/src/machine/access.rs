//! Loads, stores and copies through host pointers. Device memory is shared with other workers and
//! with the host, so every access is a relaxed atomic one, vectors as a whole: races give some value that
//! was there, never worse.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::address::Want;
use super::execute::Executor;
use super::registers::{Bits, FULL, View};
use super::trouble::{Outcome, Trouble};
use super::wide::Wide;
use crate::alu::{Lanes, WARP};
use crate::fault::FaultKind;
use crate::program::code::{Access, AsyncCopy, BulkCopy, List, NONE, Reg};

/// Reads `bytes` (1, 2, 4 or 8) at a checked, aligned pointer.
#[inline(always)]
unsafe fn read(pointer: u64, bytes: u8) -> u64 {
    // SAFETY: the caller checked bounds and alignment.
    unsafe {
        match bytes {
            1 => u64::from(AtomicU8::from_ptr(pointer as *mut u8).load(Relaxed)),
            2 => u64::from(AtomicU16::from_ptr(pointer as *mut u16).load(Relaxed)),
            4 => u64::from(AtomicU32::from_ptr(pointer as *mut u32).load(Relaxed)),
            _ => AtomicU64::from_ptr(pointer as *mut u64).load(Relaxed),
        }
    }
}

#[inline(always)]
unsafe fn write(pointer: u64, bytes: u8, value: u64) {
    // SAFETY: the caller checked bounds and alignment.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(pointer as *mut u8).store(value as u8, Relaxed),
            2 => AtomicU16::from_ptr(pointer as *mut u16).store(value as u16, Relaxed),
            4 => AtomicU32::from_ptr(pointer as *mut u32).store(value as u32, Relaxed),
            _ => AtomicU64::from_ptr(pointer as *mut u64).store(value, Relaxed),
        }
    }
}

#[inline(always)]
fn load_lanes<const BYTES: u8>(to: &mut Lanes, pointers: &Lanes, active: u32) {
    // SAFETY (both): `pointers` checked every active lane; the others repeat one of them, or are
    // not read.
    if active == FULL {
        for lane in 0..WARP {
            to[lane] = unsafe { read(pointers[lane], BYTES) };
        }
    } else {
        for lane in Bits(active) {
            to[lane] = unsafe { read(pointers[lane], BYTES) };
        }
    }
}

#[inline(always)]
fn store_lanes<const BYTES: u8>(from: &Lanes, pointers: &Lanes, active: u32) {
    // SAFETY (both): `pointers` checked every active lane.
    if active == FULL {
        for lane in 0..WARP {
            unsafe { write(pointers[lane], BYTES, from[lane]) };
        }
    } else {
        for lane in Bits(active) {
            unsafe { write(pointers[lane], BYTES, from[lane]) };
        }
    }
}

/// How 16 bytes are moved: memory that only one thread sees need not be aligned on the host.
#[inline(always)]
fn wide_at(pointers: &Lanes, active: u32) -> Wide {
    let bits = match active {
        FULL => pointers.iter().fold(0, |bits, pointer| bits | pointer),
        active => Bits(active).fold(0, |bits, lane| bits | pointers[lane]),
    };
    if bits & 15 == 0 {
        Wide::here()
    } else {
        Wide::Halves
    }
}

#[inline(always)]
fn each_lane(active: u32, act: impl FnMut(usize)) {
    match active {
        FULL => (0..WARP).for_each(act),
        active => Bits(active).for_each(act),
    }
}

fn load_wide_lanes(low: &mut Lanes, high: &mut Lanes, pointers: &Lanes, active: u32) {
    // SAFETY (both): `pointers` checked every active lane. The usual way has a loop of its own.
    match wide_at(pointers, active) {
        Wide::Vector => each_lane(active, |lane| {
            (low[lane], high[lane]) = unsafe { Wide::Vector.load(pointers[lane]) };
        }),
        other => each_lane(active, |lane| {
            (low[lane], high[lane]) = unsafe { other.load(pointers[lane]) };
        }),
    }
}

fn store_wide_lanes(low: &Lanes, high: &Lanes, pointers: &Lanes, active: u32) {
    // SAFETY (both): as above.
    match wide_at(pointers, active) {
        Wide::Vector => each_lane(active, |lane| unsafe {
            Wide::Vector.store(pointers[lane], low[lane], high[lane]);
        }),
        other => each_lane(active, |lane| unsafe {
            other.store(pointers[lane], low[lane], high[lane]);
        }),
    }
}

#[repr(align(16))]
struct Aligned([u8; 16]);

/// Copies up to 16 bytes in as large words as they fill: what other threads write in words comes in words.
unsafe fn copy_words(from: u64, to: u64, bytes: u64) {
    let mut at = 0;
    while at < bytes {
        let rest = bytes - at;
        let size = 1 << rest.min(8).ilog2();
        // SAFETY: both were checked for `bytes`, and are aligned to the largest word in them.
        unsafe { write(to + at, size, read(from + at, size)) };
        at += u64::from(size);
    }
}

/// Where a part of a vector is: its word of 8 bytes, how far up in that, and the mask of its bits.
#[inline(always)]
fn part(index: usize, bytes: u8) -> (usize, u32, u64) {
    let at = index * usize::from(bytes);
    let mask = u64::MAX >> (64 - 8 * u32::from(bytes));
    (at / 8, (at % 8 * 8) as u32, mask)
}

#[inline(always)]
fn extend_lanes(to: &mut Lanes, access: &Access, active: u32) {
    if access.extend != 0 {
        for lane in Bits(active) {
            to[lane] = sign_extend(to[lane], access.bytes * 8, access.extend);
        }
    }
}

/// Sign-extends the low `from` bits to `to` bits.
#[inline]
pub fn sign_extend(value: u64, from: u8, to: u8) -> u64 {
    let shift = 64 - u32::from(from);
    let wide = ((value << shift) as i64 >> shift) as u64;
    wide & (u64::MAX >> (64 - u32::from(to)))
}

impl<'a> Executor<'_, 'a> {
    #[inline]
    pub fn listed(&self, list: List) -> &'a [Reg] {
        let start = list.start as usize;
        &self.function.lists[start..start + usize::from(list.len)]
    }

    #[inline]
    pub fn load(&mut self, view: View, access: &Access, active: u32) -> Outcome {
        let count = u64::from(access.regs.len.max(1));
        let want = Want::new(u64::from(access.bytes) * count, "load");
        let pointers = self.pointers(view, access, active, want)?;
        if count > 1 {
            self.load_vector(view, access, &pointers, active);
            return Ok(());
        }
        for &reg in self.listed(access.regs) {
            if reg == NONE {
                continue;
            }
            let to = view.get_mut(reg);
            match access.bytes {
                1 => load_lanes::<1>(to, &pointers, active),
                2 => load_lanes::<2>(to, &pointers, active),
                4 => load_lanes::<4>(to, &pointers, active),
                _ => load_lanes::<8>(to, &pointers, active),
            }
            extend_lanes(to, access, active);
        }
        Ok(())
    }

    /// The parts of a vector come from one access, as on a GPU: nobody writes in between.
    fn load_vector(&mut self, view: View, access: &Access, pointers: &Lanes, active: u32) {
        // Two words of 8 bytes are in their registers at once.
        if let (8, &[low, high]) = (access.bytes, self.listed(access.regs))
            && low != high
            && low != NONE
            && high != NONE
        {
            let (low, high) = (view.get_mut(low), view.get_mut(high));
            return load_wide_lanes(low, high, pointers, active);
        }
        let mut words = [[0; WARP]; 2];
        let [low, high] = &mut words;
        match access.bytes * access.regs.len {
            2 => load_lanes::<2>(low, pointers, active),
            4 => load_lanes::<4>(low, pointers, active),
            8 => load_lanes::<8>(low, pointers, active),
            _ => load_wide_lanes(low, high, pointers, active),
        }
        for (index, &reg) in self.listed(access.regs).iter().enumerate() {
            if reg == NONE {
                continue;
            }
            let (word, shift, mask) = part(index, access.bytes);
            let mut values = [0; WARP];
            for (value, from) in values.iter_mut().zip(&words[word]) {
                *value = from >> shift & mask;
            }
            view.put(reg, &values, active);
            extend_lanes(view.get_mut(reg), access, active);
        }
    }

    #[inline]
    pub fn store(&mut self, view: View, access: &Access, active: u32) -> Outcome {
        let count = u64::from(access.regs.len.max(1));
        let want = Want::new(u64::from(access.bytes) * count, "store");
        let pointers = self.pointers(view, access, active, want)?;
        if count > 1 {
            self.store_vector(view, access, &pointers, active);
            return Ok(());
        }
        for &reg in self.listed(access.regs) {
            let from = view.get(reg);
            match access.bytes {
                1 => store_lanes::<1>(from, &pointers, active),
                2 => store_lanes::<2>(from, &pointers, active),
                4 => store_lanes::<4>(from, &pointers, active),
                _ => store_lanes::<8>(from, &pointers, active),
            }
        }
        Ok(())
    }

    /// The parts of a vector go there in one access, as on a GPU.
    fn store_vector(&mut self, view: View, access: &Access, pointers: &Lanes, active: u32) {
        if let (8, &[low, high]) = (access.bytes, self.listed(access.regs)) {
            return store_wide_lanes(view.get(low), view.get(high), pointers, active);
        }
        let mut words = [[0; WARP]; 2];
        for (index, &reg) in self.listed(access.regs).iter().enumerate() {
            let (word, shift, mask) = part(index, access.bytes);
            for (to, value) in words[word].iter_mut().zip(view.get(reg)) {
                *to |= (value & mask) << shift;
            }
        }
        let [low, high] = &words;
        match access.bytes * access.regs.len {
            2 => store_lanes::<2>(low, pointers, active),
            4 => store_lanes::<4>(low, pointers, active),
            8 => store_lanes::<8>(low, pointers, active),
            _ => store_wide_lanes(low, high, pointers, active),
        }
    }

    pub fn async_copy(&mut self, view: View, copy: &AsyncCopy, active: u32) -> Outcome {
        let size = u64::from(copy.size);
        let to = self.pointers(view, &copy.to, active, Want::new(size, "store"))?;
        for lane in Bits(active) {
            let wanted = match copy.source_size {
                NONE => size,
                reg => u64::from(view.get(reg)[lane] as u32).min(size),
            };
            let mut bytes = Aligned([0; 16]);
            if wanted > 0 {
                let want = Want {
                    size: wanted,
                    align: size,
                    verb: "load",
                };
                let from = self.pointers(view, &copy.from, 1 << lane, want)?[lane];
                // SAFETY: checked for `wanted` bytes.
                unsafe { copy_words(from, bytes.0.as_mut_ptr() as u64, wanted) };
            }
            // SAFETY: checked for `size` bytes.
            unsafe { copy_words(bytes.0.as_ptr() as u64, to[lane], size) };
        }
        Ok(())
    }

    pub fn bulk_copy(&mut self, view: View, copy: &BulkCopy, active: u32) -> Outcome {
        for lane in Bits(active) {
            let size = u64::from(view.get(copy.size)[lane] as u32);
            if !size.is_multiple_of(16) {
                let text = format!("bulk copy of {size} bytes, not a multiple of 16");
                return Err(Trouble::new(FaultKind::MisalignedAddress, Some(lane), text));
            }
            if size == 0 {
                continue;
            }
            let want = |verb| Want {
                size,
                align: 16,
                verb,
            };
            let one = 1 << lane;
            let to = self.pointers(view, &copy.to, one, want("store"))?[lane];
            let from = self.pointers(view, &copy.from, one, want("load"))?[lane];
            for at in (0..size).step_by(8) {
                // SAFETY: both were checked for `size` aligned bytes.
                unsafe { write(to + at, 8, read(from + at, 8)) };
            }
            if let Some(mbarrier) = &copy.mbarrier {
                self.mbarrier_complete(view, mbarrier, lane, size)?;
            }
        }
        Ok(())
    }

    /// One value at a generic address, for functions the device library implements.
    pub fn read_generic(&mut self, lane: usize, address: u64, bytes: u8) -> Outcome<u64> {
        let want = Want {
            size: u64::from(bytes),
            align: u64::from(bytes),
            verb: "load",
        };
        let pointer = self.pointer(lane, address, want)?;
        // SAFETY: just checked.
        Ok(unsafe { read(pointer, bytes) })
    }

    /// A zero-terminated string at a generic address.
    pub fn read_string(&mut self, lane: usize, address: u64) -> Outcome<Vec<u8>> {
        const LONGEST: usize = 1 << 20;
        let mut text = Vec::new();
        loop {
            match self.read_generic(lane, address.wrapping_add(text.len() as u64), 1)? {
                0 => return Ok(text),
                byte => text.push(byte as u8),
            }
            if text.len() > LONGEST {
                let text = "a string without end";
                return Err(Trouble::new(FaultKind::IllegalAddress, Some(lane), text));
            }
        }
    }

    /// Bytes of a lane's frame, as a number.
    pub fn read_frame(&mut self, frame: u32, lane: usize, offset: u32, bytes: u32) -> u64 {
        let base = self.warp.frames[frame as usize].base;
        let size = bytes.min(8) as usize;
        let mut value = [0; 8];
        let at = u64::from(base) + u64::from(offset);
        if let Some(pointer) = self.warp.local.pointer(lane, at, size as u64) {
            // SAFETY: `pointer` checked `size` bytes.
            unsafe { std::ptr::copy_nonoverlapping(pointer, value.as_mut_ptr(), size) };
        }
        u64::from_le_bytes(value)
    }

    pub fn write_frame(&mut self, frame: u32, lane: usize, offset: u32, bytes: u32, value: u64) {
        let base = self.warp.frames[frame as usize].base;
        let size = bytes.min(8) as usize;
        let at = u64::from(base) + u64::from(offset);
        if let Some(pointer) = self.warp.local.pointer(lane, at, size as u64) {
            // SAFETY: `pointer` checked `size` bytes.
            unsafe { std::ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), pointer, size) };
        }
    }
}
