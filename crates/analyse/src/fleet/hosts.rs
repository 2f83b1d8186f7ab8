//! Hosts of a run beside each other and beside an earlier run, and what their GPUs were sampled at.

use super::{IDLE, WORTH};
use crate::{
    Quantiles,
    diff::{Significance, Verdict, compare},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host whose GPUs run at less than this part of what those of other hosts run at is slow.
const SLOW_CLOCK: f64 = 0.9;
/// Samples in which a GPU was throttled, as a part of all: above, it is worth a word.
const THROTTLED: f64 = 0.05;

/// How often kernels of a host took about so long, as a part of what each usually takes, in ten thousandths.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HostTimes {
    pub run: String,
    pub host: String,
    pub value: u64,
    pub n: u64,
    /// How long they took together, and how long they would as usual.
    pub took_ns: f64,
    pub usual_ns: f64,
}

/// The kernels of one host, or of several.
#[derive(Debug, Clone, Default)]
struct Kernels {
    quantiles: Quantiles,
    took_ns: f64,
    usual_ns: f64,
}

impl Kernels {
    fn merge(&mut self, other: &Kernels) {
        self.quantiles.merge(&other.quantiles);
        self.took_ns += other.took_ns;
        self.usual_ns += other.usual_ns;
    }

    /// By which part they take longer than others, each kernel beside its like.
    fn slower_than(&self, other: &Kernels) -> Option<f64> {
        let pace = |kernels: &Kernels| {
            (kernels.usual_ns > 0.0).then(|| kernels.took_ns / kernels.usual_ns)
        };
        let usual = pace(other).filter(|pace| *pace > 0.0)?;
        Some(pace(self)? / usual - 1.0)
    }
}

/// One GPU of one rank of a run, as an engine sums it up. What was not recorded is None.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GpuRow {
    pub run: String,
    pub host: String,
    pub rank: i64,
    pub device: Option<u32>,
    /// From its first work to the end of its last.
    pub span_ns: Option<u64>,
    pub busy_ns: Option<u64>,
    /// While it worked.
    pub clock_mhz: Option<f64>,
    pub samples: Option<u64>,
    pub throttled: Option<u64>,
    pub power_limited: Option<u64>,
    pub watched: Option<u64>,
    pub hottest_c: Option<i64>,
    pub ecc_corrected: Option<i64>,
    pub ecc_uncorrected: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuState {
    pub host: String,
    pub rank: i64,
    pub device: Option<u32>,
    /// None: it never worked.
    pub busy_ns: Option<u64>,
    pub span_ns: Option<u64>,
    pub idle_share: Option<f64>,
}

impl GpuState {
    pub(super) fn of(row: &GpuRow) -> Self {
        let span = row.span_ns.filter(|span| *span > 0);
        let share = span.map(|span| 1.0 - row.busy_ns.unwrap_or(0) as f64 / span as f64);
        GpuState {
            host: row.host.clone(),
            rank: row.rank,
            device: row.device,
            busy_ns: row.busy_ns,
            span_ns: row.span_ns,
            idle_share: share,
        }
    }

    /// Also one that never worked.
    pub fn is_idle(&self) -> bool {
        self.busy_ns.is_none() || self.idle_share.is_some_and(|share| share > IDLE)
    }

    pub(super) fn place(&self) -> (&str, i64, Option<u32>) {
        (&self.host, self.rank, self.device)
    }
}

/// Why a host is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Complaint {
    /// Its kernels take longer than those of the run's other hosts, by this part.
    SlowerThanOthers { by: f64 },
    /// They take longer than in the run before.
    SlowerThanBefore { by: f64 },
    /// Its GPUs' clock while they work, and that of the other hosts.
    SlowClock { mhz: f64, others_mhz: f64 },
    /// In this part of the samples heat or the hardware's guard slowed a GPU down.
    Throttled { share: f64 },
    /// Errors during the run.
    Ecc { corrected: i64, uncorrected: i64 },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostState {
    pub host: String,
    pub complaints: Vec<Complaint>,
    /// Its kernels beside the same kernels on the run's other hosts; None for the only host.
    pub beside_others: Option<Significance>,
    pub slower_than_others: Option<f64>,
    /// Its kernels beside the same kernels here in the run before.
    pub beside_before: Option<Significance>,
    pub slower_than_before: Option<f64>,
    pub clock_mhz: Option<f64>,
    pub throttled_share: Option<f64>,
    pub power_limited_share: Option<f64>,
    pub hottest_c: Option<i64>,
    pub ecc_corrected: Option<i64>,
    pub ecc_uncorrected: Option<i64>,
}

/// Of every host of a run.
pub(super) fn states(
    run: &str,
    base: Option<&str>,
    times: &[HostTimes],
    gpus: &[GpuRow],
) -> Vec<HostState> {
    let of = |run: &str| {
        let mut hosts: BTreeMap<&str, Kernels> = BTreeMap::new();
        for row in times.iter().filter(|row| row.run == run) {
            let kernels = hosts.entry(&row.host).or_default();
            kernels.quantiles.add_many(row.value, row.n);
            kernels.took_ns += row.took_ns;
            kernels.usual_ns += row.usual_ns;
        }
        hosts
    };
    let (now, before) = (of(run), base.map(of).unwrap_or_default());
    let mut hosts: BTreeMap<&str, HostState> = BTreeMap::new();
    let named = gpus.iter().filter(|gpu| gpu.run == run);
    let named = named.map(|gpu| gpu.host.as_str());
    for host in now.keys().copied().chain(named) {
        hosts
            .entry(host)
            .or_insert_with(|| beside(host, &now, &before));
    }
    for (host, state) in &mut hosts {
        let own: Vec<&GpuRow> = (gpus.iter())
            .filter(|gpu| gpu.run == run && gpu.host == *host)
            .collect();
        sampled(state, &own);
    }
    clocks(&mut hosts);
    let mut states: Vec<HostState> = hosts.into_values().collect();
    for state in &mut states {
        complain(state);
    }
    states.sort_by(|one, other| {
        let slower = |state: &HostState| state.slower_than_others.unwrap_or(0.0);
        (other.complaints.len().cmp(&one.complaints.len()))
            .then(slower(other).total_cmp(&slower(one)))
            .then_with(|| one.host.cmp(&other.host))
    });
    states
}

/// A host's kernels beside those of others, and of before.
fn beside(
    host: &str,
    now: &BTreeMap<&str, Kernels>,
    before: &BTreeMap<&str, Kernels>,
) -> HostState {
    let own = now.get(host);
    let mut others = Kernels::default();
    for (_, kernels) in now.iter().filter(|(name, _)| **name != host) {
        others.merge(kernels);
    }
    let pair = |reference: Option<&Kernels>| {
        let (own, reference) = (own?, reference?);
        let found = compare(&reference.quantiles, &own.quantiles);
        Some((found, own.slower_than(reference)?))
    };
    let (others, before) = (pair(Some(&others)), pair(before.get(host)));
    HostState {
        host: host.to_owned(),
        complaints: Vec::new(),
        beside_others: others.map(|(found, _)| found),
        slower_than_others: others.map(|(_, by)| by),
        beside_before: before.map(|(found, _)| found),
        slower_than_before: before.map(|(_, by)| by),
        clock_mhz: None,
        throttled_share: None,
        power_limited_share: None,
        hottest_c: None,
        ecc_corrected: None,
        ecc_uncorrected: None,
    }
}

/// What its GPUs were sampled at.
fn sampled(state: &mut HostState, gpus: &[&GpuRow]) {
    let clocks: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.clock_mhz).collect();
    if !clocks.is_empty() {
        state.clock_mhz = Some(clocks.iter().sum::<f64>() / clocks.len() as f64);
    }
    let sum =
        |of: fn(&GpuRow) -> Option<u64>| -> u64 { gpus.iter().filter_map(|gpu| of(gpu)).sum() };
    let watched = sum(|gpu| gpu.watched);
    if watched > 0 {
        let share = |of: fn(&GpuRow) -> Option<u64>| sum(of) as f64 / watched as f64;
        state.throttled_share = Some(share(|gpu| gpu.throttled));
        state.power_limited_share = Some(share(|gpu| gpu.power_limited));
    }
    state.hottest_c = gpus.iter().filter_map(|gpu| gpu.hottest_c).max();
    let total = |of: fn(&GpuRow) -> Option<i64>| {
        let counts: Vec<i64> = gpus.iter().filter_map(|gpu| of(gpu)).collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    };
    state.ecc_corrected = total(|gpu| gpu.ecc_corrected);
    state.ecc_uncorrected = total(|gpu| gpu.ecc_uncorrected);
}

/// Compares each host's clock with the median of the others.
fn clocks(hosts: &mut BTreeMap<&str, HostState>) {
    let known: Vec<(String, f64)> = (hosts.values())
        .filter_map(|state| Some((state.host.clone(), state.clock_mhz?)))
        .collect();
    for state in hosts.values_mut() {
        let Some(mhz) = state.clock_mhz else {
            continue;
        };
        let mut others: Vec<f64> = (known.iter())
            .filter(|(host, _)| *host != state.host)
            .map(|(_, mhz)| *mhz)
            .collect();
        others.sort_by(f64::total_cmp);
        if let Some(&others_mhz) = others.get(others.len() / 2)
            && mhz < SLOW_CLOCK * others_mhz
        {
            state
                .complaints
                .push(Complaint::SlowClock { mhz, others_mhz });
        }
    }
}

fn complain(state: &mut HostState) {
    let slower = |found: &Option<Significance>, by: Option<f64>| {
        let slower = found.is_some_and(|found| found.verdict == Verdict::Slower);
        by.filter(|by| slower && *by > WORTH)
    };
    let mut complaints = Vec::new();
    if let Some(by) = slower(&state.beside_others, state.slower_than_others) {
        complaints.push(Complaint::SlowerThanOthers { by });
    }
    if let Some(by) = slower(&state.beside_before, state.slower_than_before) {
        complaints.push(Complaint::SlowerThanBefore { by });
    }
    if let Some(share) = state.throttled_share.filter(|share| *share > THROTTLED) {
        complaints.push(Complaint::Throttled { share });
    }
    let (corrected, uncorrected) = (
        state.ecc_corrected.unwrap_or(0),
        state.ecc_uncorrected.unwrap_or(0),
    );
    if corrected > 0 || uncorrected > 0 {
        complaints.push(Complaint::Ecc {
            corrected,
            uncorrected,
        });
    }
    complaints.append(&mut state.complaints);
    state.complaints = complaints;
}
