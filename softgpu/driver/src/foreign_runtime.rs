//! NVIDIA's own CUDA runtime on softgpu. It asks its driver for private tables, does not get them, and fails;
//! programs that ignore errors go on as if kernels had run. So it is said where that runtime is.

use std::ffi::{CStr, c_int, c_void};

use super::notice;

/// Two texts of the runtime's error tables.
const TEXTS: [&[u8]; 2] = [b"cudaErrorCudartUnloading\0", b"driver shutting down\0"];

/// The program asked for a table that only NVIDIA's driver has.
pub fn asked() {
    let mut found = LinkedRuntimes {
        own_folder: folder_of(asked as *const c_void),
        names: Vec::new(),
    };
    // SAFETY: `look` gets `found` back, and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    for name in found.names {
        notice::say(&format!(
            "{name} has NVIDIA's CUDA runtime linked in, which does not work on softgpu: kernels launched through it \
             do not run; build it with -cudart shared"
        ));
    }
}

struct LinkedRuntimes {
    own_folder: Vec<u8>,
    names: Vec<String>,
}

unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own structure, and what `asked` handed over.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<LinkedRuntimes>()) };
    // SAFETY: a C string of the loader's, and its table of segments.
    let (name, segments) = unsafe {
        (
            CStr::from_ptr(info.dlpi_name).to_bytes(),
            std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
        )
    };
    // softgpu's own runtime has the same texts.
    if !name.is_empty() && folder(name) == found.own_folder {
        return 0;
    }
    let has = |text: &[u8]| {
        segments.iter().any(|segment| {
            let is_constant = segment.p_type == libc::PT_LOAD
                && segment.p_flags & libc::PF_R != 0
                && segment.p_flags & libc::PF_W == 0;
            let start = (info.dlpi_addr + segment.p_vaddr) as *const c_void;
            // SAFETY: a segment of an object that is loaded.
            is_constant
                && !unsafe {
                    libc::memmem(
                        start,
                        segment.p_filesz as usize,
                        text.as_ptr().cast(),
                        text.len(),
                    )
                }
                .is_null()
        })
    };
    if TEXTS.iter().all(|text| has(text)) {
        found.names.push(match name {
            b"" => std::fs::read_link("/proc/self/exe")
                .unwrap_or_default()
                .display()
                .to_string(),
            name => String::from_utf8_lossy(name).into_owned(),
        });
    }
    0
}

fn folder(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..end]
}

/// The folder of the object that an address is in.
fn folder_of(address: *const c_void) -> Vec<u8> {
    // SAFETY: plain pointers, filled in by the call; the name is the loader's.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return Vec::new();
        }
        folder(CStr::from_ptr(info.dli_fname).to_bytes()).to_vec()
    }
}
