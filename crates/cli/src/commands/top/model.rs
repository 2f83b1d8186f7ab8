//! What the screen shows, as numbers and rows: rates over the last seconds from two totals, ordered and filtered as the
//! user asks. Nothing here knows of a terminal.

use crate::commands::live::{OwnCost, State, Watch, Whose};
use analyse::{
    SymbolId,
    live::{Row, Scope, StepSeries, Sums, Totals},
};
use capture::clock::monotonic;
use event::{Category, Layer, Name};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Rates are of the time from the oldest sample kept to the newest.
const RATE_OVER: Duration = Duration::from_secs(5);
/// Values of the memory curve.
const HISTORY: usize = 120;

/// The lists that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tab {
    #[default]
    Functions,
    Categories,
    Kernels,
    Errors,
    Processes,
    Output,
}

impl Tab {
    pub const ALL: [Tab; 6] = [
        Tab::Functions,
        Tab::Categories,
        Tab::Kernels,
        Tab::Errors,
        Tab::Processes,
        Tab::Output,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Tab::Functions => "functions",
            Tab::Categories => "categories",
            Tab::Kernels => "kernels",
            Tab::Errors => "errors",
            Tab::Processes => "processes",
            Tab::Output => "output",
        }
    }

    pub fn next(self, step: isize) -> Tab {
        let place = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0) as isize;
        Tab::ALL[(place + step).rem_euclid(Tab::ALL.len() as isize) as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    #[default]
    Time,
    Calls,
    Mean,
    Name,
}

impl Sort {
    pub fn next(self) -> Sort {
        match self {
            Sort::Time => Sort::Calls,
            Sort::Calls => Sort::Mean,
            Sort::Mean => Sort::Name,
            Sort::Name => Sort::Time,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Sort::Time => "time",
            Sort::Calls => "calls",
            Sort::Mean => "mean",
            Sort::Name => "name",
        }
    }
}

/// What the user chose.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub tab: Tab,
    pub sort: Sort,
    pub filter: String,
    pub scope: Scope,
    /// Sums since the start instead of the last seconds.
    pub since_start: bool,
}

/// One line of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListRow {
    pub name: String,
    /// Of the list's time, 0 to 1.
    pub share: Option<f64>,
    /// Of the last seconds.
    pub per_second: Option<f64>,
    pub count: u64,
    pub mean_ns: Option<u64>,
    pub failed: u64,
    /// What else there is to say: a layer, a result.
    pub note: String,
    pub what: RowKey,
}

/// What a row leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowKey {
    #[default]
    Nothing,
    Symbol(SymbolId),
    Scope(Scope),
}

/// All numbers of a frame.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    pub title: String,
    pub elapsed: Duration,
    pub has_ended: bool,
    /// By device; None where the GPU's times are not known.
    pub gpus: Vec<(String, f64)>,
    pub has_gpu_times: bool,
    pub steps: Option<StepSeries>,
    pub calls_per_second: f64,
    pub launches_per_second: f64,
    pub held_bytes: u64,
    pub peak_bytes: u64,
    /// Bytes a second.
    pub growth: f64,
    pub held_history: Vec<u64>,
    /// Bytes a second to the device, back, and within.
    pub copies: [f64; 3],
    pub errors: u64,
    pub last_error: Option<String>,
    pub lost: u64,
    pub own_cost: f64,
    pub rows: Vec<ListRow>,
    /// Rows that the filter hides.
    pub hidden: usize,
    pub detail: Option<Detail>,
}

/// One function or kernel.
#[derive(Debug, Clone)]
pub struct Detail {
    pub name: String,
    pub layer: Layer,
    pub row: Row,
}

pub struct Model {
    samples: VecDeque<(Instant, Totals)>,
    scope: Scope,
    held: VecDeque<u64>,
    cost: OwnCost,
    own_share: f64,
    whose: Whose,
    began: Instant,
}

impl Model {
    pub fn new() -> Self {
        Model {
            samples: VecDeque::new(),
            scope: Scope::All,
            held: VecDeque::new(),
            cost: OwnCost::new(),
            own_share: 0.0,
            whose: Whose::default(),
            began: Instant::now(),
        }
    }

    /// Whose numbers the last sample has.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Takes a sample; call this once an interval.
    pub fn sample(&mut self, watch: &Watch, choice: &Choice) {
        if self.scope != choice.scope {
            self.scope = choice.scope;
            self.samples.clear();
            self.held.clear();
        }
        let now = Instant::now();
        let totals = watch.state().live.totals(choice.scope);
        if self.held.len() >= HISTORY {
            self.held.pop_front();
        }
        self.held.push_back(totals.held_bytes);
        self.samples.push_back((now, totals));
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= RATE_OVER {
            self.samples.pop_front();
        }
        self.own_share = self.cost.share();
    }

    /// The frame of the last sample.
    pub fn picture(&mut self, watch: &Watch, choice: &Choice, wanted: Option<SymbolId>) -> Picture {
        let state = watch.state();
        let live = &state.live;
        let (new, seconds) = self.difference(choice.since_start);
        let rate = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        let growth = match (self.samples.front(), self.samples.back()) {
            (Some((from, first)), Some((to, last))) if to > from => {
                (last.held_bytes as f64 - first.held_bytes as f64)
                    / to.duration_since(*from).as_secs_f64()
            }
            _ => 0.0,
        };
        let [to_device, back, within, _, peer] = new.copied_bytes.map(rate);
        // The GPU's records come late: what is not there yet is no idle time.
        let until = monotonic().saturating_sub(live.gpu_delay_ns() + 20_000_000);
        let window = (RATE_OVER.as_nanos() as u64).min(until.saturating_sub(watch.began_ns));
        let from = until.saturating_sub(window);
        let gpus = match choice.scope {
            Scope::All => (live.devices())
                .map(|(device, busy)| (device_name(device), busy.share(from, until)))
                .collect(),
            Scope::Process(pid) | Scope::Thread(pid, _) => (live.processes())
                .filter(|(known, _)| *known == pid)
                .map(|(_, process)| ("GPU".to_owned(), process.gpu.share(from, until)))
                .collect(),
        };
        let latest = (live.processes())
            .filter(|(pid, _)| choice.scope.is_of(*pid))
            .flat_map(|(_, process)| &process.failures)
            .max_by_key(|failure| failure.last_ns);
        let last_error = latest.map(|failure| {
            let result = failure.result.as_deref().map(str::to_owned);
            let result = result.unwrap_or_else(|| failure.code.to_string());
            format!("{}: {result}", failure.function)
        });
        let now = self
            .samples
            .back()
            .map(|(_, totals)| totals.clone())
            .unwrap_or_default();
        let (rows, hidden) = self.rows(&state, choice, &new, seconds);
        Picture {
            title: self.title(watch, &state),
            elapsed: self.began.elapsed(),
            has_ended: watch.has_ended(),
            gpus,
            has_gpu_times: live.has_gpu_times(),
            steps: live.steps(choice.scope),
            calls_per_second: rate(new.calls),
            launches_per_second: rate(new.launches),
            held_bytes: now.held_bytes,
            peak_bytes: now.peak_bytes,
            growth,
            held_history: self.held.iter().copied().collect(),
            copies: [to_device, back, within + peer],
            errors: now.errors,
            last_error,
            lost: live.lost(),
            own_cost: self.own_share,
            rows,
            hidden,
            detail: wanted.map(|symbol| Detail {
                name: live.symbols().name(symbol).to_string(),
                layer: live.symbols().get(symbol).layer,
                row: live.row(choice.scope, symbol),
            }),
        }
    }

    /// What happened lately, or since the start, and in which time.
    fn difference(&self, since_start: bool) -> (Totals, f64) {
        let (Some((from, first)), Some((to, last))) = (self.samples.front(), self.samples.back())
        else {
            return (Totals::default(), 0.0);
        };
        match since_start || self.samples.len() < 2 {
            true => (last.clone(), to.duration_since(self.began).as_secs_f64()),
            false => (last.since(first), to.duration_since(*from).as_secs_f64()),
        }
    }

    fn title(&mut self, watch: &Watch, state: &State) -> String {
        let named = |whose: &mut Whose, pid| format!("{} ({pid})", whose.of(pid).name);
        match self.scope {
            Scope::Process(pid) => named(&mut self.whose, pid),
            Scope::Thread(pid, tid) => format!("{} thread {tid}", named(&mut self.whose, pid)),
            Scope::All => match (state.meta.pid.or(watch.pid()), &*state.meta.command) {
                (Some(pid), []) => named(&mut self.whose, pid),
                (Some(pid), command) => format!("{} ({pid})", command.join(" ")),
                (None, []) => "all processes".to_owned(),
                (None, command) => command.join(" "),
            },
        }
    }

    fn rows(
        &mut self,
        state: &State,
        choice: &Choice,
        new: &Totals,
        seconds: f64,
    ) -> (Vec<ListRow>, usize) {
        let mut rows = match choice.tab {
            Tab::Functions => functions(state, new, seconds),
            Tab::Categories => categories(state, new, seconds),
            Tab::Kernels => kernels(state, new, seconds),
            Tab::Errors => errors(state, choice.scope),
            Tab::Processes => self.processes(state),
            Tab::Output => Vec::new(),
        };
        let all = rows.len();
        let wanted = choice.filter.to_lowercase();
        rows.retain(|row| matches(&row.name, &wanted));
        let hidden = all - rows.len();
        if choice.since_start {
            rows.iter_mut().for_each(|row| row.per_second = None);
        }
        let share = |row: &ListRow| row.share.unwrap_or(0.0);
        if choice.tab != Tab::Processes {
            rows.sort_by(|a, b| {
                let order = match choice.sort {
                    Sort::Time => share(b).total_cmp(&share(a)).then(b.count.cmp(&a.count)),
                    Sort::Calls => b.count.cmp(&a.count),
                    Sort::Mean => b.mean_ns.cmp(&a.mean_ns),
                    Sort::Name => std::cmp::Ordering::Equal,
                };
                order.then_with(|| a.name.cmp(&b.name))
            });
        }
        (rows, hidden)
    }

    /// Every process, and the threads of the one that is chosen.
    fn processes(&mut self, state: &State) -> Vec<ListRow> {
        let mut processes: Vec<(u32, u64, u64)> = (state.live.processes())
            .map(|(pid, process)| (pid, process.calls, process.held_bytes))
            .collect();
        processes.sort_unstable();
        let mut rows = vec![ListRow {
            name: "all processes".into(),
            count: processes.iter().map(|(_, calls, _)| calls).sum(),
            what: RowKey::Scope(Scope::All),
            ..ListRow::default()
        }];
        let chosen = match self.scope {
            Scope::All => None,
            Scope::Process(pid) | Scope::Thread(pid, _) => Some(pid),
        };
        let is_alone = processes.len() == 1;
        for (pid, calls, held) in processes {
            rows.push(ListRow {
                name: format!("{pid} {}", self.whose.of(pid).name),
                count: calls,
                note: format!("{} held", render::units::bytes(held)),
                what: RowKey::Scope(Scope::Process(pid)),
                ..ListRow::default()
            });
            if chosen == Some(pid) || is_alone {
                for tid in state.live.threads(pid) {
                    rows.push(ListRow {
                        name: format!("  thread {tid}"),
                        what: RowKey::Scope(Scope::Thread(pid, tid)),
                        ..ListRow::default()
                    });
                }
            }
        }
        rows
    }
}

fn matches(name: &str, wanted: &str) -> bool {
    let name = name.to_lowercase();
    match wanted.contains('*') {
        true => event::matches_glob(wanted.as_bytes(), name.as_bytes()),
        false => name.contains(wanted),
    }
}

fn device_name(device: Option<u32>) -> String {
    device.map_or_else(|| "GPU".to_owned(), |number| format!("GPU {number}"))
}

/// Rows of functions or of kernels, each with its part of their time.
fn of_sums(
    state: &State,
    new: &Totals,
    seconds: f64,
    is_wanted: impl Fn(Layer) -> bool,
) -> Vec<(SymbolId, ListRow, Sums)> {
    let symbols = state.live.symbols();
    let wanted =
        || (new.functions.iter()).filter(|(symbol, _)| is_wanted(symbols.get(**symbol).layer));
    let whole: u64 = wanted().fold(0, |sum, (_, sums)| sum.saturating_add(sums.self_ns));
    wanted()
        .map(|(&symbol, sums)| {
            let known = symbols.get(symbol);
            let count = sums.count;
            let row = ListRow {
                name: known.name.to_string(),
                share: (whole > 0).then(|| sums.self_ns as f64 / whole as f64),
                per_second: (seconds > 0.0).then(|| count as f64 / seconds),
                count,
                mean_ns: sums.total_ns.checked_div(count),
                failed: sums.failed,
                note: known.category.as_str().to_owned(),
                what: RowKey::Symbol(symbol),
            };
            (symbol, row, *sums)
        })
        .collect()
}

fn functions(state: &State, new: &Totals, seconds: f64) -> Vec<ListRow> {
    let rows = of_sums(state, new, seconds, |layer| layer != Layer::Gpu);
    rows.into_iter().map(|(_, row, _)| row).collect()
}

fn kernels(state: &State, new: &Totals, seconds: f64) -> Vec<ListRow> {
    let rows = of_sums(state, new, seconds, |layer| layer == Layer::Gpu);
    let is_timed = state.live.has_gpu_times();
    let named = rows.into_iter().map(|(_, row, sums)| {
        let count = if is_timed { row.count } else { sums.launches };
        ListRow {
            name: analyse::short_name(&row.name),
            share: row.share.filter(|_| is_timed),
            per_second: (seconds > 0.0).then(|| count as f64 / seconds),
            count,
            note: String::new(),
            ..row
        }
    });
    named.filter(|row| row.count > 0).collect()
}

fn categories(state: &State, new: &Totals, seconds: f64) -> Vec<ListRow> {
    let mut rows: Vec<ListRow> = Vec::new();
    let symbols = state.live.symbols();
    let all = of_sums(state, new, seconds, |layer| layer != Layer::Gpu);
    for &category in Category::ALL {
        let mine = all
            .iter()
            .filter(|(symbol, ..)| symbols.get(*symbol).category == category);
        let (mut row, mut total) = (ListRow::default(), 0);
        for (_, one, sums) in mine {
            row.count += one.count;
            row.failed += one.failed;
            row.share = Some(row.share.unwrap_or(0.0) + one.share.unwrap_or(0.0));
            total += sums.total_ns;
        }
        if row.count > 0 {
            row.name = category.as_str().to_owned();
            row.per_second = (seconds > 0.0).then(|| row.count as f64 / seconds);
            row.mean_ns = total.checked_div(row.count);
            rows.push(row);
        }
    }
    rows
}

fn errors(state: &State, scope: Scope) -> Vec<ListRow> {
    let processes = state.live.processes().filter(|(pid, _)| scope.is_of(*pid));
    let failures = processes
        .flat_map(|(pid, process)| process.failures.iter().map(move |failure| (pid, failure)));
    failures
        .map(|(pid, failure)| {
            let result: Name =
                (failure.result.clone()).unwrap_or_else(|| failure.code.to_string().into());
            ListRow {
                name: failure.function.to_string(),
                count: failure.count,
                failed: failure.count,
                note: format!("{result}  process {pid}"),
                ..ListRow::default()
            }
        })
        .collect()
}
