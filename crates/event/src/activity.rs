//! What the library inside a traced process and the tracer share about GPU activity.
//!
//! A process appends frames to the file `cupti.PID.TIME` of the session's folder: a header of
//! [`HEADER_BYTES`], then the payload, filled up to a multiple of 8. The tracer reads them as they
//! come and gives the file's blocks back to the system.

/// `CUPF`, little-endian: every frame begins with it.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CUPF");
/// Magic, kind, and the payload's bytes as 8: without what it is filled up with.
pub const HEADER_BYTES: usize = 16;
/// No frame is longer.
pub const MOST_BYTES: usize = 64 << 20;
/// How files of activity are called.
pub const FILE_PREFIX: &str = "cupti.";

/// Text: `version=130000 path=/usr/lib/libcupti.so.13`
pub const BEGIN: u32 = 1;
/// Three words of 8 bytes: CLOCK_MONOTONIC before, CUPTI's clock, CLOCK_MONOTONIC after.
pub const CLOCK: u32 = 2;
/// A word of 8 bytes by which records name a text, and the text.
pub const NAME: u32 = 3;
/// CUPTI's records, each behind its length as 8 bytes and filled up to a multiple of 8.
pub const RECORDS: u32 = 4;
/// Text for the user.
pub const NOTE: u32 = 5;
/// A word of 8 bytes: records that CUPTI dropped.
pub const DROPPED: u32 = 6;
/// All has been handed over: the process ends in order, or watching has ended in it.
pub const END: u32 = 7;

/// A frame's header; None if it is none.
pub fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = u64::from_le_bytes(bytes.get(8..HEADER_BYTES)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    (word(0)? == MAGIC && length <= MOST_BYTES).then_some((word(4)?, length))
}

/// The header of a frame.
pub fn frame(kind: u32, bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&kind.to_le_bytes());
    header[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
    header
}

/// Bytes that a payload is followed by.
pub fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(header(&frame(RECORDS, 77)), Some((RECORDS, 77)));
        assert_eq!((padding(77), padding(80), padding(0)), (3, 0, 0));
        assert_eq!(header(&frame(RECORDS, MOST_BYTES + 1)), None);
        assert_eq!(header(&[0; 16]), None);
        assert_eq!(header(&frame(NOTE, 1)[..15]), None);
    }
}
