//! The numbers of one scrape: taken from the totals at once, so that the run does not wait for the network.

use super::{
    encode,
    labels::{Labels, OTHER},
    otlp::Spans,
};
use crate::commands::live::{Watch, Whose, processor_time};
use analyse::live::{Histogram, Sums};
use event::{Direction, Layer};
use prometheus_client::{collector, encoding::DescriptorEncoder};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Processes with labels of their own, those with the most calls; the rest is 'other'.
const MOST_PROCESSES: usize = 64;
/// Errors of one process by function and result.
const MOST_ERRORS: usize = 20;
/// A label's length, in characters: names of kernels may have thousands.
const LONGEST: usize = 120;

pub struct Collector {
    watch: Arc<Watch>,
    spans: Option<Spans>,
    known: Mutex<Known>,
}

/// What is remembered from scrape to scrape.
struct Known {
    functions: Labels,
    kernels: Labels,
    /// Ranges that have labels, in the order in which they came.
    ranges: Vec<String>,
    most_names: usize,
    whose: Whose,
}

/// What a line is about, besides its own labels.
pub type Labelling = Vec<(&'static str, String)>;

/// The lines of a metric.
pub type Lines<T> = BTreeMap<Labelling, T>;

#[derive(Default)]
pub struct Numbers {
    pub events: u64,
    pub dropped: u64,
    pub processes: u64,
    pub tracer_seconds: f64,
    pub gpu_delay_seconds: f64,
    /// By device.
    pub gpus: Vec<(Labelling, f64)>,
    pub of_processes: Vec<(Labelling, OfProcess)>,
    pub functions: Lines<Sums>,
    pub kernels: Lines<Sums>,
    pub call_durations: Lines<Histogram>,
    pub kernel_durations: Histogram,
    pub steps: Lines<Histogram>,
    pub ranges: Lines<Histogram>,
    /// Spans that were sent, and that were not.
    pub spans: Option<(u64, u64)>,
}

#[derive(Default)]
pub struct OfProcess {
    pub calls: u64,
    pub launches: u64,
    pub held: u64,
    pub peak: u64,
    pub host: u64,
    pub allocations: u64,
    pub frees: u64,
    pub copies: [(u64, u64); Direction::ALL.len()],
    pub gpu_seconds: f64,
    /// By function and result.
    pub errors: Vec<(String, String, u64)>,
}

impl Collector {
    pub fn new(watch: &Arc<Watch>, most_names: usize, spans: Option<Spans>) -> Self {
        Collector {
            watch: Arc::clone(watch),
            spans,
            known: Mutex::new(Known {
                functions: Labels::new(most_names),
                kernels: Labels::new(most_names),
                ranges: Vec::new(),
                most_names,
                whose: Whose::default(),
            }),
        }
    }

    pub fn numbers(&self) -> Numbers {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut *known;
        let state = self.watch.state();
        let live = &state.live;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut numbers = Numbers {
            events: live.events(),
            dropped: live.lost(),
            processes: live.processes().count() as u64,
            tracer_seconds: processor_time().as_secs_f64(),
            gpu_delay_seconds: seconds(live.gpu_delay_ns()),
            spans: self.spans.as_ref().map(Spans::counts),
            ..Numbers::default()
        };
        for (device, busy) in live.devices() {
            let device = device.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
            numbers
                .gpus
                .push((vec![("device", device)], seconds(busy.total_ns())));
        }
        let mut pids: Vec<(u64, u32)> = live
            .processes()
            .map(|(pid, process)| (process.calls, pid))
            .collect();
        pids.sort_unstable_by(|a, b| b.cmp(a));
        pids.truncate(MOST_PROCESSES);
        let pids: Vec<u32> = pids.into_iter().map(|(_, pid)| pid).collect();
        known.functions.forget_all_but(&pids);
        known.kernels.forget_all_but(&pids);
        let named: HashMap<u32, Labelling> =
            pids.iter().map(|&pid| (pid, known.whose(pid))).collect();
        let label = |pid: u32| named.get(&pid).cloned().unwrap_or_else(others);

        let mut of_others: Option<OfProcess> = None;
        for (pid, process) in live.processes() {
            let mut one = OfProcess {
                calls: process.calls,
                launches: process.launches,
                held: process.held_bytes,
                peak: process.peak_bytes,
                host: process.host_bytes,
                allocations: process.allocations,
                frees: process.frees,
                copies: process.copies,
                gpu_seconds: seconds(process.gpu.total_ns()),
                errors: Vec::new(),
            };
            match named.contains_key(&pid) {
                true => {
                    for failure in process.failures.iter().take(MOST_ERRORS) {
                        let result = (failure.result.as_deref())
                            .map_or_else(|| failure.code.to_string(), str::to_owned);
                        one.errors
                            .push((failure.function.to_string(), result, failure.count));
                    }
                    let rest = (process.errors)
                        .saturating_sub(one.errors.iter().map(|(.., count)| count).sum());
                    if rest > 0 {
                        one.errors.push((OTHER.into(), OTHER.into(), rest));
                    }
                    numbers.of_processes.push((label(pid), one));
                }
                false => {
                    if process.errors > 0 {
                        one.errors
                            .push((OTHER.into(), OTHER.into(), process.errors));
                    }
                    of_others.get_or_insert_default().add(one);
                }
            }
            for (name, range) in &process.ranges {
                known.range(name, &range.durations, &mut numbers.ranges);
            }
            if process.further_ranges.durations.count() > 0 {
                let rest = &process.further_ranges.durations;
                add_histogram(&mut numbers.ranges, vec![("range", OTHER.into())], rest);
            }
        }
        numbers
            .of_processes
            .extend(of_others.map(|one| (others(), one)));

        let symbols = live.symbols();
        // By process and symbol, apart for functions and kernels.
        let mut functions: BTreeMap<u32, BTreeMap<u32, Sums>> = BTreeMap::new();
        let mut kernels = functions.clone();
        for (pid, symbol, row) in live.rows() {
            let pid = if named.contains_key(&pid) { pid } else { 0 };
            let known = symbols.get(symbol);
            let list = match known.layer {
                Layer::Gpu => {
                    numbers.kernel_durations.merge(&row.durations);
                    &mut kernels
                }
                layer => {
                    let labels = vec![
                        ("layer", layer.as_str().to_owned()),
                        ("category", known.category.as_str().to_owned()),
                    ];
                    add_histogram(&mut numbers.call_durations, labels, &row.durations);
                    &mut functions
                }
            };
            list.entry(pid)
                .or_default()
                .entry(symbol)
                .or_default()
                .add(&row.sums);
        }
        for (lists, labels, lines, is_kernel) in [
            (
                functions,
                &mut known.functions,
                &mut numbers.functions,
                false,
            ),
            (kernels, &mut known.kernels, &mut numbers.kernels, true),
        ] {
            for (pid, sums) in lists {
                let sums: Vec<(u32, Sums)> = sums.into_iter().collect();
                for (symbol, sums) in labels.of(pid, &sums) {
                    let mut line = label(pid);
                    let name = symbol.map(|symbol| symbols.name(symbol));
                    let name = name.as_deref().unwrap_or(OTHER);
                    if is_kernel {
                        line.push(("kernel", short(&analyse::short_name(name))));
                    } else {
                        line.push(("function", short(name)));
                        let layer =
                            symbol.map_or(OTHER, |symbol| symbols.get(symbol).layer.as_str());
                        line.push(("layer", layer.to_owned()));
                    }
                    // Two kernels may be called the same once their names are short.
                    lines.entry(line).or_default().add(&sums);
                }
            }
        }
        for series in live.steps_by_process() {
            add_histogram(&mut numbers.steps, label(series.pid), &series.durations);
        }
        numbers
    }
}

fn add_histogram(lines: &mut Lines<Histogram>, labels: Labelling, more: &Histogram) {
    lines.entry(labels).or_default().merge(more);
}

impl OfProcess {
    fn add(&mut self, other: OfProcess) {
        self.calls += other.calls;
        self.launches += other.launches;
        self.held += other.held;
        self.peak += other.peak;
        self.host += other.host;
        self.allocations += other.allocations;
        self.frees += other.frees;
        for (mine, more) in self.copies.iter_mut().zip(other.copies) {
            *mine = (mine.0 + more.0, mine.1.saturating_add(more.1));
        }
        self.gpu_seconds += other.gpu_seconds;
        for (function, result, count) in other.errors {
            match self.errors.first_mut() {
                Some(first) => first.2 += count,
                None => self.errors.push((function, result, count)),
            }
        }
    }
}

fn others() -> Labelling {
    labelling(OTHER, "", "", "")
}

fn labelling(process: &str, pid: &str, container: &str, pod: &str) -> Labelling {
    vec![
        ("process", short(process)),
        ("pid", pid.to_owned()),
        ("container", container.to_owned()),
        ("pod", pod.to_owned()),
    ]
}

impl Known {
    fn whose(&mut self, pid: u32) -> Labelling {
        let named = self.whose.of(pid);
        let container = &named.container;
        labelling(&named.name, &pid.to_string(), &container.id, &container.pod)
    }

    /// The first that come have labels: they never lose them to others.
    fn range(&mut self, name: &str, durations: &Histogram, lines: &mut Lines<Histogram>) {
        let name = short(name);
        let mut is_known = self.ranges.contains(&name);
        if !is_known && self.ranges.len() < self.most_names {
            self.ranges.push(name.clone());
            is_known = true;
        }
        let label = if is_known { name } else { OTHER.to_owned() };
        add_histogram(lines, vec![("range", label)], durations);
    }
}

/// Names come from programs.
fn short(name: &str) -> String {
    let name = render::printable(name);
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// One that has other users, too.
#[derive(Debug)]
pub struct Shared(pub Arc<Collector>);

impl collector::Collector for Shared {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode::as_text(&self.0.numbers(), encoder)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Collector")
    }
}
