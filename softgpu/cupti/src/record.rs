//! Records as CUPTI 13.0 lays them out.

use crate::choice::{CONCURRENT_KERNEL, DRIVER, KERNEL, MEMCPY, MEMSET, OVERHEAD, SYNCHRONIZATION};
use crate::source::{self, Activity};

pub const API_BYTES: usize = 40;
pub const KERNEL_BYTES: usize = 216;
pub const MEMCPY_BYTES: usize = 96;
pub const MEMSET_BYTES: usize = 88;
pub const OVERHEAD_BYTES: usize = 56;
pub const SYNCHRONIZATION_BYTES: usize = 56;

/// The size of a record by its kind; None for kinds that are never written.
pub fn size(kind: u32) -> Option<usize> {
    Some(match kind {
        DRIVER => API_BYTES,
        KERNEL | CONCURRENT_KERNEL => KERNEL_BYTES,
        MEMCPY => MEMCPY_BYTES,
        MEMSET => MEMSET_BYTES,
        OVERHEAD => OVERHEAD_BYTES,
        SYNCHRONIZATION => SYNCHRONIZATION_BYTES,
        _ => return None,
    })
}

/// Bytes of one record, field by field.
pub struct ActivityRecord {
    bytes: [u8; KERNEL_BYTES],
    length: usize,
}

impl ActivityRecord {
    fn new(kind: u32) -> Option<Self> {
        let mut record = ActivityRecord {
            bytes: [0; KERNEL_BYTES],
            length: size(kind)?,
        };
        record.put(0, kind.to_le_bytes());
        Some(record)
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> &mut Self {
        self.bytes[at..at + N].copy_from_slice(&bytes);
        self
    }

    fn word(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, value.to_le_bytes())
    }

    fn long(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, value.to_le_bytes())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn of_call(call: &Activity, number: u32) -> Option<Self> {
        let mut record = ActivityRecord::new(DRIVER)?;
        record
            .word(4, number)
            .long(8, call.start)
            .long(16, call.end)
            .word(24, std::process::id())
            .word(28, call.thread)
            .word(32, call.correlation)
            .word(36, call.result);
        Some(record)
    }

    /// A flush of buffers took that long.
    pub fn of_flush(start: u64, end: u64) -> Option<Self> {
        const BUFFER_FLUSH: u32 = 1 << 16;
        let mut record = ActivityRecord::new(OVERHEAD)?;
        record.word(4, BUFFER_FLUSH).long(24, start).long(32, end);
        Some(record)
    }

    /// A call that waited, or made a stream wait.
    pub fn of_wait(wait: &Activity) -> Option<Self> {
        let mut record = ActivityRecord::new(SYNCHRONIZATION)?;
        record
            .word(4, wait.value)
            .long(8, wait.start)
            .long(16, wait.end)
            .word(24, wait.correlation)
            .word(28, wait.context)
            .word(32, wait.stream)
            .word(36, wait.node as u32)
            .long(40, u64::from(u32::MAX))
            .word(48, wait.result);
        Some(record)
    }

    /// Work of the device, as a record of that kind.
    pub fn of_work(work: &Activity, kind: u32) -> Option<Self> {
        let mut record = ActivityRecord::new(kind)?;
        match work.kind {
            source::KERNEL => record.kernel(work),
            source::COPY => record.copy(work),
            source::FILL => record.fill(work),
            _ => return None,
        }
        Some(record)
    }

    fn kernel(&mut self, work: &Activity) {
        self.put(6, (work.registers as u16).to_le_bytes())
            .long(16, work.start)
            .long(24, work.end)
            .long(32, work.end)
            .word(44, work.context)
            .word(48, work.stream);
        for (axis, (grid, block)) in work.grid.iter().zip(work.block).enumerate() {
            self.word(52 + 4 * axis, *grid).word(64 + 4 * axis, block);
        }
        self.word(76, work.static_shared)
            .word(80, work.dynamic_shared)
            .word(84, work.local)
            .word(92, work.correlation)
            .long(104, work.name as u64)
            .long(144, work.node)
            .word(156, work.graph);
    }

    fn copy(&mut self, work: &Activity) {
        // CUPTI_ACTIVITY_MEMCPY_KIND: HTOD 1, DTOH 2, DTOD 8, HTOH 9.
        let kind = match (work.from_device, work.to_device) {
            (false, true) => 1,
            (true, false) => 2,
            (true, true) => 8,
            (false, false) => 9,
        };
        // CUPTI_ACTIVITY_MEMORY_KIND: PAGEABLE 1, PINNED 2, DEVICE 3.
        let memory = |device: bool| match (device, work.pageable) {
            (true, _) => 3,
            (false, true) => 1,
            (false, false) => 2,
        };
        self.put(4, [kind, memory(work.from_device), memory(work.to_device)])
            .put(7, [u8::from(!work.blocking)])
            .long(8, work.bytes)
            .place(work)
            .long(64, work.node)
            .word(72, work.graph);
    }

    fn fill(&mut self, work: &Activity) {
        let memory: u16 = if work.to_device { 3 } else { 2 };
        self.word(4, work.value)
            .long(8, work.bytes)
            .place(work)
            .put(50, memory.to_le_bytes())
            .long(64, work.node)
            .word(72, work.graph);
    }

    /// What copies and fills have in common.
    fn place(&mut self, work: &Activity) -> &mut Self {
        self.long(16, work.start)
            .long(24, work.end)
            .word(36, work.context)
            .word(40, work.stream)
            .word(44, work.correlation)
    }
}
