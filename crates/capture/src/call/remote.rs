//! Reading a traced process's memory.

/// Longer than any name a compiler gives, and a bound.
const LONGEST_TEXT: usize = 16 << 10;
const PIECE: usize = 512;

/// The C string at an address of another process. None if it cannot be read whole.
pub fn read_text(pid: u32, address: u64) -> Option<String> {
    let mut text: Vec<u8> = Vec::new();
    while text.len() < LONGEST_TEXT {
        let at = usize::try_from(address).ok()?.checked_add(text.len())?;
        // Never across a boundary, where the next page may not be mapped.
        let length = PIECE - at % PIECE;
        let mut piece = [0u8; PIECE];
        let local = libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: length,
        };
        // SAFETY: the kernel writes at most `length` bytes into `piece`, and reads of the other
        // process only what it may.
        let count = unsafe { libc::process_vm_readv(pid.cast_signed(), &local, 1, &remote, 1, 0) };
        let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
        let piece = piece.get(..count)?;
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
