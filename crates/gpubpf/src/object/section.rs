//! What a section's name says about where its program runs.

/// Where a program of the GPU is attached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attach {
    /// At the entry of kernels that match.
    Entry(String),
    /// Before kernels that match return.
    Return(String),
    /// At every memory access of the probed kernels.
    Memory,
    /// The program is a kernel of its own.
    Direct,
}

/// The section's meaning for a program of this name; None if it belongs to the host.
pub fn attach(section: &str, program: &str) -> Option<Attach> {
    let section = section.strip_prefix('?').unwrap_or(section);
    let (kind, kernel) = section.split_once('/')?;
    let named_for_gpu = program.starts_with("cuda__");
    match (kind, kernel) {
        ("kprobe", "__memcapture") => Some(Attach::Memory),
        ("kprobe", "__directly_run") => Some(Attach::Direct),
        ("kprobe", _) if named_for_gpu && !kernel.is_empty() => {
            Some(Attach::Entry(kernel_meant(kernel).to_owned()))
        }
        ("kretprobe", _) if named_for_gpu && !kernel.is_empty() => {
            Some(Attach::Return(kernel_meant(kernel).to_owned()))
        }
        _ => None,
    }
}

/// The kernel that a section's name stands for. Some of bpftime's programs write `cuda_` before its mangled
/// name, others name the function by which the host launches it.
pub fn kernel_meant(name: &str) -> &str {
    let before = ["cuda_", "__device_stub_"];
    let mut names = before.iter().filter_map(|before| name.strip_prefix(before));
    names.find(|name| name.starts_with("_Z")).unwrap_or(name)
}

impl Attach {
    /// Bytes of context that exist for this kind of probe; None where it is the kernel's parameters,
    /// whose size only the kernel tells.
    pub fn context_bytes(&self) -> Option<u32> {
        match self {
            Attach::Entry(_) | Attach::Return(_) => None,
            Attach::Memory => Some(MEMORY_CONTEXT_BYTES),
            Attach::Direct => Some(0),
        }
    }
}

/// What a memory probe gets: u64 address, u32 size, u32 space, u64 pc, u32 line, u32 kind.
pub const MEMORY_CONTEXT_BYTES: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_stands_for_its_kernel() {
        let kernel = "_Z9vectorAddPKfS0_Pf";
        for name in [
            kernel.to_owned(),
            format!("cuda_{kernel}"),
            format!("__device_stub_{kernel}"),
        ] {
            assert_eq!(kernel_meant(&name), kernel);
            let attached = attach(&format!("kretprobe/{name}"), "cuda__probe");
            assert_eq!(attached, Some(Attach::Return(kernel.into())));
        }
        for name in ["cuda_kernel", "vectorAdd", "cuda__memory"] {
            assert_eq!(kernel_meant(name), name);
        }
    }
}
