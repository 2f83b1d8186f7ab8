//! Which functions of which libraries can be asked for: rules over names that every back end shares.

use crate::{category, layer, public_name};
use event::{Candidate, matches_glob};

/// cuInit, cudaMalloc, __cudaRegisterFunction; not cublasCreate, nor cuda_helper.
pub fn is_cuda_name(name: &[u8]) -> bool {
    let capital_after = |prefix: &[u8]| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
    };
    capital_after(b"cu") || capital_after(b"cuda") || capital_after(b"__cuda")
}

/// Functions that look at or leave their caller's frame in ways a call in between would break, and
/// the loader's own.
pub fn returns_twice(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 16] = [
        b"_init",
        b"_fini",
        b"setjmp",
        b"_setjmp",
        b"sigsetjmp",
        b"__sigsetjmp",
        b"vfork",
        b"__vfork",
        b"getcontext",
        b"setcontext",
        b"swapcontext",
        b"makecontext",
        b"clone",
        b"__clone",
        b"__tls_get_addr",
        b"__fentry__",
    ];
    NAMES.contains(&name) || name.starts_with(b"_dl_")
}

/// A library by its file's name; the version behind `.so` may be left out.
pub fn is_library(glob: &[u8], path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if matches_glob(glob, name) {
        return true;
    }
    // What the glob leaves may be a version.
    name.windows(2)
        .enumerate()
        .filter(|(_, window)| window[0] == b'.')
        .any(|(at, _)| matches_glob(glob, &name[..at]))
}

/// What a function's name says about its calls, for [`event::Selection`].
pub fn candidate(name: &[u8]) -> Candidate<'_> {
    // Names that are no text are nobody's that is known.
    let text = core::str::from_utf8(name).unwrap_or_default();
    Candidate {
        name,
        family: public_name(text).as_bytes(),
        category: category(text),
        layer: layer(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Selection;

    #[test]
    fn selections_mean_what_the_table_says() {
        let table = include_str!("../../event/tests/selections.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let mut cells = line.split('|').map(str::trim);
            let mut cell = || cells.next().expect("three cells");
            let (spec, name, wanted) = (cell(), cell(), cell());
            let wants = Selection::new(spec).wants(&candidate(name.as_bytes()));
            assert_eq!(wants, wanted == "yes", "{line}");
        }
    }

    #[test]
    fn cuda_names() {
        for name in ["cuInit", "cudaMalloc", "__cudaRegisterFunction"] {
            assert!(is_cuda_name(name.as_bytes()));
        }
        for name in ["cublasCreate", "cudbgMain", "cuda_helper", "cu", "culaInit"] {
            assert!(!is_cuda_name(name.as_bytes()));
        }
    }

    #[test]
    fn libraries_may_be_named_without_their_version() {
        let is = |glob: &str, path: &str| is_library(glob.as_bytes(), path.as_bytes());
        assert!(is("libnccl.so", "/usr/lib/libnccl.so.2") && is("libnccl.so*", "libnccl.so.2.1"));
        assert!(is("libnccl.so", "libnccl.so") && !is("libnccl.so", "/x/libnccl-x.so"));
        assert!(!is("libnccl", "libnccl2.so"));
    }
}
