//! The seam to the interpreter: programs placed in memory, kernels run.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    allocation::MemoryKind,
    context::{Context, LIMIT_PRINTF},
    image::{LoadError, Texts},
    launch::KernelWork,
    notice,
    result::{Answer, INVALID_PTX},
    state::{self, Phase, driver},
};
use softgpu_machine::{
    machine::{self, Environment, Launch, Loaded, Seats},
    program::{Global, Program},
};

/// Decodes PTX; the error says what and where.
pub fn build(texts: &Texts) -> Result<Arc<Program>, LoadError> {
    let texts: Vec<&str> = texts.0.iter().map(String::as_str).collect();
    match Program::link(&texts) {
        Ok(program) => Ok(Arc::new(program)),
        Err(error) => Err(LoadError {
            code: INVALID_PTX,
            log: format!("{error}\n"),
        }),
    }
}

/// A program in a context: its variables have addresses.
pub struct Code {
    pub program: Arc<Program>,
    /// PTX target, as 90 for sm_90.
    pub target: i32,
    loaded: Loaded,
    /// Of the variables, in the program's order.
    addresses: Vec<u64>,
    /// Allocations that hold the variables.
    blocks: Vec<u64>,
}

impl Code {
    /// Places a program's variables in device memory.
    pub fn place(context: &Context, program: Arc<Program>, target: i32) -> Answer<Arc<Self>> {
        let mut addresses = Vec::new();
        let mut blocks: Vec<u64> = Vec::new();
        for global in program.globals() {
            let kind = match global.managed {
                true => MemoryKind::Managed,
                false => MemoryKind::Variable,
            };
            // Blocks are aligned to 512; what wants more gets room to be moved up.
            let spare = if global.align > 512 { global.align } else { 0 };
            let bytes = global.size.saturating_add(spare).max(1);
            match driver().allocations.allocate(context, bytes, kind, 1) {
                Ok(block) => {
                    blocks.push(block);
                    addresses.push(block.next_multiple_of(global.align.max(1)));
                }
                Err(error) => {
                    release(&blocks);
                    return Err(error);
                }
            }
        }
        let loaded = Loaded::place(program.clone(), addresses.clone());
        Ok(Arc::new(Self {
            program,
            target,
            loaded,
            addresses,
            blocks,
        }))
    }

    /// A variable with its address.
    pub fn variable(&self, name: &str) -> Option<(&Global, u64)> {
        let globals = self.program.globals();
        let at = globals.iter().position(|g| g.name == name)?;
        Some((&globals[at], self.addresses[at]))
    }

    /// Frees the variables; the code must not run any more.
    pub fn release(&self) {
        release(&self.blocks);
    }
}

fn release(blocks: &[u64]) {
    for block in blocks {
        driver()
            .allocations
            .release(*block, &[MemoryKind::Variable, MemoryKind::Managed]);
    }
}

/// Kernels that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

struct Running;

impl Running {
    /// None when the process is ending: no kernel begins any more.
    fn begin() -> Option<Running> {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let running = Running;
        (state::phase() != Phase::Ended).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no kernel runs, or long enough.
pub fn wait_for_kernels(patience: Duration) {
    let began = Instant::now();
    while RUNNING.load(Ordering::SeqCst) > 0 && began.elapsed() < patience {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Runs a kernel to its end; a fault becomes the context's.
pub fn run(context: &Context, work: &KernelWork) {
    let Some(_running) = Running::begin() else {
        return;
    };
    static NEXT_GRID: AtomicU64 = AtomicU64::new(1);
    static SEATS: LazyLock<Arc<Seats>> = LazyLock::new(|| Seats::new(driver().device.sm_count));
    let print_limit = context.limit(LIMIT_PRINTF).unwrap_or(1 << 20);
    let launch = Launch {
        loaded: &work.function.code.loaded,
        kernel: work.function.kernel,
        grid: work.grid,
        block: work.block,
        cluster: work.cluster,
        dynamic_shared: work.shared as usize,
        params: &work.params,
        cooperative: work.cooperative,
        grid_id: NEXT_GRID.fetch_add(1, Ordering::Relaxed),
    };
    let environment = Environment {
        memory: &driver().allocations.memory,
        workers: driver().device.sm_count as usize,
        seats: &SEATS,
        print: &|bytes| context.printed.push(bytes, print_limit),
        cancelled: &context.cancelled,
    };
    if let Err(fault) = machine::run(&launch, &environment) {
        if notice::are_detailed() && state::phase() != Phase::Ended {
            eprintln!("softgpu: {fault}");
        }
        context.fail(fault.kind.cu_result(), fault.to_string());
    }
}
