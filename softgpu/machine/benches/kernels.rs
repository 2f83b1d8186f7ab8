//! How long the kernels take that the project has promised limits for, with two workers.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use softgpu_machine::machine::{Environment, Launch, Loaded, Seats, run};
use softgpu_machine::memory::Memory;
use softgpu_machine::program::Program;

const COMPILED: &str = include_str!("../tests/ptx/kernels.ptx");

fn buffer(memory: &Memory, values: Vec<f32>) -> Vec<f32> {
    memory.add(values.as_ptr() as u64, values.len() as u64 * 4);
    values
}

/// A launch of `name(a, b, c, n)`.
struct Case<'a> {
    name: &'a str,
    buffers: [&'a [f32]; 3],
    n: i32,
    grid: [u32; 3],
    block: [u32; 3],
}

/// The best time of three.
fn time(case: &Case, memory: &Memory) -> Duration {
    let program = Program::build(COMPILED).expect("the kernels build");
    let mut variables = Vec::new();
    let addresses = program
        .globals()
        .iter()
        .map(|global| {
            let space = vec![0u128; (global.size as usize).div_ceil(16)];
            let address = space.as_ptr() as u64;
            variables.push(space);
            address
        })
        .collect();
    let kernel = program.kernel(case.name).expect("the kernel exists");
    let loaded = Loaded::place(Arc::new(program), addresses);
    let mut params = Vec::new();
    for buffer in case.buffers {
        params.extend((buffer.as_ptr() as u64).to_le_bytes());
    }
    params.extend(case.n.to_le_bytes());
    let launch = Launch {
        loaded: &loaded,
        kernel,
        grid: case.grid,
        block: case.block,
        cluster: [1; 3],
        dynamic_shared: 0,
        params: &params,
        cooperative: false,
        grid_id: 1,
    };
    let cancelled = AtomicBool::new(false);
    let env = Environment {
        memory,
        workers: 2,
        seats: &Seats::new(4),
        print: &|_| {},
        cancelled: &cancelled,
    };
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        run(&launch, &env).expect("the kernel runs");
        best = best.min(start.elapsed());
    }
    best
}

fn main() {
    let memory = Memory::default();
    let n = 1 << 20;
    let a = buffer(&memory, (0..n).map(|i| i as f32).collect());
    let b = buffer(&memory, (0..n).map(|i| (n - i) as f32).collect());
    let c = buffer(&memory, vec![0.0; n]);
    let case = Case {
        name: "vectorAdd",
        buffers: [&a, &b, &c],
        n: n as i32,
        grid: [4096, 1, 1],
        block: [256, 1, 1],
    };
    let took = time(&case, &memory);
    assert!(c.iter().all(|&value| value == n as f32), "wrong sums");
    println!("vectorAdd of {n} elements: {took:.1?}");

    let n = 256;
    let c = buffer(&memory, vec![0.0; n * n]);
    let case = Case {
        name: "matmul",
        buffers: [&a, &b, &c],
        n: n as i32,
        grid: [16, 16, 1],
        block: [16, 16, 1],
    };
    let took = time(&case, &memory);
    let expected: f32 = (0..n).map(|k| a[k] * b[k * n]).sum();
    assert!(
        (c[0] - expected).abs() <= expected.abs() * 1e-5,
        "wrong product"
    );
    println!("matmul {n}×{n}×{n} in tiles of 16×16: {took:.1?}");
}
