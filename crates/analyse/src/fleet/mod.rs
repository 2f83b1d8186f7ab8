//! Runs of a fleet side by side: what regressed, which hosts are slow or ailing, which GPUs idle.
//!
//! Everything is computed from durations that were counted by an engine over a lake; the statistics are those of
//! [`crate::diff`].

mod hosts;
mod run;

pub use hosts::{Complaint, GpuRow, GpuState, HostState, HostTimes};
pub use run::{RunTimes, TimesRow, What};

use crate::diff::{CheckError, Conditions, Diff, Outcome, Unit, Verdict};
use serde::Serialize;

/// A GPU that worked less than this part of the time between its first and its last work is idle.
pub const IDLE: f64 = 0.5;

/// What is said of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fleet {
    /// The run that is looked at.
    pub new: RunHead,
    /// What it is compared with.
    pub base: Option<RunHead>,
    /// Functions and kernels, from base to new.
    pub diff: Option<Diff>,
    /// Those with something to complain about first.
    pub hosts: Vec<HostState>,
    /// The most idle first.
    pub gpus: Vec<GpuState>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunHead {
    pub run: String,
    pub recordings: u64,
    pub hosts: u64,
    /// Nanoseconds since 1970.
    pub start_ns: i64,
    pub wall_ns: u64,
    pub events: u64,
    pub lost: u64,
    pub simulated: bool,
    pub command: String,
}

/// Puts it together. `hosts` and `gpus` are of both runs.
pub fn fleet(
    new: &RunTimes,
    base: Option<&RunTimes>,
    hosts: &[HostTimes],
    gpus: &[GpuRow],
) -> Fleet {
    let reports = base.map(|base| (base.report(gpus), new.report(gpus)));
    let base_run = base.map(|base| base.head.run.as_str());
    let mut states: Vec<GpuState> = (gpus.iter())
        .filter(|gpu| gpu.run == new.head.run)
        .map(GpuState::of)
        .collect();
    states.sort_by(|one, other| {
        let share = |gpu: &GpuState| gpu.idle_share.unwrap_or(1.0);
        (share(other).total_cmp(&share(one))).then_with(|| one.place().cmp(&other.place()))
    });
    Fleet {
        diff: reports
            .as_ref()
            .map(|(base, new)| crate::diff::diff(base, new)),
        hosts: hosts::states(&new.head.run, base_run, hosts, gpus),
        gpus: states,
        new: new.head.clone(),
        base: base.map(|base| base.head.clone()),
    }
}

impl Fleet {
    /// Functions and kernels whose single calls take significantly longer than before, by more than a twentieth.
    pub fn slower(&self) -> u64 {
        let Some(diff) = &self.diff else {
            return 0;
        };
        let rows = diff.kernels.iter().chain(&diff.functions);
        rows.filter(|row| is_slower(row)).count() as u64
    }

    pub fn bad_hosts(&self) -> u64 {
        let bad = |host: &&HostState| !host.complaints.is_empty();
        self.hosts.iter().filter(bad).count() as u64
    }

    pub fn idle_gpus(&self) -> u64 {
        self.gpus.iter().filter(|gpu| gpu.is_idle()).count() as u64
    }

    /// Whether conditions hold: of `slower.count`, `bad_hosts.count`, `idle_gpus.count`, and of what `diff` knows.
    pub fn check(
        &self,
        conditions: &Conditions,
        new: &RunTimes,
        base: Option<&RunTimes>,
        gpus: &[GpuRow],
    ) -> Result<Vec<Outcome>, CheckError> {
        let nothing = RunTimes::default();
        let reports = (base.unwrap_or(&nothing).report(gpus), new.report(gpus));
        let one = |condition: &crate::diff::Condition| {
            let count = match condition.metric() {
                ("slower", Some("count")) => self.slower(),
                ("bad_hosts", Some("count")) => self.bad_hosts(),
                ("idle_gpus", Some("count")) => self.idle_gpus(),
                _ => return condition.check(&reports.0, &reports.1),
            };
            condition.of(0, count, Unit::Count)
        };
        conditions.0.iter().map(one).collect()
    }
}

/// A change that is beyond chance may still be too small to matter.
const WORTH: f64 = 0.05;

/// Whether single calls are slower by enough to be worth a word.
pub fn is_slower(row: &crate::diff::FunctionChange) -> bool {
    row.significance.verdict == Verdict::Slower && row.p50.relative.is_some_and(|part| part > WORTH)
}

/// Whether they are faster.
pub fn is_faster(row: &crate::diff::FunctionChange) -> bool {
    row.significance.verdict == Verdict::Faster
        && row.p50.relative.is_some_and(|part| part < -WORTH)
}
