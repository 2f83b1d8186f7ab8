//! Every symbol of a real libcuda, and where it is here.

use std::cell::UnsafeCell;

use super::{notice, result::NOT_SUPPORTED};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

const NAMES: &str = include_str!("../../../fixtures/driver/libcuda-580.159.04.exports");

/// One function of libcuda.
pub struct Export {
    #[cfg(test)]
    pub name: &'static std::ffi::CStr,
    pub address: unsafe extern "C" fn(),
}

/// A cudbg* variable: a debugger writes it from outside, nothing here reads it.
#[repr(C, align(8))]
pub struct DebuggerVariable<const N: usize>(UnsafeCell<[u8; N]>);

unsafe impl<const N: usize> Sync for DebuggerVariable<N> {}

impl<const N: usize> DebuggerVariable<N> {
    const fn zeroed() -> Self {
        Self(UnsafeCell::new([0; N]))
    }
}

/// The answer of every function that is not implemented. The number of the stub keeps them apart:
/// the compiler would otherwise give all of them one address.
#[inline(never)]
fn unsupported(stub: u32) -> u32 {
    let name = NAMES.lines().nth(stub as usize).unwrap_or_default();
    notice::say(&format!(
        "the program called {name}, which softgpu does not implement{}",
        subject(name)
    ));
    NOT_SUPPORTED.0
}

/// What a function is for, where a name does not tell.
fn subject(name: &str) -> &'static str {
    let is_of = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if is_of(&["Array", "Tex", "Surf", "Mipmap"]) {
        " (arrays, textures and surfaces)"
    } else {
        ""
    }
}

/// The linker script that makes exactly libcuda's symbols visible.
pub fn version_script() -> String {
    let names: String = NAMES.lines().map(|name| format!("    {name};\n")).collect();
    format!("{{\n  global:\n{names}  local:\n    *;\n}};\n")
}
