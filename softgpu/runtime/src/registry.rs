//! Fatbinaries, kernels and variables that the program registers from its constructors, and
//! how they become libraries, kernels and addresses of the driver.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::context::{self, Runtime};
use crate::driver::{Api, Streams};
use crate::error::{Error, Outcome};
use crate::types::{DevicePtr, Handle};

/// One registered fatbinary. Its address is the handle that compiled code passes around; it is
/// never freed, since code of a closed library may still hold it.
pub(crate) struct Binary {
    wrapper: *const c_void,
    library: Mutex<Library>,
    managed: Mutex<Vec<Managed>>,
    gone: AtomicBool,
}

// The wrapper is constant data of the program; the handles are the driver's to share.
unsafe impl Send for Binary {}
unsafe impl Sync for Binary {}

#[derive(Clone, Copy)]
enum Library {
    NotLoaded,
    Loaded(Handle),
    Failed(Error),
}

struct Managed {
    /// The program's own pointer variable, to be filled with the address.
    place: *mut *mut c_void,
    name: *const c_char,
}

/// A kernel by its host function.
struct Kernel {
    binary: &'static Binary,
    name: *const c_char,
    handle: AtomicPtr<c_void>,
}

#[derive(Clone, Copy)]
struct Variable {
    binary: &'static Binary,
    name: *const c_char,
    managed: bool,
}

#[derive(Default)]
struct Tables {
    binaries: Vec<&'static Binary>,
    kernels: HashMap<usize, &'static Kernel>,
    variables: HashMap<usize, Variable>,
    /// From the driver's kernel or function handle back to the host function.
    hosts: HashMap<usize, usize>,
}

unsafe impl Send for Tables {}
unsafe impl Sync for Tables {}
unsafe impl Sync for Kernel {}

static TABLES: RwLock<Option<Tables>> = RwLock::new(None);

fn change<T>(edit: impl FnOnce(&mut Tables) -> T) -> T {
    let mut tables = TABLES.write().unwrap_or_else(PoisonError::into_inner);
    edit(tables.get_or_insert_default())
}

fn look<T>(read: impl FnOnce(&Tables) -> Option<T>) -> Option<T> {
    let tables = TABLES.read().unwrap_or_else(PoisonError::into_inner);
    tables.as_ref().and_then(read)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Binary {
    pub(crate) fn register(wrapper: *const c_void) -> &'static Binary {
        let binary: &'static Binary = Box::leak(Box::new(Binary {
            wrapper,
            library: Mutex::new(Library::NotLoaded),
            managed: Mutex::default(),
            gone: AtomicBool::new(false),
        }));
        change(|tables| tables.binaries.push(binary));
        binary
    }

    /// The driver's library, loaded the first time. The lock is held meanwhile, so that a
    /// fatbinary is loaded once however many threads come first.
    fn load(&'static self, cu: &Api) -> Result<Handle, Error> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::INVALID_FUNCTION);
        }
        let mut library = lock(&self.library);
        match *library {
            Library::Loaded(handle) => return Ok(handle),
            Library::Failed(error) => return Err(error),
            Library::NotLoaded => {}
        }
        let mut handle = null_mut();
        let loaded = unsafe {
            cu.cuLibraryLoadData(
                &mut handle,
                self.wrapper,
                null_mut(),
                null_mut(),
                0,
                null_mut(),
                null_mut(),
                0,
            )
        };
        *library = match loaded {
            Ok(()) => Library::Loaded(handle),
            Err(error) => Library::Failed(error),
        };
        loaded?;
        for variable in lock(&self.managed).iter() {
            unsafe { self.fill(variable, cu, handle)? };
        }
        Ok(handle)
    }

    /// Loads the fatbinary and fills in its managed variables.
    pub(crate) fn initialise(&'static self, runtime: &Runtime) -> Outcome {
        self.load(runtime.api(Streams::Legacy)).map(drop)
    }

    pub(crate) fn add_kernel(&'static self, host: *const c_void, name: *const c_char) {
        let handle = AtomicPtr::new(null_mut());
        let kernel = Box::leak(Box::new(Kernel {
            binary: self,
            name,
            handle,
        }));
        change(|tables| tables.kernels.insert(host.addr(), kernel));
    }

    pub(crate) fn add_variable(&'static self, host: *const c_void, name: *const c_char) {
        let variable = Variable {
            binary: self,
            name,
            managed: false,
        };
        change(|tables| tables.variables.insert(host.addr(), variable));
    }

    pub(crate) fn add_managed(&'static self, place: *mut *mut c_void, name: *const c_char) {
        let variable = Managed { place, name };
        let library = *lock(&self.library);
        if let (Library::Loaded(handle), Some(runtime)) = (library, Runtime::if_started()) {
            let _ = unsafe { self.fill(&variable, runtime.api(Streams::Legacy), handle) };
        }
        lock(&self.managed).push(variable);
    }

    /// Forgets what was registered and unloads the library.
    pub(crate) fn unregister(&'static self) {
        self.gone.store(true, Ordering::Release);
        change(|tables| {
            tables
                .binaries
                .retain(|binary| !std::ptr::eq(*binary, self));
            tables
                .kernels
                .retain(|_, kernel| !std::ptr::eq(kernel.binary, self));
            tables
                .variables
                .retain(|_, variable| !std::ptr::eq(variable.binary, self));
            let Tables { hosts, kernels, .. } = tables;
            hosts.retain(|_, host| kernels.contains_key(host));
        });
        let library = std::mem::replace(&mut *lock(&self.library), Library::NotLoaded);
        if let (Library::Loaded(handle), Some(runtime)) = (library, Runtime::if_started()) {
            let _ = unsafe { runtime.api(Streams::Legacy).cuLibraryUnload(handle) };
        }
    }

    /// Writes a managed variable's address where the program expects it. From then on the
    /// program passes that address as the symbol.
    unsafe fn fill(&'static self, variable: &Managed, cu: &Api, library: Handle) -> Outcome {
        let (mut address, mut size) = (0, 0);
        let mut find =
            || unsafe { cu.cuLibraryGetManaged(&mut address, &mut size, library, variable.name) };
        // A driver may want a context for this, though NVIDIA's needs none.
        match find() {
            Err(Error::NO_CONTEXT) => {
                context::ensure(Runtime::get()?)?;
                find()?;
            }
            outcome => outcome?,
        }
        unsafe { variable.place.write(address as *mut c_void) };
        let entry = Variable {
            binary: self,
            name: variable.name,
            managed: true,
        };
        change(|tables| tables.variables.insert(address as usize, entry));
        Ok(())
    }
}

/// Loads the fatbinaries with managed variables, whose addresses the program may read without a
/// call; the others wait until something of theirs is used, as with NVIDIA's runtime. What fails
/// is remembered and reported when something of that fatbinary is used.
pub(crate) fn load_managed(cu: &Api) {
    let binaries = look(|tables| Some(tables.binaries.clone())).unwrap_or_default();
    for binary in binaries {
        if !lock(&binary.managed).is_empty() {
            let _ = binary.load(cu);
        }
    }
}

/// The driver's kernel for a host function; `None` if no such function was registered.
pub(crate) fn registered_kernel(cu: &Api, host: *const c_void) -> Option<Result<Handle, Error>> {
    let kernel = look(|tables| tables.kernels.get(&host.addr()).copied())?;
    let known = kernel.handle.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(Ok(known));
    }
    Some(kernel.find(cu, host))
}

impl Kernel {
    #[cold]
    fn find(&self, cu: &Api, host: *const c_void) -> Result<Handle, Error> {
        let library = self.binary.load(cu)?;
        let mut handle = null_mut();
        unsafe { cu.cuLibraryGetKernel(&mut handle, library, self.name) }.map_err(|error| {
            if error == Error::NOT_FOUND {
                Error::INVALID_FUNCTION
            } else {
                error
            }
        })?;
        remember_host(handle, host);
        self.handle.store(handle, Ordering::Release);
        Ok(handle)
    }
}

/// The driver's kernel for what a program passes as a function: a registered host function, or
/// a cudaKernel_t, which the driver checks.
pub(crate) fn kernel(cu: &Api, function: *const c_void) -> Result<Handle, Error> {
    if function.is_null() {
        return Err(Error::INVALID_FUNCTION);
    }
    registered_kernel(cu, function).unwrap_or(Ok(function.cast_mut()))
}

/// The name a host function was registered under.
pub(crate) fn kernel_name(host: *const c_void) -> Option<*const c_char> {
    look(|tables| tables.kernels.get(&host.addr()).map(|kernel| kernel.name))
}

/// Notes which host function a driver handle stands for.
pub(crate) fn remember_host(handle: Handle, host: *const c_void) {
    let known = look(|tables| tables.hosts.get(&handle.addr()).copied());
    if known != Some(host.addr()) {
        change(|tables| tables.hosts.insert(handle.addr(), host.addr()));
    }
}

/// The host function behind a driver handle, or null.
pub(crate) fn host_of(handle: Handle) -> *const c_void {
    look(|tables| tables.hosts.get(&handle.addr()).copied())
        .map_or(null(), |address| address as *const c_void)
}

/// Address and size of a registered variable in the current context.
pub(crate) fn variable(cu: &Api, host: *const c_void) -> Result<(DevicePtr, usize), Error> {
    let variable = look(|tables| tables.variables.get(&host.addr()).copied());
    let variable = variable.ok_or(Error::INVALID_SYMBOL)?;
    let library = variable.binary.load(cu)?;
    let (mut address, mut size) = (0, 0);
    let found = unsafe {
        if variable.managed {
            cu.cuLibraryGetManaged(&mut address, &mut size, library, variable.name)
        } else {
            cu.cuLibraryGetGlobal(&mut address, &mut size, library, variable.name)
        }
    };
    match found {
        Err(Error::NOT_FOUND) => Err(Error::INVALID_SYMBOL),
        outcome => outcome.map(|()| (address, size)),
    }
}

/// The registered binary behind a handle, if it is one.
pub(crate) fn binary(handle: *mut *mut c_void) -> Option<&'static Binary> {
    look(|tables| {
        tables.binaries.iter().rev().copied().find(|binary| {
            std::ptr::eq(
                std::ptr::from_ref(*binary).cast(),
                handle.cast_const().cast::<c_void>(),
            )
        })
    })
}
