//! System calls without the C library: the injected code must load into any process, whatever its
//! libc, and must not touch `errno`.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

/// Set: no more system calls. The program has restricted itself, and one that it did not mean to
/// make may end it.
pub static QUIET: AtomicBool = AtomicBool::new(false);

pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A system call; errors come back as small negative numbers, as the kernel returns them.
///
/// # Safety
/// As the call itself.
#[inline]
pub unsafe fn call(number: libc::c_long, args: [usize; 6]) -> isize {
    if is_quiet() {
        return -(libc::EPERM as isize);
    }
    let result: isize;
    unsafe {
        asm!("syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack));
    }
    result
}

macro_rules! system_call {
    ($number:ident $(, $arg:expr)*) => {{
        let given: &[usize] = &[$($arg as usize),*];
        let mut args = [0usize; 6];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: the callers below pass buffers they own, or addresses the kernel checks.
        unsafe { call(libc::$number, args) }
    }};
}

pub fn close(descriptor: i32) -> isize {
    system_call!(SYS_close, descriptor)
}

/// A file descriptor that closes itself.
pub struct File(i32);

impl File {
    /// `path` ends with a NUL.
    pub fn open(path: &[u8], flags: i32, mode: u32) -> Option<File> {
        if path.last() != Some(&0) {
            return None;
        }
        let flags = flags | libc::O_CLOEXEC;
        let fd = system_call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, mode);
        (fd >= 0).then(|| File(fd as i32))
    }

    /// A file that was not there before, for this user alone; the error's number otherwise.
    pub fn create_new(path: &[u8]) -> Result<File, i32> {
        let flags =
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        if path.last() != Some(&0) {
            return Err(libc::EINVAL);
        }
        let fd = system_call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600);
        if fd >= 0 {
            Ok(File(fd as i32))
        } else {
            Err(-fd as i32)
        }
    }

    /// Anonymous memory that can be mapped executable where making memory executable is refused.
    pub fn in_memory() -> Option<File> {
        let fd = system_call!(SYS_memfd_create, c"cutrace".as_ptr(), libc::MFD_CLOEXEC);
        (fd >= 0).then(|| File(fd as i32))
    }

    pub fn fd(&self) -> i32 {
        self.0
    }

    /// What was read; an error reads nothing.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        system_call!(SYS_pread64, self.0, at, len, offset).max(0) as usize
    }

    pub fn read(&self, buffer: &mut [u8]) -> usize {
        system_call!(SYS_read, self.0, buffer.as_mut_ptr(), buffer.len()).max(0) as usize
    }

    pub fn write(&self, bytes: &[u8]) -> bool {
        let done = system_call!(SYS_write, self.0, bytes.as_ptr(), bytes.len());
        done == bytes.len() as isize
    }

    pub fn write_at(&self, bytes: &[u8], offset: u64) -> bool {
        let done = system_call!(SYS_pwrite64, self.0, bytes.as_ptr(), bytes.len(), offset);
        done == bytes.len() as isize
    }

    pub fn size(&self) -> u64 {
        system_call!(SYS_lseek, self.0, 0usize, libc::SEEK_END).max(0) as u64
    }

    /// Device and inode.
    pub fn identity(&self) -> Option<(u64, u64)> {
        let mut about = core::mem::MaybeUninit::<libc::stat>::zeroed();
        let done = system_call!(SYS_fstat, self.0, about.as_mut_ptr());
        // SAFETY: all zeroes is one, and the kernel has filled it in.
        let about = unsafe { about.assume_init() };
        (done == 0).then_some((about.st_dev, about.st_ino))
    }

    pub fn set_size(&self, bytes: u64) -> bool {
        system_call!(SYS_ftruncate, self.0, bytes) == 0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        system_call!(SYS_close, self.0);
    }
}

/// Maps memory; `None` if the kernel refuses.
///
/// # Safety
/// With MAP_FIXED in `flags`, what was at `address` is gone.
pub unsafe fn map(
    address: usize,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: Option<(&File, u64)>,
) -> Option<usize> {
    let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.fd(), offset));
    let at = system_call!(SYS_mmap, address, bytes, protection, flags, fd, offset);
    (at > 0).then_some(at as usize)
}

/// # Safety
/// Nothing may use the memory any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    system_call!(SYS_munmap, address, bytes);
}

/// # Safety
/// Users of the memory must get along with the new protection.
pub unsafe fn protect(address: usize, bytes: usize, protection: i32) -> bool {
    system_call!(SYS_mprotect, address, bytes, protection) == 0
}

pub fn advise(address: usize, bytes: usize, advice: i32) -> bool {
    system_call!(SYS_madvise, address, bytes, advice) == 0
}

pub fn unlink(path: &[u8]) {
    system_call!(SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), 0usize);
}

/// Bytes that are free where a file or folder is; `path` ends with a NUL.
pub fn free_space(path: &[u8]) -> u64 {
    // The kernel's struct statfs: the block size is its second word, the free blocks its fifth.
    let mut words = [0u64; 15];
    if path.last() != Some(&0) || system_call!(SYS_statfs, path.as_ptr(), words.as_mut_ptr()) != 0 {
        return 0;
    }
    words[1].saturating_mul(words[4])
}

/// Gives memory to pages of a mapping now: a write that finds none later would be a SIGBUS.
pub fn populate(address: usize, bytes: usize) -> bool {
    if !TOUCHES.load(Ordering::Relaxed) {
        let done = system_call!(SYS_madvise, address, bytes, libc::MADV_POPULATE_WRITE);
        if done != -(libc::EINVAL as isize) {
            return done == 0;
        }
    }
    // Kernels before 5.14: the kernel itself writes to each page, and says if it cannot. It adds
    // nothing to a word there, for somebody else may use the page already.
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    let add_nothing = libc::FUTEX_OP_ADD << 28;
    (address..address + bytes).step_by(4096).all(|page| {
        let done = system_call!(
            SYS_futex,
            page,
            operation,
            0usize,
            0usize,
            page,
            add_nothing
        );
        done >= 0
    })
}

/// Set: as on kernels that cannot give memory to a mapping.
pub static TOUCHES: AtomicBool = AtomicBool::new(false);

/// How long this process may make a file; beyond it a write is a signal.
pub fn file_size_limit() -> u64 {
    limit(libc::RLIMIT_FSIZE)
}

/// What this process may have of something.
pub fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limits = [u64::MAX; 2];
    system_call!(SYS_prlimit64, 0usize, resource, 0usize, limits.as_mut_ptr());
    limits[0]
}

/// The PID namespace that this process's number is of, as the kernel names it.
pub fn pid_namespace() -> Option<u64> {
    let mut name = [0u8; 64];
    let path = c"/proc/self/ns/pid";
    let length = system_call!(
        SYS_readlinkat,
        libc::AT_FDCWD,
        path.as_ptr(),
        name.as_mut_ptr(),
        name.len()
    );
    let name = name.get(..usize::try_from(length).ok()?)?;
    // pid:[4026531836]
    let digits = name.strip_prefix(b"pid:[")?.strip_suffix(b"]")?;
    let number = |sum: u64, digit: &u8| sum * 10 + u64::from(digit.wrapping_sub(b'0') % 10);
    Some(digits.iter().take(18).fold(0, number))
}

pub fn pid() -> u32 {
    system_call!(SYS_getpid) as u32
}

pub fn parent_pid() -> u32 {
    system_call!(SYS_getppid) as u32
}

pub fn thread_id() -> u32 {
    system_call!(SYS_gettid) as u32
}

/// Where the C library keeps a thread's id, from the thread's own pointer; `None`: not where it is
/// known to.
pub fn thread_id_place() -> Option<usize> {
    // struct pthread of glibc, and of musl.
    let own = thread_id();
    [0x2d0, 0x30]
        .into_iter()
        .find(|place| read_thread_word(*place) == own)
}

/// A word of the thread's own control block.
pub fn read_thread_word(place: usize) -> u32 {
    let block: usize;
    // SAFETY: the block begins with its own address, in glibc and in musl, and is longer than that.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly, preserves_flags));
        ((block + place) as *const u32).read_volatile()
    }
}

/// Whether a thread of this process still runs.
pub fn thread_lives(pid: u32, thread: u32) -> bool {
    system_call!(SYS_tgkill, pid, thread, 0usize) != -(libc::ESRCH as isize)
}

pub fn monotonic_ns() -> u64 {
    let mut now = [0u64; 2];
    system_call!(SYS_clock_gettime, libc::CLOCK_MONOTONIC, now.as_mut_ptr());
    now[0].wrapping_mul(1_000_000_000).wrapping_add(now[1])
}

pub fn give_way() {
    system_call!(SYS_sched_yield);
}

pub fn sleep_ns(nanoseconds: u64) {
    let time = [0u64, nanoseconds];
    system_call!(SYS_nanosleep, time.as_ptr(), 0usize);
}

/// Reads this process's own memory; an address that is not mapped ends the read instead of the
/// process. Returns how many bytes were read.
pub fn read_own_memory(address: usize, buffer: &mut [u8]) -> usize {
    // The kernel gives up at the granularity of a piece: no piece may cross a page.
    let first = buffer.len().min(4096 - address % 4096);
    let local = [buffer.as_mut_ptr() as usize, buffer.len()];
    let remote = [
        address,
        first,
        address.wrapping_add(first),
        buffer.len() - first,
    ];
    let pieces = if first == buffer.len() { 1 } else { 2 };
    let done = system_call!(
        SYS_process_vm_readv,
        pid(),
        local.as_ptr(),
        1usize,
        remote.as_ptr(),
        pieces,
        0usize
    );
    (done.max(0) as usize).min(buffer.len())
}

/// The time stamp counter.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 has it; where it is switched off CUDA does not run either.
    unsafe { core::arch::x86_64::_rdtsc() }
}
