//! Names as they were written: kernels', functions'.

use event::Name;

/// A kernel's or a function's name as it was written; as it stands where it is none of C++ or Rust.
pub fn demangled(mangled: &str) -> Name {
    Name::from(&*names::demangled(mangled))
}
