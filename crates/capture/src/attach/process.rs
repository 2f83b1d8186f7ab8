//! What /proc says of a process that is to be entered: its threads, its C library's functions, and whether it can be
//! entered at all.

use super::AttachError;
use crate::ebpf::mappings::{self, Code};
use object::{
    LittleEndian, Object, ObjectSymbol,
    elf::FileHeader64,
    read::elf::{ElfFile64, FileHeader, ProgramHeader},
};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What is called in the process, where it is there.
#[derive(Debug, Clone, Copy)]
pub struct Functions {
    pub dlopen: u64,
    pub dlsym: u64,
    pub dlerror: u64,
    pub pthread_create: u64,
    pub pthread_detach: u64,
    pub munmap: u64,
}

/// A process that runs already.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    pub functions: Functions,
    /// Where handlers of signals return to.
    pub signal_returns: Vec<u64>,
}

impl Process {
    /// Finds out all there is to know without disturbing it.
    pub fn examine(pid: u32) -> Result<Process, AttachError> {
        let status = Status::of(pid)?;
        status.can_be_traced()?;
        let code = mappings::code_of_process(pid).ok_or(AttachError::Forbidden { pid })?;
        let libraries = c_library(pid, &code)?;
        let find = |function: &'static str| {
            let mut found = libraries
                .iter()
                .filter_map(|library| library.find(function));
            found
                .next()
                .ok_or(AttachError::NoFunction { pid, function })
        };
        let functions = Functions {
            dlopen: find("dlopen")?,
            dlsym: find("dlsym")?,
            dlerror: find("dlerror")?,
            pthread_create: find("pthread_create")?,
            pthread_detach: find("pthread_detach")?,
            munmap: find("munmap")?,
        };
        let mut signal_returns = Vec::new();
        for library in &libraries {
            library.find_signal_returns(&mut signal_returns);
        }
        Ok(Process {
            pid,
            functions,
            signal_returns,
        })
    }

    pub fn threads(&self) -> Vec<libc::pid_t> {
        threads(self.pid)
    }

    /// Whether the process sees the very file that we see under this path.
    pub fn sees(&self, path: &Path) -> bool {
        let theirs = PathBuf::from(format!("/proc/{}/root{}", self.pid, path.display()));
        let known = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        known(path).is_some() && known(path) == known(&theirs)
    }
}

/// Where a library that a process has loaded keeps a symbol, for each of its files of that name.
pub fn find_loaded(pid: u32, name: &str, symbol: &str) -> Vec<(PathBuf, Option<u64>)> {
    let code = mappings::code_of_process(pid).unwrap_or_default();
    let is_named = |code: &&Code| code.path.rsplit('/').next() == Some(name);
    let mut found: Vec<(PathBuf, Option<u64>)> = Vec::new();
    for code in code.iter().filter(is_named) {
        let address = CLibrary::read(pid, code).and_then(|library| library.find(symbol));
        // The engine is at the end of the same file, and has no symbols.
        match found
            .iter_mut()
            .find(|(path, _)| path == Path::new(&code.path))
        {
            Some((_, known)) => *known = known.or(address),
            None => found.push((PathBuf::from(&code.path), address)),
        }
    }
    found
}

/// Whether the kernel sends signals to the process by way of this thread: its first, and those that have children
/// (SIGCHLD). While such a thread is traced, the kernel keeps even signals that the program ignores, and wakes
/// another thread for them, whose call is interrupted.
pub fn gets_signals(pid: u32, tid: libc::pid_t) -> bool {
    let children = fs::read(format!("/proc/{pid}/task/{tid}/children"));
    tid == pid as libc::pid_t || children.is_ok_and(|children| !children.is_empty())
}

/// The threads of a process, as they are now.
pub fn threads(pid: u32) -> Vec<libc::pid_t> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let names = entries.into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Lines of /proc/PID/status.
pub struct Status {
    pid: u32,
    text: String,
}

impl Status {
    pub fn of(pid: u32) -> Result<Status, AttachError> {
        let text = fs::read_to_string(format!("/proc/{pid}/status"));
        let text = text.map_err(|_| AttachError::Gone { pid })?;
        Ok(Status { pid, text })
    }

    fn of_thread(pid: u32, thread: libc::pid_t) -> Option<Status> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok()?;
        Some(Status { pid, text })
    }

    /// Whether a thread has a tracer.
    pub fn is_traced(pid: u32, thread: libc::pid_t) -> bool {
        Status::of_thread(pid, thread).is_some_and(|status| status.number("TracerPid") != 0)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    fn number(&self, name: &str) -> u64 {
        let value = self.value(name).and_then(|value| value.split('\t').next());
        value
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }

    fn signals(&self, name: &str) -> u64 {
        let value = self.value(name);
        value
            .and_then(|value| u64::from_str_radix(value, 16).ok())
            .unwrap_or(0)
    }

    /// Filters of system calls; older kernels say only whether there are any.
    fn filters(&self) -> u64 {
        match self.number("Seccomp") {
            0 => 0,
            _ => self.number("Seccomp_filters").max(1),
        }
    }

    fn can_be_traced(&self) -> Result<(), AttachError> {
        let pid = self.pid;
        if self.number("TracerPid") != 0 {
            let tracer = self.number("TracerPid");
            let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
            let tracer = format!("process {tracer} ({})", name.trim());
            return Err(AttachError::Traced { pid, tracer });
        }
        if self
            .value("State")
            .is_some_and(|state| state.starts_with(['T', 't']))
        {
            return Err(AttachError::Stopped { pid });
        }
        if self
            .value("State")
            .is_some_and(|state| state.starts_with(['Z', 'X']))
        {
            return Err(AttachError::Ended { pid });
        }
        self.is_allowed()?;
        if self
            .text
            .lines()
            .any(|line| line.starts_with("x86_Thread_features:") && line.contains("shstk"))
        {
            return Err(AttachError::ShadowStack { pid });
        }
        if self.filters() > usual_filters(self) {
            return Err(AttachError::Filtered { pid });
        }
        Ok(())
    }

    /// Whether the kernel would let us trace it, in words that say what to do.
    fn is_allowed(&self) -> Result<(), AttachError> {
        let pid = self.pid;
        // The file is open to those only who may trace the process, Yama's rule left aside.
        let may_read = fs::read(format!("/proc/{pid}/auxv")).is_ok_and(|bytes| !bytes.is_empty());
        // SAFETY: a question without side effects.
        let own = unsafe { libc::geteuid() };
        if !may_read {
            let owner = self.number("Uid") as u32;
            return Err(match owner == own || own == 0 {
                true => AttachError::Forbidden { pid },
                false => AttachError::OtherUser {
                    pid,
                    owner: format!("user {owner}"),
                },
            });
        }
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope: u32 = scope
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0);
        match scope {
            0 => Ok(()),
            3 => Err(AttachError::YamaOff),
            _ if may_trace_anybody() => Ok(()),
            1 if is_below_us(pid) => Ok(()),
            scope => Err(AttachError::Yama { scope }),
        }
    }
}

/// Whether we have CAP_SYS_PTRACE.
fn may_trace_anybody() -> bool {
    const SYS_PTRACE: u64 = 1 << 19;
    Status::of(std::process::id()).is_ok_and(|own| own.signals("CapEff") & SYS_PTRACE != 0)
}

/// Whether a process descends from us.
fn is_below_us(pid: u32) -> bool {
    let (own, mut pid) = (std::process::id(), pid);
    for _ in 0..64 {
        if pid == own {
            return true;
        }
        match Status::of(pid) {
            Ok(status) => pid = status.number("PPid") as u32,
            Err(_) => return false,
        }
    }
    false
}

/// Filters that a process has without having asked for any: ours, or those of its container's first process.
fn usual_filters(status: &Status) -> u64 {
    let own = Status::of(std::process::id()).map_or(0, |own| own.filters());
    let depth = |status: &Status| {
        status
            .value("NSpid")
            .map_or(1, |line| line.split('\t').count())
    };
    let (within, mut pid) = (depth(status), status.pid);
    for _ in 0..64 {
        let Ok(ancestor) = Status::of(pid) else {
            break;
        };
        let numbers = ancestor.value("NSpid").unwrap_or_default();
        if within > 1 && depth(&ancestor) == within && numbers.ends_with("\t1") {
            return own.max(ancestor.filters());
        }
        pid = ancestor.number("PPid") as u32;
    }
    own
}

/// Whether a handler of the program's is about to run on a thread, which has been stopped when it was to take
/// `taken` (0: none). Signals without a handler do not count: the kernel keeps those that the program ignores, such as
/// SIGCHLD, for as long as a thread is traced.
pub fn takes_signal(pid: u32, thread: libc::pid_t, taken: libc::c_int) -> bool {
    Status::of_thread(pid, thread).is_none_or(|status| {
        // One that any thread may take is the first one's, if that is not busy.
        let any = match thread == pid as libc::pid_t {
            true => status.signals("ShdPnd"),
            false => 0,
        };
        let pending = status.signals("SigPnd") | any;
        let taken = match taken {
            1..=64 => 1u64 << (taken - 1),
            _ => 0,
        };
        (pending & !status.signals("SigBlk") | taken) & status.signals("SigCgt") != 0
    })
}

/// Whether nothing comes of a signal.
pub fn ignores_signal(pid: u32, thread: libc::pid_t, signal: libc::c_int) -> bool {
    let is_in = |set: u64| (1..=64).contains(&signal) && set >> (signal - 1) & 1 == 1;
    let by_itself = matches!(signal, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH);
    Status::of_thread(pid, thread).is_some_and(|status| {
        is_in(status.signals("SigIgn")) || by_itself && !is_in(status.signals("SigCgt"))
    })
}

/// A library of the C library's, as it is loaded.
struct CLibrary {
    data: Vec<u8>,
    bias: u64,
    code: (u64, u64),
    offset: u64,
}

/// Those that have the functions we need: one, or three before glibc 2.34.
fn c_library(pid: u32, code: &[Code]) -> Result<Vec<CLibrary>, AttachError> {
    let is_named = |code: &&Code, names: &[&str]| {
        let name = code.path.rsplit('/').next().unwrap_or_default();
        names.iter().any(|one| name.starts_with(one))
    };
    if code.iter().any(|one| is_named(&one, &["ld-musl"])) {
        return Err(AttachError::OtherLibc { pid });
    }
    let names = ["libc.so.", "libc-2.", "libpthread", "libdl.so", "libdl-2."];
    let named: Vec<&Code> = code.iter().filter(|one| is_named(one, &names)).collect();
    if named.is_empty() {
        let has_loader = code.iter().any(|one| is_named(&one, &["ld-", "ld.so"]));
        return Err(match has_loader {
            true => AttachError::OtherLibc { pid },
            false => AttachError::Static { pid },
        });
    }
    let read = |code: &&Code| CLibrary::read(pid, code);
    let found: Vec<CLibrary> = named.iter().filter_map(read).collect();
    match found.is_empty() {
        true => Err(AttachError::OtherMachine { pid }),
        false => Ok(found),
    }
}

impl CLibrary {
    fn read(pid: u32, code: &Code) -> Option<CLibrary> {
        let data = fs::read(code.reachable(pid)).ok()?;
        let header = FileHeader64::<LittleEndian>::parse(&*data).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != object::elf::EM_X86_64 {
            return None;
        }
        let segments = header.program_headers(endian, &*data).ok()?;
        let segment = segments.iter().find(|segment| {
            let begin = segment.p_offset(endian);
            segment.p_type(endian) == object::elf::PT_LOAD
                && (begin / PAGE * PAGE..begin + segment.p_filesz(endian)).contains(&code.offset)
        })?;
        let address =
            (segment.p_vaddr(endian) + code.offset).checked_sub(segment.p_offset(endian))?;
        let bias = code.begin.checked_sub(address)?;
        Some(CLibrary {
            data,
            bias,
            code: (code.begin, code.end),
            offset: code.offset,
        })
    }

    fn find(&self, name: &str) -> Option<u64> {
        let file = ElfFile64::<LittleEndian>::parse(&*self.data).ok()?;
        let mut symbols = file.dynamic_symbols();
        let found = symbols.find(|symbol| {
            symbol.is_definition() && symbol.address() != 0 && symbol.name() == Ok(name)
        })?;
        Some(self.bias + found.address())
    }

    /// `mov rax, 15` or `mov eax, 15`; `syscall`: the only code that does this is what handlers return to.
    fn find_signal_returns(&self, found: &mut Vec<u64>) {
        let shapes: [&[u8]; 2] = [
            &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05],
            &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05],
        ];
        let begin = self.offset as usize;
        let end = begin + (self.code.1 - self.code.0) as usize;
        let bytes = self.data.get(begin..end.min(self.data.len()));
        let bytes = bytes.unwrap_or_default();
        for shape in shapes {
            let places = bytes.windows(shape.len()).enumerate();
            let places = places.filter(|(_, window)| *window == shape);
            found.extend(places.map(|(place, _)| self.code.0 + place as u64));
        }
    }
}

const PAGE: u64 = 4096;
