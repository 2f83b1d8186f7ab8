//! One run of a lake as `diff` compares it: durations by function and kernel.

use super::{GpuRow, RunHead};
use crate::{
    Analysis, Quantiles, Report,
    functions::{FunctionRow, KernelRow},
};
use event::{Category, Layer, Meta};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What has a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Function,
    Kernel,
}

/// How often something took about so long, as an engine counts it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TimesRow {
    pub run: String,
    pub what: What,
    pub layer: String,
    pub name: String,
    /// A duration of that bucket.
    pub value: u64,
    pub n: u64,
    pub total_ns: u64,
    pub max_ns: u64,
}

/// The durations of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTimes {
    pub head: RunHead,
    times: BTreeMap<(What, String, Layer), Durations>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Durations {
    quantiles: Quantiles,
    total_ns: u64,
    max_ns: u64,
    /// The first of the full names that are counted here.
    name: String,
}

impl RunTimes {
    pub fn new(head: RunHead) -> Self {
        RunTimes {
            head,
            times: BTreeMap::new(),
        }
    }

    /// Adds a row of this run; those of others are left out.
    pub fn add(&mut self, row: &TimesRow) {
        let Ok(layer) = row.layer.parse() else {
            return;
        };
        if row.run != self.head.run {
            return;
        }
        // As reports name kernels: instances of one template together.
        let name = match row.what {
            What::Function => row.name.clone(),
            What::Kernel => crate::short_name(&row.name),
        };
        let times = self.times.entry((row.what, name, layer)).or_default();
        if times.name.is_empty() {
            times.name.clone_from(&row.name);
        }
        times.quantiles.add_many(row.value, row.n);
        times.total_ns = times.total_ns.saturating_add(row.total_ns);
        times.max_ns = times.max_ns.max(row.max_ns);
    }

    /// The report of a run, as far as a lake tells it.
    pub fn report(&self, gpus: &[GpuRow]) -> Report {
        let head = &self.head;
        let meta = Meta {
            command: vec![head.command.clone()],
            ..Meta::default()
        };
        let mut report = Analysis::new(&meta).finish(None);
        let overview = &mut report.overview;
        overview.wall_ns = head.wall_ns;
        overview.events = head.events;
        overview.lost = head.lost;
        overview.simulated = head.simulated;
        for gpu in gpus.iter().filter(|gpu| gpu.run == head.run) {
            let idle = &mut report.idle.all;
            let (busy, span) = (gpu.busy_ns.unwrap_or(0), gpu.span_ns.unwrap_or(0));
            idle.busy_ns = idle.busy_ns.saturating_add(busy);
            idle.idle_ns = (idle.idle_ns).saturating_add(span.saturating_sub(busy));
        }
        for ((what, name, layer), times) in &self.times {
            match what {
                What::Function => report
                    .functions
                    .functions
                    .push(times.function(name, *layer)),
                What::Kernel => report.functions.kernels.push(times.kernel(name)),
            }
        }
        report
    }
}

impl Durations {
    fn average(&self) -> u64 {
        self.total_ns / self.quantiles.count().max(1)
    }

    fn function(&self, name: &str, layer: Layer) -> FunctionRow {
        let quantiles = &self.quantiles;
        FunctionRow {
            name: name.into(),
            layer,
            category: Category::Other,
            calls: quantiles.count(),
            failed: 0,
            open: 0,
            total_ns: self.total_ns,
            self_ns: self.total_ns,
            average_ns: self.average(),
            min_ns: quantiles.least(),
            p50_ns: quantiles.quantile(0.5),
            p99_ns: quantiles.quantile(0.99),
            max_ns: self.max_ns,
            max_op_id: 0,
            first_ns: 0,
            first_op_id: 0,
            failed_op_id: None,
            first_start_ns: 0,
            range_ns: None,
            durations: quantiles.clone(),
        }
    }

    fn kernel(&self, short: &str) -> KernelRow {
        let quantiles = &self.quantiles;
        KernelRow {
            name: self.name.clone(),
            short_name: short.to_owned(),
            category: Category::Kernel,
            launches: 0,
            executions: quantiles.count(),
            total_ns: self.total_ns,
            average_ns: self.average(),
            min_ns: quantiles.least(),
            p50_ns: quantiles.quantile(0.5),
            p99_ns: quantiles.quantile(0.99),
            max_ns: self.max_ns,
            max_op_id: 0,
            variants: vec![self.name.clone()],
            variant_count: 1,
            durations: quantiles.clone(),
        }
    }
}
