//! The kernel's view: probes in libraries and the driver, system calls, by BPF programs that write
//! records into one ring. The programs are in `bpf/`.

mod attach;
mod changed;
pub mod error;
pub mod kernel;
mod kernels;
pub mod layout;
pub mod library;
mod loader;
pub(crate) mod mappings;
pub mod maps;
pub mod markers;
pub mod objects;
mod places;
mod probe_point;
mod process_filter;
mod processes;
mod reader;
mod session;
mod short;
mod source;
pub mod spec;
mod stopping;
mod system;
mod tables;
mod watch;

pub use attach::AttachMode;
pub use error::EbpfError;
pub use process_filter::{CgroupError, ProcessFilter, cgroup};
pub use session::{EbpfReport, Options, Recording, Target, available, start};
pub use source::{EBPF, in_pid_namespace};
pub use watch::Ended;

#[cfg(test)]
mod tests {
    use super::{layout::Settings, maps::Maps, objects};

    /// False, and a word about it, where programs may not be loaded.
    fn may_load() -> bool {
        // SAFETY: a question without side effects.
        let root = unsafe { libc::geteuid() } == 0;
        if !root {
            let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|it| it == "1");
            assert!(!required, "not root, and everything is required");
            eprintln!("skipped: loading BPF programs needs root");
        }
        root
    }

    /// The whole of what is compiled is taken by this kernel, and by name.
    #[test]
    fn programs_load() {
        if !may_load() {
            return;
        }
        let maps = Maps::create(1 << 20).expect("maps");
        maps.set(&Settings::default()).expect("settings");
        for (object, programs) in [
            (
                objects::CALLS,
                &["enter_multi", "return_multi", "enter_one", "return_one"][..],
            ),
            (objects::CALLS_PLAIN, &["enter_one", "return_one"]),
            (objects::SESSION, &["call_session"]),
            (objects::MARKERS, &["mark_multi", "mark_one"]),
            (objects::MARKERS_PLAIN, &["mark_one"]),
            (objects::LOADING, &["loaded_multi", "loaded_one"]),
            (objects::LOADING_PLAIN, &["loaded_plain"]),
            (
                objects::PROCESSES,
                &["process_fork", "process_exec", "process_exit"],
            ),
            (
                objects::PROCESSES_BTF,
                &["process_fork", "process_exec", "process_exit"],
            ),
            (objects::SYSCALLS_BTF, &["system_enter", "system_exit"]),
            (
                objects::KERNEL,
                &["kprobe_enter", "kprobe_return", "point", "switched"],
            ),
        ] {
            let loaded = objects::load(object, &maps, programs, |_| Ok(()));
            let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", object.name));
            assert_eq!(
                loaded.progs().filter(|one| one.autoload()).count(),
                programs.len()
            );
        }
        assert_eq!(maps.count(0), 0);
    }
}
