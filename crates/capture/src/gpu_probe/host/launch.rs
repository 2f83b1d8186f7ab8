//! The functions by which a program launches kernels, whatever its compiler made of `<<<>>>`: by the
//! runtime's cudaLaunchKernel, or, with CUDA 13, by __cudaLaunchKernel.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::fs;

/// All of them, for who must leave their code as it is.
pub const FUNCTIONS: [&str; 4] = [
    "cudaLaunchKernel",
    "__cudaLaunchKernel",
    "cudaLaunchKernel_ptsz",
    "__cudaLaunchKernel_ptsz",
];
/// A file that is larger is no runtime, and no program that has one in it.
const LARGEST_FILE: u64 = 256 << 20;
/// How far into a function its jump to another may be.
const JUMP_WITHIN: usize = 16;

/// Whether a function is for launches: the runtime's, or the one that older compilers make in a program
/// (cudaLaunchKernel<char>).
pub fn is_launch(function: &str) -> bool {
    function == FUNCTIONS[0] || function.starts_with("_Z16cudaLaunchKernelI")
}

/// Those that a file has, so that each launch comes by one of them once.
pub fn functions_of(path: &str) -> Vec<&'static str> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= LARGEST_FILE);
    match fs::read(path) {
        Ok(bytes) if is_small => in_image(&bytes).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn in_image(bytes: &[u8]) -> Option<Vec<&'static str>> {
    let file = object::File::parse(bytes).ok()?;
    let address = |name: &str| {
        let mut symbols = file.symbols().chain(file.dynamic_symbols());
        let found = symbols.find(|symbol| {
            symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.name() == Ok(name)
        });
        found.map(|symbol| symbol.address())
    };
    let mut functions = Vec::new();
    for pair in FUNCTIONS.chunks(2) {
        let &[outer, inner] = pair else { continue };
        let (outer_at, inner_at) = (address(outer), address(inner));
        functions.extend(outer_at.map(|_| outer));
        let leads_there = (inner_at.zip(outer_at))
            .is_some_and(|(inner, outer)| jumps(&file, inner, outer).unwrap_or(false));
        if inner_at.is_some() && !leads_there {
            functions.push(inner);
        }
    }
    Some(functions)
}

/// Whether a function begins with little but a jump to another.
fn jumps(file: &object::File<'_>, from: u64, to: u64) -> Option<bool> {
    let within = |section: &object::Section<'_, '_>| {
        (section.address()..section.address() + section.size()).contains(&from)
    };
    let section = file.sections().find(within)?;
    let start = usize::try_from(from - section.address()).ok()?;
    let code = section.data().ok()?.get(start..)?;
    // jmp rel32
    let found = (0..JUMP_WITHIN).any(|at| {
        let Some([0xe9, rest @ ..]) = code.get(at..at + 5) else {
            return false;
        };
        let distance = rest
            .first_chunk()
            .map_or(0, |word| i32::from_le_bytes(*word));
        let next = from.wrapping_add(at as u64 + 5);
        next.wrapping_add(distance as i64 as u64) == to
    });
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_for_launches() {
        let stub = "_Z16cudaLaunchKernelIcE9cudaErrorPT_4dim3S3_PPvmP11CUstream_st";
        assert!(is_launch(stub) && is_launch("cudaLaunchKernel"));
        assert!(!is_launch("cudaLaunchKernelExC") && !is_launch("cudaMalloc"));
    }

    #[test]
    fn what_is_no_program_launches_nothing() {
        assert!(functions_of("/nonexistent").is_empty());
        let own = std::env::current_exe().expect("a path");
        assert!(functions_of(&own.to_string_lossy()).is_empty());
        assert_eq!(in_image(b"\x7fELF nonsense"), None);
    }
}
