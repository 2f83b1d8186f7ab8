//! Reads the rings while device code writes them.
//!
//! Every four bytes of a record have beside them how often the ring has been filled: a record is whole
//! when all of them are of the round that is waited for, in whatever order they came. The tail says how
//! far we are, and only that makes room. Nobody waits for us: what found no room was counted by the
//! device.

use super::files;
use crate::preload::folder::open_left;
use ptx::device::{
    CAPACITY_AT, MOST_PARTS, Map, Orders, PARTS_AT, RING_DATA, SLOT_HEADER, TAIL_STRIDE, log_map,
    map_kind, slot_bytes,
};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Whose ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingOwner {
    pub pid: u32,
    pub context: u32,
    /// The map's place in the orders; `None` is printk.
    pub map: Option<usize>,
}

/// One record as the device wrote it.
#[derive(Debug)]
pub struct Raw<'a> {
    pub source: RingOwner,
    pub data: &'a [u8],
}

/// Where records go.
pub trait RecordHandler: Send + 'static {
    fn take(&mut self, raw: Raw);
    /// There is nothing more to read at the moment.
    fn rest(&mut self) {}
}

/// What was read of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingTotals {
    pub source: RingOwner,
    pub read: u64,
    /// Slots that were taken and never handed over, as far as can be seen.
    pub unfinished: u64,
}

/// New rings are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_micros(50);
/// Room is given back after so many records.
const BATCH: u64 = 4096;

/// The thread that reads.
pub struct Rings<H> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(H, Vec<RingTotals>)>,
}

impl<H: RecordHandler> Rings<H> {
    /// Begins to read what appears in `folder`; `handler` gets every record, those of a ring in order.
    pub fn start(folder: &Path, orders: &Orders, handler: H) -> std::io::Result<Rings<H>> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut reader = Reader {
            folder: folder.to_owned(),
            rings: Vec::new(),
            maps: orders.maps.clone(),
            handler,
        };
        let told = stop.clone();
        let thread = std::thread::Builder::new()
            .name("cutrace-gpu-rings".into())
            .spawn(move || {
                reader.run(&told);
                let totals = reader.rings.iter().map(Ring::totals).collect();
                (reader.handler, totals)
            })?;
        Ok(Rings { stop, thread })
    }

    /// Reads what is left, and stops. Call it when the program has ended.
    pub fn finish(self) -> (H, Vec<RingTotals>) {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Reader<H> {
    folder: PathBuf,
    rings: Vec<Ring>,
    maps: Vec<Map>,
    handler: H,
}

impl<H: RecordHandler> Reader<H> {
    fn run(&mut self, stop: &AtomicBool) {
        let mut looked = None::<Instant>;
        loop {
            // Asked first: what was written before it was said is still read.
            let last = stop.load(Ordering::Acquire);
            if last || looked.is_none_or(|at| at.elapsed() > LOOK_EVERY) {
                self.look();
                looked = Some(Instant::now());
            }
            let mut read = 0;
            for ring in &mut self.rings {
                read += ring.read(&mut self.handler);
            }
            if last {
                for ring in &mut self.rings {
                    ring.read_past_gaps(&mut self.handler);
                }
                self.handler.rest();
                return;
            }
            if read == 0 {
                self.handler.rest();
                std::thread::sleep(IDLE);
            }
        }
    }

    fn look(&mut self) {
        for (path, pid, context, name) in files(&self.folder, "shared") {
            let (map, largest) = match name.parse::<usize>() {
                Ok(index) => match self.maps.get(index) {
                    Some(map) if map.kind == map_kind::RING => (Some(index), map.value_size),
                    _ => continue,
                },
                Err(_) if name == "log" => (None, log_map().value_size),
                Err(_) => continue,
            };
            let source = RingOwner { pid, context, map };
            if self.rings.iter().any(|ring| ring.source == source) {
                continue;
            }
            self.rings.extend(Ring::open(&path, source, largest));
        }
    }
}

struct Ring {
    source: RingOwner,
    memory: Memory,
    /// Slots of a part.
    capacity: u64,
    stride: usize,
    largest: usize,
    /// How far each part has been read.
    tails: Vec<u64>,
    read: u64,
    unfinished: u64,
    /// The record at hand.
    data: Vec<u8>,
}

impl Ring {
    /// `None` until it is all there.
    fn open(path: &Path, source: RingOwner, largest: u32) -> Option<Ring> {
        let memory = Memory::map(path)?;
        // How many parts it has is written last.
        let parts = memory.word(PARTS_AT)?.load(Ordering::Acquire);
        let capacity = memory.word(CAPACITY_AT)?.load(Ordering::Acquire);
        let stride = slot_bytes(largest.into());
        let bytes =
            (parts.checked_mul(capacity)?.checked_mul(stride)?).checked_add(RING_DATA as u64)?;
        let fits = parts > 0
            && parts <= MOST_PARTS
            && capacity.is_power_of_two()
            && bytes <= memory.bytes as u64;
        fits.then(|| Ring {
            source,
            memory,
            capacity,
            stride: stride as usize,
            largest: largest as usize,
            tails: vec![0; parts as usize],
            read: 0,
            unfinished: 0,
            data: Vec::new(),
        })
    }

    fn totals(&self) -> RingTotals {
        RingTotals {
            source: self.source,
            read: self.read,
            unfinished: self.unfinished,
        }
    }

    /// Takes a part's record, if it is whole.
    fn record(&mut self, part: usize, number: u64) -> Option<()> {
        let slot = part as u64 * self.capacity + (number & (self.capacity - 1));
        let at = RING_DATA + slot as usize * self.stride;
        let round = (number >> self.capacity.trailing_zeros()).wrapping_add(1) as u32;
        let words = self.memory.words(at, self.stride / 8)?;
        let (head, data) = words.split_at_checked(SLOT_HEADER / 8)?;
        let word = |place: &AtomicU64| {
            let word = place.load(Ordering::Relaxed);
            ((word >> 32) as u32 == round).then_some(word as u32)
        };
        word(head.last()?)?;
        let bytes = (word(head.first()?)? as usize).min(self.largest);
        self.data.clear();
        // They come in pairs, eight bytes of data each.
        for place in data.get(..bytes.next_multiple_of(8) / 4)? {
            self.data.extend_from_slice(&word(place)?.to_le_bytes());
        }
        self.data.truncate(bytes);
        Some(())
    }

    fn read(&mut self, handler: &mut impl RecordHandler) -> u64 {
        (0..self.tails.len())
            .map(|part| self.read_part(part, handler))
            .sum()
    }

    fn read_part(&mut self, part: usize, handler: &mut impl RecordHandler) -> u64 {
        let mut count = 0;
        while count < BATCH {
            if self.record(part, self.tails[part]).is_none() {
                break;
            }
            handler.take(Raw {
                source: self.source,
                data: &self.data,
            });
            self.tails[part] = self.tails[part].wrapping_add(1);
            count += 1;
        }
        if count > 0 {
            self.read += count;
            if let Some(tail) = self.memory.word(part * TAIL_STRIDE) {
                tail.store(self.tails[part], Ordering::Release);
            }
        }
        count
    }

    /// At the end nobody writes any more: what is behind a slot that was never finished is whole.
    fn read_past_gaps(&mut self, handler: &mut impl RecordHandler) {
        while self.read(handler) > 0 {}
        for part in 0..self.tails.len() {
            let (mut gap, mut at) = (0, self.tails[part]);
            let end = at.wrapping_add(self.capacity);
            while at != end {
                match self.record(part, at) {
                    Some(()) => {
                        handler.take(Raw {
                            source: self.source,
                            data: &self.data,
                        });
                        self.read += 1;
                        self.unfinished += gap;
                        gap = 0;
                    }
                    None => gap += 1,
                }
                at = at.wrapping_add(1);
            }
        }
    }
}

/// A file in memory, for as long as this lives.
struct Memory {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory; words that others write are read as atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// `None` until there is something in the file.
    fn map(path: &Path) -> Option<Memory> {
        let file = open_left(path, true).ok()?;
        let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
        if bytes < RING_DATA {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping of a file of our session.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                // All pages now: a fault for each would be what the reader does first.
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        (at != libc::MAP_FAILED).then_some(Memory {
            at: at.cast(),
            bytes,
        })
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        // SAFETY: within, and aligned, for slots are.
        (at.is_multiple_of(8) && at.checked_add(8)? <= self.bytes)
            .then(|| unsafe { &*self.at.add(at).cast() })
    }

    fn words(&self, at: usize, count: usize) -> Option<&[AtomicU64]> {
        let end = at.checked_add(count.checked_mul(8)?)?;
        // SAFETY: as above.
        (at.is_multiple_of(8) && end <= self.bytes)
            .then(|| unsafe { std::slice::from_raw_parts(self.at.add(at).cast(), count) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: ours alone.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}
