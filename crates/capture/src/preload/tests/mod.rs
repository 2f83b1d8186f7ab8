//! Rings written by hand, as injected code writes them, and what the tracer makes of them.

mod calls;
mod decoding;
mod draining;
mod hostile;
mod meanings;
mod places;
mod ranges;
mod sessions;

use crate::preload::arena::Arena;
use crate::preload::ring::Ring;
use event::ring::{
    ARENA_HEADER_SIZE, ARENA_MAGIC, ARENA_TEXT, PAYLOAD_BYTES, RING_HEADER_SIZE, RING_MAGIC,
    RingState, ring_stride,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const TEXT: u64 = 4096;

/// A file with one ring, from the producer's side.
pub struct RingFile {
    file: File,
    path: PathBuf,
    capacity: u64,
    head: u64,
}

impl RingFile {
    pub fn create(folder: &Path, pid: u32, tid: u32, capacity: u32) -> Self {
        let path = folder.join(format!("rings.{pid}.{tid}"));
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .expect("a new file");
        let length = ARENA_TEXT as u64 + TEXT + ring_stride(capacity) as u64;
        file.set_len(length).expect("room");
        let ring = RingFile {
            file,
            path,
            capacity: capacity.into(),
            head: 0,
        };
        ring.put(8, &capacity.to_le_bytes());
        ring.put(12, &pid.to_le_bytes());
        ring.put(16, &tid.to_le_bytes());
        ring.put(0, &RING_MAGIC.to_le_bytes());
        ring.put_in_file(8, &length.to_le_bytes());
        ring.put_in_file(16, &TEXT.to_le_bytes());
        ring.put_in_file(24, &capacity.to_le_bytes());
        ring.put_in_file(28, &1u32.to_le_bytes());
        ring.put_in_file(32, &pid.to_le_bytes());
        ring.put_in_file(64, &1u64.to_le_bytes());
        ring.set_state(RingState::Live);
        ring.put_in_file(0, &ARENA_MAGIC.to_le_bytes());
        ring
    }

    /// The tracer's side of it.
    pub fn open(&self) -> Option<Ring> {
        let arena = Arena::open(&self.path).expect("readable");
        arena?.ring(0)
    }

    pub fn put_in_file(&self, offset: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset).expect("written");
    }

    pub fn set_state(&self, state: RingState) {
        let state = (state as u32).to_le_bytes();
        self.put_in_file(ARENA_HEADER_SIZE as u64, &state);
    }

    pub fn state(&self) -> Option<RingState> {
        let mut word = [0; 4];
        let place = ARENA_HEADER_SIZE as u64;
        self.file.read_exact_at(&mut word, place).expect("read");
        RingState::from_word(u32::from_le_bytes(word))
    }

    /// Another thread has the ring from now on.
    pub fn hand_over(&self, tid: u32) {
        self.put(16, &tid.to_le_bytes());
        self.set_state(RingState::Live);
    }

    /// Words that do not go through the process's file.
    pub fn say(&self, pid: u32, text: &str) {
        let mut used = [0; 8];
        self.file.read_exact_at(&mut used, 72).expect("read");
        let used = u64::from_le_bytes(used);
        let place = ARENA_TEXT as u64 + used;
        self.put_in_file(place + 8, text.as_bytes());
        let word = text.len() as u64 | u64::from(pid) << 32;
        self.put_in_file(place, &word.to_le_bytes());
        let end = used + 8 + (text.len() as u64).next_multiple_of(8);
        self.put_in_file(72, &end.to_le_bytes());
    }

    /// Offsets are within the ring.
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        self.put_in_file(ARENA_TEXT as u64 + TEXT + offset, bytes);
    }

    fn slot(&self, sequence: u64) -> u64 {
        RING_HEADER_SIZE as u64 + (sequence & (self.capacity - 1)) * 64
    }

    pub fn set_head(&mut self, head: u64) {
        self.head = head;
        self.put(64, &head.to_le_bytes());
    }

    pub fn tail(&self) -> u64 {
        let mut word = [0; 8];
        let place = ARENA_TEXT as u64 + TEXT + 128;
        self.file.read_exact_at(&mut word, place).expect("read");
        u64::from_le_bytes(word)
    }

    pub fn set_dropped(&self, dropped: u64) {
        self.put(72, &dropped.to_le_bytes());
    }

    pub fn close(&self) {
        self.set_state(RingState::Ended);
    }

    /// A call is entered; returns its sequence number.
    pub fn begin(&mut self, enter: u64, call: RawCall<'_>) -> u64 {
        let sequence = self.head;
        let payloads = call.payload.len().div_ceil(PAYLOAD_BYTES) as u64;
        self.set_head(sequence + 1 + payloads);
        self.put_payload(sequence, call.payload);
        let slot = self.slot(sequence);
        let mut bytes = [0u8; 64];
        bytes[..8].copy_from_slice(&enter.to_le_bytes());
        bytes[16..18].copy_from_slice(&call.function.to_le_bytes());
        bytes[18..20].copy_from_slice(&(payloads as u16 | call.flags).to_le_bytes());
        bytes[20..24].copy_from_slice(&call.stack_pointer.to_le_bytes());
        bytes[28..32].copy_from_slice(&(sequence as u32).wrapping_add(1).to_le_bytes());
        for (place, arg) in call.args.iter().enumerate() {
            bytes[32 + 8 * place..40 + 8 * place].copy_from_slice(&arg.to_le_bytes());
        }
        self.put(slot, &bytes);
        sequence
    }

    pub fn put_payload(&self, sequence: u64, payload: &[u8]) {
        for (place, piece) in payload.chunks(PAYLOAD_BYTES).enumerate() {
            let sequence = sequence + 1 + place as u64;
            let mut bytes = [0u8; 64];
            let (first, rest) = piece.split_at(piece.len().min(28));
            bytes[..first.len()].copy_from_slice(first);
            bytes[32..32 + rest.len()].copy_from_slice(rest);
            bytes[28..32].copy_from_slice(&(sequence as u32).wrapping_add(1).to_le_bytes());
            self.put(self.slot(sequence), &bytes);
        }
    }

    pub fn end(&self, sequence: u64, exit: u64, result: u32) {
        let slot = self.slot(sequence);
        self.put(slot + 24, &result.to_le_bytes());
        self.put(slot + 8, &exit.to_le_bytes());
    }

    /// What the call leaves in the last words of its own slot.
    pub fn put_outputs(&self, sequence: u64, words: [u64; 2]) {
        let bytes = words.map(u64::to_le_bytes).concat();
        self.put(self.slot(sequence) + 48, &bytes);
    }

    /// A whole call without payload.
    pub fn call(&mut self, times: std::ops::Range<u64>, function: u16, args: [u64; 4]) {
        let sequence = self.begin(
            times.start,
            RawCall {
                function,
                args,
                ..RawCall::default()
            },
        );
        self.end(sequence, times.end, 0);
    }
}

pub struct RawCall<'a> {
    pub function: u16,
    pub stack_pointer: u32,
    pub args: [u64; 4],
    pub payload: &'a [u8],
    /// Besides the number of payload slots.
    pub flags: u16,
}

impl Default for RawCall<'_> {
    fn default() -> Self {
        RawCall {
            function: 0,
            stack_pointer: 0x1000_0000,
            args: [0; 4],
            payload: &[],
            flags: 0,
        }
    }
}
