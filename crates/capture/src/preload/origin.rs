//! Traced processes, as what they write of themselves, with the clock that their times are in.

use super::clock::TscClock;
use super::process::{Processes, TimeSource};
use super::report;
use crate::call::loaded::Objects;
use crate::call::{Named, Origin};
use event::Backend;

pub struct Traced {
    pub processes: Processes,
    pub clock: TscClock,
}

impl Origin for Traced {
    type Times = TimeSource;

    fn name(&self) -> &'static str {
        "preload"
    }

    fn backend(&self) -> Backend {
        report::backend(&report::libraries(&self.processes))
    }

    fn refresh(&mut self) {
        self.processes.refresh();
    }

    fn image_at(&self, pid: u32, time: u64) -> Option<usize> {
        self.processes.image_at(pid, time)
    }

    fn times(&self, image: Option<usize>) -> TimeSource {
        image.map_or(TimeSource::Tsc, |image| {
            self.processes.time_source(image, &self.clock)
        })
    }

    fn to_host(&self, times: &TimeSource, time: u64) -> u64 {
        match times {
            TimeSource::Tsc => self.clock.to_host(time),
            TimeSource::Host => time,
            TimeSource::Own(map) => map.to_host(time).unwrap_or(time),
        }
    }

    fn function(&self, image: usize, id: u32) -> Option<Named> {
        self.processes.function(image, u16::try_from(id).ok()?)
    }

    fn parent(&self, image: usize) -> Option<u32> {
        Some(self.processes.images().get(image)?.parent)
    }

    fn objects(&self, image: usize) -> Option<&Objects> {
        Some(&self.processes.images().get(image)?.objects)
    }
}
