//! A small device for tests: buffers, launches, what was printed.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use softgpu_machine::fault::Fault;
use softgpu_machine::machine::{Environment, Launch, Loaded, Seats, run};
use softgpu_machine::memory::Memory;
use softgpu_machine::program::Program;

/// Kernels compiled by nvcc from kernels.cu.
pub const COMPILED: &str = include_str!("../ptx/kernels.ptx");

/// PTX text around a body of functions.
pub fn module(body: &str) -> String {
    format!(".version 8.0\n.target sm_80\n.address_size 64\n{body}")
}

/// A kernel with one pointer parameter `out` (in %rd0, global) and registers to use.
pub fn kernel(body: &str) -> String {
    module(&format!(
        ".visible .entry main(.param .u64 out, .param .u64 in) {{
         .reg .pred %p<16>; .reg .b16 %rs<16>; .reg .b32 %r<32>; .reg .f32 %f<16>;
         .reg .b64 %rd<32>; .reg .f64 %fd<16>;
         ld.param.u64 %rd0, [out];
         ld.param.u64 %rd1, [in];
         mov.u32 %r0, %tid.x;
         mul.wide.u32 %rd2, %r0, 4;
         add.u64 %rd2, %rd2, %rd0;
         {body}
         }}"
    ))
}

pub struct Device {
    pub memory: Memory,
    pub workers: usize,
    pub cancelled: AtomicBool,
    buffers: Vec<Vec<u128>>,
    printed: Mutex<Vec<u8>>,
}

impl Device {
    pub fn new() -> Device {
        Device {
            memory: Memory::default(),
            workers: 2,
            cancelled: AtomicBool::new(false),
            buffers: Vec::new(),
            printed: Mutex::new(Vec::new()),
        }
    }

    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let buffer = vec![0u128; bytes.div_ceil(16).max(1)];
        let address = buffer.as_ptr() as u64;
        self.memory.add(address, bytes.max(1) as u64);
        self.buffers.push(buffer);
        address
    }

    pub fn upload<T: Copy>(&mut self, values: &[T]) -> u64 {
        let address = self.allocate(size_of_val(values));
        // SAFETY: just allocated with that size.
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), address as *mut T, values.len());
        }
        address
    }

    pub fn download<T: Copy>(&self, address: u64, count: usize) -> Vec<T> {
        // SAFETY: tests read back what they allocated.
        unsafe { std::slice::from_raw_parts(address as *const T, count).to_vec() }
    }

    pub fn load(&mut self, text: &str) -> Loaded {
        let program = Program::build(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        self.place(program)
    }

    pub fn place(&mut self, program: Program) -> Loaded {
        let addresses = program
            .globals()
            .iter()
            .map(|global| self.allocate(global.size as usize))
            .collect();
        Loaded::place(Arc::new(program), addresses)
    }

    pub fn launch(
        &self,
        loaded: &Loaded,
        name: &str,
        grid: impl Into<Size>,
        block: impl Into<Size>,
        args: &[Arg],
    ) -> Result<(), Fault> {
        self.launch_with(loaded, name, grid, block, args, |_| {})
    }

    pub fn launch_with(
        &self,
        loaded: &Loaded,
        name: &str,
        grid: impl Into<Size>,
        block: impl Into<Size>,
        args: &[Arg],
        change: impl FnOnce(&mut Launch),
    ) -> Result<(), Fault> {
        let kernel = loaded.program().kernel(name).expect(name);
        let layout = &loaded.program().kernels()[kernel];
        let mut params = vec![0u8; layout.param_size];
        assert_eq!(layout.params.len(), args.len(), "arguments of {name}");
        for (param, arg) in layout.params.iter().zip(args) {
            let bytes = arg.bytes();
            assert_eq!(param.size, bytes.len());
            params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
        }
        let mut launch = Launch {
            loaded,
            kernel,
            grid: grid.into().0,
            block: block.into().0,
            cluster: [1; 3],
            dynamic_shared: 0,
            params: &params,
            cooperative: false,
            grid_id: 1,
        };
        change(&mut launch);
        let print = |text: &[u8]| self.printed.lock().unwrap().extend_from_slice(text);
        let env = Environment {
            memory: &self.memory,
            workers: self.workers,
            seats: &Seats::new(4),
            print: &print,
            cancelled: &self.cancelled,
        };
        run(&launch, &env)
    }

    pub fn printed(&self) -> String {
        String::from_utf8(self.printed.lock().unwrap().clone()).unwrap()
    }

    /// Runs `main(out, in)` of a [`kernel`] with one block and gives back `count` values of `out`.
    pub fn run_main<T: Copy, I: Copy>(
        &mut self,
        text: &str,
        threads: u32,
        input: &[I],
        count: usize,
    ) -> Result<Vec<T>, Fault> {
        let loaded = self.load(text);
        let out = self.allocate(count * size_of::<T>());
        let input = self.upload(input);
        let args = [Arg::Pointer(out), Arg::Pointer(input)];
        self.launch(&loaded, "main", 1, threads, &args)?;
        Ok(self.download(out, count))
    }
}

/// Runs a kernel body for its `out`.
pub fn outputs(body: &str, threads: u32) -> Vec<u32> {
    let mut device = Device::new();
    device
        .run_main(&kernel(body), threads, &[0u32], threads as usize)
        .unwrap_or_else(|fault| panic!("{fault}"))
}

pub struct Size(pub [u32; 3]);

impl From<u32> for Size {
    fn from(x: u32) -> Size {
        Size([x, 1, 1])
    }
}

impl From<[u32; 2]> for Size {
    fn from([x, y]: [u32; 2]) -> Size {
        Size([x, y, 1])
    }
}

impl From<[u32; 3]> for Size {
    fn from(size: [u32; 3]) -> Size {
        Size(size)
    }
}

#[derive(Clone, Copy)]
pub enum Arg {
    Pointer(u64),
    Int(i32),
    Double(f64),
}

impl Arg {
    fn bytes(self) -> Vec<u8> {
        match self {
            Arg::Pointer(value) => value.to_le_bytes().to_vec(),
            Arg::Int(value) => value.to_le_bytes().to_vec(),
            Arg::Double(value) => value.to_le_bytes().to_vec(),
        }
    }
}
