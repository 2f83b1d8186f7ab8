//! What is done with an object that has a runtime linked in.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{
    code::{Patches, Target, TooShort},
    file::{self, Function, Runtime},
    objects::Object,
};

/// The status of a program that cannot be served, as of one that cutrace cannot start.
const CANNOT_SERVE: c_int = 125;
/// cudaErrorNotSupported.
const NOT_SUPPORTED: c_int = 801;

/// One line on stderr, in one piece.
pub fn say(line: &str) {
    let line = format!("{line}\n");
    // SAFETY: a slice of ours; where nobody listens, nothing is lost.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Serves a runtime that is linked into the object. A program that cannot be served ends here, before it prints
/// results of kernels that never ran.
pub fn serve(object: &Object) {
    let why = match file::runtime_in(&object.file()) {
        Runtime::NotLinkedIn => return,
        Runtime::LinkedIn(functions) => match version(&functions) {
            None => CannotServe::TooOld,
            Some(version) => match redirect(object, &functions, version) {
                Ok(()) => return,
                Err(why) => why.into(),
            },
        },
        // A library may never use its runtime: libcuda says so when it does.
        Runtime::WithoutSymbols if object.library.is_some() => return,
        Runtime::WithoutSymbols => CannotServe::WithoutSymbols,
    };
    say(&format!("cutrace: {} {why}", object.name()));
    if object.library.is_none() {
        // SAFETY: ends the process; nothing of the program has run yet.
        unsafe { libc::_exit(CANNOT_SERVE) };
    }
}

/// Why a program with a runtime of its own cannot run on softgpu.
#[derive(Debug, Error)]
enum CannotServe {
    #[error(
        "has NVIDIA's CUDA runtime linked in without symbols; softgpu cannot serve it: build it with -cudart shared"
    )]
    WithoutSymbols,
    #[error(
        "has the runtime of CUDA 11 or older linked in; softgpu serves those of CUDA 12 and 13"
    )]
    TooOld,
    #[error(
        "has NVIDIA's CUDA runtime linked in, and softgpu cannot take its place: {0}; build it with -cudart shared"
    )]
    InPlace(#[from] CannotRedirect),
}

/// Why the functions of a runtime keep their own code.
#[derive(Debug, Error)]
enum CannotRedirect {
    #[error("its libraries were not found")]
    NoFolder,
    #[error("cannot load {}", .0.display())]
    Library(PathBuf),
    #[error("{name}: {why}")]
    Function { name: String, why: TooShort },
    #[error("{0}")]
    Code(#[from] std::io::Error),
}

/// Which libcudart has functions of the same names and signatures; None before CUDA 12.
fn version(functions: &[Function]) -> Option<u32> {
    let has = |name: &str| functions.iter().any(|function| function.name == name);
    // CUDA 12 has this beside the one of CUDA 11, and 13 dropped both that and what was deprecated.
    if has("cudaGetDeviceProperties_v2") {
        Some(12)
    } else if has("cudaThreadExit") || has("cudaThreadSynchronize") {
        None
    } else {
        Some(13)
    }
}

fn redirect(object: &Object, functions: &[Function], version: u32) -> Result<(), CannotRedirect> {
    let library = Library::open(version)?;
    let mut patches = Patches::default();
    let (known, others): (Vec<_>, Vec<_>) = functions
        .iter()
        .map(|function| (function, library.function(&function.name)))
        .partition(|(_, target)| target.is_some());
    // The runtime's code is in one piece. Outside of it, functions whose names begin alike are the program's own,
    // or what nvcc puts into every program.
    let addresses = || known.iter().map(|(function, _)| function.address);
    let first = addresses().min().unwrap_or(0);
    let piece = first..=addresses().max().unwrap_or(0);
    let missing = others.iter().filter(|(function, _)| {
        piece.contains(&function.address) && !function.name.starts_with("__")
    });
    for (function, target) in known.iter().chain(missing) {
        let target = match target {
            Some(address) => Target::Function(*address),
            // For good: the function may be called at any time.
            None => Target::With(
                does_not_exist as *const () as u64,
                c_string(&function.name).into_raw() as u64,
            ),
        };
        let entry = object.bias.wrapping_add(function.address);
        // SAFETY: the file says that the function is there; nothing of the object has run yet.
        unsafe { patches.add(entry, function.size, target) }.map_err(|why| {
            CannotRedirect::Function {
                name: function.name.clone(),
                why,
            }
        })?;
    }
    // SAFETY: as above.
    unsafe { patches.apply()? };
    Ok(())
}

/// What softgpu's runtime does not have, whatever its parameters.
extern "C" fn does_not_exist(name: *const c_char) -> c_int {
    // SAFETY: a name that was left for good.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    say(&format!(
        "softgpu: the program called {name}, which softgpu's CUDA runtime does not have"
    ));
    NOT_SUPPORTED
}

/// softgpu's runtime, which is beside this library.
struct Library(*mut c_void);

impl Library {
    fn open(version: u32) -> Result<Library, CannotRedirect> {
        let path = own_folder()
            .ok_or(CannotRedirect::NoFolder)?
            .join(format!("libcudart.so.{version}"));
        let name = c_string(&path);
        // SAFETY: a library of ours; constructors may load libraries.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(CannotRedirect::Library(path));
        }
        Ok(Library(handle))
    }

    fn function(&self, name: &str) -> Option<u64> {
        // SAFETY: a library that is loaded.
        let address = unsafe { libc::dlsym(self.0, c_string(name).as_ptr()) };
        (!address.is_null()).then_some(address as u64)
    }
}

/// Names of symbols and files have no NUL in them.
fn c_string(text: impl AsRef<OsStr>) -> CString {
    CString::new(text.as_ref().as_bytes()).unwrap_or_default()
}

fn own_folder() -> Option<PathBuf> {
    // SAFETY: plain numbers and pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of this library.
    let found = unsafe { libc::dladdr(own_folder as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string of the loader's.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function {
            name: (*name).to_owned(),
            address: 0,
            size: 0,
        };
        names.iter().map(function).collect()
    }

    #[test]
    fn versions_are_told_by_names() {
        let old = ["cudaMalloc", "cudaThreadExit"];
        assert_eq!(version(&with(&old)), None);
        assert_eq!(
            version(&with(&[old[0], old[1], "cudaGetDeviceProperties_v2"])),
            Some(12)
        );
        assert_eq!(version(&with(&["cudaMalloc"])), Some(13));
    }
}
