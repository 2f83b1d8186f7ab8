//! Kernels as functions of a context, and checked launches of them.

use std::{
    ffi::{CString, c_void},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    abi::LaunchAttribute,
    context::Context,
    device::{
        MAX_CLUSTER, MAX_THREADS_PER_BLOCK, REGISTERS_PER_SM, SHARED_PER_BLOCK,
        SHARED_PER_BLOCK_OPTIN,
    },
    engine::Code,
    result::{
        Answer, COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_CLUSTER_SIZE, INVALID_HANDLE, INVALID_VALUE,
        LAUNCH_OUT_OF_RESOURCES,
    },
    state::driver,
};
use softgpu_machine::program::Kernel as KernelCode;

/// What cuFuncSetAttribute can change.
#[derive(Clone, Copy)]
pub struct Settings {
    pub max_dynamic_shared: u64,
    pub carveout: i32,
    pub cluster: [i32; 3],
    pub non_portable_cluster: i32,
    pub cluster_policy: i32,
}

impl Settings {
    pub fn of(kernel: &KernelCode) -> Self {
        let cluster = kernel.required_cluster.unwrap_or([0; 3]);
        Self {
            max_dynamic_shared: SHARED_PER_BLOCK.saturating_sub(kernel.static_shared as u64),
            carveout: -1,
            cluster: cluster.map(|n| n as i32),
            non_portable_cluster: 0,
            cluster_policy: 0,
        }
    }

    /// A CUfunction_attribute of `kernel` with these settings.
    pub fn attribute(
        &self,
        kernel: &KernelCode,
        code_target: i32,
        const_bytes: u64,
        number: u32,
    ) -> Answer<i32> {
        Ok(match number {
            0 => max_threads(kernel) as i32,
            1 => kernel.static_shared as i32,
            2 => const_bytes as i32,
            3 => kernel.local_size as i32,
            4 => registers(kernel) as i32,
            5 => code_target,
            6 => 90,
            7 => 0,
            8 => self.max_dynamic_shared as i32,
            9 => self.carveout,
            10 => i32::from(kernel.required_cluster.is_some()),
            11..=13 => self.cluster[number as usize - 11],
            14 => self.non_portable_cluster,
            15 => self.cluster_policy,
            _ => return Err(INVALID_VALUE),
        })
    }

    pub fn set(&mut self, kernel: &KernelCode, number: u32, value: i32) -> Answer {
        match number {
            8 => {
                let most = SHARED_PER_BLOCK_OPTIN.saturating_sub(kernel.static_shared as u64);
                match u64::try_from(value) {
                    Ok(value) if value <= most => self.max_dynamic_shared = value,
                    _ => return Err(INVALID_VALUE),
                }
            }
            9 if (-1..=100).contains(&value) => self.carveout = value,
            11..=13 if value >= 0 => self.cluster[number as usize - 11] = value,
            14 => self.non_portable_cluster = value,
            15 => self.cluster_policy = value,
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }
}

/// CU_FUNC_ATTRIBUTE_NUM_REGS: what a compiler would at least take.
pub fn registers(kernel: &KernelCode) -> u32 {
    kernel.register_count.clamp(8, 255)
}

/// CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK.
pub fn max_threads(kernel: &KernelCode) -> u32 {
    let by_registers = REGISTERS_PER_SM / (registers(kernel).next_multiple_of(8) * 32) * 32;
    // `.reqntid` does not count here, as it does not in a real driver.
    let by_directive = kernel.max_block.map_or(MAX_THREADS_PER_BLOCK, |block| {
        block.iter().fold(1u32, |all, n| all.saturating_mul(*n))
    });
    by_directive.min(MAX_THREADS_PER_BLOCK).min(by_registers)
}

/// The launch state of the oldest API: cuFuncSetBlockShape, cuParamSet*, cuLaunch.
#[derive(Clone, Default)]
pub struct OldLaunch {
    pub block: [u32; 3],
    pub shared: u32,
    pub params: Vec<u8>,
}

/// A kernel of a module, in a context.
pub struct Function {
    pub handle: u64,
    pub context: u64,
    pub module: u64,
    pub code: Arc<Code>,
    pub kernel: usize,
    pub name: CString,
    settings: Mutex<Settings>,
    old_launch: Mutex<OldLaunch>,
}

impl Function {
    pub fn new(handle: u64, context: u64, module: u64, code: Arc<Code>, kernel: usize) -> Self {
        let of = &code.program.kernels()[kernel];
        let (name, settings) = (CString::new(of.name.as_str()), Settings::of(of));
        Self {
            handle,
            context,
            module,
            code,
            kernel,
            name: name.unwrap_or_default(),
            settings: Mutex::new(settings),
            old_launch: Mutex::default(),
        }
    }

    pub fn kernel(&self) -> &KernelCode {
        &self.code.program.kernels()[self.kernel]
    }

    pub fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn old_launch(&self) -> MutexGuard<'_, OldLaunch> {
        self.old_launch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn attribute(&self, number: u32) -> Answer<i32> {
        let settings = *self.settings();
        let constants = constant_bytes(&self.code.program);
        settings.attribute(self.kernel(), self.code.target, constants, number)
    }
}

/// Bytes of `.const` variables in a program.
pub fn constant_bytes(program: &softgpu_machine::program::Program) -> u64 {
    let is_constant = |g: &&softgpu_machine::program::Global| {
        g.space == softgpu_machine::program::GlobalSpace::Const
    };
    program
        .globals()
        .iter()
        .filter(is_constant)
        .map(|g| g.size)
        .sum()
}

/// The function a CUfunction names; a CUkernel is accepted as the one in `context`.
pub fn resolve(context: &Arc<Context>, handle: u64) -> Answer<Arc<Function>> {
    if let Some(function) = driver().functions.get(handle) {
        return Ok(function);
    }
    let kernel = driver().kernels.get(handle).ok_or(INVALID_HANDLE)?;
    kernel.function_in(context)
}

/// How a kernel is to be launched, before it is checked.
#[derive(Clone, Copy)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub cluster: [u32; 3],
    pub cooperative: bool,
    pub priority: i32,
}

impl Shape {
    pub fn new(grid: [u32; 3], block: [u32; 3], shared: u32) -> Self {
        Self {
            grid,
            block,
            shared,
            cluster: [0; 3],
            cooperative: false,
            priority: 0,
        }
    }

    /// Applies attributes of cuLaunchKernelEx; those that only hint are accepted and left.
    pub fn apply(&mut self, attributes: &[LaunchAttribute]) -> Answer {
        for attribute in attributes {
            let [first, second, third, ..] = attribute.value;
            match attribute.id {
                2 => self.cooperative = first != 0,
                4 => self.cluster = [first, second, third],
                8 => self.priority = first as i32,
                0 | 1 | 3 | 5..=7 | 9..=12 | 14 | 16 => {}
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }
}

/// A checked launch with its parameters.
pub struct KernelWork {
    pub function: Arc<Function>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub cooperative: bool,
    pub priority: i32,
    pub params: Vec<u8>,
    /// Addresses of the parameters in `params`, for queries of a graph node.
    pointers: Vec<usize>,
}

impl KernelWork {
    pub fn new(function: Arc<Function>, shape: Shape, params: Vec<u8>) -> Answer<Arc<Self>> {
        let cluster = check(&function, &shape)?;
        let start = params.as_ptr() as usize;
        let pointers = function
            .kernel()
            .params
            .iter()
            .map(|p| start + p.offset)
            .collect();
        Ok(Arc::new(Self {
            function,
            grid: shape.grid,
            block: shape.block,
            cluster,
            shared: shape.shared,
            cooperative: shape.cooperative,
            priority: shape.priority,
            params,
            pointers,
        }))
    }

    pub fn shape(&self) -> Shape {
        Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            cluster: self.cluster,
            cooperative: self.cooperative,
            priority: self.priority,
        }
    }

    /// As kernelParams: valid while the node is not changed.
    pub fn param_pointers(&self) -> *mut *mut c_void {
        match self.pointers.is_empty() {
            true => std::ptr::null_mut(),
            false => self.pointers.as_ptr() as *mut *mut c_void,
        }
    }
}

/// Checks a launch against the device and the kernel; returns the cluster it will have.
fn check(function: &Function, shape: &Shape) -> Answer<[u32; 3]> {
    let kernel = function.kernel();
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    if shape.grid.contains(&0) || shape.block.contains(&0) {
        return Err(INVALID_VALUE);
    }
    if gx > i32::MAX as u32 || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 || bz > 64 {
        return Err(INVALID_VALUE);
    }
    let threads = bx * by * bz;
    if threads > MAX_THREADS_PER_BLOCK {
        return Err(INVALID_VALUE);
    }
    if kernel
        .required_block
        .is_some_and(|block| block != shape.block)
    {
        return Err(INVALID_VALUE);
    }
    if threads > max_threads(kernel) {
        return Err(INVALID_VALUE);
    }
    if u64::from(shape.shared) > function.settings().max_dynamic_shared {
        return Err(INVALID_VALUE);
    }
    let wanted = match shape.cluster {
        [0, 0, 0] => function.settings().cluster.map(|n| n as u32),
        cluster => cluster,
    };
    let cluster = wanted.map(|n| n.max(1));
    let product = cluster.iter().fold(1u32, |all, n| all.saturating_mul(*n));
    if product > MAX_CLUSTER {
        return Err(INVALID_CLUSTER_SIZE);
    }
    if (0..3).any(|i| !shape.grid[i].is_multiple_of(cluster[i])) {
        return Err(INVALID_CLUSTER_SIZE);
    }
    if shape.cooperative {
        let blocks = u64::from(gx) * u64::from(gy) * u64::from(gz);
        let resident = super::occupancy::blocks_per_sm(kernel, threads, u64::from(shape.shared));
        if blocks > u64::from(resident) * u64::from(driver().device.sm_count) {
            return Err(COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    Ok(cluster)
}

/// Gathers a kernel's parameters from kernelParams or extra.
pub unsafe fn gather(
    kernel: &KernelCode,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> Answer<Vec<u8>> {
    let mut block = vec![0; kernel.param_size];
    if !params.is_null() {
        for (i, param) in kernel.params.iter().enumerate() {
            let from = unsafe { *params.add(i) }.cast::<u8>();
            if from.is_null() {
                return Err(INVALID_VALUE);
            }
            let place = block
                .get_mut(param.offset..param.offset + param.size)
                .ok_or(INVALID_VALUE)?;
            place.copy_from_slice(unsafe { std::slice::from_raw_parts(from, param.size) });
        }
    } else if !extra.is_null() {
        let (buffer, size) = unsafe { packed(extra)? };
        // More than the kernel takes is refused; what is missing is zero.
        if size > kernel.param_size {
            return Err(LAUNCH_OUT_OF_RESOURCES);
        }
        block[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(buffer, size) });
    } else if !kernel.params.is_empty() {
        return Err(INVALID_VALUE);
    }
    Ok(block)
}

/// The buffer and size in a list of CU_LAUNCH_PARAM_* keys and values.
unsafe fn packed(extra: *const *const c_void) -> Answer<(*const u8, usize)> {
    let (mut buffer, mut size) = (std::ptr::null(), 0);
    for pair in 0..4 {
        let key = unsafe { *extra.add(pair * 2) } as usize;
        if key == 0 {
            break;
        }
        let value = unsafe { *extra.add(pair * 2 + 1) };
        match key {
            1 => buffer = value.cast::<u8>(),
            2 if !value.is_null() => size = unsafe { value.cast::<usize>().read_unaligned() },
            _ => return Err(INVALID_VALUE),
        }
    }
    if buffer.is_null() && size > 0 {
        return Err(INVALID_VALUE);
    }
    // An empty block needs no buffer; a dangling pointer keeps the slice valid.
    let buffer = if buffer.is_null() {
        std::ptr::dangling()
    } else {
        buffer
    };
    Ok((buffer, size))
}
