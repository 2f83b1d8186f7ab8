//! Rings that no producer writes: whatever they hold, the tracer lives and stays small.

use super::{Call, RingFile};
use crate::call::item::Batch;
use crate::preload::drain::{Corrupt, Reader};
use crate::preload::ring::Ring;
use event::ring::RING_HEADER_SIZE;
use std::fs;

fn open(folder: &tempfile::TempDir) -> Option<Ring> {
    Ring::open(&folder.path().join("ring.1.1.0"))
}

#[test]
fn files_that_are_no_rings_are_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring.1.1.0");
    for contents in [
        vec![],
        vec![0; 100],
        vec![0; RING_HEADER_SIZE],
        vec![0xff; 1 << 16],
    ] {
        fs::write(&path, contents).expect("written");
        assert!(open(&folder).is_none());
    }
    fs::remove_file(&path).expect("removed");
    let file = RingFile::create(folder.path(), 1, 1, 16);
    for capacity in [0u32, 3, 15, 32, 1 << 31, u32::MAX] {
        file.put(8, &capacity.to_le_bytes());
        assert!(open(&folder).is_none(), "{capacity} slots");
    }
    file.put(8, &16u32.to_le_bytes());
    assert!(open(&folder).is_some());
}

#[test]
fn impossible_positions_are_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = RingFile::create(folder.path(), 1, 1, 16);
    for head in [17, u64::MAX, 1 << 63] {
        let mut reader = Reader::new(open(&folder).expect("a ring"));
        file.set_head(head);
        assert_eq!(reader.drain(&mut Batch::default()), Err(Corrupt), "{head}");
    }
    file.set_head(0);
    let mut reader = Reader::new(open(&folder).expect("a ring"));
    file.call(1..2, 0, [0; 4]);
    assert_eq!(reader.drain(&mut Batch::default()), Ok(false));
    file.set_head(0);
    assert_eq!(
        reader.drain(&mut Batch::default()),
        Err(Corrupt),
        "going back"
    );
}

#[test]
fn a_payload_longer_than_any_is_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = RingFile::create(folder.path(), 1, 1, 16);
    file.begin(5, Call::default());
    for payloads in [1u16, 9, 255] {
        file.put(RING_HEADER_SIZE as u64 + 18, &payloads.to_le_bytes());
        let mut reader = Reader::new(open(&folder).expect("a ring"));
        assert_eq!(
            reader.drain(&mut Batch::default()),
            Err(Corrupt),
            "{payloads}"
        );
    }
}

#[test]
fn a_ring_that_is_cut_off_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = RingFile::create(folder.path(), 1, 1, 4096);
    let mut reader = Reader::new(open(&folder).expect("a ring"));
    file.call(1..2, 0, [0; 4]);
    file.file.set_len(100).expect("cut");
    assert_eq!(reader.drain(&mut Batch::default()), Err(Corrupt));
}

/// A generator, so that a failure can be repeated.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn noise_in_every_field_neither_panics_nor_grows() {
    let mut noise = Noise(0x5eed);
    for _ in 0..300 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = RingFile::create(folder.path(), 1, 1, 64);
        let mut reader = Reader::new(open(&folder).expect("a ring"));
        let mut steps = 0;
        for _ in 0..20 {
            for _ in 0..noise.next() % 64 {
                let offset = RING_HEADER_SIZE as u64 + noise.next() % (64 * 64 - 8);
                file.put(offset, &noise.next().to_le_bytes());
            }
            // Plausible commit words let the noise behind them through.
            for slot in 0..64u64 {
                if !noise.next().is_multiple_of(4) {
                    let at = RING_HEADER_SIZE as u64 + slot * 64;
                    let lap = file.head & !63;
                    file.put(
                        at + 28,
                        &((lap + slot) as u32).wrapping_add(1).to_le_bytes(),
                    );
                    file.put(at + 18, &((noise.next() % 3) as u16).to_le_bytes());
                }
            }
            file.set_head(file.tail() + noise.next() % 65);
            let mut batch = Batch::default();
            let drained = reader.drain(&mut batch);
            steps += batch.items.len();
            assert!(batch.items.len() <= 2 * 64 + 1, "{}", batch.items.len());
            assert!(batch.bytes.len() <= 2 * 64 * 480);
            if drained.is_err() {
                break;
            }
        }
        assert!(steps <= 20 * (2 * 64 + 1));
    }
}
