// A number for the contents of a file. The build script includes this too: it computes the numbers of what the
// program carries.

/// Tells versions and damaged files apart; it is no defence (the folder's owner is). FNV-1a over words, in four
/// lanes: every start of the program waits for it.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mut fingerprint = Fingerprint::default();
    fingerprint.add(bytes);
    fingerprint.finish()
}

/// The same of what comes piece by piece. All pieces but the last are of a multiple of 32 bytes.
pub struct Fingerprint {
    lanes: [u64; 4],
    length: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint {
            lanes: [0xcbf2_9ce4_8422_2325; 4],
            length: 0,
        }
    }
}

impl Fingerprint {
    pub fn add(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            self.block(block);
        }
        if !rest.is_empty() {
            let mut block = [0u8; 32];
            block[..rest.len()].copy_from_slice(rest);
            self.block(&block);
        }
        self.length += bytes.len() as u64;
    }

    fn block(&mut self, block: &[u8; 32]) {
        for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }

    pub fn finish(self) -> u64 {
        self.lanes.into_iter().fold(self.length, step)
    }
}

fn step(hash: u64, word: u64) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    (hash ^ word).wrapping_mul(PRIME)
}

#[cfg(test)]
mod tests {
    use super::{Fingerprint, fingerprint};

    #[test]
    fn every_byte_and_the_length_count() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = fingerprint(&bytes);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_ne!(fingerprint(&damaged), whole, "byte {at}");
        }
        assert_ne!(fingerprint(&bytes[..99]), whole);
        assert_ne!(fingerprint(&[0; 32]), fingerprint(&[0; 31]));
    }

    #[test]
    fn pieces_make_the_same_number() {
        let bytes: Vec<u8> = (0..200).collect();
        for piece in [32, 64, 96, 224] {
            let mut pieces = Fingerprint::default();
            bytes.chunks(piece).for_each(|bytes| pieces.add(bytes));
            assert_eq!(pieces.finish(), fingerprint(&bytes), "{piece}");
        }
    }
}
