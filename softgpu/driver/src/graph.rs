//! Graphs: nodes of work with the order between them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{
    activity,
    result::{Answer, INVALID_HANDLE, INVALID_VALUE},
    state::driver,
    user_object::UserData,
    work::Work,
};

/// CUgraphNodeType.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NodeType {
    Kernel = 0,
    Memcpy = 1,
    Memset = 2,
    Host = 3,
    Graph = 4,
    Empty = 5,
    WaitEvent = 6,
    RecordEvent = 7,
    MemAlloc = 10,
    MemFree = 11,
    MemoryOperations = 12,
    Conditional = 13,
}

#[derive(Clone)]
pub struct Node {
    pub work: Work,
    /// Nodes of the same graph that come before.
    pub after: Vec<u64>,
    /// Its place in the order in which nodes were added: half of its number, as CUPTI has it.
    pub number: u32,
}

impl Node {
    pub fn kind(&self) -> NodeType {
        match &self.work {
            Work::Kernel(_) => NodeType::Kernel,
            Work::Copy(_) => NodeType::Memcpy,
            Work::Fill(_) => NodeType::Memset,
            Work::Host(_) | Work::Callback { .. } => NodeType::Host,
            Work::Child(_) | Work::Graph(_) => NodeType::Graph,
            Work::Empty => NodeType::Empty,
            Work::WaitEvent(_) => NodeType::WaitEvent,
            Work::RecordEvent(_) | Work::Record(_) => NodeType::RecordEvent,
            Work::Allocate(_) => NodeType::MemAlloc,
            Work::Free(_) | Work::FreeNode(_) => NodeType::MemFree,
            Work::Memory(_) => NodeType::MemoryOperations,
            Work::Conditional(_) => NodeType::Conditional,
        }
    }
}

/// The nodes in the order they were added.
#[derive(Clone, Default)]
pub struct Nodes {
    pub order: Vec<u64>,
    pub by_handle: HashMap<u64, Node>,
    /// How many were ever added.
    added: u32,
}

impl Nodes {
    fn push(&mut self, handle: u64, work: Work, after: Vec<u64>) {
        let number = self.added;
        self.added += 1;
        self.order.push(handle);
        let node = Node {
            work,
            after,
            number,
        };
        self.by_handle.insert(handle, node);
    }

    pub fn get(&self, handle: u64) -> Answer<&Node> {
        self.by_handle.get(&handle).ok_or(INVALID_VALUE)
    }

    pub fn get_mut(&mut self, handle: u64) -> Answer<&mut Node> {
        self.by_handle.get_mut(&handle).ok_or(INVALID_VALUE)
    }

    /// (from, to) of every edge, by the order of the nodes.
    pub fn edges(&self) -> Vec<(u64, u64)> {
        self.order
            .iter()
            .flat_map(|to| {
                self.by_handle[to]
                    .after
                    .iter()
                    .map(move |from| (*from, *to))
            })
            .collect()
    }

    pub fn roots(&self) -> Vec<u64> {
        let is_root = |node: &&u64| self.by_handle[*node].after.is_empty();
        self.order.iter().filter(is_root).copied().collect()
    }

    pub fn dependents(&self, handle: u64) -> Vec<u64> {
        self.order
            .iter()
            .filter(|to| self.by_handle[*to].after.contains(&handle))
            .copied()
            .collect()
    }

    /// The nodes so that each comes after all it depends on; a cycle is CUDA_ERROR_INVALID_VALUE.
    pub fn sorted(&self) -> Answer<Vec<u64>> {
        let mut waiting: HashMap<u64, usize> = HashMap::new();
        let mut followers: HashMap<u64, Vec<u64>> = HashMap::new();
        for to in &self.order {
            let after = &self.by_handle[to].after;
            waiting.insert(*to, after.len());
            for from in after {
                followers.entry(*from).or_default().push(*to);
            }
        }
        let mut sorted = self.roots();
        let mut next = 0;
        while let Some(done) = sorted.get(next).copied() {
            next += 1;
            for follower in followers.get(&done).into_iter().flatten() {
                if let Some(left) = waiting.get_mut(follower) {
                    *left -= 1;
                    if *left == 0 {
                        sorted.push(*follower);
                    }
                }
            }
        }
        if sorted.len() == self.order.len() {
            Ok(sorted)
        } else {
            Err(INVALID_VALUE)
        }
    }

    /// All nodes that come before any of `from`, themselves included.
    pub fn ancestors(&self, from: &[u64]) -> HashSet<u64> {
        let mut found: HashSet<u64> = from.iter().copied().collect();
        let mut next = from.to_vec();
        while let Some(handle) = next.pop() {
            for before in self
                .by_handle
                .get(&handle)
                .into_iter()
                .flat_map(|n| &n.after)
            {
                if found.insert(*before) {
                    next.push(*before);
                }
            }
        }
        found
    }
}

pub struct Graph {
    pub handle: u64,
    /// As CUPTI numbers graphs.
    pub number: u32,
    nodes: Mutex<Nodes>,
    /// For a clone: the node each node of the original became.
    clones: HashMap<u64, u64>,
    /// User objects by handle, with the number of references.
    kept: Mutex<HashMap<u64, (Arc<UserData>, u32)>>,
}

impl Graph {
    pub fn create() -> Arc<Self> {
        Self::register(Nodes::default(), HashMap::new())
    }

    fn register(nodes: Nodes, clones: HashMap<u64, u64>) -> Arc<Self> {
        let handle = driver().graphs.fresh();
        let graph = Arc::new(Self {
            handle,
            number: activity::next_graph(),
            nodes: Mutex::new(nodes),
            clones,
            kept: Mutex::default(),
        });
        for node in &graph.nodes().order {
            driver()
                .nodes
                .insert(*node, Arc::new(Arc::downgrade(&graph)));
        }
        driver().graphs.insert(handle, graph.clone());
        graph
    }

    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node behind others of this graph; returns its handle.
    pub fn add(self: &Arc<Self>, work: Work, after: &[u64]) -> Answer<u64> {
        let mut nodes = self.nodes();
        let distinct: HashSet<&u64> = after.iter().collect();
        if distinct.len() != after.len()
            || !after.iter().all(|node| nodes.by_handle.contains_key(node))
        {
            return Err(INVALID_VALUE);
        }
        let handle = driver().nodes.fresh();
        nodes.push(handle, work, after.to_vec());
        let kind = nodes.get(handle)?.kind();
        drop(nodes);
        driver()
            .nodes
            .insert(handle, Arc::new(Arc::downgrade(self)));
        activity::node_created(self.handle, handle, kind);
        Ok(handle)
    }

    pub fn remove(&self, handle: u64) -> Answer {
        let mut nodes = self.nodes();
        let gone = nodes.by_handle.remove(&handle).ok_or(INVALID_VALUE)?;
        nodes.order.retain(|node| *node != handle);
        for node in nodes.by_handle.values_mut() {
            node.after.retain(|before| *before != handle);
        }
        driver().nodes.remove(handle);
        gone.work.destroy_graphs();
        Ok(())
    }

    /// A copy of the graph, with nodes of its own.
    pub fn duplicate(&self) -> Arc<Self> {
        let nodes = self.nodes().clone();
        let copy = Self::of(&nodes);
        *copy.lock_kept() = self.lock_kept().clone();
        copy
    }

    /// A graph with copies of these nodes.
    pub fn of(nodes: &Nodes) -> Arc<Self> {
        let clones: HashMap<u64, u64> = nodes
            .order
            .iter()
            .map(|old| (*old, driver().nodes.fresh()))
            .collect();
        let mut copied = Nodes::default();
        for old in &nodes.order {
            let node = &nodes.by_handle[old];
            let after = node.after.iter().map(|before| clones[before]).collect();
            copied.push(clones[old], node.work.with_own_graphs(), after);
        }
        let order = copied.order.clone();
        let copy = Self::register(copied, clones);
        for (old, new) in nodes.order.iter().zip(order) {
            let kind = nodes.by_handle[old].kind();
            activity::node_copied(copy.handle, new, kind, *old);
        }
        copy
    }

    fn lock_kept(&self) -> MutexGuard<'_, HashMap<u64, (Arc<UserData>, u32)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user objects the graph keeps.
    pub fn kept(&self) -> Vec<Arc<UserData>> {
        self.lock_kept()
            .values()
            .map(|kept| kept.0.clone())
            .collect()
    }

    /// Keeps a user object by so many references more.
    pub fn keep(&self, handle: u64, kept: Arc<UserData>, count: u32) {
        let mut all = self.lock_kept();
        let entry = all.entry(handle).or_insert((kept, 0));
        entry.1 = entry.1.saturating_add(count);
    }

    /// Gives references to a user object up.
    pub fn give_up(&self, handle: u64, count: u32) -> Answer {
        let mut all = self.lock_kept();
        let entry = all.get_mut(&handle).ok_or(INVALID_VALUE)?;
        entry.1 = entry.1.checked_sub(count).ok_or(INVALID_VALUE)?;
        if entry.1 == 0 {
            let gone = all.remove(&handle);
            drop(all);
            drop(gone);
        }
        Ok(())
    }

    /// The node a node of the original became in this clone.
    pub fn clone_of(&self, original: u64) -> Option<u64> {
        self.clones.get(&original).copied()
    }

    /// Makes the graph, its nodes and its children unknown.
    pub fn destroy(&self) {
        driver().graphs.remove(self.handle);
        let kept = std::mem::take(&mut *self.lock_kept());
        drop(kept);
        let nodes = std::mem::take(&mut *self.nodes());
        for (handle, node) in nodes.by_handle {
            driver().nodes.remove(handle);
            node.work.destroy_graphs();
        }
    }

    /// The number by which CUPTI knows a node.
    pub fn id_of(&self, node: u64) -> Answer<u64> {
        let number = self.nodes().get(node)?.number;
        Ok(u64::from(self.number) << 32 | u64::from(number))
    }
}

/// Copies that only executables held go without [`Graph::destroy`].
impl Drop for Graph {
    fn drop(&mut self) {
        for handle in &self.nodes().order {
            driver().nodes.remove(*handle);
        }
    }
}

/// What a conditional node goes by.
pub struct Condition {
    /// At the beginning of each launch.
    pub value: u32,
}

/// A graph by its handle.
pub fn by_handle(handle: u64) -> Answer<Arc<Graph>> {
    driver().graphs.get(handle).ok_or(INVALID_VALUE)
}

/// The graph a node belongs to.
pub fn of_node(node: u64) -> Answer<Arc<Graph>> {
    driver()
        .nodes
        .get(node)
        .as_deref()
        .and_then(Weak::upgrade)
        .ok_or(INVALID_HANDLE)
}
