//! Which system calls stop: a seccomp program that lets everything else run at full speed.
//!
//! The kernel does not see paths, and a filter cannot be changed once it is there, so descriptors
//! cannot be distinguished either. What can be distinguished is enough: the driver's requests have a
//! letter or bare small numbers, its files are opened for reading and writing, and mapped shared.
//!
//! Closing and unmapping cannot be distinguished from that of other files, and programs do it all the
//! time. So that is a second program, for processes that were seen to use the driver's files.

use std::mem::offset_of;

/// What a stop is about: the filter says it along with the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Stop {
    Ioctl = 1,
    Open = 2,
    Openat = 3,
    Openat2 = 4,
    Mmap = 5,
    Close = 6,
    Munmap = 7,
}

impl Stop {
    /// As the filter would decide, where there is none: an attached process has not got it.
    pub fn of_call(number: u64, arguments: &[u64; 6]) -> Option<Stop> {
        let low = |at: usize| arguments[at] as u32;
        let number = i64::try_from(number).ok()?;
        match number {
            libc::SYS_ioctl => wanted_request(low(1)).then_some(Stop::Ioctl),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => wanted_flags(low(1)).then_some(Stop::Open),
            libc::SYS_openat => wanted_flags(low(2)).then_some(Stop::Openat),
            libc::SYS_openat2 => Some(Stop::Openat2),
            libc::SYS_mmap => wanted_mapping(low(3)).then_some(Stop::Mmap),
            libc::SYS_close => Some(Stop::Close),
            libc::SYS_munmap => Some(Stop::Munmap),
            _ => None,
        }
    }

    /// What the filter said.
    pub fn of_message(message: u64) -> Option<Stop> {
        let all = [
            Stop::Ioctl,
            Stop::Open,
            Stop::Openat,
            Stop::Openat2,
            Stop::Mmap,
            Stop::Close,
            Stop::Munmap,
        ];
        all.into_iter().find(|stop| *stop as u64 == message)
    }
}

/// The letter of nvidiactl's and nvidiaN's requests, in the second byte.
const LETTER: u32 = (b'F' as u32) << 8;
const LETTER_MASK: u32 = 0xff00;
/// nvidia-uvm's requests are bare numbers below this,
const BARE: u32 = 0x100;
/// and these two.
const UVM_INITIALIZE: u32 = 0x3000_0001;
const UVM_DEINITIALIZE: u32 = 0x3000_0002;
const OPEN_MASK: u32 = (libc::O_ACCMODE | libc::O_CREAT) as u32;
const OPEN_VALUE: u32 = libc::O_RDWR as u32;
const MAP_TYPE: u32 = 0xf;
const SHARED: u32 = libc::MAP_SHARED as u32;
const SHARED_VALIDATE: u32 = libc::MAP_SHARED_VALIDATE as u32;
const ANONYMOUS: u32 = libc::MAP_ANONYMOUS as u32;

fn wanted_request(cmd: u32) -> bool {
    cmd & LETTER_MASK == LETTER || cmd < BARE || cmd == UVM_INITIALIZE || cmd == UVM_DEINITIALIZE
}

fn wanted_flags(flags: u32) -> bool {
    flags & OPEN_MASK == OPEN_VALUE
}

fn wanted_mapping(flags: u32) -> bool {
    matches!(flags & MAP_TYPE, SHARED | SHARED_VALIDATE) && flags & ANONYMOUS == 0
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The program that a command begins with.
pub fn program() -> Vec<libc::sock_filter> {
    let mut out = prologue();
    block(&mut out, libc::SYS_ioctl, &ioctl());
    #[cfg(target_arch = "x86_64")]
    block(&mut out, libc::SYS_open, &opening(1, Stop::Open));
    block(&mut out, libc::SYS_openat, &opening(2, Stop::Openat));
    block(&mut out, libc::SYS_openat2, &[trace(Stop::Openat2)]);
    block(&mut out, libc::SYS_mmap, &mmap());
    out.push(op(RETURN, libc::SECCOMP_RET_ALLOW));
    out
}

/// What comes beside it in processes that use the driver's files.
pub fn closing() -> Vec<libc::sock_filter> {
    let mut out = prologue();
    block(&mut out, libc::SYS_close, &[trace(Stop::Close)]);
    block(&mut out, libc::SYS_munmap, &[trace(Stop::Munmap)]);
    out.push(op(RETURN, libc::SECCOMP_RET_ALLOW));
    out
}

/// Leaves the call's number to be compared. Those of other architectures (32-bit programs) run
/// through.
fn prologue() -> Vec<libc::sock_filter> {
    let arch = offset_of!(libc::seccomp_data, arch) as u32;
    let number = offset_of!(libc::seccomp_data, nr) as u32;
    vec![
        op(LOAD, arch),
        jump(EQUAL, ARCH, 1, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW),
        op(LOAD, number),
    ]
}

/// What is done for one system call; the others step over it.
fn block(out: &mut Vec<libc::sock_filter>, number: i64, body: &[libc::sock_filter]) {
    out.push(jump(EQUAL, number as u32, 0, body.len() as u8));
    out.extend_from_slice(body);
}

fn ioctl() -> Vec<libc::sock_filter> {
    vec![
        load_argument(1),
        jump(AT_LEAST, BARE, 0, 5),
        jump(EQUAL, UVM_INITIALIZE, 4, 0),
        jump(EQUAL, UVM_DEINITIALIZE, 3, 0),
        op(AND, LETTER_MASK),
        jump(EQUAL, LETTER, 1, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW),
        trace(Stop::Ioctl),
    ]
}

fn opening(flags: u32, stop: Stop) -> Vec<libc::sock_filter> {
    vec![
        load_argument(flags),
        op(AND, OPEN_MASK),
        jump(EQUAL, OPEN_VALUE, 1, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW),
        trace(stop),
    ]
}

fn mmap() -> Vec<libc::sock_filter> {
    vec![
        load_argument(3),
        op(AND, MAP_TYPE | ANONYMOUS),
        jump(EQUAL, SHARED, 2, 0),
        jump(EQUAL, SHARED_VALIDATE, 1, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW),
        trace(Stop::Mmap),
    ]
}

/// The low half of an argument: flags and requests are 32 bits to the kernel.
fn load_argument(index: u32) -> libc::sock_filter {
    let arguments = offset_of!(libc::seccomp_data, args) as u32;
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    op(LOAD, arguments + 8 * index + low)
}

fn trace(stop: Stop) -> libc::sock_filter {
    op(RETURN, libc::SECCOMP_RET_TRACE | u32::from(stop as u16))
}

fn op(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do: the few instructions that the program is made of.
    fn run(program: &[libc::sock_filter], number: i64, arguments: [u64; 6], arch: u32) -> u32 {
        let (mut at, mut register) = (0, 0u32);
        loop {
            let op = program[at];
            at += 1;
            match op.code {
                LOAD => {
                    register = match op.k {
                        0 => number as u32,
                        4 => arch,
                        place => arguments[(place as usize - 16) / 8] as u32,
                    }
                }
                AND => register &= op.k,
                EQUAL if register == op.k => at += usize::from(op.jt),
                AT_LEAST if register >= op.k => at += usize::from(op.jt),
                EQUAL | AT_LEAST => at += usize::from(op.jf),
                RETURN => return op.k,
                code => panic!("{code:#x}"),
            }
        }
    }

    #[test]
    fn the_filter_and_its_double_agree() {
        let shared = libc::MAP_SHARED as u64;
        let private = libc::MAP_PRIVATE as u64;
        let anonymous = libc::MAP_ANONYMOUS as u64;
        let read_write = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let cases: Vec<(i64, [u64; 6], Option<Stop>)> = vec![
            (
                libc::SYS_ioctl,
                [3, 0xc020_462a, 0, 0, 0, 0],
                Some(Stop::Ioctl),
            ),
            (
                libc::SYS_ioctl,
                [3, 0xffff_ffff_c020_462a, 0, 0, 0, 0],
                Some(Stop::Ioctl),
            ),
            (libc::SYS_ioctl, [3, 33, 0, 0, 0, 0], Some(Stop::Ioctl)),
            (
                libc::SYS_ioctl,
                [3, 0x3000_0001, 0, 0, 0, 0],
                Some(Stop::Ioctl),
            ),
            (
                libc::SYS_ioctl,
                [3, 0x3000_0002, 0, 0, 0, 0],
                Some(Stop::Ioctl),
            ),
            (libc::SYS_ioctl, [3, 0x3000_0003, 0, 0, 0, 0], None),
            (libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0], None),
            (libc::SYS_ioctl, [0, 0x100, 0, 0, 0, 0], None),
            (
                libc::SYS_openat,
                [0, 0, read_write, 0, 0, 0],
                Some(Stop::Openat),
            ),
            (
                libc::SYS_openat,
                [0, 0, libc::O_CLOEXEC as u64, 0, 0, 0],
                None,
            ),
            (
                libc::SYS_openat,
                [0, 0, read_write | libc::O_CREAT as u64, 0, 0, 0],
                None,
            ),
            (libc::SYS_openat2, [0; 6], Some(Stop::Openat2)),
            (libc::SYS_mmap, [0, 0, 0, shared, 3, 0], Some(Stop::Mmap)),
            (libc::SYS_mmap, [0, 0, 0, 3, 3, 0], Some(Stop::Mmap)),
            (libc::SYS_mmap, [0, 0, 0, shared | anonymous, 3, 0], None),
            (libc::SYS_mmap, [0, 0, 0, private, 3, 0], None),
            (libc::SYS_read, [0; 6], None),
        ];
        for (number, arguments, stop) in cases {
            let decided = run(&program(), number, arguments, ARCH);
            let expected = stop.map_or(libc::SECCOMP_RET_ALLOW, |stop| {
                libc::SECCOMP_RET_TRACE | stop as u32
            });
            assert_eq!(decided, expected, "{number} {arguments:x?}");
            assert_eq!(Stop::of_call(number as u64, &arguments), stop);
            // The same numbers are other calls to 32-bit programs.
            let other = run(&program(), number, arguments, 0x4000_0003);
            assert_eq!(other, libc::SECCOMP_RET_ALLOW);
            let beside = run(&closing(), number, arguments, ARCH);
            assert_eq!(beside, libc::SECCOMP_RET_ALLOW);
        }
        #[cfg(target_arch = "x86_64")]
        {
            let open = [0, read_write, 0, 0, 0, 0];
            assert_eq!(
                Stop::of_call(libc::SYS_open as u64, &open),
                Some(Stop::Open)
            );
            let decided = run(&program(), libc::SYS_open, open, ARCH);
            assert_eq!(decided & 0xffff, Stop::Open as u32);
        }
        assert_eq!(Stop::of_message(1), Some(Stop::Ioctl));
        assert_eq!(Stop::of_message(7), Some(Stop::Munmap));
        assert_eq!(Stop::of_message(8), None);
    }

    #[test]
    fn closing_stops_by_the_second_program_alone() {
        for (number, stop) in [
            (libc::SYS_close, Stop::Close),
            (libc::SYS_munmap, Stop::Munmap),
        ] {
            let decided = run(&closing(), number, [0; 6], ARCH);
            assert_eq!(decided, libc::SECCOMP_RET_TRACE | stop as u32);
            assert_eq!(Stop::of_call(number as u64, &[0; 6]), Some(stop));
            let others = [
                run(&program(), number, [0; 6], ARCH),
                run(&closing(), number, [0; 6], 0x4000_0003),
            ];
            assert_eq!(others, [libc::SECCOMP_RET_ALLOW; 2]);
        }
    }
}
