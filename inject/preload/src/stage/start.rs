//! The constructor: is this process traced, and is there CUDA in it already?

use super::{embedded, hot, stack, trigger};
use crate::layout::{Engine, GetExportTable, Stage};
use crate::objects::{self, CONSISTENT, Loader, Object};
use crate::sys::File;
use core::cell::UnsafeCell;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use event::attach::{self, Change, Control};

const VARIABLE: &[u8] = b"CUTRACE_SESSION=";
const PATH_BYTES: usize = attach::PATH_BYTES;

/// What is known once the constructor has run. Used by the constructor, by the loader's callback and
/// by NVTX's: its users have [`Turn`].
pub(super) struct State {
    pub(super) session: [u8; PATH_BYTES],
    pub(super) session_bytes: usize,
    pub(super) loader: *const Loader,
    /// Every library may be of interest: the user named some.
    pub(super) hooks_more: bool,
    late: bool,
    /// Filters of system calls that the process began with: a container's.
    pub(super) filters: u32,
    pub(super) engine: Engine,
    /// The engine was tried and cannot work here.
    pub(super) failed: bool,
}

struct Shared(UnsafeCell<State>);
// SAFETY: see `State`.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State {
    session: [0; PATH_BYTES],
    session_bytes: 0,
    loader: null(),
    hooks_more: false,
    late: false,
    filters: 0,
    engine: Engine::NONE,
    failed: false,
}));

#[repr(transparent)]
pub struct SharedControl(UnsafeCell<Control>);
// SAFETY: written in turns; the tracer reads it.
unsafe impl Sync for SharedControl {}

/// The tracer finds it by this name.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
#[allow(non_upper_case_globals)]
pub static cutrace_control: SharedControl = SharedControl(UnsafeCell::new(Control {
    magic: attach::MAGIC,
    changes: AtomicU64::new(0),
    count: AtomicU64::new(0),
    trigger: Change::NONE,
    generation: AtomicU64::new(0),
    attached: AtomicU32::new(0),
    reserved: 0,
    session_bytes: 0,
    session: [0; PATH_BYTES],
}));

pub(super) fn control() -> *mut Control {
    cutrace_control.0.get()
}

impl State {
    /// # Safety
    /// It is the caller's turn, or the process is starting.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn get(_: &Turn) -> &'static mut State {
        unsafe { &mut *STATE.0.get() }
    }

    /// Lets a tracer that comes later see whose the hooks are.
    pub(super) fn announce(&self) {
        // SAFETY: one at a time, see `State`.
        let control = unsafe { &mut *control() };
        control.session = self.session;
        control.session_bytes = self.session_bytes as u64;
        let attached = u32::from(self.session_bytes > 0);
        control.attached.store(attached, Ordering::Release);
    }
}

#[cfg(cutrace_stage)]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = start;

#[cfg(cutrace_stage)]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = finish;

/// Runs before every other constructor of the process (`-z initfirst`).
pub extern "C" fn start() {
    // SAFETY: the process is starting, alone.
    let state = unsafe { &mut *STATE.0.get() };
    // Not from `environ`, which no library has set yet, nor from the constructor's arguments,
    // which only glibc passes.
    if !find_variable(state) {
        return;
    }
    let Some(loader) = find_loader() else {
        return;
    };
    state.loader = loader;
    state.hooks_more = names_libraries(state);
    state.filters = filters();
    state.late = comes_after_cuda(loader);
    state.announce();
    // SAFETY: the loader has called us: its list is complete.
    unsafe { trigger::install(loader, true) };
    changed();
}

/// The second door: libcuda opens the library that CUDA_INJECTION64_PATH names and calls this, in
/// programs that have lost LD_PRELOAD. The constructor has done everything by then.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
#[allow(non_snake_case)]
pub extern "C" fn InitializeInjection() -> i32 {
    1
}

/// NVTX, of which each library may hold a copy, opens the library that NVTX_INJECTION64_PATH names
/// and calls this. 0: nobody listens.
#[cfg_attr(cutrace_stage, unsafe(no_mangle))]
#[allow(non_snake_case)]
pub extern "C" fn InitializeInjectionNvtx2(tables: GetExportTable) -> i32 {
    // The loader tells of every change before it makes it, and waits for our turn to end: while it
    // says that its list is complete, the list stays so.
    let Some(_turn) = Turn::take() else {
        return 0;
    };
    // SAFETY: our turn.
    let state = unsafe { &mut *STATE.0.get() };
    if state.loader.is_null() || unsafe { (*state.loader).state } != CONSISTENT {
        return 0;
    }
    if state.engine.scan.is_none() && !state.failed && filters() <= state.filters {
        load_engine(state, crate::sys::ticks(), false);
        if let Some(scan) = state.engine.scan {
            scan();
        }
    }
    match state.engine.nvtx {
        // SAFETY: by NVTX's contract.
        Some(inject) => i32::from(unsafe { inject(tables) }),
        None => 0,
    }
}

/// One at a time: the loader's lock does not cover NVTX's call.
pub(super) struct Turn;

static TAKEN: AtomicBool = AtomicBool::new(false);
/// A second or so: a child that was forked in the middle of another thread's turn never gets one.
const PATIENCE: u32 = 20_000_000;
/// Looks between two offers of the processor to others.
const LOOKS: u32 = 10_000;

impl Turn {
    pub(super) fn take() -> Option<Turn> {
        for look in 1..=PATIENCE {
            if let Some(turn) = Turn::take_now() {
                return Some(turn);
            }
            // Whoever has it may be waiting for this processor: a library that is not hooked is one that is missed.
            if look.is_multiple_of(LOOKS) && !crate::sys::is_quiet() {
                crate::sys::give_way();
            }
            core::hint::spin_loop();
        }
        None
    }

    /// Without waiting: the one that has it may be stopped.
    pub(super) fn take_now() -> Option<Turn> {
        (!TAKEN.swap(true, Ordering::Acquire)).then_some(Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// Preloaded, this library comes before all others in the loader's list.
fn comes_after_cuda(loader: *const Loader) -> bool {
    // SAFETY: the loader is running our constructor: its list is complete.
    let mut before = unsafe { objects::objects(loader) }
        .skip(1)
        .take_while(|object| object.bias != embedded::own_base());
    before.any(|object| is_cuda(&object))
}

pub extern "C" fn finish() {
    if !trigger::is_in_place() {
        tell_missed();
    }
    // SAFETY: written by the constructor only.
    if let Some(finish) = unsafe { &*STATE.0.get() }.engine.finish {
        finish();
    }
}

/// Our jump is not in the loader any more, or never was: another tracer's breakpoint is there. What was loaded
/// without our knowledge was not hooked.
fn tell_missed() {
    let Some(_turn) = Turn::take() else {
        return;
    };
    // SAFETY: our turn.
    let state = unsafe { &mut *STATE.0.get() };
    let is_over = state.session_bytes == 0;
    if is_over || state.loader.is_null() || unsafe { (*state.loader).state } != CONSISTENT {
        return;
    }
    if state.engine.scan.is_none() {
        // SAFETY: the program ends: the list is complete.
        let mut found = unsafe { objects::objects(state.loader) };
        let is_wanted = state.hooks_more || found.any(|object| is_wanted(&object));
        if state.failed || !is_wanted || filters() > state.filters {
            return;
        }
        load_engine(state, crate::sys::ticks(), false);
    }
    if let Some(missed) = state.engine.missed {
        missed();
    }
}

/// The loader's list has changed.
pub extern "C" fn changed() {
    let began = crate::sys::ticks();
    let Some(_turn) = Turn::take() else {
        return;
    };
    // SAFETY: our turn.
    let state = unsafe { &mut *STATE.0.get() };
    let is_over = state.session_bytes == 0;
    if is_over || state.loader.is_null() || unsafe { (*state.loader).state } != CONSISTENT {
        return;
    }
    if state.engine.scan.is_none() && !state.failed {
        // A program that has restricted itself since may not survive what we would do.
        let since = filters().saturating_sub(state.filters);
        if since > 1 || since == 1 && !filter_is_ours() {
            state.failed = true;
            return;
        }
        // SAFETY: the list is complete and the lock is held.
        let mut found = unsafe { objects::objects(state.loader) };
        if !state.hooks_more && !found.any(|object| is_wanted(&object)) {
            return;
        }
        load_engine(state, began, false);
    }
    if let Some(scan) = state.engine.scan {
        scan();
    }
}

pub(super) fn load_engine(state: &mut State, began: u64, attached: bool) {
    state.failed = true;
    let stage = Stage {
        entries: &raw mut hot::cutrace_entries as *mut _,
        common: hot::cutrace_common as *const () as usize,
        whole: hot::cutrace_whole as *const () as usize,
        brief: hot::cutrace_brief as *const () as usize,
        // SAFETY: it only reads a word.
        thread: unsafe { hot::cutrace_thread_place() },
        generation: &raw mut hot::cutrace_generation,
        refill: &raw const hot::cutrace_refill,
        stack_entry: stack::cutrace_stack_entry as *const () as usize,
        note_stack: &raw const stack::cutrace_note_stack,
        host_clock: &raw const hot::cutrace_host_clock,
        gates: &raw const hot::cutrace_gates,
        quiet: &raw const crate::sys::QUIET,
        session: state.session.as_ptr(),
        session_bytes: state.session_bytes,
        loader: state.loader,
        late: state.late,
        attached,
        control: control(),
        began,
    };
    // SAFETY: as in `changed`.
    let Some(enter) = (unsafe { embedded::map_engine(state.loader) }) else {
        return;
    };
    // SAFETY: the engine was built with this stage.
    if !unsafe { enter(&stage, &mut state.engine) } {
        state.engine = Engine::NONE;
    }
}

/// Whether the engine has something to do with an object: CUDA is in it, or PyTorch's operators.
fn is_wanted(object: &Object) -> bool {
    is_cuda(object) || object.defines(objects::TORCH)
}

/// Whether an object has CUDA in it: a library that exports it, or a program with a static runtime.
fn is_cuda(object: &Object) -> bool {
    object.defines(b"cuInit")
        || object.defines(b"cudaMalloc")
        || objects::file::FileNames::of(object).has_runtime
}

/// How many filters the kernel puts this process's system calls through; older kernels say only
/// whether there are any.
pub(super) fn filters() -> u32 {
    let Some(file) = File::open(b"/proc/self/status\0", libc::O_RDONLY, 0) else {
        return 0;
    };
    let mut buffer = [0u8; 4096];
    let read = file.read(&mut buffer);
    let lines = buffer[..read].split(|byte| *byte == b'\n');
    let numbers = lines.filter_map(|line| {
        let line = line.strip_prefix(b"Seccomp")?;
        let digits = line.iter().filter(|byte| byte.is_ascii_digit());
        Some(digits.fold(0u32, |number, digit| {
            number.wrapping_mul(10).wrapping_add((*digit - b'0').into())
        }))
    });
    numbers.fold(0, u32::wrapping_add)
}

/// The tracer of system calls gives a second filter to processes that use the driver, and minds nothing.
fn filter_is_ours() -> bool {
    crate::sys::close(event::FILTER_IS_OURS) == 0
}

fn find_variable(state: &mut State) -> bool {
    let Some(file) = File::open(b"/proc/self/environ\0", libc::O_RDONLY, 0) else {
        return false;
    };
    let mut buffer = [0u8; 4096];
    // How much of the name has matched so far; None: not at the beginning of a variable.
    let mut matched = Some(0);
    loop {
        let read = file.read(&mut buffer);
        if read == 0 {
            return false;
        }
        for &byte in &buffer[..read] {
            match matched {
                Some(at) if at == VARIABLE.len() => {
                    if byte == 0 {
                        return state.session_bytes > 0;
                    }
                    if state.session_bytes + 1 >= PATH_BYTES {
                        return false;
                    }
                    state.session[state.session_bytes] = byte;
                    state.session_bytes += 1;
                }
                _ if byte == 0 => matched = Some(0),
                Some(at) if VARIABLE[at] == byte => matched = Some(at + 1),
                _ => matched = None,
            }
        }
    }
}

pub(super) fn find_loader() -> Option<*const Loader> {
    let file = File::open(b"/proc/self/auxv\0", libc::O_RDONLY, 0)?;
    let mut buffer = [[0usize; 2]; 64];
    let bytes = size_of_val(&buffer);
    // SAFETY: plain numbers may be read as bytes.
    let as_bytes = unsafe { core::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), bytes) };
    file.read(as_bytes);
    let find = |tag: u64| {
        let pair = buffer.iter().find(|pair| pair[0] as u64 == tag)?;
        Some(pair[1])
    };
    let (headers, count) = (find(libc::AT_PHDR)?, find(libc::AT_PHNUM)?);
    // SAFETY: the kernel says where the program's headers are.
    unsafe { objects::find_loader(headers as *const libc::Elf64_Phdr, count) }
}

/// Whether the session's options name libraries beyond CUDA's.
pub(super) fn names_libraries(state: &State) -> bool {
    let mut path = [0u8; PATH_BYTES + 16];
    let name = b"/options";
    path[..state.session_bytes].copy_from_slice(&state.session[..state.session_bytes]);
    path[state.session_bytes..][..name.len()].copy_from_slice(name);
    let path = &path[..state.session_bytes + name.len() + 1];
    let Some(file) = File::open(path, libc::O_RDONLY, 0) else {
        return false;
    };
    let mut buffer = [0u8; 512];
    // How much of the word has matched on this line; None: it has not.
    let (word, mut matched) = (b"lib ", Some(0));
    loop {
        let read = file.read(&mut buffer);
        if read == 0 {
            return false;
        }
        for &byte in &buffer[..read] {
            matched = match matched {
                _ if byte == b'\n' => Some(0),
                Some(at) if word[at] == byte => Some(at + 1),
                _ => None,
            };
            if matched == Some(word.len()) {
                return true;
            }
        }
    }
}
