//! Which functions of which libraries can be asked for: rules over names that every back end shares.

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
    if matches(glob, name) {
        return true;
    }
    // What the glob leaves may be a version.
    name.windows(2)
        .enumerate()
        .filter(|(_, window)| window[0] == b'.')
        .any(|(at, _)| matches(glob, &name[..at]))
}

/// Globs of `*` and `?`.
pub fn matches(glob: &[u8], text: &[u8]) -> bool {
    // The last star, and the text behind which it was tried.
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(b'?') => (at, from) = (at + 1, from + 1),
            Some(byte) if *byte == text[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((star_at, tried)) => {
                    star = Some((star_at, tried + 1));
                    (at, from) = (star_at + 1, tried + 1);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("cuMem*", "cuMemAlloc_v2", true),
            ("*Async*", "cuMemcpyAsync", true),
            ("cu?nit", "cuInit", true),
            ("*ab*ab", "xabxabxab", true),
            ("*ab*abc", "xabxabxab", false),
            ("cuInit", "cuInitialise", false),
        ] {
            assert_eq!(
                matches(glob.as_bytes(), text.as_bytes()),
                expected,
                "{glob} {text}"
            );
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
