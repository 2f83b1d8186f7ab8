//! Loading with probes: the text that takes an image's place, what the driver makes of it, and the
//! way back to the original where it does not.

use crate::compare::{self, Needs};
use crate::driver::{self, OutsideCapture, SUCCESS};
use crate::error::LoadError;
use crate::image::{self, Code};
use crate::rewritten::{self, Prepared};
use crate::state::{self, State};
use std::ffi::{CString, c_void};
use std::time::Instant;

/// The driver has two ways to load code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Module,
    Library,
}

/// A program's call.
pub struct Request {
    pub unit: Unit,
    pub options: Vec<u32>,
    /// Where the program's values are: some are for results.
    pub values: *mut *mut c_void,
    pub library_options: Vec<u32>,
    pub library_values: Vec<*mut c_void>,
}

/// CU_JIT_*
const MAX_REGISTERS: u32 = 0;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
/// CU_LIBRARY_BINARY_IS_PRESERVED: it is not the program's binary any more.
const PRESERVED: u32 = 1;

impl Request {
    pub fn module() -> Request {
        Request {
            unit: Unit::Module,
            options: Vec::new(),
            values: std::ptr::null_mut(),
            library_options: Vec::new(),
            library_values: Vec::new(),
        }
    }

    /// With more options than the program gave.
    unsafe fn load(&self, image: *const c_void, more: &[(u32, *mut c_void)]) -> Result<usize, i32> {
        let mut handle = 0;
        let mut options = self.options.clone();
        let own = options.len();
        // SAFETY: the program's arrays have a value for each option.
        let mut values: Vec<*mut c_void> =
            (0..own).map(|at| unsafe { *self.values.add(at) }).collect();
        for (option, value) in more {
            options.push(*option);
            values.push(*value);
        }
        let count = options.len() as u32;
        let kept = self.library_options.iter().zip(&self.library_values);
        let (library_options, library_values): (Vec<u32>, Vec<*mut c_void>) =
            kept.filter(|(option, _)| **option != PRESERVED).unzip();
        // SAFETY: all arrays are as long as said.
        let result = unsafe {
            match self.unit {
                Unit::Module if count == 0 => driver::cuModuleLoadData(&mut handle, image),
                Unit::Module => driver::cuModuleLoadDataEx(
                    &mut handle,
                    image,
                    count,
                    options.as_ptr(),
                    values.as_ptr(),
                ),
                Unit::Library => driver::cuLibraryLoadData(
                    &mut handle,
                    image,
                    options.as_ptr(),
                    values.as_ptr(),
                    count,
                    library_options.as_ptr(),
                    library_values.as_ptr(),
                    library_options.len() as u32,
                ),
            }
        };
        for (at, value) in values.iter().take(own).enumerate() {
            // SAFETY: as above; results of options go back to where the program looks for them.
            unsafe { *self.values.add(at) = *value };
        }
        if result == SUCCESS {
            Ok(handle)
        } else {
            Err(result)
        }
    }

    fn unload(&self, handle: usize) {
        // SAFETY: ours, and nobody knows of it.
        unsafe {
            match self.unit {
                Unit::Module => driver::cuModuleUnload(handle),
                Unit::Library => driver::cuLibraryUnload(handle),
            }
        };
    }
}

/// What became of it.
pub enum Outcome {
    Loaded(usize),
    /// The original is to be loaded; if that works, this is what went wrong with the probes.
    Original(Vec<String>),
}

/// Loads what an image should be with its probes.
///
/// # Safety
/// `original` loads what the program wants to load, and may be called any time before this returns.
pub unsafe fn load(
    request: &Request,
    code: Code,
    what: &str,
    original: impl Fn() -> Result<usize, i32>,
) -> Outcome {
    state::with(|state| {
        let Some(prepared) = prepare(state, code, what) else {
            return Outcome::Original(Vec::new());
        };
        let _outside = OutsideCapture::begin();
        // SAFETY: by contract.
        let mut done = unsafe { replace(state, request, &prepared, &original) };
        if done.is_err()
            && let Some(plain) = without_sums(state, &prepared)
        {
            // SAFETY: by contract.
            done = unsafe { replace(state, request, &plain, &original) };
        }
        match done {
            Ok(handle) => Outcome::Loaded(handle),
            Err(why) => {
                let names = prepared.kernels.iter().filter(|one| one.refused.is_none());
                Outcome::Original(names.map(|one| format!("{} {why}", one.name)).collect())
            }
        }
    })
    .unwrap_or(Outcome::Original(Vec::new()))
}

/// The same without registers of the kernel: sums that probes keep there may be what it had no room for.
fn without_sums(state: &State, prepared: &Prepared) -> Option<Prepared> {
    let text = prepared.source.as_ref()?;
    let mut orders = state.orders.clone();
    for probe in &mut orders.plan.probes {
        probe.inline = None;
    }
    rewritten::prepare(&orders, text).ok()?
}

/// What takes an image's place, if it has kernels that are to be probed.
pub fn prepare(state: &mut State, code: Code, what: &str) -> Option<Prepared> {
    let text = match code {
        Code::Ptx(text) => text,
        Code::Sass(names) => {
            say_sass(state, names, what);
            return None;
        }
        Code::Cubin(names, cubin) => match of_triton(state, &names, &cubin) {
            Some(text) => text,
            None => {
                say_sass(state, names, what);
                return None;
            }
        },
        Code::Unknown => return None,
    };
    let began = Instant::now();
    if let Ok(names) = ptx::rewrite::kernels(&text) {
        state.saw(names, "seen");
    }
    let mut prepared = match rewritten::prepare(&state.orders, &text) {
        Ok(prepared) => prepared?,
        Err(why) => {
            state.notes.say("note", &format!("{what}: {why}"));
            return None;
        }
    };
    let has_sums = (state.orders.plan.probes.iter()).any(|probe| probe.inline.is_some());
    prepared.source = has_sums.then_some(text);
    for kernel in &prepared.kernels {
        match &kernel.refused {
            Some(why) => state
                .notes
                .say("refused", &format!("{} {why}", kernel.name)),
            None => {
                let [entries, returns, accesses, stubs, skipped] = kernel.counts;
                let took = began.elapsed().as_micros();
                state.notes.say(
                    "probed",
                    &format!(
                        "{} entries={entries} returns={returns} accesses={accesses} stubs={stubs} \
                         skipped={skipped} rewrite_us={took} cached={}",
                        kernel.name, prepared.from_cache
                    ),
                );
            }
        }
    }
    let all_refused = prepared.kernels.iter().all(|one| one.refused.is_some());
    (!all_refused).then_some(prepared)
}

fn is_wanted(state: &State, name: &str) -> bool {
    (state.orders.plan.probes.iter()).any(|probe| probe.kernels.matches(name))
}

/// Kernels that match and cannot be probed.
fn say_sass(state: &mut State, names: Vec<String>, what: &str) {
    for name in &names {
        if is_wanted(state, name) && !state.linked_kernels.contains(name) {
            state.notes.say("sass", &format!("{name} {what}"));
        }
    }
    state.saw(names, "seen-sass");
}

/// The PTX of a cubin that Triton made, if its kernel matches.
fn of_triton(state: &State, names: &[String], cubin: &[u8]) -> Option<String> {
    let cache = crate::triton::cache()?;
    let mut wanted = names.iter().filter(|name| is_wanted(state, name));
    wanted.find_map(|name| crate::triton::text(&cache, name, cubin))
}

unsafe fn replace(
    state: &mut State,
    request: &Request,
    prepared: &Prepared,
    original: impl Fn() -> Result<usize, i32>,
) -> Result<usize, LoadError> {
    let text = CString::new(prepared.text.as_str()).map_err(|_| LoadError::Nul)?;
    let image = text.as_ptr().cast::<c_void>();
    let began = Instant::now();
    // SAFETY: the text ends with its NUL.
    let mut handle = unsafe { load_saying_why(request, image, &[]) }?;
    let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
    let device = device();
    let names: Vec<&str> = (prepared.kernels.iter())
        .filter(|one| one.refused.is_none())
        .map(|one| one.name.as_str())
        .collect();
    // Without a context a library's kernels have no needs yet.
    let has_context = driver::current_context() != 0;
    let before: Vec<Option<Needs>> = match original() {
        Ok(first) => {
            let needs = names.iter().map(|name| {
                has_context
                    .then(|| compare::needs(request.unit, first, name, device))
                    .flatten()
            });
            let needs = needs.collect();
            request.unload(first);
            needs
        }
        Err(_) => vec![None; names.len()],
    };
    let measure = |handle: usize| -> Vec<Option<Needs>> {
        let needs = names.iter().map(|name| {
            has_context
                .then(|| compare::needs(request.unit, handle, name, device))
                .flatten()
        });
        needs.collect()
    };
    let mut after = measure(handle);
    if let Some(limit) = register_limit(&before, &after, device) {
        request.unload(handle);
        // SAFETY: as above.
        handle = unsafe {
            load_saying_why(
                request,
                image,
                &[(MAX_REGISTERS, limit as usize as *mut c_void)],
            )
        }?;
        after = measure(handle);
        if register_limit(&before, &after, device).is_some() {
            request.unload(handle);
            return Err(LoadError::SmallerBlocks);
        }
        state.notes.say(
            "note",
            &format!("registers limited to {limit}, for blocks as large as before"),
        );
    }
    for (name, (before, after)) in names.iter().zip(before.iter().zip(&after)) {
        if let (Some(before), Some(after)) = (before, after) {
            let blocks = match (before.blocks, after.blocks) {
                (Some(before), Some(after)) => format!(" blocks={before}/{after}"),
                _ => String::new(),
            };
            state.notes.say(
                "needs",
                &format!(
                    "{name} registers={}/{} local={}/{} threads={}/{}{blocks} jit_ms={milliseconds:.1}",
                    before.registers,
                    after.registers,
                    before.local,
                    after.local,
                    before.most_threads,
                    after.most_threads
                ),
            );
        }
    }
    let bound = match request.unit {
        Unit::Module => state.bind_module(handle).map(|_| ()),
        Unit::Library => state.add_library(handle),
    };
    if let Err(why) = bound {
        state.remove_library(handle);
        request.unload(handle);
        return Err(why.into());
    }
    Ok(handle)
}

/// Registers a thread may have so that blocks can be as large as before; `None`: they can.
fn register_limit(before: &[Option<Needs>], after: &[Option<Needs>], device: i32) -> Option<u32> {
    // CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
    let all = driver::device_attribute(12, device).max(1) as u32;
    let pairs = before.iter().flatten().zip(after.iter().flatten());
    pairs
        .filter(|(before, after)| after.most_threads < before.most_threads)
        .map(|(before, _)| (all / before.most_threads.max(32) as u32) & !7)
        .min()
        .map(|limit| limit.max(16))
}

unsafe fn load_saying_why(
    request: &Request,
    image: *const c_void,
    more: &[(u32, *mut c_void)],
) -> Result<usize, LoadError> {
    let mut log = vec![0u8; 4096];
    let mut all = more.to_vec();
    if !request.options.contains(&ERROR_LOG) {
        all.push((ERROR_LOG, log.as_mut_ptr().cast()));
        all.push((ERROR_LOG_BYTES, (log.len() - 1) as *mut c_void));
    }
    // SAFETY: by the caller; the log is as long as said.
    unsafe { request.load(image, &all) }.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
        let words = String::from_utf8_lossy(&log[..end]);
        LoadError::Refused {
            error,
            log: words.trim().to_owned(),
        }
    })
}

/// Of the current context; the first, if there is none.
fn device() -> i32 {
    let mut device = 0;
    // SAFETY: it writes one word.
    unsafe { driver::cuCtxGetDevice(&mut device) };
    device
}

/// The compute capability that PTX is chosen for, 90 for 9.0.
pub fn capability() -> u32 {
    let device = device();
    let of = |number| driver::device_attribute(number, device).max(0) as u32;
    of(75) * 10 + of(76)
}

/// What an image is of: the library it is in, as far as the loader knows.
pub fn origin(image: *const c_void) -> String {
    // SAFETY: the loader looks the address up and reads nothing there.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(image, &mut found) != 0 && !found.dli_fname.is_null() {
            return std::ffi::CStr::from_ptr(found.dli_fname)
                .to_string_lossy()
                .into_owned();
        }
    }
    "a module".into()
}

/// # Safety
/// `image` is what the driver would take.
pub unsafe fn code_at(image: *const c_void) -> Code {
    // SAFETY: by contract.
    unsafe { image::at(image, capability()) }
}
