// A number for the contents of a file. The build script includes this too: it computes the numbers of what the
// program carries.

/// Tells versions and damaged files apart; it is no defence (the folder's owner is). FNV-1a over words, in four
/// lanes: every start of the program waits for it.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(PRIME);
    let mut lanes = [0xcbf2_9ce4_8422_2325_u64; 4];
    for block in bytes.chunks(32) {
        let mut words = [0u8; 32];
        words[..block.len()].copy_from_slice(block);
        for (lane, word) in lanes.iter_mut().zip(words.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    lanes.into_iter().fold(bytes.len() as u64, step)
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

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
}
