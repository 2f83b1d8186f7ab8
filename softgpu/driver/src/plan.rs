//! Executable graphs: a graph frozen at instantiation, flattened into steps, and run.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{
    activity::{self, Origin},
    capture,
    context::Context,
    event::{EventRecording, EventState},
    graph::{Graph, Nodes},
    pool,
    result::{Answer, GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE},
    state::driver,
    stream::{Dependency, Stream},
    user_object::UserData,
    work::Work,
};

/// Child graphs deeper than this are refused.
const MAX_DEPTH: usize = 64;
/// Where numbers of nodes of child graphs begin.
const CHILDREN: usize = 1 << 30;
/// Threads that work on one launch of a graph with parallel branches.
const MAX_THREADS: usize = 8;

/// A piece of a plan, behind the steps with these numbers.
struct Step {
    /// As CUPTI numbers it: the place in the order in which the graph's nodes were added.
    node: u64,
    work: Work,
    after: Vec<usize>,
}

/// The steps of a graph and its child graphs; each comes after all it depends on.
pub struct Plan {
    steps: Vec<Step>,
    /// Distinguishes launches of one plan from another's, for tracers.
    number: u32,
}

impl Plan {
    fn of(nodes: &Nodes, disabled: &HashSet<u64>) -> Answer<Self> {
        let mut plan = Self {
            steps: Vec::new(),
            number: activity::next_graph(),
        };
        plan.append(nodes, disabled, &[], 0)?;
        Ok(plan)
    }

    /// Adds a graph behind `before`; returns its last steps.
    fn append(
        &mut self,
        nodes: &Nodes,
        disabled: &HashSet<u64>,
        before: &[usize],
        depth: usize,
    ) -> Answer<Vec<usize>> {
        if depth > MAX_DEPTH {
            return Err(INVALID_VALUE);
        }
        let mut step_of: HashMap<u64, usize> = HashMap::new();
        let places = nodes.order.iter().enumerate();
        let places: HashMap<u64, usize> = places.map(|(place, node)| (*node, place)).collect();
        let mut last: HashSet<usize> = HashSet::new();
        for handle in nodes.sorted()? {
            let node = nodes.get(handle)?;
            let mut after: Vec<usize> = node.after.iter().map(|from| step_of[from]).collect();
            for step in &after {
                last.remove(step);
            }
            if after.is_empty() {
                after.extend(before);
            }
            let work = match &node.work {
                _ if disabled.contains(&handle) => Work::Empty,
                Work::Child(child) => {
                    // The child's steps stand here; an empty step behind them stands for it.
                    let child = child.nodes().clone();
                    let ends = self.append(&child, disabled, &after, depth + 1)?;
                    if !ends.is_empty() {
                        after = ends;
                    }
                    Work::Empty
                }
                work => work.clone(),
            };
            let place = match depth {
                0 => places[&handle],
                // Nodes of child graphs have numbers that no node of the graph has.
                _ => CHILDREN + self.steps.len(),
            };
            self.steps.push(Step {
                node: u64::from(self.number) << 32 | place as u64,
                work,
                after,
            });
            step_of.insert(handle, self.steps.len() - 1);
            last.insert(self.steps.len() - 1);
        }
        Ok(last.into_iter().collect())
    }

    fn is_chain(&self) -> bool {
        let follows = |(i, step): (usize, &Step)| i == 0 || step.after.contains(&(i - 1));
        self.steps.iter().enumerate().all(follows)
    }
}

/// One launch of a plan: the recordings its event nodes will reach.
pub struct Launched {
    plan: Arc<Plan>,
    records: HashMap<usize, Arc<EventRecording>>,
}

impl Launched {
    /// From now on the plan's events stand for this launch.
    pub fn prepare(plan: Arc<Plan>) -> Arc<Self> {
        let mut records = HashMap::new();
        for (number, step) in plan.steps.iter().enumerate() {
            if let Work::RecordEvent(event) = &step.work {
                let record = Arc::new(EventRecording::default());
                event.set(EventState::Recorded(record.clone()));
                records.insert(number, record);
            }
        }
        Arc::new(Self { plan, records })
    }

    fn run_step(&self, number: usize, context: &Arc<Context>, origin: Origin) {
        match self.records.get(&number) {
            Some(record) => record.reach(),
            None => {
                let step = &self.plan.steps[number];
                let origin = origin.node(self.plan.number, step.node);
                step.work.run(context, origin);
            }
        }
    }

    pub fn run(self: &Arc<Self>, context: &Arc<Context>, origin: Origin) {
        if self.plan.is_chain() {
            for number in 0..self.plan.steps.len() {
                self.run_step(number, context, origin);
            }
            return;
        }
        let progress = Arc::new(Progress::new(self.clone()));
        for _ in 1..self.plan.steps.len().min(MAX_THREADS) {
            let (progress, context) = (progress.clone(), context.clone());
            pool::run(move || progress.help(&context, origin));
        }
        progress.help(context, origin);
    }
}

/// A launch in progress, shared by the threads that work on it.
struct Progress {
    launched: Arc<Launched>,
    followers: Vec<Vec<usize>>,
    state: Mutex<Remaining>,
    changed: Condvar,
}

struct Remaining {
    ready: VecDeque<usize>,
    waiting: Vec<usize>,
    left: usize,
}

impl Progress {
    fn new(launched: Arc<Launched>) -> Self {
        let steps = &launched.plan.steps;
        let mut followers = vec![Vec::new(); steps.len()];
        for (number, step) in steps.iter().enumerate() {
            for before in &step.after {
                followers[*before].push(number);
            }
        }
        let waiting: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
        let ready = (0..steps.len()).filter(|i| waiting[*i] == 0).collect();
        let left = steps.len();
        Self {
            launched,
            followers,
            state: Mutex::new(Remaining {
                ready,
                waiting,
                left,
            }),
            changed: Condvar::new(),
        }
    }

    /// Runs ready steps until all are done.
    fn help(&self, context: &Arc<Context>, origin: Origin) {
        let mut state = self.lock();
        while state.left > 0 {
            let Some(number) = state.ready.pop_front() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            self.launched.run_step(number, context, origin);
            state = self.lock();
            state.left -= 1;
            for follower in &self.followers[number] {
                state.waiting[*follower] -= 1;
                if state.waiting[*follower] == 0 {
                    state.ready.push_back(*follower);
                }
            }
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Remaining> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What cuGraphExecUpdate found: CUgraphExecUpdateResult and the node.
pub struct UpdateRefused {
    pub result: u32,
    pub node: u64,
}

pub struct GraphExec {
    pub handle: u64,
    pub flags: u64,
    frozen: Mutex<Frozen>,
    /// User objects of the graph, kept while it can be launched.
    _kept: Vec<Arc<UserData>>,
    /// The latest launch: its stream, and its place there.
    last: Mutex<Option<(Arc<Stream>, u64)>>,
}

struct Frozen {
    /// Under the handles of the graph it was made from.
    nodes: Nodes,
    disabled: HashSet<u64>,
    plan: Option<Arc<Plan>>,
}

impl GraphExec {
    pub fn instantiate(graph: &Graph, flags: u64) -> Answer<Arc<Self>> {
        let mut nodes = graph.nodes().clone();
        freeze_children(&mut nodes, 0)?;
        let disabled = HashSet::new();
        let plan = Plan::of(&nodes, &disabled)?;
        let handle = driver().executables.fresh();
        let exec = Arc::new(Self {
            handle,
            flags,
            frozen: Mutex::new(Frozen {
                nodes,
                disabled,
                plan: Some(Arc::new(plan)),
            }),
            _kept: graph.kept(),
            last: Mutex::default(),
        });
        driver().executables.insert(handle, exec.clone());
        Ok(exec)
    }

    fn frozen(&self) -> MutexGuard<'_, Frozen> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn plan(&self) -> Answer<Arc<Plan>> {
        let mut frozen = self.frozen();
        if let Some(plan) = &frozen.plan {
            return Ok(plan.clone());
        }
        let plan = Arc::new(Plan::of(&frozen.nodes, &frozen.disabled)?);
        frozen.plan = Some(plan.clone());
        Ok(plan)
    }

    /// Issues one launch. Launches of one executable never overlap, in whatever streams.
    pub fn launch(
        &self,
        context: &Arc<Context>,
        stream: &Arc<Stream>,
        work: impl FnOnce(Arc<Plan>) -> Work,
    ) -> Answer {
        let plan = self.plan()?;
        capture::refuse_on(stream)?;
        capture::check_implicit(context, stream)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let after = last
            .take()
            .map(|(stream, ticket)| Dependency::Ticket(stream, ticket));
        let ticket = stream.enqueue(context, after.into_iter().collect(), work(plan));
        *last = Some((stream.clone(), ticket));
        Ok(())
    }

    /// The work of a node as it will run.
    pub fn work(&self, node: u64) -> Answer<Work> {
        Ok(self.frozen().nodes.get(node)?.work.clone())
    }

    /// Replaces a node's work by work of the same kind.
    pub fn set_work(&self, node: u64, work: Work) -> Answer {
        let mut frozen = self.frozen();
        let place = frozen.nodes.get_mut(node)?;
        if std::mem::discriminant(&place.work) != std::mem::discriminant(&work) {
            return Err(INVALID_VALUE);
        }
        place.work = work;
        frozen.plan = None;
        Ok(())
    }

    pub fn is_enabled(&self, node: u64) -> Answer<bool> {
        let frozen = self.frozen();
        frozen.nodes.get(node)?;
        Ok(!frozen.disabled.contains(&node))
    }

    pub fn set_enabled(&self, node: u64, enabled: bool) -> Answer {
        let mut frozen = self.frozen();
        frozen.nodes.get(node)?;
        if enabled {
            frozen.disabled.remove(&node);
        } else {
            frozen.disabled.insert(node);
        }
        frozen.plan = None;
        Ok(())
    }

    /// Takes the parameters of a graph of the same shape.
    pub fn update(&self, graph: &Graph) -> Result<Answer, UpdateRefused> {
        let mut new = graph.nodes().clone();
        if let Err(error) = freeze_children(&mut new, 0) {
            return Ok(Err(error));
        }
        let mut frozen = self.frozen();
        let old = &frozen.nodes;
        let refuse = |result, node| Err(UpdateRefused { result, node });
        if old.order.len() != new.order.len() {
            return refuse(2, 0);
        }
        let number: HashMap<u64, usize> =
            new.order.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        let mut works = Vec::new();
        for (ours, theirs) in old.order.iter().zip(&new.order) {
            let (was, is) = (&old.by_handle[ours], &new.by_handle[theirs]);
            if was.kind() != is.kind() {
                return refuse(3, *theirs);
            }
            let renamed: HashSet<u64> = is.after.iter().map(|n| old.order[number[n]]).collect();
            if renamed != was.after.iter().copied().collect() {
                return refuse(2, *theirs);
            }
            works.push((*ours, is.work.clone()));
        }
        for (node, work) in works {
            if let Some(place) = frozen.nodes.by_handle.get_mut(&node) {
                place.work = work;
            }
        }
        frozen.plan = None;
        Ok(Ok(()))
    }
}

/// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, for callers that write the details elsewhere.
pub const UPDATE_REFUSED: super::result::CuError = GRAPH_EXEC_UPDATE_FAILURE;

/// Child graphs may change after instantiation: an executable keeps copies.
fn freeze_children(nodes: &mut Nodes, depth: usize) -> Answer {
    if depth > MAX_DEPTH {
        return Err(INVALID_VALUE);
    }
    for node in nodes.by_handle.values_mut() {
        if let Work::Child(child) = &node.work {
            let copy = child.duplicate();
            freeze_children(&mut copy.nodes(), depth + 1)?;
            // The copy is reachable through the executable only.
            driver().graphs.remove(copy.handle);
            node.work = Work::Child(copy);
        }
    }
    Ok(())
}
