//! 16 bytes in one access, as a GPU's vector loads and stores are: other threads see all of one or
//! nothing of it. CUB's look-back, for one, keeps a flag and its value together so.

/// What moves 16 aligned bytes at once on this CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wide {
    /// Aligned SSE loads and stores: Intel and AMD promise that they are atomic where there is AVX.
    Vector,
    /// A locked compare-and-exchange, for loads as well.
    CompareExchange,
    /// Nothing does: two halves.
    Halves,
}

impl Wide {
    #[inline(always)]
    pub fn here() -> Wide {
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx") {
                return Wide::Vector;
            }
            if std::is_x86_feature_detected!("cmpxchg16b") {
                return Wide::CompareExchange;
            }
        }
        Wide::Halves
    }

    /// The lower and the upper half.
    ///
    /// # Safety
    /// `pointer` is good for 16 bytes and aligned to 16.
    #[inline(always)]
    pub unsafe fn load(self, pointer: u64) -> (u64, u64) {
        // SAFETY: as the caller promised; the CPU has what `self` names.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Wide::Vector => x86::load(pointer),
                #[cfg(target_arch = "x86_64")]
                Wide::CompareExchange => halves(x86::compare_exchange(pointer, 0, 0)),
                _ => halves(plain::load(pointer)),
            }
        }
    }

    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    pub unsafe fn store(self, pointer: u64, low: u64, high: u64) {
        // SAFETY: as the caller promised; the CPU has what `self` names.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Wide::Vector => x86::store(pointer, low, high),
                #[cfg(target_arch = "x86_64")]
                Wide::CompareExchange => {
                    swap(pointer, None, whole(low, high));
                }
                _ => plain::store(pointer, whole(low, high)),
            }
        }
    }
}

/// Puts `new` there, if `compare` is there or not asked for; the old value.
///
/// # Safety
/// As [`Wide::load`].
pub unsafe fn swap(pointer: u64, compare: Option<u128>, new: u128) -> u128 {
    // SAFETY: as the caller promised.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("cmpxchg16b") {
            if let Some(compare) = compare {
                return x86::compare_exchange(pointer, compare, new);
            }
            let mut old = plain::load(pointer);
            loop {
                let now = x86::compare_exchange(pointer, old, new);
                if now == old {
                    return old;
                }
                old = now;
            }
        }
        static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _guard = LOCK.lock();
        let old = plain::load(pointer);
        if compare.is_none_or(|compare| compare == old) {
            plain::store(pointer, new);
        }
        old
    }
}

fn halves(value: u128) -> (u64, u64) {
    (value as u64, (value >> 64) as u64)
}

fn whole(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

mod plain {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    unsafe fn words(pointer: u64) -> [&'static AtomicU64; 2] {
        // SAFETY: the caller checked 16 aligned bytes.
        unsafe {
            [
                AtomicU64::from_ptr(pointer as *mut u64),
                AtomicU64::from_ptr((pointer + 8) as *mut u64),
            ]
        }
    }

    pub unsafe fn load(pointer: u64) -> u128 {
        // SAFETY: as above.
        let [low, high] = unsafe { words(pointer) };
        super::whole(low.load(Relaxed), high.load(Relaxed))
    }

    pub unsafe fn store(pointer: u64, value: u128) {
        // SAFETY: as above.
        let [low, high] = unsafe { words(pointer) };
        low.store(value as u64, Relaxed);
        high.store((value >> 64) as u64, Relaxed);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::{asm, x86_64 as cpu};

    // By hand: what the compiler makes of an intrinsic it may split, and it has no atomic of 16 bytes.
    #[inline(always)]
    pub unsafe fn load(pointer: u64) -> (u64, u64) {
        let both: cpu::__m128i;
        // SAFETY: the caller checked 16 aligned bytes; SSE2 is part of x86-64.
        unsafe {
            asm!("movdqa {both}, [{pointer}]", both = out(xmm_reg) both, pointer = in(reg) pointer,
                options(nostack, preserves_flags, readonly));
            let high = cpu::_mm_unpackhi_epi64(both, both);
            (
                cpu::_mm_cvtsi128_si64(both) as u64,
                cpu::_mm_cvtsi128_si64(high) as u64,
            )
        }
    }

    #[inline(always)]
    pub unsafe fn store(pointer: u64, low: u64, high: u64) {
        // SAFETY: as above.
        unsafe {
            let both = cpu::_mm_set_epi64x(high as i64, low as i64);
            asm!("movdqa [{pointer}], {both}", both = in(xmm_reg) both, pointer = in(reg) pointer,
                options(nostack, preserves_flags));
        }
    }

    pub unsafe fn compare_exchange(pointer: u64, compare: u128, new: u128) -> u128 {
        let (mut low, mut high) = super::halves(compare);
        let (new_low, new_high) = super::halves(new);
        // SAFETY: as above, and the caller found the CPU to have the instruction. rbx is the compiler's own.
        unsafe {
            asm!(
                "xchg rbx, {new_low}",
                "lock cmpxchg16b [{pointer}]",
                "mov rbx, {new_low}",
                new_low = inout(reg) new_low => _,
                pointer = in(reg) pointer,
                in("rcx") new_high,
                inout("rax") low,
                inout("rdx") high,
                options(nostack)
            );
        }
        super::whole(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Vec<Wide> {
        let mut ways = vec![Wide::Halves];
        #[cfg(target_arch = "x86_64")]
        {
            ways.push(Wide::Vector);
            if std::is_x86_feature_detected!("cmpxchg16b") {
                ways.push(Wide::CompareExchange);
            }
        }
        ways
    }

    #[test]
    fn every_way_moves_the_same_bytes() {
        let mut place = [0u128; 2];
        let pointer = place.as_mut_ptr() as u64;
        for way in ways() {
            let value = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
            // SAFETY: an aligned place of this function.
            unsafe {
                way.store(pointer, value.0, value.1);
                assert_eq!(way.load(pointer), value, "{way:?}");
                way.store(pointer, 0, 0);
                assert_eq!(way.load(pointer), (0, 0), "{way:?}");
            }
        }
    }

    #[test]
    fn swaps_compare_all_bytes() {
        let mut place = [5u128 << 64 | 6];
        let pointer = place.as_mut_ptr() as u64;
        // SAFETY: an aligned place of this function.
        unsafe {
            assert_eq!(swap(pointer, Some(6), 1), 5 << 64 | 6);
            assert_eq!(swap(pointer, Some(5 << 64 | 6), 7 << 64), 5 << 64 | 6);
            assert_eq!(swap(pointer, None, 9), 7 << 64);
            assert_eq!(Wide::here().load(pointer), (9, 0));
        }
    }
}
