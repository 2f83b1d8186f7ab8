//! Bytes of an object's file, read at the addresses that they have in the object. Nothing that is
//! there is believed: a read past the end is no read.

/// A part of a file that is mapped for this alone: it stays when the object goes.
#[derive(Clone, Copy)]
pub struct Image {
    memory: *const u8,
    /// The object's address of the first byte.
    pub address: u64,
    bytes: u64,
}

// SAFETY: only ever read.
unsafe impl Sync for Image {}
unsafe impl Send for Image {}

impl Image {
    /// # Safety
    /// The memory stays mapped and as it is.
    pub const unsafe fn new(memory: *const u8, address: u64, bytes: u64) -> Image {
        Image {
            memory,
            address,
            bytes,
        }
    }

    pub fn read(&self, address: u64) -> Reader<'_> {
        Reader {
            image: self,
            address,
        }
    }

    fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let offset = address.checked_sub(self.address)?;
        if offset.checked_add(N as u64)? > self.bytes {
            return None;
        }
        // SAFETY: inside the image.
        Some(unsafe { self.memory.add(offset as usize).cast::<[u8; N]>().read() })
    }
}

/// A place in an image.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    image: &'a Image,
    pub address: u64,
}

/// How addresses are written (DW_EH_PE_*).
const OMITTED: u8 = 0xff;
const RELATIVE: u8 = 0x70;
const INDIRECT: u8 = 0x80;

impl Reader<'_> {
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.image.array(self.address)?;
        self.address += N as u64;
        Some(bytes)
    }

    pub fn skip(&mut self, bytes: u64) -> Option<()> {
        self.address = self.address.checked_add(bytes)?;
        Some(())
    }

    /// LEB128 of at most 64 bits.
    pub fn unsigned(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            if shift > 126 {
                return None;
            }
        }
    }

    pub fn signed(&mut self) -> Option<i64> {
        let (mut number, mut shift) = (0i64, 0);
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                number |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if byte & 0x40 != 0 && shift < 64 {
                    number |= -1i64 << shift;
                }
                return Some(number);
            }
            if shift > 126 {
                return None;
            }
        }
    }

    /// An address in one of the usual encodings; `base` is what data-relative ones are relative to.
    pub fn encoded(&mut self, encoding: u8, base: u64) -> Option<u64> {
        if encoding == OMITTED || encoding & INDIRECT != 0 {
            return None;
        }
        let own = self.address;
        let value = self.number(encoding)?;
        Some(match encoding & RELATIVE {
            0x00 => value,
            0x10 => own.wrapping_add(value),
            0x30 => base.wrapping_add(value),
            _ => return None,
        })
    }

    /// The number alone, sign-extended.
    pub fn number(&mut self, encoding: u8) -> Option<u64> {
        Some(match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64()?,
            0x01 => self.unsigned()?,
            0x02 => self.u16()?.into(),
            0x03 => self.u32()?.into(),
            0x09 => self.signed()? as u64,
            0x0a => self.u16()? as i16 as u64,
            0x0b => self.u32()? as i32 as u64,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: &'static [u8]) -> Image {
        // SAFETY: static.
        unsafe { Image::new(bytes.as_ptr(), 0x1000, bytes.len() as u64) }
    }

    #[test]
    fn numbers_end_where_the_image_ends() {
        let image = image(&[0xe5, 0x8e, 0x26, 0x7f, 0x80]);
        let mut reader = image.read(0x1000);
        assert_eq!(
            (reader.unsigned(), reader.signed()),
            (Some(624_485), Some(-1))
        );
        assert_eq!(reader.unsigned(), None);
        assert_eq!(image.read(0x0fff).u8(), None);
        assert_eq!(image.read(0x1002).u32(), None);
        assert_eq!(image.read(u64::MAX - 1).u64(), None);
        let endless = [0xff; 64];
        // SAFETY: outlives the reading.
        let endless = unsafe { Image::new(endless.as_ptr(), 0, 64) };
        assert_eq!(
            (endless.read(0).unsigned(), endless.read(0).signed()),
            (None, None)
        );
    }

    #[test]
    fn addresses_are_relative_to_what_they_say() {
        let image = image(&[0xf0, 0xff, 0xff, 0xff]);
        assert_eq!(image.read(0x1000).encoded(0x1b, 0), Some(0xff0));
        assert_eq!(image.read(0x1000).encoded(0x3b, 0x20), Some(0x10));
        assert_eq!(image.read(0x1000).encoded(0x9b, 0), None);
        assert_eq!(image.read(0x1000).encoded(0xff, 0), None);
    }
}
