//! Modules: code in a context; and links of several texts into one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::{
    context::Context,
    engine::{self, Code},
    image::{JitLog, LoadError, Texts},
    launch::Function,
    notice,
    result::{Answer, INVALID_HANDLE, NOT_FOUND},
    state::driver,
};
use softgpu_machine::program::Program;

pub struct Module {
    pub handle: u64,
    pub context: u64,
    pub code: Arc<Code>,
    /// Goes with the library, not by itself.
    pub is_of_library: bool,
    /// Handles of the functions asked for so far, by number of the kernel.
    functions: Mutex<HashMap<usize, u64>>,
}

impl Module {
    /// Loads a program into a context.
    pub fn load(
        context: &Context,
        program: Arc<Program>,
        target: i32,
        is_of_library: bool,
    ) -> Answer<Arc<Self>> {
        let code = Code::place(context, program, target)?;
        let handle = driver().modules.fresh();
        let module = Arc::new(Self {
            handle,
            context: context.handle,
            code,
            is_of_library,
            functions: Mutex::default(),
        });
        driver().modules.insert(handle, module.clone());
        Ok(module)
    }

    pub fn function(&self, name: &str) -> Answer<u64> {
        let kernel = self.code.program.kernel(name).ok_or(NOT_FOUND)?;
        Ok(self.function_of(kernel))
    }

    /// The handle of a kernel, the same whenever it is asked for.
    pub fn function_of(&self, kernel: usize) -> u64 {
        let mut functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *functions.entry(kernel).or_insert_with(|| {
            let handle = driver().functions.fresh();
            let code = self.code.clone();
            let function = Function::new(handle, self.context, self.handle, code, kernel);
            driver().functions.insert(handle, Arc::new(function));
            handle
        })
    }

    /// (address, bytes) of a variable.
    pub fn variable(&self, name: &str) -> Answer<(u64, u64)> {
        let (global, address) = self.code.variable(name).ok_or(NOT_FOUND)?;
        Ok((address, global.size))
    }

    /// Forgets the module and its functions and frees its variables.
    pub fn unload(&self) -> Answer {
        driver().modules.remove(self.handle).ok_or(INVALID_HANDLE)?;
        let functions = self
            .functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for handle in functions.values() {
            driver().functions.remove(*handle);
        }
        self.code.release();
        Ok(())
    }
}

/// Builds a program, with the outcome in the JIT log.
pub unsafe fn build_logged(
    texts: Result<Texts, LoadError>,
    log: &JitLog,
) -> Answer<(Arc<Program>, i32)> {
    let started = Instant::now();
    let built = texts.and_then(|texts| Ok((engine::build(&texts)?, texts.target())));
    let milliseconds = started.elapsed().as_secs_f32() * 1e3;
    match built {
        Ok(built) => {
            unsafe { log.finish("", milliseconds) };
            Ok(built)
        }
        Err(error) => {
            unsafe { log.finish(&error.log, milliseconds) };
            if let Some(why) = error.why() {
                notice::say(&format!(
                    "a module was not loaded, and its kernels will not run: {why}"
                ));
            }
            Err(error.code)
        }
    }
}

/// A link in progress: cuLinkCreate to cuLinkDestroy.
#[derive(Default)]
pub struct Linker {
    pub inputs: Mutex<Vec<String>>,
    /// What cuLinkComplete returned: the program may use it until cuLinkDestroy.
    pub output: Mutex<Option<Vec<u8>>>,
    /// The log buffers belong to the link, not to one call.
    pub log: Mutex<JitLog>,
}

// The log's pointers are only followed inside calls of the program, which owns them.
unsafe impl Send for JitLog {}
