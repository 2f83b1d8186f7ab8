//! Functions by the time they took, and the longest operations of all.

use crate::Brief;
use crate::{
    Ended, Longest, Quantiles, SpanHistory, SymbolId, Symbols, overview::failed,
    passed::FunctionPassed,
};
use event::{Category, Layer, Name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Functions, GPU kernels and single operations by their time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Functions {
    /// Everything that ran on the host, most total time first.
    pub functions: Vec<FunctionRow>,
    /// GPU work by short name: instances of one template that do the same to the same type of
    /// elements together. Most GPU time first, then most launches.
    pub kernels: Vec<KernelRow>,
    /// The longest single operations on the host.
    pub longest: Vec<Operation>,
    /// The longest single operations on the GPU.
    pub longest_gpu: Vec<Operation>,
}

/// One function, system call or driver function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRow {
    pub name: Name,
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    /// Calls, whether they ended or not.
    pub calls: u64,
    /// Of them, calls that returned an error.
    pub failed: u64,
    /// Of them, calls that never ended.
    pub open: u64,
    /// Time in the function; where it calls itself, the outer call's.
    pub total_ns: u64,
    /// Time in the function but in nothing it called.
    pub self_ns: u64,
    pub average_ns: u64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// The longest call.
    pub max_op_id: u64,
    /// The first call, and how long it took: often much longer than those after it.
    pub first_ns: u64,
    pub first_op_id: u64,
    /// The first call that failed.
    pub failed_op_id: Option<u64>,
    /// When the first call began.
    #[serde(skip)]
    pub first_start_ns: u64,
    /// From the first beginning of a call to the last end, of those without an end, too. None: they take no time.
    #[serde(skip)]
    pub range_ns: Option<(u64, u64)>,
    /// Of all calls, to compare two runs by.
    #[serde(skip)]
    pub durations: Quantiles,
}

/// GPU work of one short name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRow {
    /// The most frequent variant's, without template arguments. Several rows may share it.
    pub name: String,
    /// No other row has it.
    pub short_name: String,
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    /// Launches seen on the host.
    pub launches: u64,
    /// Executions seen on the GPU.
    pub executions: u64,
    /// Sum of the executions' times; they may overlap.
    pub total_ns: u64,
    pub average_ns: u64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub max_op_id: u64,
    /// The full names that are counted here, most frequent first, ten at most.
    pub variants: Vec<String>,
    pub variant_count: u64,
    /// Of all executions, to compare two runs by.
    #[serde(skip)]
    pub durations: Quantiles,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub op_id: u64,
    pub name: Name,
    /// Of work on the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<String>,
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    pub pid: u32,
    pub tid: u32,
    pub start_ns: u64,
    pub duration_ns: u64,
    pub self_ns: u64,
    pub depth: u32,
}

/// How many single operations are kept.
const LONGEST: usize = 100;
const MOST_VARIANTS: usize = 10;

pub(crate) struct FunctionsSweep {
    by_symbol: Vec<Stats>,
    longest: Longest<Single>,
    longest_gpu: Longest<Single>,
}

#[derive(Default, Clone)]
struct Stats {
    calls: u64,
    failed: u64,
    failed_op: Option<u64>,
    open: u64,
    total_ns: u64,
    self_ns: u64,
    launches: u64,
    max_op: u64,
    first: Option<First>,
    range: Option<(u64, u64)>,
    durations: Quantiles,
}

#[derive(Clone, Copy, Default)]
struct First {
    start: u64,
    op: u64,
    duration: u64,
}

#[derive(Clone, Copy)]
struct Single {
    op: u64,
    symbol: SymbolId,
    pid: u32,
    tid: u32,
    start: u64,
    duration: u64,
    self_ns: u64,
    depth: u32,
}

impl Default for FunctionsSweep {
    fn default() -> Self {
        FunctionsSweep {
            by_symbol: Vec::new(),
            longest: Longest::new(LONGEST),
            longest_gpu: Longest::new(LONGEST),
        }
    }
}

impl FunctionsSweep {
    #[inline]
    fn stats(&mut self, symbol: SymbolId) -> &mut Stats {
        let place = symbol as usize;
        if place >= self.by_symbol.len() {
            self.by_symbol.resize(place + 1, Stats::default());
        }
        &mut self.by_symbol[place]
    }

    /// A span on the host has ended.
    #[inline]
    pub fn end(&mut self, event: &Brief, ended: &Ended) {
        let duration = ended.duration_ns.unwrap_or(0);
        let stats = self.stats(ended.symbol);
        if ended.known == SpanHistory::GivenUp {
            stats.calls = stats.calls.saturating_sub(1);
            stats.open = stats.open.saturating_sub(1);
        }
        stats.add(duration, event);
        stats.self_ns = stats.self_ns.saturating_add(ended.self_ns);
        if !ended.recursive {
            stats.total_ns = stats.total_ns.saturating_add(ended.further_ns());
        }
        if self.longest.wants(duration) {
            let single = Single::of(event, ended.symbol, duration, ended.self_ns, ended.depth);
            self.longest.add(duration, single);
        }
    }

    /// A span was given up, or the trace ended in it.
    pub fn unended(&mut self, ended: &Ended) {
        let stats = self.stats(ended.symbol);
        stats.calls += 1;
        stats.open += 1;
        stats.widen(ended.start, ended.end);
        stats.self_ns = stats.self_ns.saturating_add(ended.self_ns);
        if !ended.recursive {
            stats.total_ns = stats.total_ns.saturating_add(ended.further_ns());
        }
    }

    pub fn instant(&mut self, event: &Brief, symbol: SymbolId) {
        let stats = self.stats(symbol);
        stats.calls += 1;
        stats.note_failure(event);
    }

    /// GPU work has ended.
    pub fn gpu(&mut self, event: &Brief, symbol: SymbolId, duration: u64) {
        let stats = self.stats(symbol);
        stats.add(duration, event);
        stats.total_ns = stats.total_ns.saturating_add(duration);
        if self.longest_gpu.wants(duration) {
            let single = Single::of(event, symbol, duration, duration, 0);
            self.longest_gpu.add(duration, single);
        }
    }

    /// A kernel was launched.
    #[inline]
    pub fn launch(&mut self, kernel: SymbolId) {
        self.stats(kernel).launches += 1;
    }

    /// What each symbol has taken so far.
    pub fn passed(&self) -> impl Iterator<Item = FunctionPassed> + '_ {
        self.by_symbol.iter().map(|stats| FunctionPassed {
            calls: stats.calls,
            total_ns: stats.total_ns,
            self_ns: stats.self_ns,
        })
    }

    pub fn passed_len(&self) -> usize {
        self.by_symbol.len()
    }

    pub fn finish(self, symbols: &Symbols) -> Functions {
        let mut functions = Vec::new();
        let mut kernels: HashMap<String, Kernel, ahash::RandomState> = HashMap::default();
        for (id, stats) in self.by_symbol.iter().enumerate() {
            let symbol = symbols.get(id as SymbolId);
            if symbol.layer == Layer::Gpu && stats.calls + stats.launches > 0 {
                let short = names::short_name(&symbol.name);
                let kernel = kernels.entry(short).or_insert_with(|| Kernel {
                    category: symbol.category,
                    stats: Stats::default(),
                    variants: Vec::new(),
                });
                kernel.merge(&symbol.name, stats);
            } else if stats.calls > 0 {
                functions.push(stats.row(symbol));
            }
        }
        functions.sort_by(|a, b| {
            (b.total_ns, b.calls)
                .cmp(&(a.total_ns, a.calls))
                .then_with(|| a.name.cmp(&b.name))
        });
        let mut kernels: Vec<KernelRow> = kernels
            .into_iter()
            .map(|(name, kernel)| kernel.row(name))
            .collect();
        kernels.sort_by(|a, b| {
            (b.total_ns, b.launches)
                .cmp(&(a.total_ns, a.launches))
                .then_with(|| a.short_name.cmp(&b.short_name))
        });
        let shown = |longest: Longest<Single>| {
            longest
                .into_sorted()
                .map(|single| single.operation(symbols))
                .collect()
        };
        Functions {
            functions,
            kernels,
            longest: shown(self.longest),
            longest_gpu: shown(self.longest_gpu),
        }
    }
}

impl Stats {
    #[inline]
    fn add(&mut self, duration: u64, event: &Brief) {
        self.calls += 1;
        if self.durations.count() == 0 || duration > self.durations.greatest() {
            self.max_op = event.id;
        }
        self.durations.add(duration);
        // By their beginnings: of nested or concurrent calls the later may end first.
        if self.first.is_none_or(|first| event.start < first.start) {
            self.first = Some(First {
                start: event.start,
                op: event.id,
                duration,
            });
        }
        self.widen(event.start, event.start.saturating_add(duration));
        self.note_failure(event);
    }

    #[inline]
    fn widen(&mut self, start: u64, end: u64) {
        let (from, to) = self.range.unwrap_or((start, end));
        self.range = Some((from.min(start), to.max(end)));
    }

    #[inline]
    fn note_failure(&mut self, event: &Brief) {
        if failed(event) {
            self.failed += 1;
            self.failed_op = self.failed_op.or(Some(event.id));
        }
    }

    fn average(&self) -> u64 {
        // Open calls have no duration, and recursive ones are in the total once: the mean of
        // what ended is what a reader expects beside the quantiles.
        let ended = self.durations.count();
        self.total_ns.checked_div(ended).unwrap_or(0)
    }

    fn row(&self, symbol: &crate::Symbol) -> FunctionRow {
        let first = self.first.unwrap_or_default();
        FunctionRow {
            name: symbol.name.clone(),
            layer: symbol.layer,
            category: symbol.category,
            calls: self.calls,
            failed: self.failed,
            open: self.open,
            total_ns: self.total_ns,
            self_ns: self.self_ns,
            average_ns: self.average(),
            min_ns: self.durations.least(),
            p50_ns: self.durations.quantile(0.5),
            p99_ns: self.durations.quantile(0.99),
            max_ns: self.durations.greatest(),
            max_op_id: self.max_op,
            first_ns: first.duration,
            first_op_id: first.op,
            failed_op_id: self.failed_op,
            first_start_ns: first.start,
            range_ns: self.range,
            durations: self.durations.clone(),
        }
    }
}

impl Single {
    fn of(event: &Brief, symbol: SymbolId, duration: u64, self_ns: u64, depth: u32) -> Self {
        Single {
            op: event.id,
            symbol,
            pid: event.pid,
            tid: event.tid,
            start: event.start,
            duration,
            self_ns,
            depth,
        }
    }

    fn operation(&self, symbols: &Symbols) -> Operation {
        let symbol = symbols.get(self.symbol);
        Operation {
            op_id: self.op,
            name: symbol.name.clone(),
            short_name: (symbol.layer == Layer::Gpu).then(|| names::short_name(&symbol.name)),
            layer: symbol.layer,
            category: symbol.category,
            pid: self.pid,
            tid: self.tid,
            start_ns: self.start,
            duration_ns: self.duration,
            self_ns: self.self_ns,
            depth: self.depth,
        }
    }
}

/// Kernels of one short name.
struct Kernel {
    category: Category,
    stats: Stats,
    variants: Vec<(u64, Name)>,
}

impl Kernel {
    fn merge(&mut self, name: &Name, stats: &Stats) {
        let all = &mut self.stats;
        if stats.durations.count() > 0
            && (all.durations.count() == 0 || stats.durations.greatest() > all.durations.greatest())
        {
            all.max_op = stats.max_op;
        }
        all.calls += stats.calls;
        all.launches += stats.launches;
        all.total_ns = all.total_ns.saturating_add(stats.total_ns);
        all.durations.merge(&stats.durations);
        self.variants
            .push((stats.calls.max(stats.launches), name.clone()));
    }

    fn row(mut self, short_name: String) -> KernelRow {
        self.variants
            .sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let stats = &self.stats;
        let first = self.variants.first();
        KernelRow {
            name: first.map_or_else(String::new, |(_, name)| names::base_name(name)),
            short_name,
            category: self.category,
            launches: stats.launches,
            executions: stats.calls,
            total_ns: stats.total_ns,
            average_ns: stats.average(),
            min_ns: stats.durations.least(),
            p50_ns: stats.durations.quantile(0.5),
            p99_ns: stats.durations.quantile(0.99),
            max_ns: stats.durations.greatest(),
            max_op_id: stats.max_op,
            variant_count: self.variants.len() as u64,
            durations: stats.durations.clone(),
            variants: (self.variants.iter())
                .take(MOST_VARIANTS)
                .map(|(_, name)| names::demangled(name).into_owned())
                .collect(),
        }
    }
}
