//! How much of everything a trace holds, in constant space but for the spans that are open.

use event::{Event, Extent, Kind, Layer, MemoryOp, Record, What};
use std::collections::HashSet;

/// What the end of a run says. Every number is a count, or a sum, of records in the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of the runtime and of the driver API, whether they returned or not.
    pub api_calls: u64,
    /// Of them, those that returned an error.
    pub failed_calls: u64,
    /// Calls into other libraries.
    pub library_calls: u64,
    pub launches: u64,
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub transfers: u64,
    pub transferred_bytes: u64,
    pub ioctls: u64,
    /// Nanoseconds in ioctls.
    pub ioctl_time: u64,
    pub scheduler_calls: u64,
    /// Functions of the kernel driver.
    pub kernel_calls: u64,
    /// Kernels, copies and memsets with GPU time.
    pub gpu_operations: u64,
    pub lost: u64,
    /// Spans that have begun and not ended.
    open: HashSet<u64, ahash::RandomState>,
}

/// The counts of a whole trace.
pub fn counts<'a>(records: impl IntoIterator<Item = &'a Record>) -> Counts {
    let mut counts = Counts::default();
    for record in records {
        counts.add(record);
    }
    counts
}

impl Counts {
    /// Counts one record more. A span counts once, however many records it has.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => self.meaning(&meaning.what),
            Record::Lost(lost) => self.lost = self.lost.saturating_add(lost.count),
        }
    }

    /// Spans that have not ended.
    pub fn open_spans(&self) -> u64 {
        self.open.len() as u64
    }

    /// Whether anything of the kernel driver was traced.
    pub fn has_kernel(&self) -> bool {
        self.ioctls + self.scheduler_calls + self.kernel_calls > 0
    }

    fn event(&mut self, event: &Event) {
        let first = match event.extent {
            Extent::Open => self.open.insert(event.id),
            Extent::Closed(_) => !self.open.remove(&event.id),
            Extent::Instant => true,
        };
        if first {
            *match event.kind {
                Kind::Userspace if event.layer == Layer::Library => &mut self.library_calls,
                Kind::Userspace => &mut self.api_calls,
                Kind::Ioctl => &mut self.ioctls,
                Kind::Scheduler => &mut self.scheduler_calls,
                Kind::Kernel | Kind::KernelMem => &mut self.kernel_calls,
                Kind::Gpu => &mut self.gpu_operations,
                Kind::Syscall
                | Kind::Interrupt
                | Kind::GpuComplete
                | Kind::GpuMem
                | Kind::Device => return,
            } += 1;
        }
        if let Extent::Closed(duration) = event.extent {
            if event.kind == Kind::Ioctl {
                self.ioctl_time = self.ioctl_time.saturating_add(duration);
            }
            let failed = event.status.as_ref().is_some_and(|status| status.code != 0);
            let api = matches!(event.layer, Layer::Runtime | Layer::Driver);
            self.failed_calls += u64::from(failed && api);
        }
    }

    fn meaning(&mut self, what: &What) {
        match what {
            What::Memory(memory) if memory.op == MemoryOp::Alloc => {
                self.allocations += 1;
                let size = memory.size.unwrap_or(0);
                self.allocated_bytes = self.allocated_bytes.saturating_add(size);
            }
            What::Memory(_) => self.frees += 1,
            What::Transfer(transfer) => {
                self.transfers += 1;
                self.transferred_bytes = self.transferred_bytes.saturating_add(transfer.size);
            }
            What::Launch(_) => self.launches += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{
        Category, Direction, Launch, Lost, Meaning, Memory, MemorySpace, Status, Transfer,
    };

    fn span(id: u64, layer: Layer) -> Event {
        let mut event = Event::new(id, layer, Category::Other, "f", 10 * id);
        event.extent = Extent::Open;
        event
    }

    fn closed(mut event: Event, duration: u64, code: i64) -> Event {
        event.extent = Extent::Closed(duration);
        event.status = Some(Status { code, name: None });
        event
    }

    #[test]
    fn spans_count_once_whether_given_whole_or_in_halves() {
        let halves = [
            span(1, Layer::Driver).into(),
            closed(span(1, Layer::Driver), 5, 2).into(),
            span(2, Layer::Runtime).into(),
            closed(span(3, Layer::Runtime), 5, 0).into(),
            span(4, Layer::Library).into(),
        ];
        let counts = counts(&halves);
        assert_eq!((counts.api_calls, counts.failed_calls), (3, 1));
        assert_eq!((counts.library_calls, counts.open_spans()), (1, 2));
    }

    #[test]
    fn meanings_and_the_kernel_side_add_up() {
        let call = closed(span(1, Layer::Driver), 5, 0);
        let memory = |op, size| {
            let memory = Memory {
                op,
                size,
                ptr: 1,
                space: Some(MemorySpace::Device),
            };
            Record::from(Meaning::of(&call, What::Memory(memory)))
        };
        let mut ioctl = closed(span(9, Layer::Syscall), 700, 0);
        ioctl.kind = Kind::Ioctl;
        let records = [
            memory(MemoryOp::Alloc, Some(100)),
            memory(MemoryOp::Alloc, None),
            memory(MemoryOp::Free, Some(100)),
            Meaning::of(
                &call,
                What::Transfer(Transfer {
                    direction: Direction::HostToDevice,
                    size: 64,
                    duration: None,
                    src: None,
                    dst: None,
                }),
            )
            .into(),
            Meaning::of(
                &call,
                What::Launch(Launch {
                    kernel: "k".into(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared: 0,
                }),
            )
            .into(),
            ioctl.into(),
            Lost {
                ts: 1,
                count: 3,
                source: None,
                layer: None,
                pid: None,
                tid: None,
            }
            .into(),
        ];
        let counts = counts(&records);
        assert_eq!(
            (counts.allocations, counts.allocated_bytes, counts.frees),
            (2, 100, 1)
        );
        assert_eq!((counts.transfers, counts.transferred_bytes), (1, 64));
        assert_eq!((counts.launches, counts.lost), (1, 3));
        assert_eq!((counts.ioctls, counts.ioctl_time), (1, 700));
        assert!(counts.has_kernel() && counts.api_calls == 0);
    }
}
