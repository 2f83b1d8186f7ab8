//! The time in which the program uses the GPU: an iteration of its loop where work repeats, otherwise
//! everything from the first work to the last. Start-up and teardown are no part of it.

use crate::{
    Functions, HostTime, Idle, SymbolId, Symbols, Wall,
    idle::Gap,
    loops::{Loop, Window},
    passed::{FunctionPassed, Passed},
    phases::{PhaseKind, Phases},
};
use event::{Category, Layer};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, hash_map::Entry};

/// How the working time went. Sums are of the whole stretch; divide by `iterations` for a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Working {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Without pauses.
    pub length_ns: u64,
    /// Where work repeats: what one step is like.
    pub step: Option<StepTimes>,
    /// A GPU worked, or none did: the two add up to the length.
    pub busy_ns: u64,
    pub idle_ns: u64,
    pub busy_share: f64,
    /// Of the idle time: the next work had not been launched when the GPU ran out of it.
    pub waiting_for_launches_ns: u64,
    /// At least one kernel ran, or one copy; both may at once.
    pub kernels_ns: u64,
    pub copies_ns: u64,
    /// What the host did in the idle time.
    pub host: HostTime,
    pub gaps: u64,
    pub longest_gap_ns: u64,
    /// Gaps far longer than a step: the loop stopped for something else. They are no part of the length
    /// and of the idle time above. Gaps between the same two steps are one pause.
    pub pauses: u64,
    pub pauses_ns: u64,
    pub longest_pause_ns: u64,
    /// The gaps that they are made of.
    pub pause_gaps: u64,
    /// Gaps that take much of a step, about once in each.
    pub long_gaps: u64,
    pub long_gaps_ns: u64,
    /// What comes after most of them.
    pub waited_for: Option<String>,
    /// Of the idle time, in gaps that another workload could use.
    pub worth_having_ns: u64,
    /// GPU work by name, most time first.
    pub kernels: Vec<WorkingRow>,
    /// API calls by name, most time of their own first.
    pub calls: Vec<WorkingRow>,
    /// Device memory held at the beginning and at the end, and what was allocated in between.
    pub held_bytes: (u64, u64),
    pub allocations: u64,
    /// How much more is held with each step, where it grows all the time.
    pub growth_bytes_per_step: Option<u64>,
    /// Before the working time, and after it.
    pub before_ns: u64,
    pub after_ns: u64,
}

/// One step of a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Steps in the stretch. Iterations that differ count as far as they have as many launches.
    pub steps: f64,
    /// All that were seen, the first ones too.
    pub seen: u64,
    pub mean_ns: u64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub launches: f64,
    /// Graphs launched; their kernels are not among `launches`.
    pub graph_launches: f64,
    /// Measured between kernels on the GPU, for the host runs ahead of it.
    pub on_gpu: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkingRow {
    pub name: String,
    #[serde(deserialize_with = "crate::stored::word")]
    pub layer: Layer,
    #[serde(deserialize_with = "crate::stored::word")]
    pub category: Category,
    pub calls: u64,
    pub total_ns: u64,
    pub self_ns: u64,
}

/// Rows kept.
const ROWS: usize = 20;
/// A leak grows between this many looks, spread over the stretch.
const LOOKS: usize = 4;

impl Working {
    /// Steps in the stretch; one where nothing repeats.
    pub fn steps(&self) -> f64 {
        self.step.as_ref().map_or(1.0, |step| step.steps.max(1.0))
    }

    pub fn share(&self, part: u64) -> f64 {
        if self.length_ns == 0 {
            return 0.0;
        }
        (part as f64 / self.length_ns as f64).min(1.0)
    }
}

/// What it is made of.
pub(crate) struct Parts<'a> {
    pub wall: Wall,
    pub idle: &'a Idle,
    pub phases: &'a Phases,
    pub functions: &'a Functions,
    pub symbols: &'a Symbols,
    pub gpu: &'a crate::Gpu,
    pub memory: &'a crate::memory::Memory,
}

/// None if the GPU was given nothing to do.
pub(crate) fn of(parts: &Parts<'_>) -> Option<Working> {
    let steady = (parts.phases.phases.iter()).any(|phase| phase.kind == PhaseKind::Steady);
    let window = (parts.phases.loops.first())
        .filter(|_| steady)
        .and_then(|found| Some((found, found.window.as_ref()?)));
    let steps = window
        .map(|(found, window)| {
            let working = in_steps(found, window, parts.symbols);
            measured(working, parts.idle, &found.turns)
        })
        .filter(is_typical);
    let mut working = match steps {
        Some(working) => working,
        None => measured(whole(parts)?, parts.idle, &[]),
    };
    working.busy_share = working.share(working.busy_ns);
    working.waiting_for_launches_ns = working.waiting_for_launches_ns.min(working.idle_ns);
    // Work of the loop goes on before and after the stretch that is counted.
    let phase = |kind| {
        parts
            .phases
            .phases
            .iter()
            .find(move |phase| phase.kind == kind)
    };
    let (first, last) = match phase(PhaseKind::Steady).filter(|_| working.step.is_some()) {
        Some(steady) => (steady.start_ns, steady.end_ns),
        None => (working.from_ns, working.to_ns),
    };
    working.before_ns = first.min(working.from_ns).saturating_sub(parts.wall.start);
    working.after_ns = parts.wall.end.saturating_sub(last.max(working.to_ns));
    Some(working)
}

/// So many times a typical step: no part of one.
const PAUSE: u64 = 4;
/// A gap that takes a step's eighth is one of a few.
const LONG: u64 = 8;

/// `turns`: where each iteration begins and ends, as far as that is known.
fn measured(mut working: Working, idle: &Idle, turns: &[(u64, u64)]) -> Working {
    working.length_ns = working.to_ns.saturating_sub(working.from_ns);
    leave_out_pauses(&mut working, idle, turns);
    working
}

/// If steps take far longer on average than the median says, most of the time is spent on something else in
/// between, and no step describes it.
fn is_typical(working: &Working) -> bool {
    (working.step.as_ref()).is_some_and(|step| step.mean_ns <= PAUSE.saturating_mul(step.p50_ns))
}

fn leave_out_pauses(working: &mut Working, idle: &Idle, turns: &[(u64, u64)]) {
    let step = working.step.as_ref().map(|step| step.p50_ns.max(1));
    let (from, to) = (working.from_ns, working.to_ns);
    let inside = |gap: &&Gap| gap.start_ns >= from && gap.end_ns <= to;
    let (mut last, mut seen) = (0, 0);
    // By the iteration that they come after, or by themselves.
    let mut pauses: HashMap<Result<usize, u64>, u64> = HashMap::new();
    let mut waited_for: HashMap<&str, u64> = HashMap::new();
    for gap in idle.gaps.iter().filter(inside) {
        let length = gap.length_ns;
        match step {
            Some(step) if length > PAUSE.saturating_mul(step) => {
                // Iterations that differ are no turns: what is between the same two is one pause.
                let turn = turns.partition_point(|(begin, _)| *begin <= gap.start_ns);
                let is_known = (1..turns.len()).contains(&turn);
                let turn = if is_known {
                    Ok(turn)
                } else {
                    Err(gap.start_ns)
                };
                let pause = pauses.entry(turn).or_default();
                *pause = pause.saturating_add(length);
                working.pause_gaps += 1;
                working.pauses_ns = working.pauses_ns.saturating_add(length);
                working.length_ns = working.length_ns.saturating_sub(length);
                working.idle_ns = working.idle_ns.saturating_sub(length);
                working.worth_having_ns = working.worth_having_ns.saturating_sub(length);
                working.waiting_for_launches_ns =
                    working.waiting_for_launches_ns.saturating_sub(length);
                working.host = working.host.less(&gap.host);
                continue;
            }
            Some(step) if length >= step / LONG => {
                working.long_gaps += 1;
                working.long_gaps_ns = working.long_gaps_ns.saturating_add(length);
                last = length;
                if let Some(work) = &gap.after {
                    *waited_for.entry(&work.name).or_default() += 1;
                }
            }
            _ => {}
        }
        seen += 1;
        working.longest_gap_ns = working.longest_gap_ns.max(length);
    }
    working.pauses = pauses.len() as u64;
    working.longest_pause_ns = pauses.into_values().max().unwrap_or(0);
    let most = waited_for.into_iter().max_by_key(|(_, count)| *count);
    working.waited_for = most
        .filter(|(_, count)| count.saturating_mul(2) > working.long_gaps)
        .map(|(name, _)| name.to_owned());
    // Only the longest gaps are listed: where all of those are long, there are more.
    if seen > 0 && seen == working.long_gaps && working.gaps > seen {
        let more = (working.steps() as u64)
            .saturating_sub(seen)
            .min(working.gaps - seen);
        working.long_gaps += more;
        working.long_gaps_ns = working
            .long_gaps_ns
            .saturating_add(more.saturating_mul(last));
    }
    working.long_gaps_ns = working.long_gaps_ns.min(working.idle_ns);
    if let Some(step) = &mut working.step {
        step.mean_ns =
            (working.length_ns as f64 / step.steps.max(f64::MIN_POSITIVE)).round() as u64;
    }
}

fn in_steps(found: &Loop, window: &Window, symbols: &Symbols) -> Working {
    let (from, to) = (&*window.from, &*window.to);
    let length = to.at - from.at;
    let idle = to
        .idle
        .idle_ns
        .saturating_sub(from.idle.idle_ns)
        .min(length);
    let mut rows: Vec<(WorkingRow, bool)> = Vec::new();
    for id in 0..to.functions.len() as SymbolId {
        let passed = between(from, to, id);
        let symbol = symbols.get(id);
        let on_gpu = symbol.layer == Layer::Gpu;
        let call = matches!(
            symbol.layer,
            Layer::Runtime | Layer::Driver | Layer::Library
        );
        if passed.calls == 0 || !(on_gpu || call) {
            continue;
        }
        let row = WorkingRow {
            name: symbol.name.to_string(),
            layer: symbol.layer,
            category: symbol.category,
            calls: passed.calls,
            total_ns: passed.total_ns,
            self_ns: passed.self_ns,
        };
        rows.push((row, on_gpu));
    }
    let (kernels, calls): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, on_gpu)| *on_gpu);
    let rows = |rows: Vec<(WorkingRow, bool)>| rows.into_iter().map(|(row, _)| row).collect();
    Working {
        from_ns: from.at,
        to_ns: to.at,
        step: Some(StepTimes {
            steps: window.iterations,
            seen: found.iterations,
            mean_ns: (length as f64 / window.iterations).round() as u64,
            min_ns: found.min_ns,
            p50_ns: found.p50_ns,
            p99_ns: found.p99_ns,
            max_ns: found.max_ns,
            launches: match found.on_gpu {
                // The host launched them long before.
                true => found.launches_per_iteration,
                // Of all threads: a backward pass has one of its own.
                false => to.launches.saturating_sub(from.launches) as f64 / window.iterations,
            },
            graph_launches: match found.on_gpu {
                true => 0.0,
                false => {
                    to.graph_launches.saturating_sub(from.graph_launches) as f64 / window.iterations
                }
            },
            on_gpu: found.on_gpu,
        }),
        busy_ns: length - idle,
        idle_ns: idle,
        waiting_for_launches_ns: to.waited_ns.saturating_sub(from.waited_ns),
        kernels_ns: to.kernels_ns.saturating_sub(from.kernels_ns).min(length),
        copies_ns: to.copies_ns.saturating_sub(from.copies_ns).min(length),
        host: to.idle.host.less(&from.idle.host),
        gaps: to.idle.gaps.saturating_sub(from.idle.gaps),
        worth_having_ns: (to.idle.worth_having_ns)
            .saturating_sub(from.idle.worth_having_ns)
            .min(idle),
        kernels: largest(by_short_name(rows(kernels)), |row| row.total_ns),
        calls: largest(rows(calls), |row| row.self_ns),
        held_bytes: (from.memory.live_bytes, to.memory.live_bytes),
        allocations: (to.memory.allocations).saturating_sub(from.memory.allocations),
        growth_bytes_per_step: growth(window),
        ..Working::default()
    }
}

/// Instances of a template that people call the same are one row, under the name of the largest.
fn by_short_name(mut rows: Vec<WorkingRow>) -> Vec<WorkingRow> {
    rows.sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
    let mut places: HashMap<String, usize, ahash::RandomState> = HashMap::default();
    let mut merged: Vec<WorkingRow> = Vec::new();
    for row in rows {
        match places.entry(names::short_name(&row.name)) {
            Entry::Vacant(free) => {
                free.insert(merged.len());
                merged.push(row);
            }
            Entry::Occupied(known) => {
                let sum = &mut merged[*known.get()];
                sum.calls += row.calls;
                sum.total_ns = sum.total_ns.saturating_add(row.total_ns);
                sum.self_ns = sum.self_ns.saturating_add(row.self_ns);
            }
        }
    }
    merged
}

fn between(from: &Passed, to: &Passed, symbol: SymbolId) -> FunctionPassed {
    let (before, after) = (from.function(symbol), to.function(symbol));
    FunctionPassed {
        calls: after.calls.saturating_sub(before.calls),
        total_ns: after.total_ns.saturating_sub(before.total_ns),
        self_ns: after.self_ns.saturating_sub(before.self_ns),
    }
}

/// Held memory that grows in every part of the stretch: a pool that fills up stops growing.
fn growth(window: &Window) -> Option<u64> {
    // By steps, not by time: a pause in between says nothing.
    let held = &window.held;
    if held.len() <= LOOKS {
        return None;
    }
    let looks: Vec<u64> = (0..=LOOKS)
        .map(|look| held[look * (held.len() - 1) / LOOKS].1)
        .collect();
    if looks.windows(2).any(|pair| pair[1] <= pair[0]) {
        return None;
    }
    let grown = (window.to.memory.live_bytes).saturating_sub(window.from.memory.live_bytes);
    Some((grown as f64 / window.iterations).round() as u64)
}

fn whole(parts: &Parts<'_>) -> Option<Working> {
    let time = &parts.idle.all;
    if time.busy_ns == 0 {
        return None;
    }
    let from = parts.wall.start.saturating_add(time.leading_ns);
    let to = parts.wall.end.saturating_sub(time.trailing_ns);
    let inside = |category| {
        let row = parts
            .gpu
            .categories
            .iter()
            .find(|row| row.category == category);
        row.map_or(0, |row| row.work.busy_ns)
    };
    let kernels = (parts.functions.kernels.iter())
        .filter(|row| row.executions > 0)
        .map(|row| WorkingRow {
            name: row.variants.first().unwrap_or(&row.name).clone(),
            layer: Layer::Gpu,
            category: row.category,
            calls: row.executions,
            total_ns: row.total_ns,
            self_ns: row.total_ns,
        });
    let calls = (parts.functions.functions.iter())
        .filter(|row| matches!(row.layer, Layer::Runtime | Layer::Driver | Layer::Library))
        .map(|row| WorkingRow {
            name: row.name.to_string(),
            layer: row.layer,
            category: row.category,
            calls: row.calls,
            total_ns: row.total_ns,
            self_ns: row.self_ns,
        });
    Some(Working {
        from_ns: from,
        to_ns: to.max(from),
        busy_ns: time.busy_ns,
        idle_ns: time.between_ns,
        waiting_for_launches_ns: parts.gpu.pace.waited_ns,
        kernels_ns: inside(Category::Kernel),
        copies_ns: inside(Category::Transfer),
        host: time.between_host,
        gaps: time.gap_count,
        worth_having_ns: time.worth_having_ns,
        kernels: largest(kernels.collect(), |row| row.total_ns),
        calls: largest(calls.collect(), |row| row.self_ns),
        held_bytes: (0, parts.memory.live_bytes),
        allocations: parts.memory.allocations,
        ..Working::default()
    })
}

fn largest(mut rows: Vec<WorkingRow>, by: impl Fn(&WorkingRow) -> u64) -> Vec<WorkingRow> {
    rows.sort_by(|a, b| (by(b), b.calls, &a.name).cmp(&(by(a), a.calls, &b.name)));
    rows.truncate(ROWS);
    rows
}
