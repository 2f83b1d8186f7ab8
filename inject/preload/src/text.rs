//! Writing code: pages near the code that must reach them, and changes to code that exists.

use crate::sys::{self, File};

const PAGE: usize = 4096;
/// How far a jump with a 32-bit offset reaches, less room for the pages themselves.
const REACH: usize = (1 << 31) - (64 << 20);
const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const EXECUTABLE: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Pages of new code within reach of a given place. Written first, then sealed: never writable
/// and executable at once.
pub struct Near {
    at: usize,
    bytes: usize,
    used: usize,
}

impl Near {
    /// Reserves pages near `place`.
    pub fn reserve(place: usize, bytes: usize) -> Option<Near> {
        let bytes = bytes.next_multiple_of(PAGE);
        let at = find_gap(place, bytes)?;
        Some(Near { at, bytes, used: 0 })
    }

    /// Where the next code goes.
    pub fn next(&self) -> usize {
        self.at + self.used
    }

    /// The next code begins at a multiple of `bytes`, which is a power of two of 16 or more.
    pub fn align(&mut self, bytes: usize) {
        self.used = self.next().next_multiple_of(bytes) - self.at;
    }

    /// Adds code; 16 bytes apart, as functions are. None: no room.
    pub fn push(&mut self, code: &[u8]) -> Option<usize> {
        let at = self.next();
        let end = self.used.checked_add(code.len())?.next_multiple_of(16);
        if end > self.bytes {
            return None;
        }
        // SAFETY: within the pages, which are still writable.
        unsafe { core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        self.used = end;
        Some(at)
    }

    /// Makes the code executable. Where making memory executable is refused, the same bytes are
    /// mapped from a memory file instead.
    pub fn seal(&self) -> bool {
        // SAFETY: the pages are ours.
        if unsafe { sys::protect(self.at, self.bytes, EXECUTABLE) } {
            return true;
        }
        let Some(file) = File::in_memory() else {
            return false;
        };
        // SAFETY: the pages are ours and readable.
        let code = unsafe { core::slice::from_raw_parts(self.at as *const u8, self.bytes) };
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        // SAFETY: replaces our own pages with the same bytes.
        file.write(code)
            && unsafe { sys::map(self.at, self.bytes, EXECUTABLE, flags, Some((&file, 0))) }
                .is_some()
    }

    /// Where it is, for [`sys::unmap`].
    pub fn range(&self) -> (usize, usize) {
        (self.at, self.bytes)
    }
}

/// Whether this process may make new code at all.
pub fn can_make_code() -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh page, which nothing uses.
    unsafe {
        let Some(at) = sys::map(0, PAGE, WRITABLE, flags, None) else {
            return false;
        };
        let page = Near {
            at,
            bytes: PAGE,
            used: 0,
        };
        let can = page.seal();
        sys::unmap(at, PAGE);
        can
    }
}

/// Maps `bytes` of writable memory within reach of `place`, in the gap nearest to it.
fn find_gap(place: usize, bytes: usize) -> Option<usize> {
    let file = File::open(b"/proc/self/maps\0", libc::O_RDONLY, 0)?;
    // (above `place`, how far, where): below is better, for above the program grows the heap.
    let mut best: Option<(bool, usize, usize)> = None;
    let mut previous_end = 1 << 20;
    each_mapping(&file, |begin, end| {
        if begin.saturating_sub(previous_end) >= bytes + 2 * PAGE {
            // The end of the gap if that lies below, else its beginning.
            let top = begin - bytes - PAGE;
            let candidate = if top < place {
                top
            } else {
                previous_end + PAGE
            };
            let distance = candidate.abs_diff(place);
            let rank = (candidate > place, distance, candidate);
            if distance < REACH && best.is_none_or(|best| rank < best) {
                best = Some(rank);
            }
        }
        previous_end = end;
    });
    let (_, _, wanted) = best?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: never replaces a mapping; kernels that do not know the flag take the address as a
    // hint only.
    let at = unsafe { sys::map(wanted, bytes, WRITABLE, flags, None) }?;
    if at.abs_diff(place) >= REACH {
        // SAFETY: just mapped.
        unsafe { sys::unmap(at, bytes) };
        return None;
    }
    Some(at)
}

fn each_mapping(file: &File, mut visit: impl FnMut(usize, usize)) {
    let mut buffer = [0u8; 4096];
    // The line's first two numbers; the rest of it is skipped.
    let (mut begin, mut number, mut field) = (0usize, 0usize, 0);
    loop {
        let read = file.read(&mut buffer);
        if read == 0 {
            return;
        }
        for &byte in &buffer[..read] {
            match (field, byte) {
                (_, b'\n') => (number, field) = (0, 0),
                (0, b'-') => {
                    (begin, number, field) = (number, 0, 1);
                }
                (1, b' ') => {
                    visit(begin, number);
                    field = 2;
                }
                (0 | 1, _) => {
                    let digit = (byte as char).to_digit(16).unwrap_or(0);
                    number = (number << 4) | digit as usize;
                }
                _ => {}
            }
        }
    }
}

/// `jmp` to anywhere.
pub fn far_jump(target: usize) -> [u8; 14] {
    let mut code = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    code[6..].copy_from_slice(&target.to_le_bytes());
    code
}

/// `jmp` with a 32-bit offset, from `at`. None: out of reach.
pub fn near_jump(at: usize, target: usize) -> Option<[u8; 5]> {
    let offset = i32::try_from((target as i64).wrapping_sub(at as i64 + 5)).ok()?;
    let mut code = [0xe9, 0, 0, 0, 0];
    code[1..].copy_from_slice(&offset.to_le_bytes());
    Some(code)
}

/// Changes code that other threads may be running. False: the kernel refused every way.
pub fn overwrite(at: usize, code: &[u8; 5]) -> bool {
    let first = at & !(PAGE - 1);
    let bytes = (at + code.len()).next_multiple_of(PAGE) - first;
    // SAFETY: the code stays executable throughout.
    unsafe {
        if sys::protect(first, bytes, WRITABLE | libc::PROT_EXEC) {
            store(at, code);
            sys::protect(first, bytes, EXECUTABLE);
            return true;
        }
    }
    // The kernel lets a process write its own memory this way even where it keeps code read-only.
    File::open(b"/proc/self/mem\0", libc::O_RDWR, 0)
        .is_some_and(|file| file.write_at(code, at as u64))
}

/// Stores five bytes; as one store wherever they do not cross a line of 16.
///
/// # Safety
/// The memory is writable.
pub unsafe fn store(at: usize, code: &[u8; 5]) {
    let line = at & !15;
    let shift = at - line;
    unsafe {
        if shift + code.len() > 16 {
            core::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len());
            return;
        }
        let mut found = (line as *const u128).read();
        loop {
            let mut bytes = found.to_le_bytes();
            bytes[shift..shift + code.len()].copy_from_slice(code);
            match replace_line(line, found, u128::from_le_bytes(bytes)) {
                Ok(()) => return,
                Err(other) => found = other,
            }
        }
    }
}

/// Replaces 16 bytes at once if they are what was expected: a breakpoint that another tracer has just put among
/// them is kept. Err: what is there instead.
///
/// # Safety
/// The memory is writable.
unsafe fn replace_line(line: usize, expected: u128, new: u128) -> Result<(), u128> {
    let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
    let done: u8;
    // SAFETY: aligned, writable memory; rbx, which the compiler keeps for itself, is given back.
    unsafe {
        core::arch::asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b [rdi]",
            "sete r8b",
            "xchg rbx, rsi",
            inout("rsi") new as u64 => _,
            in("rdi") line,
            in("rcx") (new >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            out("r8b") done,
            options(nostack),
        );
    }
    if done == 1 {
        Ok(())
    } else {
        Err(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_bytes_are_stored_wherever_they_go() {
        #[repr(align(16))]
        struct Lines([u8; 48]);
        for at in 0..43 {
            let mut lines = Lines(core::array::from_fn(|byte| byte as u8));
            let mut expected = lines.0;
            expected[at..at + 5].copy_from_slice(&[0xe9, 1, 2, 3, 4]);
            // SAFETY: memory of our own.
            unsafe { store(lines.0.as_mut_ptr() as usize + at, &[0xe9, 1, 2, 3, 4]) };
            assert_eq!(lines.0, expected, "{at}");
        }
    }

    #[test]
    fn what_came_meanwhile_is_not_overwritten() {
        let mut line = 7u128;
        let at = &raw mut line as usize;
        // SAFETY: memory of our own.
        unsafe {
            assert_eq!(replace_line(at, 1 << 100, 5), Err(7));
            assert_eq!(replace_line(at, 7, 1 << 100 | 5), Ok(()));
        }
        assert_eq!(unsafe { (at as *const u128).read_volatile() }, 1 << 100 | 5);
    }
}
