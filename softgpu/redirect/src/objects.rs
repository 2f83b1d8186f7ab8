//! The objects of this process.

use std::{
    ffi::{CStr, OsStr, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// A program or library as it is loaded.
pub struct Object {
    /// None for the program itself.
    pub library: Option<PathBuf>,
    /// What is added to the addresses in its file.
    pub bias: u64,
}

impl Object {
    /// Where its file can be read, whatever the program's name has become.
    pub fn file(&self) -> PathBuf {
        let program = || PathBuf::from("/proc/self/exe");
        self.library.clone().unwrap_or_else(program)
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        let program = || std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let path = self.library.clone().unwrap_or_else(program);
        path.display().to_string()
    }
}

#[derive(Default)]
struct Seen {
    loaded: u64,
    unloaded: u64,
    biases: Vec<u64>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    loaded: 0,
    unloaded: 0,
    biases: Vec::new(),
});

/// The objects that were not there the last time.
pub fn new() -> Vec<Object> {
    let mut found: (Vec<Object>, u64, u64) = (Vec::new(), 0, 0);
    // SAFETY: `one` gets `found` back, and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut found).cast()) };
    let (mut objects, loaded, unloaded) = found;
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if unloaded != seen.unloaded {
        // Another object may lie where one was: all are looked at again.
        seen.biases.clear();
    } else if loaded == seen.loaded {
        return Vec::new();
    }
    (seen.loaded, seen.unloaded) = (loaded, unloaded);
    objects.retain(|object| !seen.biases.contains(&object.bias));
    seen.biases.extend(objects.iter().map(|object| object.bias));
    objects
}

unsafe extern "C" fn one(
    info: *mut libc::dl_phdr_info,
    size: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own structure, and what `new` handed over.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<(Vec<Object>, u64, u64)>()) };
    if size >= size_of::<libc::dl_phdr_info>() {
        (found.1, found.2) = (info.dlpi_adds, info.dlpi_subs);
    }
    let name = match info.dlpi_name.is_null() {
        true => c"",
        // SAFETY: a C string of the loader's.
        false => unsafe { CStr::from_ptr(info.dlpi_name) },
    };
    let name = name.to_bytes();
    let library = match name {
        b"" if found.0.is_empty() => None,
        // The kernel's own object has a name, but no file.
        name if !name.contains(&b'/') => return 0,
        name => Some(PathBuf::from(OsStr::from_bytes(name))),
    };
    found.0.push(Object {
        library,
        bias: info.dlpi_addr,
    });
    0
}
