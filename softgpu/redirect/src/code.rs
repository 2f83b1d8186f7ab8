//! Jumps at the entries of functions.

use std::{
    fs, io,
    ops::Range,
    os::unix::fs::FileExt,
    ptr,
    sync::{Mutex, PoisonError},
};

/// `jmp [rip]` and the address.
const JUMP: usize = 14;
const JUMP_CODE: [u8; 6] = [0xFF, 0x25, 0, 0, 0, 0];
/// An instruction that is taken back, and a value for a parameter.
const THUNK: usize = 48;

/// Where our thunks are: a function that goes there has its jump already.
static THUNKS: Mutex<Vec<Range<u64>>> = Mutex::new(Vec::new());

fn is_ours(code: &[u8]) -> bool {
    let Some(Ok(to)) = code.get(6..JUMP).map(<[u8; 8]>::try_from) else {
        return false;
    };
    let thunks = THUNKS.lock().unwrap_or_else(PoisonError::into_inner);
    code.starts_with(&JUMP_CODE)
        && thunks
            .iter()
            .any(|page| page.contains(&u64::from_le_bytes(to)))
}

/// How a function's first instruction is taken back after it ran. It stays as it is in the file: a uprobe on
/// it would restore it over a jump, and the program would run into the rest of that.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct First {
    length: usize,
    undo: &'static [u8],
}

fn first_instruction(code: &[u8]) -> First {
    let (length, undo): (usize, &[u8]) = match code {
        // push rbp
        [0x55, ..] => (1, &[0x5D]),
        // push rbx
        [0x53, ..] => (1, &[0x5B]),
        // push r12 to r15
        [0x41, 0x54, ..] => (2, &[0x41, 0x5C]),
        [0x41, 0x55, ..] => (2, &[0x41, 0x5D]),
        [0x41, 0x56, ..] => (2, &[0x41, 0x5E]),
        [0x41, 0x57, ..] => (2, &[0x41, 0x5F]),
        // xor eax, eax: no parameter of a CUDA function is in there.
        [0x31, 0xC0, ..] | [0x33, 0xC0, ..] => (2, &[]),
        // endbr64
        [0xF3, 0x0F, 0x1E, 0xFA, ..] => (4, &[]),
        // Others are replaced.
        _ => (0, &[]),
    };
    First { length, undo }
}

/// Where a function goes from now on.
#[derive(Clone, Copy)]
pub enum Target {
    Function(u64),
    /// A function whose first parameter is this, whatever the caller gave.
    With(u64, u64),
}

/// A function without room for a jump.
#[derive(Debug, thiserror::Error)]
#[error("only {size} bytes at {entry:#x}")]
pub struct TooShort {
    entry: u64,
    size: u64,
}

/// Jumps that were prepared, and are not there yet.
#[derive(Default)]
pub struct Patches {
    entries: Vec<(u64, Vec<u8>)>,
    thunks: Vec<(usize, Vec<u8>)>,
}

impl Patches {
    /// Prepares the jump of a function of `size` bytes.
    ///
    /// # Safety
    /// The function is loaded at `entry`.
    pub unsafe fn add(&mut self, entry: u64, size: u64, target: Target) -> Result<(), TooShort> {
        // Functions begin at multiples of 16; what is between them is never run.
        let room = (size as usize).next_multiple_of(16);
        if !entry.is_multiple_of(16) || room < JUMP {
            return Err(TooShort { entry, size });
        }
        // SAFETY: as the caller promised.
        let code = unsafe { std::slice::from_raw_parts(entry as *const u8, room) };
        let mut first = first_instruction(code);
        if first.length + JUMP > room {
            first = First {
                length: 0,
                undo: &[],
            };
        }
        if is_ours(&code[first.length..]) {
            return Ok(());
        }
        let mut thunk = first.undo.to_vec();
        match target {
            Target::Function(function) => thunk.extend(jump(function)),
            Target::With(function, parameter) => {
                // mov rdi, parameter
                thunk.extend([0x48, 0xBF]);
                thunk.extend(parameter.to_le_bytes());
                thunk.extend(jump(function));
            }
        }
        debug_assert!(thunk.len() <= THUNK);
        self.thunks.push((self.entries.len(), thunk));
        let kept = code[..first.length].to_vec();
        self.entries.push((entry, kept));
        Ok(())
    }

    /// Puts all jumps there.
    ///
    /// # Safety
    /// Nothing runs in any of the functions.
    pub unsafe fn apply(mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let length = (self.thunks.len() * THUNK).max(1).next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping.
        let page = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        for (index, thunk) in &self.thunks {
            // SAFETY: there is room for all of them.
            unsafe {
                let place = page.cast::<u8>().add(index * THUNK);
                ptr::copy_nonoverlapping(thunk.as_ptr(), place, thunk.len());
            }
            self.entries[*index]
                .1
                .extend(jump(page as u64 + (index * THUNK) as u64));
        }
        // SAFETY: the mapping of above.
        if unsafe { libc::mprotect(page, length, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        THUNKS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(page as u64..page as u64 + length as u64);
        for (entry, bytes) in &self.entries {
            // SAFETY: as the caller promised.
            unsafe { write(*entry, bytes)? };
        }
        Ok(())
    }
}

fn jump(to: u64) -> [u8; JUMP] {
    let mut code = [0; JUMP];
    code[..6].copy_from_slice(&JUMP_CODE);
    code[6..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Changes code: through the kernel, which needs no page that can be both written and run; or else there.
unsafe fn write(to: u64, bytes: &[u8]) -> io::Result<()> {
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem");
    if memory.is_ok_and(|memory| memory.write_all_at(bytes, to).is_ok()) {
        return Ok(());
    }
    let start = to & !4095;
    let length = (to - start) as usize + bytes.len();
    let page = start as *mut libc::c_void;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: as the caller promised.
    unsafe {
        if libc::mprotect(page, length, all) != 0 {
            return Err(io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len());
        libc::mprotect(page, length, libc::PROT_READ | libc::PROT_EXEC);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn sum(a: u64, b: u64) -> u64 {
        a + b
    }

    /// A function made of bytes, as a function pointer.
    fn made(code: &[u8]) -> u64 {
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh page.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), 4096, all, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len());
            page as u64
        }
    }

    #[test]
    fn functions_of_every_beginning_go_to_their_target() {
        for (first, kept) in [
            (&[0x55][..], 1),
            (&[0x53], 1),
            (&[0x41, 0x54], 2),
            (&[0x41, 0x57], 2),
            (&[0x31, 0xC0], 2),
            (&[0xF3, 0x0F, 0x1E, 0xFA], 4),
            (&[0x48, 0x83, 0xEC, 0x18], 0),
        ] {
            let mut code = first.to_vec();
            code.resize(32, 0xCC);
            let function = made(&code);
            // SAFETY: code made for this.
            unsafe {
                let mut patches = Patches::default();
                let target = Target::Function(sum as *const () as u64);
                patches.add(function, 32, target).expect("room");
                patches.apply().expect("written");
                let call: extern "C" fn(u64, u64) -> u64 = std::mem::transmute(function);
                assert_eq!(call(2, 3), 5, "{first:x?}");
                let now = std::slice::from_raw_parts(function as *const u8, kept);
                assert_eq!(now, &first[..kept], "the first instruction stays");
            }
        }
    }

    #[test]
    fn a_parameter_can_be_given() {
        let function = made(&[0x55; 32]);
        // SAFETY: code made for this.
        unsafe {
            let mut patches = Patches::default();
            let target = Target::With(sum as *const () as u64, 40);
            patches.add(function, 20, target).expect("room");
            assert!(patches.add(function + 16, 0, target).is_err());
            patches.apply().expect("written");
            let call: extern "C" fn(u64, u64) -> u64 = std::mem::transmute(function);
            assert_eq!(call(7, 2), 42);
        }
    }
}
