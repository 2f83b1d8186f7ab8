//! Libraries: code that belongs to no context, loaded into each that uses it.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{
    context::Context,
    launch::{Function, Settings},
    module::Module,
    result::{Answer, INVALID_HANDLE},
    state::driver,
};
use softgpu_machine::program::Program;

pub struct Library {
    pub handle: u64,
    pub program: Arc<Program>,
    pub target: i32,
    /// Handles of the kernels, in the program's order.
    pub kernels: Vec<u64>,
    /// By the id of the context: handles of primary contexts come again.
    modules: Mutex<HashMap<u64, Arc<Module>>>,
}

/// A kernel of a library.
pub struct Kernel {
    pub number: usize,
    pub name: CString,
    library: Weak<Library>,
    settings: Mutex<Settings>,
}

impl Library {
    pub fn load(program: Arc<Program>, target: i32) -> Arc<Self> {
        let kernels = &driver().kernels;
        let library = Arc::new(Self {
            handle: driver().libraries.fresh(),
            kernels: program.kernels().iter().map(|_| kernels.fresh()).collect(),
            program,
            target,
            modules: Mutex::default(),
        });
        for (number, handle) in library.kernels.iter().enumerate() {
            let code = &library.program.kernels()[number];
            let kernel = Kernel {
                number,
                name: CString::new(code.name.as_str()).unwrap_or_default(),
                library: Arc::downgrade(&library),
                settings: Mutex::new(Settings::of(code)),
            };
            kernels.insert(*handle, Arc::new(kernel));
        }
        driver().libraries.insert(library.handle, library.clone());
        library
    }

    /// The library's module in a context, loaded when it is first needed.
    pub fn module_in(&self, context: &Arc<Context>) -> Answer<Arc<Module>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&context.id) {
            return Ok(module.clone());
        }
        let module = Module::load(context, self.program.clone(), self.target, true)?;
        modules.insert(context.id, module.clone());
        Ok(module)
    }

    /// Forgets what was loaded into a context that is gone.
    pub fn forget_context(&self, id: u64) {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = modules.remove(&id);
        drop(modules);
        drop(gone);
    }

    /// Forgets the library, its kernels and its modules everywhere.
    pub fn unload(&self) -> Answer {
        driver()
            .libraries
            .remove(self.handle)
            .ok_or(INVALID_HANDLE)?;
        for kernel in &self.kernels {
            driver().kernels.remove(*kernel);
        }
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        for module in modules.values() {
            // A module whose context is gone went with it.
            if let Some(context) = driver().contexts.get(module.context) {
                context.drain();
                let _ = module.unload();
            }
        }
        Ok(())
    }
}

impl Kernel {
    pub fn library(&self) -> Answer<Arc<Library>> {
        self.library.upgrade().ok_or(INVALID_HANDLE)
    }

    pub fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The function this kernel is in a context; it starts with the kernel's settings.
    pub fn function_in(&self, context: &Arc<Context>) -> Answer<Arc<Function>> {
        let module = self.library()?.module_in(context)?;
        let handle = module.function_of(self.number);
        let function = driver().functions.get(handle).ok_or(INVALID_HANDLE)?;
        let settings = *self.settings();
        let mut own = function.settings();
        own.max_dynamic_shared = own.max_dynamic_shared.max(settings.max_dynamic_shared);
        own.non_portable_cluster |= settings.non_portable_cluster;
        drop(own);
        Ok(function)
    }
}
