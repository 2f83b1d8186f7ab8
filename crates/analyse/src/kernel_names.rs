//! Kernel names as people read them, and what several instances of one template share.

use std::borrow::Cow;

/// Longer mangled names are left as they are: nobody reads them.
const LONGEST: usize = 4_096;

/// The name demangled, where it is mangled.
pub fn demangled(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_Z") || name.len() > LONGEST {
        return name.into();
    }
    match cpp_demangle::Symbol::new(name) {
        Ok(symbol) => symbol.demangle().map_or_else(|_| name.into(), Cow::Owned),
        Err(_) => name.into(),
    }
}

/// The name without return type, template arguments and parameters:
/// `void scale<float>(float*, int)` is one of several `scale`.
pub fn base_name(name: &str) -> String {
    let name = demangled(name);
    // Only a C++ signature has a return type before its name: `[CUDA memcpy HtoD]` has not.
    let signature = name.contains('(');
    let mut base = String::new();
    let (mut angles, mut rest) = (0u32, &*name);
    while let Some(character) = rest.chars().next() {
        match character {
            // Part of the name, not parameters.
            '(' if rest.starts_with("(anonymous namespace)") => {
                if angles == 0 {
                    base.push_str("(anonymous_namespace)");
                }
                rest = &rest["(anonymous namespace)".len()..];
                continue;
            }
            '(' if angles == 0 && !base.is_empty() => break,
            '<' => angles += 1,
            '>' => angles = angles.saturating_sub(1),
            // What comes before a blank is the return type.
            ' ' if angles == 0 && signature => base.clear(),
            _ if angles == 0 => base.push(character),
            _ => {}
        }
        rest = &rest[character.len_utf8()..];
    }
    if base.is_empty() {
        name.into_owned()
    } else {
        base.replace("(anonymous_namespace)", "(anonymous namespace)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_template_share_a_name() {
        for (name, base) in [
            ("vectorAdd", "vectorAdd"),
            ("_Z9vectorAddPKfS0_Pfi", "vectorAdd"),
            (
                "vectorAdd(float const*, float const*, float*, int)",
                "vectorAdd",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::F<float>, std::array<char*, 2ul> >(int, F)",
                "at::native::vectorized_elementwise_kernel",
            ),
            (
                "void (anonymous namespace)::softmax<float, 4>(float*)",
                "(anonymous namespace)::softmax",
            ),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
            ("", ""),
            ("<<<", "<<<"),
        ] {
            assert_eq!(base_name(name), base);
        }
    }

    #[test]
    fn what_cannot_be_demangled_stays() {
        assert_eq!(demangled("_Zgarbage"), "_Zgarbage");
        assert_eq!(
            demangled("_Z9vectorAddPKfS0_Pfi"),
            "vectorAdd(float const*, float const*, float*, int)"
        );
    }
}
