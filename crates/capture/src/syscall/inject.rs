//! Has a thread put our second filter into its own process: a filter can only be put in from inside.
//!
//! At the end of a system call the thread is made to make three more: room for the program, the
//! filter for all threads of the process, the room given back. Then it gets its registers and its
//! signals back and has noticed nothing. Signals wait meanwhile: a handler must not see a thread
//! that is elsewhere. A tracer that is killed in these microseconds would leave the thread there:
//! so it is done once in a process.

use super::filter;
use super::frame::Unseen;
use crate::ptrace::{self, Resume};

/// A thread on its way through the three calls.
pub struct Injection {
    regs: ptrace::Registers,
    mask: u64,
    step: InjectionStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InjectionStage {
    Room,
    Filter { room: u64 },
    GiveBack { worked: bool },
}

/// The filter and its head.
const ROOM: u64 = 4096;
/// Where the instructions begin: behind a sock_fprog.
const INSTRUCTIONS: u64 = 16;

impl Injection {
    /// Begins with a thread that is stopped where a call has returned. None: it was left as it was.
    pub fn begin(tid: libc::pid_t) -> Option<Self> {
        let regs = ptrace::registers(tid)?;
        if !regs.are_behind_a_call(tid) {
            return None;
        }
        let mask = ptrace::signal_mask(tid)?;
        ptrace::set_signal_mask(tid, u64::MAX)?;
        let injection = Injection {
            regs,
            mask,
            step: InjectionStage::Room,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let arguments = [0, ROOM, access as u64, kind as u64, u64::MAX, 0];
        if injection.call(tid, libc::SYS_mmap, arguments).is_none() {
            let _ = ptrace::set_signal_mask(tid, mask);
            return None;
        }
        ptrace::resume(tid, Resume::ToSyscall, 0);
        Some(injection)
    }

    /// One of the calls has returned. None: the next is under way. Some: the thread is as it was,
    /// and is yet to go on.
    pub fn returned(&mut self, tid: libc::pid_t, result: i64) -> Option<Result<(), Unseen>> {
        let failed = (-4095..0).contains(&result);
        let next = match self.step {
            InjectionStage::Room if failed => None,
            InjectionStage::Room => {
                let room = result as u64;
                let begun = self.filter(tid, room);
                begun.or_else(|| self.give_back(tid, room, false))
            }
            // More than zero is a thread that has filters of its own.
            InjectionStage::Filter { room } => self.give_back(tid, room, result == 0),
            InjectionStage::GiveBack { .. } => None,
        };
        if next.is_some() {
            ptrace::resume(tid, Resume::ToSyscall, 0);
            return None;
        }
        ptrace::set_registers(tid, &self.regs);
        let _ = ptrace::set_signal_mask(tid, self.mask);
        Some(match self.step {
            InjectionStage::GiveBack { worked: true } => Ok(()),
            _ => Err(Unseen::Refused),
        })
    }

    fn filter(&mut self, tid: libc::pid_t, room: u64) -> Option<()> {
        let program = filter::closing();
        let mut bytes = Vec::new();
        bytes.extend((program.len() as u64).to_le_bytes());
        bytes.extend((room + INSTRUCTIONS).to_le_bytes());
        for op in program {
            bytes.extend(op.code.to_le_bytes());
            bytes.extend([op.jt, op.jf]);
            bytes.extend(op.k.to_le_bytes());
        }
        ptrace::write_memory(tid, room, &bytes)?;
        self.step = InjectionStage::Filter { room };
        let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        self.call(tid, libc::SYS_seccomp, [mode, flags, room, 0, 0, 0])
    }

    fn give_back(&mut self, tid: libc::pid_t, room: u64, worked: bool) -> Option<()> {
        self.step = InjectionStage::GiveBack { worked };
        self.call(tid, libc::SYS_munmap, [room, ROOM, 0, 0, 0, 0])
    }

    fn call(&self, tid: libc::pid_t, number: i64, arguments: [u64; 6]) -> Option<()> {
        ptrace::set_registers(tid, &self.regs.to_call(number, arguments))
    }
}
