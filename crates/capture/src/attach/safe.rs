//! Where a thread may be made to call `pthread_create`: not in the middle of the C library's allocator or of its
//! loader, whose locks it might hold. A thread that waits in a system call that neither of them makes is at such a
//! place, unless a signal handler waits there, which may have interrupted anything.

use super::process::Process;
use super::stacks::Stacks;
use crate::ptrace::{self, Registers};

/// Calls in which a thread waits for something outside: no allocator and no loader makes them. Not those that wait for
/// children: their ends are signals, see `gets_signals`.
const WAITS: [i64; 15] = [
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_pause,
    libc::SYS_rt_sigtimedwait,
];

/// How the C library waits for conditions, semaphores and threads; for locks, its own among them, it waits by another
/// operation (FUTEX_WAIT).
const WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;
const FUTEX_COMMAND: u64 = 0x7f;

/// Where glibc keeps a thread's own number, from its block on: the same since 2.4.
const THREAD_ID: u64 = 0x2d0;
/// Where its block points to itself.
const OWN_ADDRESS: [u64; 2] = [0, 0x10];

/// Whether a thread waits like this, by /proc: only such are stopped.
pub fn may_be_safe(pid: u32, tid: libc::pid_t) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    let text = text.unwrap_or_default();
    let mut words = text.split_whitespace();
    let number = words.next().and_then(|word| word.parse().ok());
    let arguments = words.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let arguments: Vec<u64> = arguments.collect();
    number.is_some_and(|number| is_wait(number, arguments.get(1).copied().unwrap_or(0)))
}

fn is_wait(number: i64, second: u64) -> bool {
    WAITS.contains(&number) || number == libc::SYS_futex && second & FUTEX_COMMAND == WAIT_BITSET
}

/// Whether a stopped thread is at such a place.
pub fn is_safe(process: &Process, tid: libc::pid_t, registers: &Registers) -> bool {
    let waits = registers
        .call()
        .is_some_and(|(number, arguments, _)| is_wait(number, arguments[1]));
    waits
        && registers.are_behind_a_call(tid)
        && is_glibcs(tid, process.pid, registers)
        && !is_in_handler(process, tid, registers)
}

/// Whether the C library knows the thread: others, made without it, have no variables of its.
fn is_glibcs(tid: libc::pid_t, pid: u32, registers: &Registers) -> bool {
    let block = registers.thread_block();
    if block == 0 {
        return false;
    }
    let mut words = OWN_ADDRESS.map(|offset| (block + offset, vec![0; 8]));
    ptrace::read_memory(tid, &mut words);
    let own = block.to_le_bytes();
    let mut number = [(block + THREAD_ID, vec![0; 4])];
    ptrace::read_memory(tid, &mut number);
    let numbers = own_numbers(pid, tid);
    words.iter().all(|(_, bytes)| *bytes == own)
        && numbers
            .iter()
            .any(|known| known.to_le_bytes()[..] == number[0].1[..])
}

/// The thread's numbers, ours and those in PID namespaces that it is in.
fn own_numbers(pid: u32, tid: libc::pid_t) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers = line.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Whether a handler of a signal is on the stack: what it returns to is there.
fn is_in_handler(process: &Process, tid: libc::pid_t, registers: &Registers) -> bool {
    let is_return = |word| process.signal_returns.contains(&word);
    Stacks::of(process.pid).any_word(tid, registers, is_return)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_from_locks() {
        let private = libc::FUTEX_PRIVATE_FLAG as u64;
        assert!(is_wait(libc::SYS_poll, 0));
        assert!(is_wait(libc::SYS_futex, WAIT_BITSET | private));
        assert!(!is_wait(libc::SYS_futex, libc::FUTEX_WAIT as u64 | private));
        assert!(!is_wait(libc::SYS_mmap, 0) && !is_wait(libc::SYS_openat, 0));
    }
}
