//! ptrace, and reading another process's memory: every system call that sources make on tracees.

use std::io;
use std::mem::MaybeUninit;

/// Options of every tracee. Not PTRACE_O_EXITKILL: a program outlives its tracer.
pub const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

/// How a stopped thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// To the next thing that the filter stops.
    Run,
    /// To the next beginning or end of a system call.
    ToSyscall,
}

/// A system call that is about to begin, or has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syscall {
    /// By the filter; `message` is what it said.
    Filtered {
        number: u64,
        arguments: [u64; 6],
        message: u64,
    },
    Entry {
        number: u64,
        arguments: [u64; 6],
    },
    Exit {
        result: i64,
    },
}

fn request(
    request: libc::c_uint,
    tid: libc::pid_t,
    address: usize,
    data: usize,
) -> io::Result<libc::c_long> {
    // SAFETY: the requests used here write only into buffers that callers own.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Begins to trace a thread, without stopping it.
pub fn seize(tid: libc::pid_t) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize).map(drop)
}

/// The same for a moment: nothing but what is asked for is to be heard of it.
pub fn seize_alone(tid: libc::pid_t) -> io::Result<()> {
    request(
        libc::PTRACE_SEIZE,
        tid,
        0,
        libc::PTRACE_O_TRACESYSGOOD as usize,
    )
    .map(drop)
}

/// Stops a thread that was seized.
pub fn interrupt(tid: libc::pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// A thread that is gone meanwhile is no error: wait says what became of it.
pub fn resume(tid: libc::pid_t, how: Resume, signal: libc::c_int) {
    let how = match how {
        Resume::Run => libc::PTRACE_CONT,
        Resume::ToSyscall => libc::PTRACE_SYSCALL,
    };
    let _ = request(how, tid, 0, signal as usize);
}

/// Leaves a thread in its group-stop, until SIGCONT.
pub fn listen(tid: libc::pid_t) {
    let _ = request(libc::PTRACE_LISTEN, tid, 0, 0);
}

/// Lets go of a stopped thread.
pub fn detach(tid: libc::pid_t, signal: libc::c_int) {
    let _ = request(libc::PTRACE_DETACH, tid, 0, signal as usize);
}

/// What an event came with: of an exec, the thread that made it.
pub fn event_message(tid: libc::pid_t) -> Option<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize).ok()?;
    Some(message)
}

/// The system call that a thread is stopped at.
pub fn syscall(tid: libc::pid_t) -> Option<Syscall> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    request(
        libc::PTRACE_GET_SYSCALL_INFO,
        tid,
        size,
        info.as_mut_ptr() as usize,
    )
    .ok()?;
    // SAFETY: all zeroes is one, and the kernel fills in the arm that `op` names.
    unsafe {
        let info = info.assume_init();
        match info.op {
            libc::PTRACE_SYSCALL_INFO_SECCOMP => Some(Syscall::Filtered {
                number: info.u.seccomp.nr,
                arguments: info.u.seccomp.args,
                message: info.u.seccomp.ret_data.into(),
            }),
            libc::PTRACE_SYSCALL_INFO_ENTRY => Some(Syscall::Entry {
                number: info.u.entry.nr,
                arguments: info.u.entry.args,
            }),
            libc::PTRACE_SYSCALL_INFO_EXIT => Some(Syscall::Exit {
                result: info.u.exit.sval,
            }),
            _ => None,
        }
    }
}

/// Where a thread is, to be sent elsewhere and back.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Registers(libc::user_regs_struct);

/// Other processors' threads are left alone.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub struct Registers;

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// A call has just returned by the instruction that can be used once more.
    pub fn are_behind_a_call(&self, tid: libc::pid_t) -> bool {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let mut code = [(self.0.rip.wrapping_sub(2), vec![0; 2])];
        read_memory(tid, &mut code);
        code[0].1 == SYSCALL
    }

    /// The same, about to make another call.
    pub fn to_call(self, number: i64, arguments: [u64; 6]) -> Self {
        let mut regs = self.0;
        regs.rip -= 2;
        regs.rax = number as u64;
        // No call is under way that would have to be begun again.
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = arguments;
        Registers(regs)
    }

    /// The same, with a call that is not made and was answered.
    pub fn answered(self, result: i64) -> Self {
        let mut regs = self.0;
        regs.orig_rax = u64::MAX;
        regs.rax = result as u64;
        Registers(regs)
    }

    /// The instruction that comes next.
    pub fn next(&self) -> u64 {
        self.0.rip
    }

    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Where the C library keeps what it knows of the thread.
    pub fn thread_block(&self) -> u64 {
        self.0.fs_base
    }

    /// The system call that the thread is in, its arguments, and what the kernel would answer now.
    pub fn call(&self) -> Option<(i64, [u64; 6], i64)> {
        let regs = &self.0;
        let number = i64::try_from(regs.orig_rax).ok()?;
        let arguments = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        Some((number, arguments, regs.rax as i64))
    }

    /// The same, about to make its call once more, as another of this number if that is given.
    pub fn again(self, number: Option<i64>) -> Self {
        let mut regs = self.0;
        regs.rip -= 2;
        regs.rax = number.map_or(regs.orig_rax, |number| number as u64);
        regs.orig_rax = u64::MAX;
        Registers(regs)
    }

    /// The same, at the beginning of a function, with the stack where `stack` says.
    pub fn to_function(self, function: u64, arguments: [u64; 4], stack: u64) -> Self {
        let mut regs = self.0;
        regs.rip = function;
        regs.orig_rax = u64::MAX;
        regs.rax = 0;
        [regs.rdi, regs.rsi, regs.rdx, regs.rcx] = arguments;
        regs.rsp = stack;
        // The direction flag is clear where functions begin.
        regs.eflags &= !0x400;
        Registers(regs)
    }
}

/// What a thread has in its vector registers and beside them.
#[cfg(target_arch = "x86_64")]
pub struct Vectors(Vec<u8>);

#[cfg(target_arch = "x86_64")]
const NT_X86_XSTATE: usize = 0x202;

#[cfg(target_arch = "x86_64")]
pub fn vectors(tid: libc::pid_t) -> Option<Vectors> {
    let mut bytes = vec![0u8; 32 << 10];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let place = &raw mut part as usize;
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, place).ok()?;
    bytes.truncate(part.iov_len);
    Some(Vectors(bytes))
}

#[cfg(target_arch = "x86_64")]
pub fn set_vectors(tid: libc::pid_t, vectors: &mut Vectors) -> Option<()> {
    let mut part = libc::iovec {
        iov_base: vectors.0.as_mut_ptr().cast(),
        iov_len: vectors.0.len(),
    };
    let place = &raw mut part as usize;
    request(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, place).ok()?;
    Some(())
}

/// Changes memory of a stopped thread's process, code as well.
pub fn poke(tid: libc::pid_t, address: u64, bytes: &[u8]) -> Option<()> {
    const WORD: u64 = 8;
    let end = address.checked_add(bytes.len() as u64)?;
    let mut word = address / WORD * WORD;
    while word < end {
        let mut old = [(word, vec![0; WORD as usize])];
        read_memory(tid, &mut old);
        let [(_, mut new)] = old;
        if new.len() != WORD as usize {
            return None;
        }
        for (place, byte) in new.iter_mut().enumerate() {
            let at = word + place as u64;
            if (address..end).contains(&at) {
                *byte = bytes[(at - address) as usize];
            }
        }
        let value = u64::from_le_bytes(new.try_into().ok()?);
        request(libc::PTRACE_POKEDATA, tid, word as usize, value as usize).ok()?;
        word += WORD;
    }
    Some(())
}

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    pub fn are_behind_a_call(&self, _: libc::pid_t) -> bool {
        false
    }

    pub fn to_call(self, _: i64, _: [u64; 6]) -> Self {
        self
    }

    pub fn answered(self, _: i64) -> Self {
        self
    }
}

#[cfg(target_arch = "x86_64")]
pub fn registers(tid: libc::pid_t) -> Option<Registers> {
    let mut regs = MaybeUninit::<libc::user_regs_struct>::zeroed();
    request(libc::PTRACE_GETREGS, tid, 0, regs.as_mut_ptr() as usize).ok()?;
    // SAFETY: the kernel has filled it in.
    Some(Registers(unsafe { regs.assume_init() }))
}

#[cfg(target_arch = "x86_64")]
pub fn set_registers(tid: libc::pid_t, regs: &Registers) -> Option<()> {
    request(libc::PTRACE_SETREGS, tid, 0, &raw const regs.0 as usize).ok()?;
    Some(())
}

#[cfg(not(target_arch = "x86_64"))]
pub fn registers(_: libc::pid_t) -> Option<Registers> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub fn set_registers(_: libc::pid_t, _: &Registers) -> Option<()> {
    None
}

/// Signals that a thread keeps waiting.
pub fn signal_mask(tid: libc::pid_t) -> Option<u64> {
    let mut mask = 0u64;
    let (size, place) = (size_of::<u64>(), &raw mut mask as usize);
    request(libc::PTRACE_GETSIGMASK, tid, size, place).ok()?;
    Some(mask)
}

pub fn set_signal_mask(tid: libc::pid_t, mask: u64) -> Option<()> {
    let (size, place) = (size_of::<u64>(), &raw const mask as usize);
    request(libc::PTRACE_SETSIGMASK, tid, size, place).ok()?;
    Some(())
}

/// The next thread that stopped or ended, and how; None when there is none left.
pub fn wait(flags: libc::c_int) -> io::Result<(libc::pid_t, libc::c_int)> {
    let mut status = 0;
    // SAFETY: the call writes the status and nothing else.
    let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | flags) };
    if tid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((tid, status))
}

/// The same for one thread, without waiting. None: nothing has happened to it.
pub fn look(tid: libc::pid_t) -> io::Result<Option<libc::c_int>> {
    let mut status = 0;
    // SAFETY: the call writes the status and nothing else.
    let found = unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::WNOHANG) };
    match found {
        0 => Ok(None),
        found if found < 0 => Err(io::Error::last_os_error()),
        _ => Ok(Some(status)),
    }
}

/// Fills the buffers from another process's memory, all in one go. Those that could not be read
/// are emptied.
pub fn read_memory(pid: libc::pid_t, wanted: &mut [(u64, Vec<u8>)]) {
    let whole: usize = wanted.iter().map(|(_, bytes)| bytes.len()).sum();
    if whole == 0 {
        return;
    }
    if read_once(pid, wanted) == Some(whole) {
        return;
    }
    // Something of it is not there: each by itself.
    for one in wanted {
        if read_once(pid, std::slice::from_mut(one)) != Some(one.1.len()) {
            one.1.clear();
        }
    }
}

/// Writes into memory that the process may write itself.
pub fn write_memory(pid: libc::pid_t, address: u64, bytes: &[u8]) -> Option<()> {
    let own = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let theirs = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: our side is only read; theirs is checked by the kernel.
    let written = unsafe { libc::process_vm_writev(pid, &own, 1, &theirs, 1, 0) };
    (usize::try_from(written) == Ok(bytes.len())).then_some(())
}

fn read_once(pid: libc::pid_t, wanted: &mut [(u64, Vec<u8>)]) -> Option<usize> {
    /// A struct and what it points to, wrapped or not, are three.
    const MOST: usize = 8;
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let (mut own, mut theirs) = ([nothing; MOST], [nothing; MOST]);
    let count = wanted.len().min(MOST);
    for (place, (address, bytes)) in wanted.iter_mut().take(MOST).enumerate() {
        own[place] = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        theirs[place] = libc::iovec {
            iov_base: *address as *mut libc::c_void,
            iov_len: bytes.len(),
        };
    }
    // SAFETY: our side is buffers of that length; theirs is checked by the kernel.
    let read = unsafe {
        libc::process_vm_readv(
            pid,
            own.as_ptr(),
            count as libc::c_ulong,
            theirs.as_ptr(),
            count as libc::c_ulong,
            0,
        )
    };
    usize::try_from(read).ok()
}

/// Text up to its zero, at most `most` bytes. Pages are read one by one: the next may not be there.
pub fn read_text(pid: libc::pid_t, mut address: u64, most: usize) -> Vec<u8> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while text.len() < most {
        let rest = (most - text.len()).min((PAGE - address % PAGE) as usize);
        let mut part = [(address, vec![0; rest])];
        read_memory(pid, &mut part);
        let [(_, bytes)] = part;
        if bytes.is_empty() {
            break;
        }
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&bytes[..end]);
            break;
        }
        address += bytes.len() as u64;
        text.extend(bytes);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_far_as_it_is_there() {
        let own = std::process::id() as libc::pid_t;
        let text = b"/dev/nvidiactl\0rest";
        let at = text.as_ptr() as u64;
        assert_eq!(read_text(own, at, 256), b"/dev/nvidiactl");
        assert_eq!(read_text(own, at, 4), b"/dev");
        assert!(read_text(own, 16, 256).is_empty());
        let mut wanted = [(at, vec![0; 4]), (16, vec![0; 4]), (at + 1, vec![0; 3])];
        read_memory(own, &mut wanted);
        assert_eq!(
            wanted.map(|(_, bytes)| bytes),
            [b"/dev".to_vec(), vec![], b"dev".to_vec()]
        );
    }
}
