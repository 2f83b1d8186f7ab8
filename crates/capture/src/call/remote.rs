//! Reading a traced process's memory.

/// Longer than any name a compiler gives, and a bound.
const LONGEST_TEXT: usize = 16 << 10;
const PIECE: usize = 512;
const PAGE: usize = 4096;

/// Fills `to` from an address of another process, as far as that can be read. How many bytes were.
pub fn read(pid: u32, address: u64, to: &mut [u8]) -> usize {
    let mut done = 0;
    while done < to.len() {
        let Some(at) = (usize::try_from(address).ok()).and_then(|at| at.checked_add(done)) else {
            break;
        };
        // Never across a boundary, where the next page may not be mapped.
        let length = (PAGE - at % PAGE).min(to.len() - done);
        let local = libc::iovec {
            iov_base: to[done..].as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: the kernel writes at most `length` bytes behind `done`, where there is room for them, and reads
        // of the other process only what it may.
        let count = unsafe { libc::process_vm_readv(pid.cast_signed(), &local, 1, &remote, 1, 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    done
}

/// The C string at an address of another process. None if it cannot be read whole.
pub fn read_text(pid: u32, address: u64) -> Option<String> {
    let mut text: Vec<u8> = Vec::new();
    while text.len() < LONGEST_TEXT {
        let at = address.checked_add(text.len() as u64)?;
        let mut piece = [0u8; PIECE];
        let count = read(pid, at, &mut piece);
        let piece = piece.get(..count).filter(|piece| !piece.is_empty())?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return String::from_utf8(text).ok();
        }
        text.extend_from_slice(piece);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn long_texts_are_read_and_bad_addresses_are_not() {
        let long = "x".repeat(5_000);
        let text = CString::new(long.clone()).expect("no NUL");
        let own = std::process::id();
        assert_eq!(read_text(own, text.as_ptr() as u64), Some(long));
        assert_eq!(read_text(own, 8), None);
        assert_eq!(read_text(own, u64::MAX - 3), None);
        let endless = CString::new("y".repeat(LONGEST_TEXT + PIECE)).expect("no NUL");
        assert_eq!(read_text(own, endless.as_ptr() as u64), None);
    }
}
