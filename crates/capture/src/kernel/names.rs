//! Names that compilers make of names: `f.isra.0`, `f.constprop.0`, `f.part.1`.

const SUFFIXES: [&str; 4] = [".isra.", ".constprop.", ".part.", ".llvm."];

/// The name in the source. A part that was cut off as rarely used (`f.cold`) is not the function.
pub fn base_name(symbol: &str) -> &str {
    let mut name = symbol;
    loop {
        let cut = SUFFIXES.iter().find_map(|suffix| {
            let at = name.rfind(suffix)?;
            let number = &name[at + suffix.len()..];
            (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(at)
        });
        match cut {
            Some(at) => name = &name[..at],
            None => return name,
        }
    }
}

/// Whether a symbol is what a compiler left of the function `name`: with other arguments, perhaps.
pub fn is_variant(symbol: &str, name: &str) -> bool {
    symbol.len() > name.len() && symbol.starts_with(name) && base_name(symbol) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_append() {
        assert_eq!(base_name("nv_free_pages.isra.0"), "nv_free_pages");
        assert_eq!(base_name("f.constprop.0.isra.12"), "f");
        assert_eq!(base_name("f.part.x"), "f.part.x");
        assert_eq!(base_name("f.cold"), "f.cold");
        assert_eq!(base_name("f"), "f");
        assert!(is_variant("f.isra.0", "f") && !is_variant("f", "f"));
        assert!(!is_variant("f2.isra.0", "f") && !is_variant("f.cold", "f"));
    }
}
