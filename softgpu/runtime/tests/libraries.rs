//! The linked libraries: names, versions, and what they say without a driver.

mod support;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use support::{package, runtime_folder, skip};

/// Defined dynamic symbols as `nm` prints them: name@@version.
fn symbols(major: u32) -> Vec<String> {
    let library = runtime_folder().join(format!("libcudart.so.{major}"));
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm of binutils");
    let text = String::from_utf8(output.stdout).expect("ASCII names");
    let mut names: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 3 && words[1] == "T")
        .map(|words| words[2].to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn every_symbol_of_nvidias_library_is_there_with_its_version() {
    for major in [12, 13] {
        let list = package().join(format!("exports/libcudart-{major}.txt"));
        let list = std::fs::read_to_string(list).expect("the committed list");
        let mut wanted: Vec<_> = list
            .lines()
            .map(|name| format!("{name}@@libcudart.so.{major}"))
            .collect();
        wanted.sort();
        assert_eq!(symbols(major), wanted);
    }
}

#[test]
fn neither_library_needs_a_driver_to_be_loaded() {
    for major in [12, 13] {
        let library = runtime_folder().join(format!("libcudart.so.{major}"));
        let output = Command::new("readelf")
            .arg("-d")
            .arg(library)
            .output()
            .expect("readelf");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains(&format!("soname: [libcudart.so.{major}]")),
            "{text}"
        );
        assert!(!text.contains("libcuda.so"), "{text}");
    }
}

struct Library(*mut c_void);

impl Library {
    fn open(major: u32) -> Library {
        let path = runtime_folder().join(format!("libcudart.so.{major}"));
        let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} does not load");
        Library(handle)
    }

    fn get<F: Copy>(&self, name: &CStr) -> F {
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?} is missing");
        unsafe { std::mem::transmute_copy(&address) }
    }
}

#[test]
fn without_a_driver_calls_say_so() {
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY) };
    if !driver.is_null() {
        skip("this machine has a libcuda.so.1");
        return;
    }
    for (major, version) in [(12, 12090), (13, 13000)] {
        let library = Library::open(major);
        type IntOut = unsafe extern "C" fn(*mut c_int) -> c_int;
        type NoArguments = unsafe extern "C" fn() -> c_int;
        let last: NoArguments = library.get(c"cudaGetLastError");
        let text: unsafe extern "C" fn(c_int) -> *const c_char = library.get(c"cudaGetErrorString");
        let mut value = 7;
        unsafe {
            assert_eq!(library.get::<IntOut>(c"cudaGetDeviceCount")(&mut value), 35);
            assert_eq!(value, 0);
            assert_eq!(last(), 35);
            assert_eq!(last(), 0);
            value = 7;
            assert_eq!(
                library.get::<IntOut>(c"cudaDriverGetVersion")(&mut value),
                0
            );
            assert_eq!(value, 0);
            assert_eq!(
                library.get::<IntOut>(c"cudaRuntimeGetVersion")(&mut value),
                0
            );
            assert_eq!(value, version);
            assert_eq!(library.get::<NoArguments>(c"cudaDeviceSynchronize")(), 35);
            let text = CStr::from_ptr(text(35));
            assert_eq!(
                text,
                c"CUDA driver version is insufficient for CUDA runtime version"
            );
        }
    }
}

#[test]
fn what_is_missing_answers_not_supported() {
    assert!(cudart::STUBS.contains(&"cudaGLGetDevices"));
    assert!(cudart::IMPLEMENTED.contains(&"cudaLaunchKernel"));
    let stub: unsafe extern "C" fn() -> c_int = Library::open(13).get(c"cudaGLGetDevices");
    assert_eq!(unsafe { stub() }, 801);
}

#[test]
fn at_least_four_fifths_are_implemented() {
    let (done, stubs) = (cudart::IMPLEMENTED.len(), cudart::STUBS.len());
    assert!(
        done * 5 >= (done + stubs) * 4,
        "{done} implemented, {stubs} stubs"
    );
}
