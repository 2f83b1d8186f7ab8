//! Translated programs on softgpu.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use softgpu_machine::machine::{self, Environment, Launch, Loaded, Seats};
use softgpu_machine::memory::Memory;
use softgpu_machine::program::Program;

/// Device memory: aligned for anything, known to the device.
pub struct Buffer {
    words: Vec<[u64; 2]>,
    bytes: usize,
}

impl Buffer {
    pub fn new(memory: &Memory, bytes: usize) -> Buffer {
        let words = vec![[0; 2]; bytes.div_ceil(16).max(1)];
        memory.add(words.as_ptr() as u64, bytes.max(1) as u64);
        Buffer { words, bytes }
    }

    pub fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: plain numbers, at least this long, borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

/// A module, loaded.
pub struct Module {
    pub memory: Memory,
    loaded: Loaded,
    globals: Vec<Buffer>,
    names: Vec<String>,
}

impl Module {
    pub fn load(text: &str) -> Module {
        let memory = Memory::default();
        let program = Program::build(text).unwrap_or_else(|error| panic!("{error}"));
        let program = Arc::new(program);
        let globals: Vec<Buffer> = program
            .globals()
            .iter()
            .map(|global| Buffer::new(&memory, global.size as usize))
            .collect();
        let names = program
            .globals()
            .iter()
            .map(|global| global.name.clone())
            .collect();
        let addresses = globals.iter().map(Buffer::address).collect();
        Module {
            memory,
            loaded: Loaded::place(program, addresses),
            globals,
            names,
        }
    }

    /// The bytes of a variable.
    pub fn global(&mut self, name: &str) -> &mut [u8] {
        let at = self.names.iter().position(|known| known == name);
        self.globals[at.expect(name)].bytes()
    }

    pub fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], parameter: u64) {
        let kernel = self.loaded.program().kernel(kernel).expect("a kernel");
        let launch = Launch {
            loaded: &self.loaded,
            kernel,
            grid,
            block,
            cluster: [1; 3],
            dynamic_shared: 0,
            params: &parameter.to_le_bytes(),
            cooperative: false,
            grid_id: 1,
        };
        let environment = Environment {
            memory: &self.memory,
            workers: 1,
            seats: &Seats::new(4),
            print: &|_| {},
            cancelled: &AtomicBool::new(false),
        };
        machine::run(&launch, &environment).unwrap_or_else(|fault| panic!("{fault}"));
    }
}
