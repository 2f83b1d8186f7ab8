//! A thread that stands still, by ptrace. However it ends, it goes on where it was, and the system call that it was in
//! goes on as if nothing had been.

use super::AttachError;
use super::process::{ignores_signal, takes_signal};
use crate::ptrace::{self, Registers};
use std::io;
use std::time::{Duration, Instant};

/// How long a thread may take to stop: it stops when it leaves the kernel.
pub(super) const TO_STOP: Duration = Duration::from_secs(2);
/// How long a call of its may take that it makes for us: others may hold locks that it needs.
const TO_CALL: Duration = Duration::from_secs(30);
/// How long cutrace stays for a thread that does not stop: when cutrace ends, the kernel lets it go.
const TO_LEAVE_KERNEL: Duration = Duration::from_secs(60);
pub(super) const LOOK: Duration = Duration::from_micros(20);

/// A thread that stands still. Goes on when dropped.
pub struct Stopped {
    pid: u32,
    pub tid: libc::pid_t,
    /// A signal that it was about to take.
    signal: libc::c_int,
    /// What it goes on with, where that is not what it has.
    registers: Option<Registers>,
    /// It has them.
    is_mended: bool,
}

/// What became of a thread that was to stop.
#[allow(
    clippy::large_enum_variant,
    reason = "it is looked at once, where it was made"
)]
pub(super) enum Became {
    Stopped(Stopped),
    Gone,
    /// It is in the kernel.
    Running,
}

impl Stopped {
    pub fn registers(&self) -> Option<Registers> {
        ptrace::registers(self.tid)
    }

    /// It was sent elsewhere, and goes on with these.
    pub fn goes_on_with(&mut self, registers: Registers) {
        self.registers = Some(registers);
    }

    /// Waits for its next stop of this kind, with signals kept for later.
    pub fn run_to_call(&mut self) -> Option<ptrace::Syscall> {
        const SYSCALL_STOP: libc::c_int = libc::SIGTRAP | 0x80;
        let mut until = Instant::now() + TO_CALL;
        let mut interrupted = false;
        ptrace::resume(self.tid, ptrace::Resume::ToSyscall, 0);
        loop {
            match ptrace::look(self.tid) {
                Ok(Some(status)) if libc::WIFSTOPPED(status) => {
                    if interrupted {
                        return None;
                    }
                    if libc::WSTOPSIG(status) == SYSCALL_STOP {
                        return ptrace::syscall(self.tid);
                    }
                    match libc::WSTOPSIG(status) {
                        // Ours, late, or the group's.
                        _ if status >> 16 != 0 => {}
                        // The only signal that cannot be kept waiting: it is taken when this is over.
                        libc::SIGSTOP => self.signal = libc::SIGSTOP,
                        // The C library's own, for what all threads have to do.
                        signal @ 32..=33 => {
                            ptrace::resume(self.tid, ptrace::Resume::ToSyscall, signal);
                            continue;
                        }
                        // The call has failed badly: the thread goes back, and nobody hears of it.
                        _ => return None,
                    }
                    ptrace::resume(self.tid, ptrace::Resume::ToSyscall, 0);
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
                // It must not be left where it is.
                Ok(None) if !interrupted => {
                    interrupted = true;
                    until = Instant::now() + TO_STOP;
                    let _ = ptrace::interrupt(self.tid);
                }
                _ => return None,
            }
        }
    }

    /// Whether it was about to take a signal.
    pub fn has_signal(&self) -> bool {
        self.signal != 0
    }

    /// Whether it is in a call that fails if another signal wakes it, even one that the program ignores.
    pub fn is_in_fragile_call(&self) -> bool {
        let call = self.registers().and_then(|registers| registers.call());
        call.is_some_and(|(number, _, _)| ONCE.contains(&number))
    }

    /// Whether it goes on as it should when its tracer ends: no signal waits for our word but one that the program ignores.
    pub fn may_be_left(&self) -> bool {
        self.registers.is_none()
            && (self.signal == 0 || ignores_signal(self.pid, self.tid, self.signal))
    }

    /// Leaves it to the end of its tracer.
    pub fn leave(mut self) -> libc::pid_t {
        self.mend();
        let tid = self.tid;
        std::mem::forget(self);
        tid
    }

    /// Gives it the registers that it goes on with.
    pub fn mend(&mut self) {
        if self.is_mended {
            return;
        }
        self.is_mended = true;
        if let Some(registers) = self.resumed() {
            ptrace::set_registers(self.tid, &registers);
        }
    }

    /// How it goes on, so that the call it is in shows nothing of the interruption.
    fn resumed(&self) -> Option<Registers> {
        let (registers, was_away) = match self.registers {
            Some(registers) => (registers, true),
            None => (self.registers()?, false),
        };
        let unchanged = was_away.then_some(registers);
        let Some((number, _, result)) = registers.call() else {
            return unchanged;
        };
        // The kernel decides what becomes of the call, if a handler is to run.
        if takes_signal(self.pid, self.tid, self.signal) {
            return unchanged;
        }
        match -result {
            // Of a thread that was sent elsewhere the kernel does not know any more that it is to go on.
            ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND if was_away => {
                Some(registers.again(None))
            }
            ERESTART_RESTARTBLOCK if was_away => {
                Some(registers.again(Some(libc::SYS_restart_syscall)))
            }
            EINTR if ONCE.contains(&number) => Some(registers.again(None)),
            _ => unchanged,
        }
    }
}

/// What the kernel says to itself of calls that were interrupted.
const ERESTARTSYS: i64 = 512;
const ERESTARTNOINTR: i64 = 513;
const ERESTARTNOHAND: i64 = 514;
const ERESTART_RESTARTBLOCK: i64 = 516;
const EINTR: i64 = libc::EINTR as i64;

/// Calls that the kernel does not begin again, even where there was no signal: those of signal(7), those on sockets
/// with a time limit, and those whose time limit it could not write back. They have done nothing yet if they were
/// interrupted, so they are made once more.
const ONCE: [i64; 24] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_mq_timedreceive,
];

impl Drop for Stopped {
    fn drop(&mut self) {
        self.mend();
        ptrace::detach(self.tid, self.signal);
    }
}

/// Begins to trace a thread, which runs on. False: it is gone, or ends.
pub(super) fn seize(pid: u32, tid: libc::pid_t) -> Result<bool, AttachError> {
    match ptrace::seize_alone(tid) {
        Ok(()) => Ok(true),
        Err(why) if is_gone(&why) || is_ending(pid, tid) => Ok(false),
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            Err(AttachError::Forbidden { pid })
        }
        Err(source) => Err(AttachError::System {
            pid,
            what: "ptrace",
            source,
        }),
    }
}

/// A thread that has not stopped yet will, and must not stay so.
pub(super) fn release_later(tid: libc::pid_t) {
    let until = Instant::now() + TO_LEAVE_KERNEL;
    while Instant::now() < until {
        match ptrace::look(tid) {
            Ok(Some(status)) if libc::WIFSTOPPED(status) => {
                let is_signal = status >> 16 == 0;
                let signal = if is_signal { libc::WSTOPSIG(status) } else { 0 };
                return ptrace::detach(tid, signal);
            }
            Ok(None) => std::thread::sleep(50 * LOOK),
            _ => return,
        }
    }
}

fn is_gone(why: &io::Error) -> bool {
    why.raw_os_error() == Some(libc::ESRCH)
}

/// A thread that has ended, and that its process has not noticed yet, cannot be traced.
fn is_ending(pid: u32, tid: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
    stat.map_or(true, |text| {
        let after = text.rsplit(')').next().unwrap_or_default();
        after.trim_start().starts_with(['Z', 'X'])
    })
}

pub(super) fn wait(pid: u32, tid: libc::pid_t, until: Instant) -> Result<Became, AttachError> {
    loop {
        match ptrace::look(tid) {
            Ok(Some(status)) if libc::WIFSTOPPED(status) => {
                let is_event = status >> 16 != 0;
                let signal = libc::WSTOPSIG(status);
                let stopped = Stopped {
                    pid,
                    tid,
                    signal: if is_event { 0 } else { signal },
                    registers: None,
                    is_mended: false,
                };
                // The whole process was stopped by a signal: it stays so.
                if is_event && signal != libc::SIGTRAP {
                    return Err(AttachError::Stopped { pid });
                }
                return Ok(Became::Stopped(stopped));
            }
            Ok(Some(_)) => return Ok(Became::Gone),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => return Ok(Became::Running),
            Err(_) => return Ok(Became::Gone),
        }
    }
}
