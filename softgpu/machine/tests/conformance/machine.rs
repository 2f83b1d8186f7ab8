//! All cases through the whole interpreter: the same PTX modules the hardware ran.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use softgpu_machine::machine::{self, Environment, Launch, Loaded, Seats};
use softgpu_machine::memory::Memory;
use softgpu_machine::program::Program;

use crate::fixture::{AREA, Case, Fixture, ROUNDS};
use crate::report::{Report, compare};

/// Device memory of a test: bytes aligned for any variable, known to the device.
struct Block {
    words: Vec<[u64; 32]>,
}

impl Block {
    fn new(memory: &Memory, bytes: usize) -> Block {
        let words = vec![[0; 32]; bytes.div_ceil(256).max(1)];
        memory.add(words.as_ptr() as u64, bytes.max(1) as u64);
        Block { words }
    }

    fn address(&mut self) -> u64 {
        self.words.as_mut_ptr() as u64
    }

    fn bytes(&mut self) -> &mut [u8] {
        let length = self.words.len() * 256;
        // SAFETY: plain numbers, this long, borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), length) }
    }
}

/// A module's kernels on one set of buffers.
struct Bench {
    memory: Memory,
    loaded: Loaded,
    inputs: Block,
    outputs: Block,
    /// Kept for the kernels that use them.
    _globals: Vec<Block>,
}

impl Bench {
    fn new(text: &str, inputs: &[u8]) -> Result<Bench, String> {
        let memory = Memory::default();
        let program = Arc::new(Program::build(text).map_err(|e| e.to_string())?);
        let mut globals: Vec<Block> = program
            .globals()
            .iter()
            .map(|global| Block::new(&memory, global.size as usize))
            .collect();
        let addresses = globals.iter_mut().map(Block::address).collect();
        let mut operands = Block::new(&memory, inputs.len());
        operands.bytes()[..inputs.len()].copy_from_slice(inputs);
        let outputs = Block::new(&memory, AREA);
        let loaded = Loaded::place(program, addresses);
        Ok(Bench {
            memory,
            loaded,
            inputs: operands,
            outputs,
            _globals: globals,
        })
    }

    fn run(&mut self, name: &str) -> Result<&[u8], String> {
        let kernel = self.loaded.program().kernel(name).ok_or("no such kernel")?;
        self.outputs.bytes().fill(0);
        let params: Vec<u8> = [self.inputs.address(), self.outputs.address()]
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .collect();
        let launch = Launch {
            loaded: &self.loaded,
            kernel,
            grid: [1; 3],
            block: [ROUNDS as u32, 1, 1],
            cluster: [1; 3],
            dynamic_shared: 0,
            params: &params,
            cooperative: false,
            grid_id: 1,
        };
        let environment = Environment {
            memory: &self.memory,
            workers: 1,
            seats: &Seats::new(1),
            print: &|_| {},
            cancelled: &AtomicBool::new(false),
        };
        machine::run(&launch, &environment).map_err(|fault| fault.to_string())?;
        Ok(self.outputs.bytes())
    }
}

#[test]
fn every_kernel_gives_the_hardwares_answers() {
    let mut report = Report::default();
    let mut expected = 0;
    for fixture in Fixture::all() {
        expected += fixture.cases.len();
        for (module, cases) in fixture.cases.chunks(CASES_A_MODULE).enumerate() {
            run_module(&fixture, module, cases, &mut report);
        }
    }
    report.finish(expected);
}

/// As the generator splits them.
const CASES_A_MODULE: usize = 400;

fn run_module(fixture: &Fixture, module: usize, cases: &[Case], report: &mut Report) {
    let mut bench = match Bench::new(&fixture.module(module), fixture.inputs()) {
        Ok(bench) => bench,
        Err(e) => {
            report.fail(&cases[0], format!("module {module} does not load: {e}"));
            return;
        }
    };
    for case in cases {
        match bench.run(&format!("case_{:04}", case.number)) {
            Ok(area) => compare(fixture, case, area, report),
            Err(e) => report.fail(case, e),
        }
    }
}
