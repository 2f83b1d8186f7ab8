//! Names as they were written: kernels', functions'.

use event::Name;
use std::fmt;

/// Mangled names can be made to grow without end.
const LONGEST_NAME: usize = 8 << 10;

/// A kernel's or a function's name as it was written; as it stands where it is none of C++ or Rust.
pub fn demangled(mangled: &str) -> Name {
    let mut text = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(mangled) {
        let whole = fmt::write(&mut text, format_args!("{rust:#}")).is_ok();
        return if whole { text.0.into() } else { mangled.into() };
    }
    let options = cpp_demangle::DemangleOptions::new();
    let whole = cpp_demangle::Symbol::new(mangled)
        .is_ok_and(|symbol| symbol.structured_demangle(&mut text, &options).is_ok());
    if whole { text.0.into() } else { mangled.into() }
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_written() {
        assert_eq!(
            &*demangled("_Z9vectorAddPKfS0_Pfi"),
            "vectorAdd(float const*, float const*, float*, int)"
        );
        assert_eq!(
            &*demangled("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(&*demangled("plain_c"), "plain_c");
        assert_eq!(&*demangled("_Z9cut"), "_Z9cut");
        // Each substitution doubles the name.
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        for _ in 0..40 {
            bomb.push_str("St4pairIS_S_E");
        }
        assert!(demangled(&bomb).len() <= LONGEST_NAME.max(bomb.len()));
    }
}
