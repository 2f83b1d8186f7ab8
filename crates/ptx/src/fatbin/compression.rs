//! Unpacking an entry's payload: an LZ4 block (CUDA 11 and 12) or a zstd frame (CUDA 13).

use std::borrow::Cow;
use std::io::Read;

use super::FatbinError;

/// The largest payload unpacked: hostile headers claim what they like.
pub const MAX_PAYLOAD: u64 = 512 << 20;

/// One byte of an LZ4 block stands for 255 at most.
const LZ4_MOST: u64 = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4,
    Zstd,
}

pub(super) fn unpack(
    method: Compression,
    stored: &[u8],
    size: u64,
) -> Result<Cow<'_, [u8]>, FatbinError> {
    if method == Compression::None {
        return Ok(Cow::Borrowed(stored));
    }
    if size > MAX_PAYLOAD {
        return Err(FatbinError::TooLarge(size));
    }
    let unpacked = match method {
        Compression::Lz4 => lz4(stored, size)?,
        _ => zstd(stored, size)?,
    };
    if unpacked.len() as u64 != size {
        let found = unpacked.len() as u64;
        return Err(FatbinError::UnpackedSize {
            found,
            expected: size,
        });
    }
    Ok(Cow::Owned(unpacked))
}

fn lz4(stored: &[u8], size: u64) -> Result<Vec<u8>, FatbinError> {
    // Refused before the buffer is made.
    let most = (stored.len() as u64).saturating_mul(LZ4_MOST);
    if size > most {
        return Err(FatbinError::UnpackedSize {
            found: most,
            expected: size,
        });
    }
    lz4_flex::block::decompress(stored, size as usize).map_err(|error| failed("LZ4", &error))
}

fn zstd(stored: &[u8], size: u64) -> Result<Vec<u8>, FatbinError> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(stored);
    let decoder = decoder.map_err(|error| failed("zstd", &error))?;
    let mut unpacked = Vec::new();
    // One byte more than announced is enough to see that the frame is longer.
    let read = decoder.take(size + 1).read_to_end(&mut unpacked);
    read.map_err(|error| failed("zstd", &error))?;
    Ok(unpacked)
}

fn failed(method: &'static str, error: &dyn std::error::Error) -> FatbinError {
    FatbinError::Unpack {
        method,
        reason: error.to_string(),
    }
}
