//! What a process's GPU work was doing, moment by moment: how long any ran, and how long copies and communication ran with no
//! kernel beside them. Sums up to now, so that the difference of two moments is that of the time in between.

use event::{Category, Event};

/// Sums up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Active {
    /// At least one piece of work ran.
    pub busy_ns: u64,
    /// Copies ran, and no kernel that computes.
    pub exposed_copy_ns: u64,
    /// Communication ran, and no kernel that computes.
    pub exposed_communication_ns: u64,
}

impl Active {
    pub fn since(self, before: Active) -> Active {
        Active {
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            exposed_copy_ns: (self.exposed_copy_ns).saturating_sub(before.exposed_copy_ns),
            exposed_communication_ns: (self.exposed_communication_ns)
                .saturating_sub(before.exposed_communication_ns),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkKind {
    Compute,
    Copy,
    Communication,
}

impl WorkKind {
    pub fn of(event: &Event) -> WorkKind {
        match event.category {
            Category::Transfer => WorkKind::Copy,
            Category::Kernel if is_communication(&event.name) => WorkKind::Communication,
            _ => WorkKind::Compute,
        }
    }
}

/// Kernels of libraries that let GPUs talk to each other.
fn is_communication(kernel: &str) -> bool {
    ["nccl", "nvshmem", "cross_device_reduce"]
        .iter()
        .any(|word| kernel.contains(word))
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActivityMeter {
    at: u64,
    running: [u32; 3],
    sums: Active,
}

impl ActivityMeter {
    pub fn began(&mut self, at: u64, kind: WorkKind) {
        self.advance(at);
        self.running[kind as usize] += 1;
    }

    pub fn ended(&mut self, at: u64, kind: WorkKind) {
        self.advance(at);
        let running = &mut self.running[kind as usize];
        *running = running.saturating_sub(1);
    }

    /// Up to a moment; one that has passed already changes nothing.
    pub fn until(&mut self, at: u64) -> Active {
        self.advance(at);
        self.sums
    }

    fn advance(&mut self, at: u64) {
        let Some(passed) = at.checked_sub(self.at) else {
            return;
        };
        self.at = at;
        let [compute, copies, communication] = self.running;
        if compute + copies + communication > 0 {
            self.sums.busy_ns += passed;
        }
        if compute == 0 && copies > 0 {
            self.sums.exposed_copy_ns += passed;
        }
        if compute == 0 && communication > 0 {
            self.sums.exposed_communication_ns += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_alone_is_exposed() {
        let mut meter = ActivityMeter::default();
        meter.began(10, WorkKind::Copy);
        meter.began(20, WorkKind::Compute);
        meter.began(25, WorkKind::Communication);
        meter.ended(30, WorkKind::Copy);
        let middle = meter.until(40);
        assert_eq!((middle.busy_ns, middle.exposed_copy_ns), (30, 10));
        assert_eq!(middle.exposed_communication_ns, 0);
        meter.ended(50, WorkKind::Compute);
        meter.ended(57, WorkKind::Communication);
        // Late by a moment: time does not run backwards.
        meter.ended(55, WorkKind::Copy);
        let rest = meter.until(100).since(middle);
        assert_eq!((rest.busy_ns, rest.exposed_communication_ns), (17, 7));
    }
}
