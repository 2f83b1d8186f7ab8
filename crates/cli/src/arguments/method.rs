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
        let method = known.ok_or_else(|| unknown(word))?;
        if !these.contains(&method) {
            these.push(method);
        }
    }
    these.sort();
    Ok(Methods::These(these))
}

/// Why a word is no method, and the nearest one.
fn unknown(word: &str) -> String {
    let names = Method::ALL.map(Method::as_str);
    if ["auto", "all"].contains(&word) {
        return format!("{word} cannot be combined with other methods");
    }
    let named = word.to_ascii_lowercase();
    if let Some((_, method, what)) = (OTHER_TOOLS.iter())
        .flat_map(|(tools, method, what)| tools.iter().map(move |tool| (*tool, method, what)))
        .find(|(tool, ..)| *tool == named)
    {
        return format!("cutrace's equivalent of {word} is --method={method} ({what})");
    }
    let all = names.join(", ");
    match names::misspelt(&named, names.into_iter().chain(["auto", "all"])) {
        Some(meant) => {
            format!("unknown method '{word}', did you mean {meant}? (choose from {all})")
        }
        None => {
            format!("unknown method '{word}' (choose from {all}); auto and all cannot be combined")
        }
    }
}

type OtherTools = (&'static [&'static str], &'static str, &'static str);

/// What people know from other tools, and what it is here.
const OTHER_TOOLS: [OtherTools; 7] = [
    (
        &[
            "bcc", "bpf", "bpftrace", "uprobe", "uprobes", "usdt", "libbpf",
        ],
        "ebpf",
        "probes in the CUDA libraries and system calls, by the kernel; needs root",
    ),
    (
        &["strace", "ptrace", "seccomp", "ioctl", "ioctls"],
        "syscall",
        "system calls into the driver, by ptrace",
    ),
    (
        &[
            "ltrace",
            "ld_preload",
            "ldpreload",
            "interpose",
            "inject",
            "injection",
            "hook",
            "hooks",
        ],
        "preload",
        "every CUDA call, by a library in the program",
    ),
    (
        &[
            "nsys",
            "nsight",
            "nsight-systems",
            "nvprof",
            "activity",
            "kineto",
            "torch",
        ],
        "preload,cupti",
        "CUDA calls, and when work ran on the GPU",
    ),
    (
        &[
            "kprobe",
            "kprobes",
            "kretprobe",
            "ftrace",
            "tracepoint",
            "perf",
        ],
        "kernel",
        "functions of the NVIDIA driver; needs root",
    ),
    (
        &["nvidia-smi", "dcgm", "smi"],
        "nvml",
        "samples of what the GPUs do",
    ),
    (
        &["ncu", "nsight-compute", "sanitizer"],
        "auto",
        "and `cutrace gpu` looks inside kernels",
    ),
];

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

    #[test]
    fn other_tools_are_led_to_ours() {
        for (word, meant) in [
            ("bcc", "--method=ebpf "),
            ("strace", "--method=syscall "),
            ("preload,bpftrace", "--method=ebpf "),
            ("LTRACE", "--method=preload "),
            ("nsys", "--method=preload,cupti "),
            ("prelaod", "did you mean preload?"),
            ("all,preload", "cannot be combined"),
            ("nonsense", "choose from preload, syscall"),
        ] {
            let why = methods(word).expect_err(word);
            assert!(why.contains(meant), "{word}: {why}");
        }
        // What is advised exists.
        for (_, method, _) in OTHER_TOOLS {
            assert!(methods(method).is_ok(), "{method}");
        }
    }
}
