//! The compiled BPF objects, and loading them with the shared maps.

use super::maps::Maps;
use super::{EbpfError, kernels};
use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject, ProgramMut};
use std::cell::RefCell;
use std::sync::Once;

/// Compiled from `bpf/` by its Makefile.
#[derive(Debug, Clone, Copy)]
pub struct Compiled {
    pub name: &'static str,
    bytes: &'static [u8],
}

macro_rules! compiled {
    ($constant:ident, $name:literal) => {
        pub const $constant: Compiled = Compiled {
            name: $name,
            bytes: include_bytes!(concat!("../../../../bpf/objects/", $name, ".bpf.o")),
        };
    };
}

compiled!(CALLS, "calls");
compiled!(CALLS_PLAIN, "calls_plain");
compiled!(SESSION, "session");
compiled!(PROCESSES, "processes");
compiled!(PROCESSES_BTF, "processes_btf");
compiled!(LOADING, "loading");
compiled!(LOADING_PLAIN, "loading_plain");
compiled!(SYSCALLS, "syscalls");
compiled!(SYSCALLS_BTF, "syscalls_btf");
compiled!(KERNEL, "kernel");
compiled!(MARKERS, "markers");
compiled!(MARKERS_PLAIN, "markers_plain");

/// All of them.
#[cfg(test)]
pub const ALL: [Compiled; 12] = [
    CALLS,
    CALLS_PLAIN,
    SESSION,
    PROCESSES,
    PROCESSES_BTF,
    LOADING,
    LOADING_PLAIN,
    SYSCALLS,
    SYSCALLS_BTF,
    KERNEL,
    MARKERS,
    MARKERS_PLAIN,
];

#[cfg(test)]
impl Compiled {
    pub fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

/// Loads some of an object's programs. `prepare` sees the object before the kernel does.
pub fn load(
    compiled: Compiled,
    maps: &Maps,
    programs: &[&str],
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, EbpfError> {
    let _ = said();
    listen();
    let failed = |source| EbpfError::Load {
        object: compiled.name,
        source,
        log: said(),
    };
    let mut open = ObjectBuilder::default()
        .open_memory(compiled.bytes)
        .map_err(failed)?;
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let wanted = programs.contains(&&*name);
        if wanted && kernels::pretends_to_lack(&program.section().to_string_lossy())? {
            return Err(failed(libbpf_rs::Error::from_raw_os_error(libc::EINVAL)));
        }
        program.set_autoload(wanted);
    }
    maps.share_with(&mut open).map_err(failed)?;
    prepare(&mut open).map_err(failed)?;
    open.load().map_err(failed)
}

/// Attaches every program that is loaded to the tracepoint it names.
pub fn attach_all(object: &mut Object) -> Result<Vec<Link>, EbpfError> {
    let programs = object.progs_mut().filter(|program| program.autoload());
    let link = |program: ProgramMut<'_>| {
        program.attach().map_err(|source| EbpfError::Attach {
            what: format!("the tracepoint of {}", program.name().to_string_lossy()),
            source,
        })
    };
    programs.map(link).collect()
}

thread_local! {
    /// What libbpf has to say on this thread, kept until it is asked for: most of it is about things that are
    /// tried and may fail.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}
const MOST_SAID: usize = 64 << 10;

pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, |_, text| {
            // A thread that ends says nothing any more.
            let _ = SAID.try_with(|said| {
                let mut said = said.borrow_mut();
                if said.len() < MOST_SAID {
                    said.push_str(&text);
                }
            });
        })));
    });
}

/// What libbpf said on this thread since it was asked last.
pub fn said() -> String {
    SAID.take()
}
