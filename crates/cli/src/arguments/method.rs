//! `--method`: by which back ends a program is watched.

/// One back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Every CUDA call, by a library in the program.
    Preload,
    /// System calls on the driver's files, by ptrace.
    Syscall,
    /// The same and more from the kernel, as root.
    Ebpf,
    /// When work ran on the GPU.
    Cupti,
    /// The same without CUPTI, by events around the work: less exact.
    Events,
    /// The driver's own functions, and what hooks files ask for of the kernel, as root.
    Kernel,
    /// Faults and migrations of managed memory, from the driver.
    Uvm,
    /// Samples of what the GPUs do.
    Nvml,
    /// Whose context has the GPU, from the driver.
    Fecs,
    /// Programs inside kernels: `cutrace gpu` asks for it, `--method` cannot.
    Probes,
}

impl Method {
    pub const ALL: [Method; 9] = [
        Method::Preload,
        Method::Syscall,
        Method::Ebpf,
        Method::Cupti,
        Method::Events,
        Method::Kernel,
        Method::Uvm,
        Method::Nvml,
        Method::Fecs,
    ];

    /// Whether it tells when work ran.
    pub fn tells_gpu_times(self) -> bool {
        matches!(self, Method::Cupti | Method::Events)
    }

    /// Its name on the command line and in traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Preload => "preload",
            Method::Syscall => "syscall",
            Method::Ebpf => "ebpf",
            Method::Cupti => "cupti",
            Method::Events => "events",
            Method::Kernel => "kernel",
            Method::Uvm => "uvm",
            Method::Nvml => "nvml",
            Method::Fecs => "fecs",
            Method::Probes => "probes",
        }
    }
}

/// Which back ends are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Methods {
    /// preload, and where they are found cupti, uvm and nvml.
    #[default]
    Auto,
    /// Everything that works here.
    All,
    /// These; it is an error if one cannot be had.
    These(Vec<Method>),
}

/// `auto`, `all`, or a list.
pub fn methods(text: &str) -> Result<Methods, String> {
    match text {
        "auto" => return Ok(Methods::Auto),
        "all" => return Ok(Methods::All),
        _ => {}
    }
    let mut these = Vec::new();
    for word in text.split(',') {
        let known = Method::ALL
            .into_iter()
            .find(|method| method.as_str() == word);
        let method = known.ok_or_else(|| {
            let names = Method::ALL.map(Method::as_str).join(", ");
            format!("{word:?} is none of {names}; and auto and all stand alone")
        })?;
        if !these.contains(&method) {
            these.push(method);
        }
    }
    these.sort();
    Ok(Methods::These(these))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_any_order() {
        use Method::*;
        assert_eq!(methods("auto"), Ok(Methods::Auto));
        assert_eq!(methods("all"), Ok(Methods::All));
        let both = Ok(Methods::These(vec![Preload, Syscall]));
        assert_eq!(methods("syscall,preload"), both);
        assert_eq!(methods("preload,syscall,preload"), both);
        for wrong in ["", "strace", "preload,", "all,preload", "Preload"] {
            assert!(methods(wrong).is_err(), "{wrong}");
        }
    }
}
