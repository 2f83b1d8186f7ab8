//! Numbers as the index stores them, and a reader of them that trusts nothing.

/// Seven bits a byte, low ones first, the high bit set on all but the last.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed numbers near zero are short, too.
pub fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// The bytes are no index, or not all of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index is damaged")]
pub struct Damaged;

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8, Damaged> {
        let (&first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(first)
    }

    pub fn varint(&mut self) -> Result<u64, Damaged> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Damaged);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    pub fn zigzag(&mut self) -> Result<i64, Damaged> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn u32(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.varint()?).map_err(|_| Damaged)
    }

    /// A number of things that take at least one byte each: more than there are bytes is a lie.
    pub fn count(&mut self) -> Result<usize, Damaged> {
        let count = usize::try_from(self.varint()?).map_err(|_| Damaged)?;
        if count > self.rest.len() {
            return Err(Damaged);
        }
        Ok(count)
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes with their length before them.
    pub fn block(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.count()?;
        self.take(length)
    }

    pub fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.block()?).map_err(|_| Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX];
        numbers.iter().for_each(|&number| varint(&mut out, number));
        let signed = [0, -1, 1, i64::MIN, i64::MAX];
        signed.iter().for_each(|&number| zigzag(&mut out, number));
        let mut bytes = Bytes::new(&out);
        assert_eq!(numbers.map(|_| bytes.varint()), numbers.map(Ok));
        assert_eq!(signed.map(|_| bytes.zigzag()), signed.map(Ok));
        assert!(bytes.is_empty());
        assert_eq!(bytes.byte(), Err(Damaged));
    }

    #[test]
    fn lies_are_noticed() {
        assert_eq!(Bytes::new(&[0xff; 10]).varint(), Err(Damaged));
        assert_eq!(Bytes::new(&[0x80; 20]).varint(), Err(Damaged));
        assert_eq!(Bytes::new(&[200, 1, 0]).count(), Err(Damaged));
        assert_eq!(Bytes::new(&[2, 0xff, 0xfe]).text(), Err(Damaged));
    }
}
