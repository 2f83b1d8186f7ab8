//! PyTorch's operators: a callback of ours among its own, registered when the program runs its first operator.
//!
//! libtorch_cpu.so is found when the loader maps it, before its constructors have run: nothing of it may be called then.
//! So the function that every operator asks for its callbacks gets a jump to `first_operator`, which registers ours and
//! goes on. The callbacks stay registered, and this code stays mapped: PyTorch keeps pointers to them in operators that
//! are under way.

mod callbacks;
mod first_operator;
mod layout;
mod shapes;
mod tensors;
mod turn;

use self::layout::{Layout, Version};
use self::shapes::InputSizes;
use super::report::{self, Line};
use super::select::Options;
use crate::layout::Stage;
use crate::objects::{self, Loader, Object};
use crate::sys::File;
use alloc::boxed::Box;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub use self::callbacks::NUMBERS;

const NAME: &[u8] = b"_ZNK2at14RecordFunction4nameEv";
/// From 2.7 on.
const OVERLOAD: &[u8] = b"_ZNK2at14RecordFunction13overload_nameEv";
const CURRENT_THREAD: &[u8] = b"_ZN2at14RecordFunction15currentThreadIdEv";
const STEP: &[u8] = b"_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";
/// A function that returns a string is called otherwise where strings are those of C++11.
const WITH_NEW_STRINGS: &[u8] = b"_ZN2at11show_configB5cxx11Ev";

static WANTED: AtomicBool = AtomicBool::new(false);
static WANTS_SHAPES: AtomicBool = AtomicBool::new(false);
/// The library that tells of tensors' memory was found.
static HAS_TENSORS: AtomicBool = AtomicBool::new(false);
/// The PyTorch that is in this process; none is ever unloaded.
static TORCH: AtomicPtr<Torch> = AtomicPtr::new(core::ptr::null_mut());

type AddCallback = unsafe extern "C" fn(callbacks::RecordFunctionCallback) -> u64;
type Text = unsafe extern "C" fn(*const u8) -> *const u8;
type Number = unsafe extern "C" fn() -> u64;

/// What is called and read of it.
struct Torch {
    add: AddCallback,
    name: Text,
    overload: Option<Text>,
    current_thread: Number,
    layout: Layout,
    shapes: Option<InputSizes>,
}

/// Rows for our functions, if operators are wanted.
pub fn start(stage: &Stage, options: &Options) {
    if options.operators && callbacks::start(stage, options) {
        WANTS_SHAPES.store(options.shapes, Ordering::Relaxed);
        WANTED.store(true, Ordering::Release);
    }
}

/// Whether an object is PyTorch's library of operators.
pub fn is_torch(object: &Object) -> bool {
    object.defines(objects::TORCH)
}

/// A library was mapped: if it is PyTorch's, its operators are recorded from the first one on.
pub fn look_at(object: &Object, loader: *const Loader) {
    if !WANTED.load(Ordering::Acquire) {
        return;
    }
    if tensors::is_library(object)
        && version(object.path()).is_some_and(layout::is_known)
        && !HAS_TENSORS.swap(true, Ordering::AcqRel)
        && !tensors::install(object)
    {
        report::say(b"note PyTorch's memory is not recorded: its code cannot be changed\n");
    }
    if !is_torch(object) {
        return;
    }
    if !TORCH.load(Ordering::Acquire).is_null() {
        return refuse(object, format_args!("it is the second one in this process"));
    }
    let version = version(object.path());
    let Some(version) = version else {
        return refuse(object, format_args!("its version is not known"));
    };
    let new_strings = object.defines(WITH_NEW_STRINGS);
    let Some(layout) = Layout::of(version, new_strings) else {
        let (oldest, newest) = (layout::OLDEST, layout::NEWEST);
        return refuse(
            object,
            format_args!("this is {version}, and cutrace knows {oldest} to {newest}"),
        );
    };
    let Some(mut torch) = find(object, layout) else {
        return refuse(
            object,
            format_args!("{version} lacks a function that is needed"),
        );
    };
    if WANTS_SHAPES.load(Ordering::Relaxed) {
        torch.shapes = InputSizes::find(object, loader);
        if torch.shapes.is_none() {
            report::say(b"note this PyTorch does not tell the shapes of its operators' inputs\n");
        }
    }
    TORCH.store(Box::leak(Box::new(torch)), Ordering::Release);
    match first_operator::install(object, STEP) {
        true => {
            let mut line = Line::<256>::new();
            let _ = writeln!(line, "framework PyTorch {version}");
            report::say(line.bytes());
        }
        false => refuse(object, format_args!("its code cannot be changed")),
    }
}

fn find(object: &Object, layout: Layout) -> Option<Torch> {
    let function = |name| object.function(name).map(|(address, _)| address);
    let text = |address| {
        // SAFETY: `const char*` of a RecordFunction, by the symbol's name.
        unsafe { core::mem::transmute::<usize, Text>(address) }
    };
    // SAFETY: functions of these types, by their symbols' names.
    unsafe {
        Some(Torch {
            add: core::mem::transmute::<usize, AddCallback>(function(objects::TORCH)?),
            name: text(function(NAME)?),
            overload: function(OVERLOAD).map(text),
            current_thread: core::mem::transmute::<usize, Number>(function(CURRENT_THREAD)?),
            layout,
            shapes: None,
        })
    }
}

fn refuse(object: &Object, why: core::fmt::Arguments<'_>) {
    let mut line = Line::<1024>::new();
    let path = object.path();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    line.push(b"note PyTorch's operators are not recorded: ");
    let _ = write!(line, "{why} (");
    line.push(name).push(b")\n");
    report::say(line.bytes());
}

/// From the package that the library is in, the archive that it came with, or its own name.
fn version(path: &[u8]) -> Option<Version> {
    let folder = match path.iter().rposition(|byte| *byte == b'/') {
        Some(end) => &path[..end],
        None => b".",
    };
    let read = |file: &[u8], buffer: &mut [u8; 4096]| {
        let mut path = folder.to_vec();
        path.extend_from_slice(file);
        File::open(&path, libc::O_RDONLY, 0).map_or(0, |file| file.read(buffer))
    };
    let mut buffer = [0; 4096];
    let length = read(b"/../version.py\0", &mut buffer);
    if let Some(version) = Version::of_module(&buffer[..length]) {
        return Some(version);
    }
    let length = read(b"/../build-version\0", &mut buffer);
    Version::parse(&buffer[..length]).or_else(|| Version::of_file(path))
}
