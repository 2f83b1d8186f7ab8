//! Sharing a grid's blocks among worker threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::address::RegionCache;
use super::barrier::BarrierState;
use super::block::{Block, BlockState, Bytes, Cluster, Progress, Unit};
use super::execute::Core;
use super::trouble::Trouble;
use super::warp::Warp;
use super::{Environment, Launch};
use crate::alu::WARP;
use crate::fault::{Fault, FaultKind};
use crate::memory::Memory;

/// Unfinished units a worker holds at most; a cooperative grid is held whole.
const MAX_RESIDENT: usize = 256;
/// Bytes of registers and shared memory the residents of a worker may take together.
const MAX_RESIDENT_BYTES: usize = 512 << 20;
/// Slices of units at work after which one more is begun, in case they wait without showing it.
const BUSY_SLICES: u32 = 16;
const MAX_THREADS: u64 = 1024;
/// More shared memory than any device has; offsets must stay below the bits of a cluster's rank.
const MAX_SHARED: usize = 1 << 20;

/// What all workers of a launch share.
struct Grid<'a> {
    launch: &'a Launch<'a>,
    cluster: [u32; 3],
    units: u64,
    next: AtomicU64,
    stop: AtomicBool,
    fault: Mutex<Option<Fault>>,
    params: Bytes,
    workspace: Option<Workspace<'a>>,
}

/// Where the blocks of a cooperative grid meet: the barrier of cooperative groups' `grid.sync()`.
struct Workspace<'a> {
    words: Box<[AtomicU64; 8]>,
    memory: &'a Memory,
}

impl<'a> Workspace<'a> {
    fn new(memory: &'a Memory) -> Self {
        let words = Box::new([const { AtomicU64::new(0) }; 8]);
        let workspace = Workspace { words, memory };
        memory.add(workspace.address(), size_of_val(&*workspace.words) as u64);
        workspace
    }

    fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        self.memory.remove(self.address());
    }
}

fn refuse(text: String) -> Result<(), Fault> {
    Err(Fault {
        kind: FaultKind::LaunchFailed,
        detail: text,
    })
}

pub fn run(launch: &Launch, env: &Environment) -> Result<(), Fault> {
    let program = launch.loaded.program();
    let Some(kernel) = program.kernels().get(launch.kernel) else {
        return refuse(format!("no kernel {}", launch.kernel));
    };
    let volume = |size: [u32; 3]| {
        size.iter()
            .try_fold(1u64, |product, &n| product.checked_mul(u64::from(n)))
            .unwrap_or(u64::MAX)
    };
    let threads = volume(launch.block);
    if threads == 0 || threads > MAX_THREADS || volume(launch.grid) == 0 {
        return refuse(format!(
            "grid {:?} of blocks {:?} cannot be launched",
            launch.grid, launch.block
        ));
    }
    if launch.params.len() < kernel.param_size {
        return refuse(format!(
            "{} takes {} bytes of parameters, not {}",
            kernel.name,
            kernel.param_size,
            launch.params.len()
        ));
    }
    let shared = kernel.static_shared.saturating_add(launch.dynamic_shared);
    if shared > MAX_SHARED {
        let name = &kernel.name;
        return refuse(format!("{name} needs {shared} bytes of shared memory"));
    }
    let cluster = launch.cluster.map(|n| n.max(1));
    let fits = launch.grid.iter().zip(cluster).all(|(n, c)| n % c == 0);
    if !fits || volume(cluster) > 16 {
        return refuse(format!(
            "clusters of {cluster:?} do not fill the grid {:?}",
            launch.grid
        ));
    }
    let units = volume(launch.grid) / volume(cluster);
    let grid = Grid {
        launch,
        cluster,
        units,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
        params: Bytes::copied(&launch.params[..kernel.param_size]),
        workspace: launch.cooperative.then(|| Workspace::new(env.memory)),
    };
    let workers = env.workers.clamp(1, 1024).min(units as usize);
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // With fewer threads than wished for the grid only takes longer.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || grid.work_or_fail(env));
        }
        grid.work_or_fail(env);
    });
    match grid
        .fault
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

impl Grid<'_> {
    /// A fault in the interpreter itself must not take the host's process down.
    fn work_or_fail(&self, env: &Environment) {
        let work = std::panic::AssertUnwindSafe(|| self.work(env));
        if std::panic::catch_unwind(work).is_err() {
            self.fail("the interpreter itself failed");
        }
    }

    /// Stops the launch for a reason that has no place in the kernel.
    fn fail(&self, text: &str) {
        let kernel = &self.launch.loaded.program().kernels()[self.launch.kernel];
        self.stop_with(Fault {
            kind: FaultKind::LaunchFailed,
            detail: format!("{}: {text}", kernel.name),
        });
    }

    fn stop_with(&self, fault: Fault) {
        let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(fault);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// One worker: takes units until none is left and its own are done.
    fn work(&self, env: &Environment) {
        let program = self.launch.loaded.program();
        let kernel = &program.kernels()[self.launch.kernel];
        let mut core = Core {
            launch: self.launch,
            env,
            program,
            kernel,
            params: &self.params,
            workspace: self.workspace.as_ref().map_or(0, Workspace::address),
            regions: RegionCache::new(env.memory),
            scratch: Box::new([[0; WARP]; 2]),
        };
        let room = self.room(&core);
        let mut resident: VecDeque<Unit> = VecDeque::new();
        let mut spare: Vec<Unit> = Vec::new();
        let mut wants_more = true;
        let mut busy = 0;
        while !self.stop.load(Ordering::Relaxed) {
            if env.cancelled.load(Ordering::Relaxed) {
                return self.fail("cancelled");
            }
            if (wants_more || resident.is_empty()) && resident.len() < room {
                wants_more = false;
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                if number < self.units {
                    let unit = self.start(&core, number, spare.pop());
                    resident.push_front(unit);
                } else if resident.is_empty() {
                    return;
                }
            }
            let Some(mut unit) = resident.pop_front() else {
                continue;
            };
            match unit.run(&mut core) {
                Ok(Progress::Done) => {
                    for block in &mut unit.blocks {
                        block.state.seat = None;
                    }
                    spare.push(unit);
                }
                Ok(Progress::Yield { idle }) => {
                    resident.push_back(unit);
                    // One that waits may wait for a unit not begun. One that just takes long
                    // seldom does, and every unit in flight costs memory.
                    busy += u32::from(!idle);
                    wants_more = idle || busy.is_multiple_of(BUSY_SLICES);
                    if idle && resident.len() == 1 {
                        std::thread::yield_now();
                    }
                }
                Err((place, trouble)) => {
                    self.stop_with(describe(&core, &unit.blocks[place].state, &trouble));
                }
            }
        }
    }

    fn room(&self, core: &Core) -> usize {
        if self.launch.cooperative {
            return usize::MAX;
        }
        let threads: u32 = self.launch.block.iter().product();
        let blocks: u32 = self.cluster.iter().product();
        let function = &core.program.functions[core.kernel.function];
        let warp = function.registers as usize * 256 + function.local_size as usize * WARP;
        let block = warp * (threads as usize).div_ceil(WARP) + self.shared_size(core);
        (MAX_RESIDENT_BYTES / (block * blocks as usize).max(1)).clamp(1, MAX_RESIDENT)
    }

    fn shared_size(&self, core: &Core) -> usize {
        core.kernel.static_shared + self.launch.dynamic_shared
    }

    /// A unit ready to run, in the memory of a finished one where there is one.
    fn start(&self, core: &Core, number: u64, spare: Option<Unit>) -> Unit {
        let threads: u32 = self.launch.block.iter().product();
        let count: u32 = self.cluster.iter().product();
        let mut unit = spare.unwrap_or_else(|| Unit {
            blocks: (0..count)
                .map(|rank| self.empty_block(core, rank))
                .collect(),
            cluster: Cluster {
                live: 0,
                arrived: 0,
                phase: 0,
            },
        });
        unit.cluster = Cluster {
            live: u64::from(threads) * u64::from(count),
            arrived: 0,
            phase: 1,
        };
        let peers: Vec<Arc<Bytes>> = unit
            .blocks
            .iter()
            .map(|block| block.state.shared.clone())
            .collect();
        let [gx, gy, _] = self.launch.grid;
        let [cx, cy, _] = self.cluster;
        let (ux, uy) = (u64::from(gx / cx), u64::from(gy / cy));
        let at = [number % ux, number / ux % uy, number / ux / uy];
        let function = &core.program.functions[core.kernel.function];
        for block in &mut unit.blocks {
            let rank = block.state.cluster_rank;
            let within = [rank % cx, rank / cx % cy, rank / cx / cy];
            let mut index = [0; 3];
            for axis in 0..3 {
                index[axis] = at[axis] as u32 * self.cluster[axis] + within[axis];
            }
            let state = &mut block.state;
            state.index = index;
            state.linear = u64::from(index[0])
                + u64::from(gx) * (u64::from(index[1]) + u64::from(gy) * u64::from(index[2]));
            let warps = block.warps.len() as u32;
            state.seat = Some(core.env.seats.take(state.linear, warps));
            state.peers.clone_from(&peers);
            state.has_news = false;
            for barrier in &mut state.barriers {
                barrier.reset(block.warps.len());
            }
            for (number, warp) in block.warps.iter_mut().enumerate() {
                let rest = threads - (number * WARP) as u32;
                let lanes = if rest >= 32 {
                    u32::MAX
                } else {
                    (1 << rest) - 1
                };
                warp.start(lanes, core.kernel.function, function);
            }
        }
        unit
    }

    fn empty_block(&self, core: &Core, cluster_rank: u32) -> Block {
        let threads: u32 = self.launch.block.iter().product();
        let warps = threads.div_ceil(WARP as u32);
        Block {
            state: BlockState {
                index: [0; 3],
                linear: 0,
                cluster_rank,
                seat: None,
                shared: Arc::new(Bytes::zeroed(self.shared_size(core))),
                peers: Vec::new(),
                barriers: vec![BarrierState::default(); 16],
                has_news: false,
            },
            warps: (0..warps).map(Warp::new).collect(),
        }
    }
}

/// A thread's index in its block, from its number.
pub fn thread_index(linear: u32, block: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = block;
    [linear % x, linear / x % y, linear / x / y]
}

fn describe(core: &Core, block: &BlockState, trouble: &Trouble) -> Fault {
    let [bx, by, bz] = block.index;
    let mut detail = core.kernel.name.clone();
    if trouble.line != 0 {
        detail.push_str(&format!(" at PTX line {}", trouble.line));
    }
    detail.push_str(&format!(", block ({bx},{by},{bz})"));
    if let Some(lane) = trouble.lane {
        let linear = trouble.warp * WARP as u32 + lane as u32;
        let [x, y, z] = thread_index(linear, core.launch.block);
        detail.push_str(&format!(", thread ({x},{y},{z})"));
    }
    detail.push_str(": ");
    detail.push_str(&trouble.text);
    Fault {
        kind: trouble.kind,
        detail,
    }
}
