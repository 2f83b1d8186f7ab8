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
    graph::{Graph, Node, Nodes},
    pool,
    result::{Answer, GRAPH_EXEC_UPDATE_FAILURE, INVALID_VALUE},
    state::driver,
    stream::{Dependency, Stream},
    user_object::UserData,
    work::Work,
};

/// Graphs inside graphs deeper than this are refused.
const MAX_DEPTH: usize = 64;
/// Threads that work on one launch of a graph with parallel branches.
const MAX_THREADS: usize = 8;

/// A piece of a plan, behind the steps with these numbers.
struct Step {
    /// As CUPTI numbers it: the graph's number, and the node's place in the order in which its nodes were added.
    node: u64,
    work: Work,
    after: Vec<usize>,
}

/// The steps of a graph and the graphs inside it; each comes after all it depends on.
pub struct Plan {
    steps: Vec<Step>,
    /// The executable's number, for tracers.
    number: u32,
}

impl Plan {
    fn of(nodes: &Nodes, disabled: &HashSet<u64>, number: u32) -> Answer<Self> {
        let mut plan = Self {
            steps: Vec::new(),
            number,
        };
        plan.append((number, nodes), disabled, &[], 0)?;
        Ok(plan)
    }

    /// Adds a graph, with its number, behind `before`; returns its last steps.
    fn append(
        &mut self,
        (number, nodes): (u32, &Nodes),
        disabled: &HashSet<u64>,
        before: &[usize],
        depth: usize,
    ) -> Answer<Vec<usize>> {
        if depth > MAX_DEPTH {
            return Err(INVALID_VALUE);
        }
        let mut step_of: HashMap<u64, usize> = HashMap::new();
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
                Work::Child(_) | Work::Conditional(_) => {
                    let inner = match &node.work {
                        Work::Conditional(conditional) => conditional.chosen(),
                        child => child.graphs().first(),
                    };
                    // The graph's steps stand here; an empty step behind them stands for the node.
                    if let Some(inner) = inner {
                        let nodes = inner.nodes().clone();
                        let inner = (inner.number, &nodes);
                        let ends = self.append(inner, disabled, &after, depth + 1)?;
                        if !ends.is_empty() {
                            after = ends;
                        }
                    }
                    Work::Empty
                }
                work => work.clone(),
            };
            self.steps.push(Step {
                node: u64::from(number) << 32 | u64::from(node.number),
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
    number: u32,
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
        let number = activity::next_graph();
        freeze(&mut nodes)?;
        for handle in &nodes.order {
            let node = nodes.get(*handle)?;
            let id = u64::from(number) << 32 | u64::from(node.number);
            activity::node_instantiated(id, node.kind(), *handle);
        }
        let disabled = HashSet::new();
        let plan = Plan::of(&nodes, &disabled, number)?;
        let handle = driver().executables.fresh();
        let exec = Arc::new(Self {
            handle,
            number,
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
        let plan = Arc::new(Plan::of(&frozen.nodes, &frozen.disabled, self.number)?);
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
        take_work(place, &work).map_err(|_| INVALID_VALUE)?;
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
    pub fn update(&self, graph: &Graph) -> Result<(), UpdateRefused> {
        let new = graph.nodes().clone();
        let mut frozen = self.frozen();
        check_shape(&frozen.nodes, &new)?;
        take_works(&mut frozen.nodes, &new)?;
        frozen.plan = None;
        Ok(())
    }
}

/// Whether the graphs have the same nodes with the same order between them, and so have those inside them.
fn check_shape(old: &Nodes, new: &Nodes) -> Result<(), UpdateRefused> {
    let refuse = |result, node| Err(UpdateRefused { result, node });
    if old.order.len() != new.order.len() {
        return refuse(2, 0);
    }
    let number: HashMap<u64, usize> = new.order.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    for (ours, theirs) in old.order.iter().zip(&new.order) {
        let (was, is) = (&old.by_handle[ours], &new.by_handle[theirs]);
        if was.kind() != is.kind() {
            return refuse(3, *theirs);
        }
        let renamed: HashSet<u64> = is.after.iter().map(|n| old.order[number[n]]).collect();
        if renamed != was.after.iter().copied().collect() {
            return refuse(2, *theirs);
        }
        let (was, is) = (was.work.graphs(), is.work.graphs());
        if was.len() != is.len() {
            return refuse(2, *theirs);
        }
        for (was, is) in was.iter().zip(is) {
            check_shape(&was.nodes(), &is.nodes().clone())?;
        }
    }
    Ok(())
}

/// Works of a graph of the same shape. The nodes, and the graphs inside them, stay what they are.
fn take_works(old: &mut Nodes, new: &Nodes) -> Result<(), UpdateRefused> {
    for (ours, theirs) in old.order.clone().iter().zip(&new.order) {
        if let Some(place) = old.by_handle.get_mut(ours) {
            take_work(place, &new.by_handle[theirs].work)?;
        }
    }
    Ok(())
}

fn take_work(node: &mut Node, work: &Work) -> Result<(), UpdateRefused> {
    let (was, is) = (node.work.graphs(), work.graphs());
    if was.is_empty() && is.is_empty() {
        node.work = work.clone();
        return Ok(());
    }
    for (was, is) in was.iter().zip(is) {
        let is = is.nodes().clone();
        check_shape(&was.nodes(), &is)?;
        take_works(&mut was.nodes(), &is)?;
    }
    if let (Work::Conditional(was), Work::Conditional(is)) = (&mut node.work, work) {
        was.value = is.value;
    }
    Ok(())
}

/// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, for callers that write the details elsewhere.
pub const UPDATE_REFUSED: super::result::CuError = GRAPH_EXEC_UPDATE_FAILURE;

/// Graphs inside a graph may change after instantiation: an executable keeps copies.
fn freeze(nodes: &mut Nodes) -> Answer {
    for node in nodes.order.clone() {
        let node = nodes.get_mut(node)?;
        node.work = node.work.with_own_graphs();
        for graph in node.work.graphs() {
            forget(graph);
        }
    }
    Ok(())
}

/// An executable's copy is reachable through it only.
fn forget(graph: &Graph) {
    driver().graphs.remove(graph.handle);
    for node in graph.nodes().by_handle.values() {
        node.work.graphs().iter().for_each(|graph| forget(graph));
    }
}
