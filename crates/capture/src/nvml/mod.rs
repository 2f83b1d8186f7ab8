//! What GPUs do, sampled ten times a second through NVML: utilisation, memory, power, clocks, PCIe.
//! By the tracer, not by the program: the library is loaded here if it is there.

mod library;
mod source;

pub use library::{NvmlError, available};
pub use source::NVML;

use crate::clock::monotonic;
use crate::{Deadline, Sink, SinkError};
use event::{Arg, Backend, Category, Event, Kind, Layer, Record};
use library::{Health, Library, Sample};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// From one sample to the next.
const PERIOD: u64 = 100_000_000;
/// Every so many rounds, and at the end, errors are counted.
const HEALTH: usize = 10;

/// Samples until it is asked to stop.
pub struct Sampler<S> {
    /// Dropped to stop.
    stop: Sender<()>,
    thread: JoinHandle<(S, NvmlReport)>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct NvmlReport {
    pub gpus: usize,
    pub samples: u64,
    /// Why there are none.
    pub refused: Option<NvmlError>,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

impl<S: Sink> Sampler<S> {
    pub fn start(sink: S, deadline: Deadline) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let body = move || {
            crate::launch::block_signals();
            let mut sampling = Sampling {
                sink,
                deadline,
                next_id: 1,
                report: NvmlReport::default(),
            };
            sampling.begin();
            // It takes a moment, which the program need not wait for.
            match Library::open() {
                Ok(library) => sampling.run(&library, &stopped),
                Err(why) => sampling.report.refused = Some(why),
            }
            (sampling.sink, sampling.report)
        };
        let thread = std::thread::Builder::new()
            .name("cutrace-nvml".into())
            .spawn(body)?;
        Ok(Sampler { stop, thread })
    }

    pub fn finish(self) -> (S, NvmlReport) {
        drop(self.stop);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Sampling<S> {
    sink: S,
    deadline: Deadline,
    next_id: u64,
    report: NvmlReport,
}

impl<S: Sink> Sampling<S> {
    fn begin(&mut self) {
        let backend = Backend {
            name: "nvml".into(),
            ..Backend::default()
        };
        if let Err(why) = self.sink.begin(backend) {
            self.report.failure = Some(why);
        }
    }

    fn run(&mut self, library: &Library, stopped: &Receiver<()>) {
        self.report.gpus = library.gpus();
        let mut due = monotonic();
        for round in 0.. {
            self.round(library, Some(round));
            due += PERIOD;
            let now = monotonic();
            // A round that took too long is not made up for.
            due = due.max(now);
            let rest = Duration::from_nanos(due - now);
            if stopped.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        // The program has ended: as things are then, without delay.
        self.round(library, None);
    }

    /// One sample of each GPU. What PCIe carries takes long to measure: one GPU's in a round.
    fn round(&mut self, library: &Library, round: Option<usize>) {
        let gpus = library.gpus();
        let now = monotonic();
        if self.deadline.leaves_out(now) {
            self.sink.until(now);
            return;
        }
        for gpu in 0..gpus {
            let sample = library.sample(gpu);
            let (rx, tx) = match round {
                Some(round) if round % gpus == gpu => library.pcie(gpu),
                _ => (None, None),
            };
            let health = match round {
                Some(round) if round % HEALTH != 0 => Health::default(),
                _ => library.health(gpu),
            };
            self.write(gpu, &sample, &health, rx, tx);
        }
        self.sink.until(monotonic());
    }

    fn write(
        &mut self,
        gpu: usize,
        sample: &Sample,
        health: &Health,
        rx: Option<u64>,
        tx: Option<u64>,
    ) {
        let values = [
            ("gpu_percent", sample.gpu_percent),
            ("memory_percent", sample.memory_percent),
            ("memory_used_bytes", sample.memory_used),
            ("power_mw", sample.power_mw),
            ("sm_clock_mhz", sample.sm_clock_mhz),
            ("memory_clock_mhz", sample.memory_clock_mhz),
            ("temperature_c", sample.temperature),
            ("clock_limits", sample.clock_limits),
            ("sm_clock_max_mhz", health.sm_clock_max_mhz),
            ("ecc_corrected", health.ecc_corrected),
            ("ecc_uncorrected", health.ecc_uncorrected),
            ("pcie_rx_bytes_per_s", rx),
            ("pcie_tx_bytes_per_s", tx),
        ];
        let known = values
            .into_iter()
            .filter_map(|(name, value)| Some(Arg::new(name, value?)));
        let args: Vec<Arg> = known.collect();
        if args.is_empty() {
            return;
        }
        let mut event = Event::new(
            self.next_id,
            Layer::Gpu,
            Category::Other,
            "nvml",
            monotonic(),
        );
        event.kind = Kind::Counter;
        event.device = u32::try_from(gpu).ok();
        event.args = args;
        self.next_id += 1;
        self.report.samples += 1;
        if self.report.failure.is_some() {
            self.report.unwritten += 1;
        } else if let Err(why) = self.sink.give(Record::Event(event)) {
            self.report.unwritten += 1;
            self.report.failure = Some(why);
        }
    }
}
