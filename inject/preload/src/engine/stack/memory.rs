//! Reading the stack. A thread's own stack is known to reach from its stack pointer to its end, and
//! is read directly; any other (a signal handler's, a coroutine's) only through the kernel, which
//! refuses what is not mapped.

use crate::sys::{self, File};
use core::arch::asm;

/// Words read at once through the kernel.
pub const CHUNK: usize = 64;

pub struct Memory<'a> {
    /// The thread's own stack.
    own: Bounds,
    /// Nothing below is read: the stack pointer of the frame at hand.
    pub floor: u64,
    chunk: &'a mut [u64; CHUNK],
    chunk_at: u64,
    chunk_words: usize,
    /// Something was read that is not in the thread's own stack.
    pub left_own_stack: bool,
}

#[derive(Clone, Copy, Default)]
pub struct Bounds {
    pub low: u64,
    pub high: u64,
}

impl Bounds {
    pub fn holds(&self, address: u64) -> bool {
        self.low <= address && address < self.high
    }
}

impl<'a> Memory<'a> {
    pub fn new(own: Bounds, chunk: &'a mut [u64; CHUNK]) -> Memory<'a> {
        Memory {
            own,
            floor: 0,
            chunk,
            chunk_at: 0,
            chunk_words: 0,
            left_own_stack: false,
        }
    }

    /// The word at an address of the stack.
    #[inline]
    pub fn read(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) || address < self.floor {
            return None;
        }
        if self.own.holds(self.floor) && address < self.own.high - 7 {
            // SAFETY: the stack is mapped from where it is used to its end.
            return Some(unsafe { (address as *const u64).read_volatile() });
        }
        self.read_through_kernel(address)
    }

    #[cold]
    fn read_through_kernel(&mut self, address: u64) -> Option<u64> {
        self.left_own_stack = true;
        let at = address.wrapping_sub(self.chunk_at) / 8;
        if address < self.chunk_at || at >= self.chunk_words as u64 {
            let length = CHUNK * 8;
            // SAFETY: plain numbers may be written as bytes.
            let bytes = unsafe {
                core::slice::from_raw_parts_mut(self.chunk.as_mut_ptr().cast::<u8>(), length)
            };
            self.chunk_words = sys::read_own_memory(address as usize, bytes) / 8;
            self.chunk_at = address;
        }
        let at = (address.wrapping_sub(self.chunk_at) / 8) as usize;
        self.chunk.get(..self.chunk_words)?.get(at).copied()
    }
}

/// The kernel keeps at least 128 MB below the main thread's stack free for it to grow.
const MAIN_STACK: u64 = 64 << 20;

/// The bounds of the thread's own stack; None if the thread is on another at the moment.
pub fn own_stack(stack_pointer: u64) -> Option<Bounds> {
    let (found, is_main) = mapping_of(stack_pointer)?;
    if is_main {
        return Some(Bounds {
            low: found.high.saturating_sub(MAIN_STACK),
            high: found.high,
        });
    }
    // C libraries put a thread's control block at the end of its stack; whatever the kernel shows
    // as one mapping with it may go away at any time.
    let control: u64;
    // SAFETY: the x86-64 ABI: the control block begins with its own address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) control, options(nostack, readonly)) };
    (found.holds(control) && stack_pointer < control).then_some(Bounds {
        low: found.low,
        high: control,
    })
}

/// The mapping that holds an address, and whether it is the main thread's stack.
fn mapping_of(address: u64) -> Option<(Bounds, bool)> {
    let file = File::open(b"/proc/self/maps\0", libc::O_RDONLY, 0)?;
    const NAME: &[u8] = b"[stack]";
    let mut buffer = [0u8; 512];
    let mut bounds = Bounds::default();
    // The field of the line: 0 and 1 its bounds, 2 the rest; and how much of the name has matched.
    let (mut number, mut field, mut matched) = (0u64, 0, 0);
    loop {
        let read = file.read(&mut buffer);
        if read == 0 {
            return None;
        }
        for &byte in buffer.get(..read)? {
            match (field, byte) {
                (_, b'\n') => {
                    if bounds.holds(address) {
                        return Some((bounds, matched == NAME.len()));
                    }
                    (number, field, matched) = (0, 0, 0);
                    bounds = Bounds::default();
                }
                (0, b'-') => {
                    bounds.low = number;
                    (number, field) = (0, 1);
                }
                (1, b' ') => {
                    bounds.high = number;
                    field = 2;
                }
                (0 | 1, _) => {
                    let digit = (byte as char).to_digit(16).unwrap_or(0);
                    number = number << 4 | u64::from(digit);
                }
                _ => {
                    matched = match NAME.get(matched) {
                        Some(expected) if *expected == byte => matched + 1,
                        _ => usize::from(byte == b'['),
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let mut chunk = [0; CHUNK];
        let local = [7u64, 8, 9];
        let at = local.as_ptr() as u64;
        // Nothing is known of the stack: everything goes through the kernel.
        let mut memory = Memory::new(Bounds::default(), &mut chunk);
        assert_eq!((memory.read(at + 8), memory.read(at)), (Some(8), Some(7)));
        assert_eq!((memory.read(8), memory.read(u64::MAX - 7)), (None, None));
        assert_eq!(
            (memory.read(at + 1), memory.read(0x7fff_ffff_f000)),
            (None, None)
        );
        memory.floor = at + 8;
        assert_eq!((memory.read(at), memory.read(at + 8)), (None, Some(8)));
    }

    #[test]
    fn a_thread_finds_its_own_stack() {
        let local = 0u64;
        let here = &raw const local as u64;
        let bounds = own_stack(here).expect("a thread of the test's");
        assert!(bounds.holds(here) && bounds.high - bounds.low >= 64 << 10);
        let heap = alloc::boxed::Box::new(0u64);
        assert!(own_stack(&raw const *heap as u64).is_none());
    }
}
