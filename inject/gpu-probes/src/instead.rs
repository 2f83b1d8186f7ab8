//! What programs call in place of the driver's functions.

use crate::driver::{self, SUCCESS};
use crate::image;
use crate::load::{self, Outcome, Request, Unit};
use crate::state::{self, State};
use std::ffi::{CStr, CString, c_char, c_void};

/// CU_JIT_INPUT_*
const INPUT_PTX: u32 = 1;

macro_rules! instead {
    ($($symbol:literal fn $name:ident ($($arg:ident: $kind:ty),*) $body:block)*) => {
        $(
            #[unsafe(export_name = $symbol)]
            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($arg: $kind),*) -> i32 $body
        )*
    };
}

/// Launches are what they were; but before one, a context is told what it has not been told yet.
macro_rules! launches {
    ($($name:ident ($($arg:ident: $kind:ty),*);)*) => {
        $(
            #[unsafe(export_name = concat!("cutrace_instead_", stringify!($name)))]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($arg: $kind),*) -> i32 {
                state::before_launch();
                // SAFETY: the program's own call.
                unsafe { driver::$name($($arg),*) }
            }
        )*
    };
}

launches! {
    cuLaunchKernel(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernel_ptsz(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx(config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchKernelEx_ptsz(config: *const c_void, function: usize, parameters: *const *mut c_void, extra: *const *mut c_void);
    cuLaunchCooperativeKernel(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuLaunchCooperativeKernel_ptsz(function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: *const *mut c_void);
    cuGraphLaunch(graph: usize, stream: usize);
    cuGraphLaunch_ptsz(graph: usize, stream: usize);
}

instead! {
    "cutrace_instead_cuModuleLoadData"
    fn module_load_data(module: *mut usize, image: *const c_void) {
        // SAFETY: the program's own call.
        unsafe { module_from(module, image, &Request::module(), |to| driver::cuModuleLoadData(to, image)) }
    }

    "cutrace_instead_cuModuleLoadFatBinary"
    fn module_load_fat_binary(module: *mut usize, image: *const c_void) {
        // SAFETY: the program's own call.
        unsafe { module_from(module, image, &Request::module(), |to| driver::cuModuleLoadFatBinary(to, image)) }
    }

    "cutrace_instead_cuModuleLoadDataEx"
    fn module_load_data_ex(module: *mut usize, image: *const c_void, count: u32, options: *const u32, values: *mut *mut c_void) {
        // SAFETY: the program's own call; the driver takes as many options as are counted.
        unsafe {
            let request = Request {
                options: slice(options, count),
                values,
                ..Request::module()
            };
            module_from(module, image, &request, |to| {
                driver::cuModuleLoadDataEx(to, image, count, options, values)
            })
        }
    }

    "cutrace_instead_cuModuleLoad"
    fn module_load(module: *mut usize, path: *const c_char) {
        // SAFETY: the program's own call.
        unsafe {
            let code = code_of_file(path);
            let first = |to: *mut usize| driver::cuModuleLoad(to, path);
            module_with(module, code, &text(path), &Request::module(), first)
        }
    }

    "cutrace_instead_cuLibraryLoadData"
    fn library_load_data(library: *mut usize, code: *const c_void, options: *const u32, values: *mut *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32) {
        // SAFETY: the program's own call.
        unsafe {
            let found = if library.is_null() || code.is_null() {
                image::Code::Unknown
            } else {
                load::code_at(code)
            };
            let request = library_request(options, values, count, library_options, library_values, library_count);
            let first = |to: *mut usize| {
                driver::cuLibraryLoadData(to, code, options, values, count, library_options, library_values, library_count)
            };
            load_into(library, found, &load::origin(code), &request, first, |_| {})
        }
    }

    "cutrace_instead_cuLibraryLoadFromFile"
    fn library_load_from_file(library: *mut usize, path: *const c_char, options: *const u32, values: *mut *mut c_void, count: u32, library_options: *const u32, library_values: *const *mut c_void, library_count: u32) {
        // SAFETY: the program's own call.
        unsafe {
            let request = library_request(options, values, count, library_options, library_values, library_count);
            let first = |to: *mut usize| {
                driver::cuLibraryLoadFromFile(to, path, options, values, count, library_options, library_values, library_count)
            };
            load_into(library, code_of_file(path), &text(path), &request, first, |_| {})
        }
    }

    "cutrace_instead_cuLibraryUnload"
    fn library_unload(library: usize) {
        state::with(|state| state.remove_library(library));
        // SAFETY: the program's own call.
        unsafe { driver::cuLibraryUnload(library) }
    }

    "cutrace_instead_cuLinkAddData"
    fn link_add_data(link: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void) {
        // SAFETY: the program's own call, perhaps with another text.
        unsafe {
            linked(kind, data, bytes, |kind, data, bytes| {
                driver::cuLinkAddData(link, kind, data, bytes, name, count, options, values)
            })
        }
    }

    "cutrace_instead_cuLinkAddData_v2"
    fn link_add_data_v2(link: usize, kind: u32, data: *const c_void, bytes: usize, name: *const c_char, count: u32, options: *const u32, values: *const *mut c_void) {
        // SAFETY: the program's own call, perhaps with another text.
        unsafe {
            linked(kind, data, bytes, |kind, data, bytes| {
                driver::cuLinkAddData_v2(link, kind, data, bytes, name, count, options, values)
            })
        }
    }

    "cutrace_instead_cuLinkAddFile"
    fn link_add_file(link: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void) {
        // SAFETY: the program's own call, perhaps with a text in the file's place.
        unsafe {
            with_probes(
                prepared_link(code_of_file(path), &text(path)),
                |new| driver::cuLinkAddData(link, INPUT_PTX, new.as_ptr().cast(), new.len(), path, count, options, values),
                || driver::cuLinkAddFile(link, kind, path, count, options, values),
            )
        }
    }

    "cutrace_instead_cuLinkAddFile_v2"
    fn link_add_file_v2(link: usize, kind: u32, path: *const c_char, count: u32, options: *const u32, values: *const *mut c_void) {
        // SAFETY: the program's own call, perhaps with a text in the file's place.
        unsafe {
            with_probes(
                prepared_link(code_of_file(path), &text(path)),
                |new| driver::cuLinkAddData_v2(link, INPUT_PTX, new.as_ptr().cast(), new.len(), path, count, options, values),
                || driver::cuLinkAddFile_v2(link, kind, path, count, options, values),
            )
        }
    }

    "cutrace_instead_cuCtxDestroy_v2"
    fn context_destroy(context: usize) {
        state::with(|state| state.end_context(context, true));
        // SAFETY: the program's own call.
        unsafe { driver::cuCtxDestroy_v2(context) }
    }

    "cutrace_instead_cuDevicePrimaryCtxRelease_v2"
    fn primary_release(device: i32) {
        // SAFETY: the program's own call; what is retained is released again.
        unsafe {
            let context = primary(device);
            state::with(|state| state.end_context(context, false));
            let result = driver::cuDevicePrimaryCtxRelease_v2(device);
            let (mut flags, mut active) = (0, 1);
            if driver::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == SUCCESS && active == 0 {
                state::with(|state| state.forget_context(context));
            }
            result
        }
    }

    "cutrace_instead_cuDevicePrimaryCtxReset_v2"
    fn primary_reset(device: i32) {
        // SAFETY: the program's own call.
        unsafe {
            let context = primary(device);
            state::with(|state| state.end_context(context, true));
            driver::cuDevicePrimaryCtxReset_v2(device)
        }
    }
}

/// A device's primary context, if it has one.
unsafe fn primary(device: i32) -> usize {
    let (mut flags, mut active, mut context) = (0, 0, 0);
    // SAFETY: what is retained is released again, so that it was not the last.
    unsafe {
        if driver::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) == SUCCESS
            && active != 0
            && driver::cuDevicePrimaryCtxRetain(&mut context, device) == SUCCESS
        {
            driver::cuDevicePrimaryCtxRelease_v2(device);
        }
    }
    context
}

unsafe fn module_from(
    module: *mut usize,
    image: *const c_void,
    request: &Request,
    original: impl Fn(*mut usize) -> i32,
) -> i32 {
    let code = if module.is_null() || image.is_null() {
        image::Code::Unknown
    } else {
        // SAFETY: what the driver would read.
        unsafe { load::code_at(image) }
    };
    // SAFETY: by the caller.
    unsafe { module_with(module, code, &load::origin(image), request, original) }
}

unsafe fn module_with(
    module: *mut usize,
    code: image::Code,
    what: &str,
    request: &Request,
    original: impl Fn(*mut usize) -> i32,
) -> i32 {
    let bind = |state: &mut State| {
        if state.linked {
            // SAFETY: the driver has just written it.
            let _ = state.bind_module(unsafe { module.read() });
        }
    };
    // SAFETY: by the caller.
    unsafe { load_into(module, code, what, request, original, bind) }
}

/// With probes, or else as the program asked; then `afterwards` is done, if that went well.
unsafe fn load_into(
    place: *mut usize,
    code: image::Code,
    what: &str,
    request: &Request,
    original: impl Fn(*mut usize) -> i32,
    afterwards: impl FnOnce(&mut State),
) -> i32 {
    // SAFETY: by the caller.
    let wrong = match unsafe { load::load(request, code, what, || answer(&original)) } {
        Outcome::Loaded(handle) => {
            // SAFETY: where the program wants its handle.
            unsafe { place.write(handle) };
            return SUCCESS;
        }
        Outcome::Original(wrong) => wrong,
    };
    let result = original(place);
    if result == SUCCESS {
        state::with(|state| {
            state.fall_back(&wrong);
            afterwards(state);
        });
    }
    result
}

fn answer(original: &impl Fn(*mut usize) -> i32) -> Result<usize, i32> {
    let mut handle = 0;
    match original(&mut handle) {
        SUCCESS => Ok(handle),
        error => Err(error),
    }
}

unsafe fn library_request(
    options: *const u32,
    values: *mut *mut c_void,
    count: u32,
    library_options: *const u32,
    library_values: *const *mut c_void,
    library_count: u32,
) -> Request {
    // SAFETY: the driver takes as many as are counted.
    unsafe {
        Request {
            unit: Unit::Library,
            options: slice(options, count),
            values,
            library_options: slice(library_options, library_count),
            library_values: slice(library_values, library_count),
        }
    }
}

unsafe fn slice<T: Copy>(from: *const T, count: u32) -> Vec<T> {
    if from.is_null() || count > 1024 {
        return Vec::new();
    }
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(from, count as usize) }.to_vec()
}

/// One input of a link.
unsafe fn linked(
    kind: u32,
    data: *const c_void,
    bytes: usize,
    add: impl Fn(u32, *const c_void, usize) -> i32,
) -> i32 {
    let new = if data.is_null() || bytes == 0 {
        None
    } else {
        // SAFETY: the program says how long its data are.
        let given = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
        prepared_link(image::of(given, load::capability()), &load::origin(data))
    };
    with_probes(
        new,
        |new| add(INPUT_PTX, new.as_ptr().cast(), new.len()),
        || add(kind, data, bytes),
    )
}

/// An input of a link with its probes; if the linker refuses that, as it is.
fn with_probes(
    prepared: Option<Linked>,
    add: impl FnOnce(&[u8]) -> i32,
    original: impl FnOnce() -> i32,
) -> i32 {
    let Some(prepared) = prepared else {
        return original();
    };
    let refused = add(prepared.text.as_bytes_with_nul());
    if refused == SUCCESS {
        return SUCCESS;
    }
    let result = original();
    if result == SUCCESS {
        let why = driver::error_name(refused);
        let lines = prepared.kernels.iter();
        let lines: Vec<String> = lines
            .map(|name| format!("{name} the linker refuses it with probes ({why})"))
            .collect();
        state::with(|state| state.fall_back(&lines));
    }
    result
}

/// What takes an input's place.
struct Linked {
    text: CString,
    kernels: Vec<String>,
}

fn prepared_link(code: image::Code, what: &str) -> Option<Linked> {
    state::with(|state| {
        let prepared = load::prepare(state, code, what)?;
        state.linked = true;
        let probed = prepared.kernels.into_iter();
        let probed = probed.filter(|kernel| kernel.refused.is_none());
        let kernels: Vec<String> = probed.map(|kernel| kernel.name).collect();
        let text = CString::new(prepared.text).ok()?;
        state.linked_kernels.extend(kernels.iter().cloned());
        Some(Linked { text, kernels })
    })
    .flatten()
}

unsafe fn code_of_file(path: *const c_char) -> image::Code {
    if path.is_null() {
        return image::Code::Unknown;
    }
    // SAFETY: a path ends with a NUL.
    let path = unsafe { text(path) };
    match std::fs::read(path) {
        Ok(bytes) => image::of(&bytes, load::capability()),
        Err(_) => image::Code::Unknown,
    }
}

unsafe fn text(path: *const c_char) -> String {
    if path.is_null() {
        return String::new();
    }
    // SAFETY: a path ends with a NUL.
    unsafe { CStr::from_ptr(path) }
        .to_string_lossy()
        .into_owned()
}
