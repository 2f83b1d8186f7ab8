//! Rings that no producer writes: whatever they hold, the tracer lives and stays small.

use super::calls::Recorded;
use super::{RawCall, RingFile};
use crate::call::item::Batch;
use crate::preload::arena::Arena;
use crate::preload::drain::{Corrupt, Reader};
use crate::preload::{Options, Session};
use event::ring::RING_HEADER_SIZE;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

#[test]
fn files_that_are_no_rings_are_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rings.1.1");
    let is_one = || Arena::open(&path).expect("readable").is_some();
    for contents in [
        vec![],
        vec![0; 100],
        vec![0; RING_HEADER_SIZE],
        vec![0xff; 1 << 16],
    ] {
        fs::write(&path, contents).expect("written");
        assert!(!is_one());
    }
    fs::remove_file(&path).expect("removed");
    let file = RingFile::create(folder.path(), 1, 1, 16);
    for capacity in [0u32, 3, 15, 32, 1 << 31, u32::MAX] {
        file.put(8, &capacity.to_le_bytes());
        assert!(file.open().is_none(), "{capacity} slots");
    }
    file.put(8, &16u32.to_le_bytes());
    assert!(file.open().is_some());
    // A file's own words: its length, its text, its rings' slots and their number.
    for (offset, word) in [
        (8, 1u64 << 60),
        (8, 0),
        (16, u64::MAX - 5),
        (16, 1 << 40),
        (24, 1 << 32 | 3),
        (24, 9000 << 32 | 16),
    ] {
        let file = RingFile::create(folder.path(), 2, 2, 16);
        file.put_in_file(offset, &word.to_le_bytes());
        assert!(file.open().is_none(), "{word:#x} at {offset}");
        fs::remove_file(folder.path().join("rings.2.2")).expect("removed");
    }
}

#[test]
fn what_is_no_file_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("rings.1.0");
    let name = CString::new(pipe.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a name that ends.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("rings.2.0")).expect("linked");
    fs::create_dir(folder.path().join("rings.3.0")).expect("made");
    for name in ["rings.1.0", "rings.2.0"] {
        assert!(matches!(Arena::open(&folder.path().join(name)), Ok(None)));
    }
    assert!(Arena::open(&folder.path().join("rings.3.0")).is_err());
    // Nor do they hold up a session, as processes' files neither.
    let session = Session::create(Options::default()).expect("a session");
    for prefix in ["rings", "process"] {
        for name in ["1.0", "2.0"] {
            let from = folder.path().join(format!("rings.{name}"));
            let to = session.folder().join(format!("{prefix}.{name}"));
            if name == "1.0" {
                let to = CString::new(to.as_os_str().as_bytes()).expect("no NUL");
                // SAFETY: as above.
                assert_eq!(unsafe { libc::mkfifo(to.as_ptr(), 0o600) }, 0);
            } else {
                std::os::unix::fs::symlink(from, to).expect("linked");
            }
        }
    }
    let recording = session.start(Recorded::default()).expect("threads");
    std::thread::sleep(Duration::from_millis(20));
    let (sink, report) = recording.finish();
    assert!(sink.records.is_empty() && report.processes.is_empty());
}

#[test]
fn impossible_positions_are_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = RingFile::create(folder.path(), 1, 1, 16);
    for head in [17, u64::MAX, 1 << 63] {
        let mut reader = Reader::new(file.open().expect("a ring"));
        file.set_head(head);
        assert_eq!(reader.drain(&mut Batch::default()), Err(Corrupt), "{head}");
    }
    file.set_head(0);
    let mut reader = Reader::new(file.open().expect("a ring"));
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
    file.begin(5, RawCall::default());
    for payloads in [1u16, 9, 255] {
        file.put(RING_HEADER_SIZE as u64 + 18, &payloads.to_le_bytes());
        let mut reader = Reader::new(file.open().expect("a ring"));
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
    let mut reader = Reader::new(file.open().expect("a ring"));
    file.call(1..2, 0, [0; 4]);
    assert_eq!(reader.drain(&mut Batch::default()), Ok(false));
    let arena = Arena::open(&file.path).expect("readable").expect("whole");
    assert!(arena.is_whole());
    file.file.set_len(100).expect("cut");
    assert!(!arena.is_whole());
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
        let mut reader = Reader::new(file.open().expect("a ring"));
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
