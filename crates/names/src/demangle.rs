//! Demangling with a bound on what it may cost.

use std::{borrow::Cow, fmt};

/// Longer mangled names stay as they are. Real ones of CUTLASS reach 10 KB.
const LONGEST_MANGLED: usize = 16 << 10;
/// Bytes of a demangled name. Each substitution can double a name: 255 characters can stand for
/// 555 MB, and the time is that of writing them.
pub(crate) const LONGEST: usize = 8 << 10;
/// Parts of a name entered while it is written: some parts write nothing.
const MOST_STEPS: u32 = 100_000;

/// A kernel's or a function's name as its source has it; as it stands where it is not mangled, or
/// cannot be demangled within the bounds.
pub fn demangled(name: &str) -> Cow<'_, str> {
    if let Some(kept) = name.strip_suffix(CUT) {
        return match without_signature(kept) {
            Some(text) => text.into(),
            None => name.into(),
        };
    }
    match attempt(name) {
        Some((text, true)) => text.into(),
        _ => name.into(),
    }
}

/// What ends a name that there was no room for.
const CUT: char = '…';
/// Places at which a name may end before its parameters.
const MOST_ENDS: usize = 4;

/// A mangled name whose end is missing: most often that is its parameters, and what they belong to is there.
/// `_ZN1a1bIiEEviT…` is `void a::b<int>(…)`.
fn without_signature(kept: &str) -> Option<String> {
    let ends = kept.rmatch_indices('E').take(MOST_ENDS);
    for (at, _) in ends {
        // As a function that returns nothing and takes nothing.
        let whole = format!("{}vv", &kept[..=at]);
        if let Some((mut text, true)) = attempt(&whole)
            && text.ends_with("()")
        {
            text.truncate(text.len() - 1);
            text.push_str("…)");
            return Some(text);
        }
    }
    None
}

/// The same, or as much of it as the bound lets through: enough for a short name.
pub(crate) fn beginning(name: &str) -> Cow<'_, str> {
    match attempt(name) {
        Some((text, whole)) if whole || !text.is_empty() => text.into(),
        _ => name.into(),
    }
}

/// The text, and whether it is all of it. None: not a mangled name.
fn attempt(name: &str) -> Option<(String, bool)> {
    // Clang and gcc write `_Z`, Rust also `_R`; all may have one more underscore.
    let bare = name.trim_start_matches('_');
    if !name.starts_with('_') || !bare.starts_with(['Z', 'R']) || name.len() > LONGEST_MANGLED {
        return None;
    }
    let mut text = Bounded::default();
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let whole = fmt::write(&mut text, format_args!("{rust:#}")).is_ok();
        return Some((text.text, whole));
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let options = cpp_demangle::DemangleOptions::new();
    let whole = symbol.structured_demangle(&mut Steps(&mut text), &options);
    Some((text.text, whole.is_ok()))
}

#[derive(Default)]
struct Bounded {
    text: String,
    steps: u32,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.steps += 1;
        if self.text.len() + text.len() > LONGEST || self.steps > MOST_STEPS {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Counts also what is entered without writing anything.
struct Steps<'a>(&'a mut Bounded);

impl cpp_demangle::DemangleWrite for Steps<'_> {
    fn push_demangle_node(&mut self, _: cpp_demangle::DemangleNodeType) {
        self.0.steps += 1;
    }

    fn write_string(&mut self, text: &str) -> fmt::Result {
        fmt::Write::write_str(self.0, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn names_are_as_written() {
        for (mangled, written) in [
            (
                "_Z9vectorAddPKfS0_Pfi",
                "vectorAdd(float const*, float const*, float*, int)",
            ),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("plain_c", "plain_c"),
            ("_Z9cut", "_Z9cut"),
            ("_Zgarbage", "_Zgarbage"),
            ("__global", "__global"),
            ("", ""),
        ] {
            assert_eq!(demangled(mangled), written);
        }
    }

    #[test]
    fn a_name_that_was_cut_in_its_parameters_keeps_the_rest() {
        for (mangled, written) in [
            ("_ZN2at6nativeILi4EfEEviT0…", "void at::native<4, float>(…)"),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_TensorCompare_cu_71e06f4e19\
                 launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11ClampLimitsEENKUlvE_clEvENKUlvE5_cl\
                 EvEUlfE_St5arrayIPcLm2EEEEviT0…",
                "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar(\
                 at::TensorIteratorBase&, c10::Scalar, c10::Scalar, at::native::detail::ClampLimits)::{lambda()#1}::operator()() \
                 const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, (unsigned long)2> >(…)",
            ),
            // In the middle of its template's arguments: it stays as it is.
            (
                "_ZN2at6native29vectorized_elem…",
                "_ZN2at6native29vectorized_elem…",
            ),
            ("plain…", "plain…"),
            ("…", "…"),
        ] {
            assert_eq!(demangled(mangled), written);
        }
    }

    /// 255 characters that took 16 s and 555 MB.
    #[test]
    fn a_name_that_doubles_with_each_letter_costs_nothing() {
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        bomb.push_str("S_IS0_S0_E");
        for digit in digits[1..].chars() {
            bomb.push_str(&format!("S_IS{digit}_S{digit}_E"));
        }
        let start = Instant::now();
        assert_eq!(demangled(&bomb), bomb, "too long to be of use");
        let part = beginning(&bomb);
        assert!(
            part.starts_with("f(std::pair<int, int>, std::pair<"),
            "{part}"
        );
        assert!(part.len() <= LONGEST);
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn deep_and_long_names_end() {
        let start = Instant::now();
        for bomb in [
            format!("_Z1f{}i", "P".repeat(15_000)),
            format!("_Z1fI{}E", "J".repeat(15_000)),
            format!("_Z1f{}i{}", "N1aI".repeat(3_000), "EE".repeat(3_000)),
            format!("_Z{}", "9".repeat(15_000)),
            format!("_Z1fI{}EvT_", "J".repeat(40) + &"E".repeat(40)),
            format!("_Z1f{}", "St4pairIS_S_E".repeat(1_000)),
        ] {
            assert!(demangled(&bomb).len() <= LONGEST.max(bomb.len()));
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
