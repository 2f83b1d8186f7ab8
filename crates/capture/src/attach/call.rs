//! Calls a function of a library in a running process, on a thread of its own.
//!
//! A thread of the process that waits at a safe place is sent to `pthread_create` and back. The new thread does the
//! rest as any thread would: it loads the library and calls the function, and may wait for whatever lock it needs.

use super::everyone::Everyone;
use super::process::{Process, gets_signals};
use super::stopped::Stopped;
use super::{AttachError, safe};
use crate::ptrace::{self, Syscall};
use event::attach::{self, Order, step};
use std::arch::global_asm;
use std::ffi::CString;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a thread at a safe place is looked for.
const TO_FIND: Duration = Duration::from_secs(5);
/// How long of that, before a thread is taken that gets signals.
const FOR_OTHERS: Duration = Duration::from_secs(1);
/// How long the new thread may take to load the library, which may have to wait for another that loads one.
pub const TO_LOAD: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_micros(200);
const PAGE: u64 = 4096;
/// Every signal but the C library's own (32 and 33, which setuid() waits for) and SIGSYS, by which a seccomp filter
/// answers a system call.
const BLOCKED: u64 = !(1 << 31 | 1 << 32 | 1 << (libc::SIGSYS - 1));
/// Code, then data.
const ROOM: u64 = 3 * PAGE;

/// What the new thread needs, at the beginning of its data.
#[repr(C)]
struct Start {
    dlopen: u64,
    dlsym: u64,
    dlerror: u64,
    detach: u64,
    munmap: u64,
    library: u64,
    function: u64,
    order: u64,
    room: u64,
    room_bytes: u64,
    /// One of the states below.
    state: u32,
    thread: u32,
    /// What the loader said.
    error: u64,
    /// For pthread_create.
    handle: u64,
}

const NOT_LOADED: u32 = 1;
const NO_FUNCTION: u32 = 2;
const RETURNED: u32 = 3;

unsafe extern "C" {
    static cutrace_attach_thread: u8;
    static cutrace_attach_back: u8;
    static cutrace_attach_end: u8;
}

// Copied into the process. The thread's first argument is its `Start`; the last thing it does is to give the memory
// back that this code is in: `munmap` returns to where the thread ends. A tracer that was killed is not waited for
// longer than some 20 s.
global_asm!(
    r#"
    .section .rodata.cutrace_attach,"a",@progbits
    .globl cutrace_attach_thread
    .globl cutrace_attach_back
    .globl cutrace_attach_end
cutrace_attach_thread:
    push rbx
    push rbp
    sub rsp, 24
    mov rbx, rdi
    mov eax, {gettid}
    syscall
    mov [rbx + {thread}], eax
    mov rdi, fs:[0x10]
    call [rbx + {detach}]
    mov rdi, [rbx + {library}]
    mov esi, {flags}
    call [rbx + {dlopen}]
    test rax, rax
    jz 2f
    mov rdi, rax
    mov rsi, [rbx + {function}]
    call [rbx + {dlsym}]
    test rax, rax
    jz 3f
    mov rdi, [rbx + {order}]
    call rax
    mov dword ptr [rbx + {state}], {returned}
    jmp 4f
2:  call [rbx + {dlerror}]
    mov [rbx + {error}], rax
    mov dword ptr [rbx + {state}], {not_loaded}
    jmp 4f
3:  mov dword ptr [rbx + {state}], {no_function}
4:  mov ebp, 400000
5:  mov rax, [rbx + {order}]
    cmp dword ptr [rax + {step}], {released}
    je 6f
    mov qword ptr [rsp], 0
    mov qword ptr [rsp + 8], 50000
    mov eax, {nanosleep}
    mov rdi, rsp
    xor esi, esi
    syscall
    dec ebp
    jnz 5b
6:  mov rdi, [rbx + {room}]
    mov rsi, [rbx + {room_bytes}]
    mov rax, [rbx + {munmap}]
    add rsp, 24
    pop rbp
    pop rbx
    jmp rax
    # Where the thread that was sent to pthread_create comes back to: the tracer waits for this call.
cutrace_attach_back:
    mov edi, eax
    mov eax, {getpid}
    syscall
    ud2
cutrace_attach_end:
    .text
    "#,
    gettid = const libc::SYS_gettid,
    getpid = const libc::SYS_getpid,
    nanosleep = const libc::SYS_nanosleep,
    flags = const libc::RTLD_NOW | libc::RTLD_NODELETE,
    released = const step::RELEASED,
    step = const offset_of!(Order, step),
    dlopen = const offset_of!(Start, dlopen),
    dlsym = const offset_of!(Start, dlsym),
    dlerror = const offset_of!(Start, dlerror),
    detach = const offset_of!(Start, detach),
    munmap = const offset_of!(Start, munmap),
    library = const offset_of!(Start, library),
    function = const offset_of!(Start, function),
    order = const offset_of!(Start, order),
    room = const offset_of!(Start, room),
    room_bytes = const offset_of!(Start, room_bytes),
    state = const offset_of!(Start, state),
    thread = const offset_of!(Start, thread),
    error = const offset_of!(Start, error),
    returned = const RETURNED,
    not_loaded = const NOT_LOADED,
    no_function = const NO_FUNCTION,
);

fn code() -> &'static [u8] {
    // SAFETY: the bytes between two labels of ours.
    unsafe {
        let begin = &raw const cutrace_attach_thread;
        let length = (&raw const cutrace_attach_end).offset_from(begin);
        std::slice::from_raw_parts(begin, length as usize)
    }
}

/// Bytes from the thread's code to where the other thread comes back to, and to behind the call there.
fn back() -> (u64, u64) {
    // SAFETY: labels of ours.
    let back = unsafe {
        (&raw const cutrace_attach_back).offset_from(&raw const cutrace_attach_thread) as u64
    };
    // mov edi, eax; mov eax, imm32; syscall
    (back, back + 9)
}

/// A function that is being called in the process. Its memory there goes when this is dropped.
pub struct RemoteCall<'a> {
    process: &'a Process,
    room: u64,
    order: u64,
}

impl<'a> RemoteCall<'a> {
    /// Has `function` of `library` called with an [`Order`] that holds `text`.
    pub fn begin(
        process: &'a Process,
        library: &Path,
        function: &'static str,
        text: &[u8],
    ) -> Result<Self, AttachError> {
        let pid = process.pid;
        if !process.sees(library) {
            return Err(AttachError::OtherFiles { pid });
        }
        let thread = find_safe(process)?;
        let room = send(process, thread, library, function, text)?;
        Ok(RemoteCall {
            process,
            room,
            order: room + PAGE + ORDER,
        })
    }

    /// The new thread, as /proc knows it here: the one that the process's own number is of.
    pub fn thread(&self) -> Option<libc::pid_t> {
        let inside = self.start_word(offset_of!(Start, thread))?;
        let mut threads = self.process.threads().into_iter();
        threads.find(|tid| {
            let path = format!("/proc/{}/task/{tid}/status", self.process.pid);
            let status = std::fs::read_to_string(path).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            let own = line.and_then(|line| line.split_whitespace().last());
            own.and_then(|own| own.parse().ok()) == Some(inside)
        })
    }

    /// Waits until the library has to be answered, or is done: what it says.
    pub fn wait(&self, within: Duration) -> Result<u32, AttachError> {
        let pid = self.process.pid;
        let until = Instant::now() + within;
        loop {
            let state = self
                .start_word(offset_of!(Start, state))
                .ok_or(AttachError::Ended { pid })?;
            let said = self.step()?;
            match state {
                NOT_LOADED => return Err(self.not_loaded()),
                NO_FUNCTION => return Err(AttachError::OtherVersion { pid }),
                _ => {}
            }
            let is_ours = matches!(
                said,
                step::READY | step::PREPARED | step::BUSY | step::DONE | step::FAILED
            );
            if is_ours {
                return Ok(said);
            }
            if Instant::now() > until {
                let seconds = within.as_secs();
                return Err(AttachError::Silent { pid, seconds });
            }
            std::thread::sleep(LOOK);
        }
    }

    fn not_loaded(&self) -> AttachError {
        let pid = self.process.pid;
        let place = self.room + PAGE + offset_of!(Start, error) as u64;
        let mut word = [(place, vec![0; 8])];
        ptrace::read_memory(pid as libc::pid_t, &mut word);
        let address = word[0]
            .1
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let said = ptrace::read_text(pid as libc::pid_t, address, 512);
        let why = String::from_utf8_lossy(&said).into_owned();
        AttachError::NotLoaded { pid, why }
    }

    fn step(&self) -> Result<u32, AttachError> {
        let place = self.order + offset_of!(Order, step) as u64;
        let pid = self.process.pid;
        word(pid, place).ok_or(AttachError::Ended { pid })
    }

    /// Says what is to be done next.
    pub fn say(&self, step: u32) {
        let place = self.order + offset_of!(Order, step) as u64;
        ptrace::write_memory(self.process.pid as libc::pid_t, place, &step.to_le_bytes());
    }

    /// Where the library has its [`attach::Control`].
    pub fn control(&self) -> Option<u64> {
        let place = self.order + offset_of!(Order, control) as u64;
        let mut word = [(place, vec![0; 8])];
        ptrace::read_memory(self.process.pid as libc::pid_t, &mut word);
        word[0]
            .1
            .first_chunk()
            .map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn start_word(&self, offset: usize) -> Option<u32> {
        word(self.process.pid, self.room + PAGE + offset as u64)
    }
}

impl Drop for RemoteCall<'_> {
    fn drop(&mut self) {
        let thread = self.thread();
        self.say(step::RELEASED);
        // Its end is waited for, for a moment: afterwards the process has the threads that it had.
        let until = Instant::now() + Duration::from_secs(1);
        let path = |tid| format!("/proc/{}/task/{tid}", self.process.pid);
        while thread.is_some_and(|tid| Path::new(&path(tid)).exists()) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

fn word(pid: u32, place: u64) -> Option<u32> {
    let mut word = [(place, vec![0; 4])];
    ptrace::read_memory(pid as libc::pid_t, &mut word);
    word[0]
        .1
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes))
}

/// Behind [`Start`], on a line of its own.
const ORDER: u64 = 256;
/// Behind the order.
const TEXTS: u64 = ORDER + (size_of::<Order>() as u64).next_multiple_of(64);

fn find_safe(process: &Process) -> Result<Stopped, AttachError> {
    let pid = process.pid;
    let until = Instant::now() + TO_FIND;
    let mut pause = Duration::from_micros(200);
    loop {
        let threads = process.threads();
        // Those that get signals only if no other will do, see `gets_signals`.
        let is_soon = threads.len() > 1 && Instant::now() + TO_FIND - FOR_OTHERS < until;
        let may_do = |tid: libc::pid_t| !(is_soon && gets_signals(pid, tid));
        let looks_fit = |tid: &libc::pid_t| may_do(*tid) && safe::may_be_safe(pid, *tid);
        if threads.iter().any(looks_fit) {
            // It may have got a child since, and only while all stand still does that do no harm.
            let found = match Everyone::stop_patiently(pid, None) {
                Err(AttachError::Unstoppable { .. }) => None,
                stopped => stopped?.take(|thread| {
                    let registers = thread.registers();
                    !thread.has_signal()
                        && may_do(thread.tid)
                        && registers
                            .is_some_and(|registers| safe::is_safe(process, thread.tid, &registers))
                }),
            };
            if let Some(thread) = found {
                return Ok(thread);
            }
        }
        if threads.is_empty() {
            return Err(AttachError::Ended { pid });
        }
        if Instant::now() > until {
            return Err(AttachError::NoSafePlace {
                pid,
                threads: threads.len(),
                seconds: TO_FIND.as_secs(),
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Sends a stopped thread to `pthread_create` and back. Returns where the new thread's memory is.
fn send(
    process: &Process,
    mut thread: Stopped,
    library: &Path,
    function: &'static str,
    text: &[u8],
) -> Result<u64, AttachError> {
    let pid = process.pid;
    let failed = |what: &'static str| AttachError::System {
        pid,
        what,
        source: std::io::Error::last_os_error(),
    };
    let tid = thread.tid;
    let saved = thread
        .registers()
        .ok_or_else(|| failed("reading registers"))?;
    let mut vectors = ptrace::vectors(tid).ok_or_else(|| failed("reading registers"))?;
    let mask = ptrace::signal_mask(tid).ok_or_else(|| failed("reading the signal mask"))?;
    // The new thread inherits it: it takes no signal of the program's, ever.
    ptrace::set_signal_mask(tid, BLOCKED).ok_or_else(|| failed("setting the signal mask"))?;
    // From here on it goes on where it was, however this ends.
    thread.goes_on_with(saved);
    let done = run(process, &mut thread, &saved, (library, function, text));
    ptrace::set_vectors(tid, &mut vectors);
    let _ = ptrace::set_signal_mask(tid, mask);
    done.map_err(|step| match step {
        FailedStep::NewThread => AttachError::NotLoaded {
            pid,
            why: "the process cannot start another thread".into(),
        },
        FailedStep::Call(what) => failed(what),
    })
}

/// Which step of it did not work.
enum FailedStep {
    /// pthread_create returned an error.
    NewThread,
    /// By the system's word for it; errno says why.
    Call(&'static str),
}

fn run(
    process: &Process,
    thread: &mut Stopped,
    saved: &ptrace::Registers,
    (library, function, text): (&Path, &'static str, &[u8]),
) -> Result<u64, FailedStep> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let arguments = [0, ROOM, access as u64, kind as u64, u64::MAX, 0];
    let room = call(thread, saved, libc::SYS_mmap, arguments).ok_or(FailedStep::Call("mmap"))?;
    let started = fill(process, room, (library, function, text))
        .ok_or(FailedStep::Call("writing memory"))
        .and_then(|()| {
            let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            let arguments = [room, PAGE, access, 0, 0, 0];
            call(thread, saved, libc::SYS_mprotect, arguments).ok_or(FailedStep::Call("mprotect"))
        })
        .and_then(|_| create(process, thread, saved, room));
    if started.is_err() {
        call(thread, saved, libc::SYS_munmap, [room, ROOM, 0, 0, 0, 0]);
    }
    started.map(|()| room)
}

/// One system call, made by the thread, where it has made its own.
fn call(
    thread: &mut Stopped,
    saved: &ptrace::Registers,
    number: i64,
    arguments: [u64; 6],
) -> Option<u64> {
    ptrace::set_registers(thread.tid, &saved.to_call(number, arguments))?;
    loop {
        if let Syscall::Exit { result } = thread.run_to_call()? {
            return (!(-4095..0).contains(&result)).then_some(result as u64);
        }
    }
}

fn fill(
    process: &Process,
    room: u64,
    (library, function, text): (&Path, &'static str, &[u8]),
) -> Option<()> {
    let data = room + PAGE;
    let library = CString::new(library.as_os_str().as_bytes()).ok()?;
    let function = CString::new(function).ok()?;
    let texts = [library.as_bytes_with_nul(), function.as_bytes_with_nul()].concat();
    if TEXTS as usize + texts.len() > (ROOM - PAGE) as usize || text.len() > attach::PATH_BYTES {
        return None;
    }
    let functions = process.functions;
    let words = [
        functions.dlopen,
        functions.dlsym,
        functions.dlerror,
        functions.pthread_detach,
        functions.munmap,
        data + TEXTS,
        data + TEXTS + library.as_bytes_with_nul().len() as u64,
        data + ORDER,
        room,
        ROOM,
    ];
    let start: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let mut order = Vec::new();
    order.extend(attach::MAGIC.to_le_bytes());
    order.extend(step::NEW.to_le_bytes());
    order.extend((text.len() as u32).to_le_bytes());
    order.extend(0u64.to_le_bytes());
    order.extend(text);
    let pid = process.pid as libc::pid_t;
    ptrace::write_memory(pid, room, code())?;
    ptrace::write_memory(pid, data, &start)?;
    ptrace::write_memory(pid, data + ORDER, &order)?;
    ptrace::write_memory(pid, data + TEXTS, &texts)
}

/// pthread_create(&handle, NULL, code, start), and back.
fn create(
    process: &Process,
    thread: &mut Stopped,
    saved: &ptrace::Registers,
    room: u64,
) -> Result<(), FailedStep> {
    /// Below the stack's end functions may keep things that they have not claimed.
    const RED_ZONE: u64 = 128;
    let (back, behind) = back();
    let data = room + PAGE;
    // As a call leaves it: the return address on a stack that was aligned before.
    let stack = (saved.stack() - RED_ZONE) / 64 * 64 - 8;
    let pid = process.pid as libc::pid_t;
    ptrace::write_memory(pid, stack, &(room + back).to_le_bytes())
        .ok_or(FailedStep::Call("writing memory"))?;
    let handle = data + offset_of!(Start, handle) as u64;
    let arguments = [handle, 0, room, data];
    let there = saved.to_function(process.functions.pthread_create, arguments, stack);
    ptrace::set_registers(thread.tid, &there).ok_or(FailedStep::Call("setting registers"))?;
    loop {
        let stopped = thread
            .run_to_call()
            .ok_or(FailedStep::Call("running pthread_create"))?;
        let registers = thread
            .registers()
            .ok_or(FailedStep::Call("reading registers"))?;
        let is_back = registers.next() == room + behind;
        if let Syscall::Entry { arguments, .. } = stopped
            && is_back
        {
            thread
                .run_to_call()
                .ok_or(FailedStep::Call("running pthread_create"))?;
            // What pthread_create has returned.
            return match arguments[0] {
                0 => Ok(()),
                _ => Err(FailedStep::NewThread),
            };
        }
    }
}
