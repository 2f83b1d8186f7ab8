//! The process's file in the session's folder: text lines that say what it is, what was hooked
//! and how its clock runs. Appended with one write for each message; no descriptor stays open. Where
//! that cannot be done any more (another user, another root, no descriptors), the same lines go into the
//! area for text of the process's rings.
//!
//! Everything but the process's own lines is kept, for a forked child has to say it again.

use super::{arena, clock};
use crate::sys::{self, File};
use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use event::ring::{ARGUMENT_END, NEWLINE};

const PATH_BYTES: usize = 1024 + 64;
/// What is said of a command line, at most: one byte more than the tracer keeps shows that it was cut.
const COMMAND_BYTES: usize = 8 + (4 << 10) + 2;
/// Address space for what is kept; memory is taken as it fills.
const KEPT_BYTES: usize = 8 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);
static KEPT_LENGTH: AtomicUsize = AtomicUsize::new(0);
static KEPT_OF_PROCESS: AtomicUsize = AtomicUsize::new(0);
static LAST_CLOCK: AtomicU64 = AtomicU64::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Text in a fixed place: no allocation, for signal handlers write too. What does not fit is cut.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Line<N> {
    pub const fn new() -> Line<N> {
        Line {
            bytes: [0; N],
            length: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> &mut Self {
        let part = bytes.len().min(N - self.length);
        self.bytes[self.length..self.length + part].copy_from_slice(&bytes[..part]);
        self.length += part;
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

struct Folder(UnsafeCell<Line<1024>>);
// SAFETY: written once, before anything else runs.
unsafe impl Sync for Folder {}
static FOLDER: Folder = Folder(UnsafeCell::new(Line::new()));

pub fn folder() -> &'static [u8] {
    // SAFETY: see above.
    unsafe { &*FOLDER.0.get() }.bytes()
}

/// Another session: what was said of hooks is said again when the process begins in it.
pub fn reopen(session: &[u8]) {
    // SAFETY: nothing is recorded between two sessions.
    let folder = unsafe { &mut *FOLDER.0.get() };
    folder.length = 0;
    folder.push(session);
}

/// What was said until now is of the process, not of hooks.
pub fn end_of_process() {
    let length = KEPT_LENGTH.load(Ordering::Relaxed);
    KEPT_OF_PROCESS.store(length, Ordering::Relaxed);
}

/// Other functions are selected: what was hooked before is not said again.
pub fn forget_hooks() {
    let length = KEPT_OF_PROCESS.load(Ordering::Relaxed);
    KEPT_LENGTH.store(length, Ordering::Release);
}

pub fn open(session: &[u8]) {
    // SAFETY: see above.
    unsafe { &mut *FOLDER.0.get() }.push(session);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping.
    let at = unsafe { sys::map(0, KEPT_BYTES, protection, flags, None) };
    KEPT.store(at.unwrap_or(0), Ordering::Relaxed);
}

/// The file's name, with a NUL.
fn path() -> Line<PATH_BYTES> {
    let mut path = Line::new();
    path.push(folder());
    let started = STARTED.load(Ordering::Relaxed);
    let _ = write!(path, "/process.{}.{started}\0", arena::pid());
    path
}

/// Field 22 of /proc/self/stat: with the pid, a name that is not used twice.
fn start_time() -> u64 {
    let mut buffer = [0u8; 1024];
    let read = File::open(b"/proc/self/stat\0", libc::O_RDONLY, 0)
        .map_or(0, |file| file.read(&mut buffer));
    let text = &buffer[..read];
    // The second field is in parentheses and may hold anything.
    let after = text
        .iter()
        .rposition(|byte| *byte == b')')
        .map_or(0, |at| at + 1);
    let field = text[after..]
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty())
        .nth(19);
    field.unwrap_or(b"").iter().fold(0, |number: u64, byte| {
        number
            .wrapping_mul(10)
            .wrapping_add((byte.wrapping_sub(b'0')).into())
    })
}

fn append(bytes: &[u8]) -> bool {
    append_to_file(bytes) || arena::say(bytes)
}

fn append_to_file(bytes: &[u8]) -> bool {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NOFOLLOW;
    File::open(path().bytes(), flags | libc::O_NONBLOCK, 0o600).is_some_and(|file| {
        file.size().saturating_add(bytes.len() as u64) <= sys::file_size_limit()
            && file.write(bytes)
    })
}

/// What only this process can say; in a forked child also what its parent had said of hooks.
pub fn begin_process() -> bool {
    STARTED.store(start_time(), Ordering::Relaxed);
    let mut line = Line::<PATH_BYTES>::new();
    let (pid, parent) = (arena::pid(), sys::parent_pid());
    let mut exe = [0u8; 900];
    let length = executable(&mut exe);
    let _ = write!(
        line,
        "process pid={pid} ppid={parent} tsc_hz={} ns={} exe=",
        clock::ticks_a_second(),
        arena::namespace()
    );
    for byte in &exe[..length] {
        line.push(&[if *byte == b'\n' { b'?' } else { *byte }]);
    }
    line.push(b"\n");
    let in_file = append_to_file(line.bytes());
    let begun = in_file || arena::say(line.bytes());
    pair_clocks();
    // A child that has nothing but its parent's rings has its parent's tables as well.
    let tables = (in_file || arena::is_own()).then(kept).flatten();
    if let Some(lines) = tables {
        append(lines);
    }
    begun
}

/// What was said of hooks so far.
fn kept() -> Option<&'static [u8]> {
    let (kept, length) = (
        KEPT.load(Ordering::Relaxed),
        KEPT_LENGTH.load(Ordering::Acquire),
    );
    // SAFETY: that much has been written there.
    (kept != 0 && length != 0)
        .then(|| unsafe { core::slice::from_raw_parts(kept as *const u8, length) })
}

fn executable(buffer: &mut [u8]) -> usize {
    let path = c"/proc/self/exe";
    let args = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        buffer.as_mut_ptr() as usize,
        buffer.len(),
        0,
        0,
    ];
    // SAFETY: the buffer is as long as said.
    let length = unsafe { sys::call(libc::SYS_readlinkat, args) };
    length.max(0) as usize
}

/// Lines about libraries and functions, whole, ending with a newline.
pub fn say(lines: &[u8]) {
    let (kept, length) = (
        KEPT.load(Ordering::Relaxed),
        KEPT_LENGTH.load(Ordering::Relaxed),
    );
    if kept != 0 && length + lines.len() <= KEPT_BYTES {
        // SAFETY: within the mapping, behind what is published.
        unsafe {
            core::ptr::copy_nonoverlapping(lines.as_ptr(), (kept + length) as *mut u8, lines.len());
        }
        KEPT_LENGTH.store(length + lines.len(), Ordering::Release);
    }
    append(lines);
}

/// What recording a call costs, in tenths of nanoseconds.
pub fn say_cost(cost: u64) {
    if cost > 0 {
        let mut line = Line::<40>::new();
        let _ = writeln!(line, "cost {}.{}", cost / 10, cost % 10);
        say(line.bytes());
    }
}

/// The command line, once; children say it again with what is kept. Long ones are cut by who reads this.
pub fn say_command() {
    const WORD: &[u8] = b"command ";
    let mut line = [0u8; COMMAND_BYTES];
    line[..WORD.len()].copy_from_slice(WORD);
    let file = File::open(b"/proc/self/cmdline\0", libc::O_RDONLY, 0);
    let end = COMMAND_BYTES - 1;
    let read = file.map_or(0, |file| file.read(&mut line[WORD.len()..end]));
    if read == 0 {
        return;
    }
    let length = WORD.len() + read;
    for byte in &mut line[WORD.len()..length] {
        *byte = match *byte {
            0 => ARGUMENT_END,
            b'\n' => NEWLINE,
            byte => byte,
        };
    }
    line[length] = b'\n';
    say(&line[..=length]);
}

/// A note about this process alone; may come from any thread.
pub fn note(line: &[u8]) {
    append(line);
}

/// One reading of both clocks, the tightest of a few.
pub fn pair_clocks() {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = clock::now();
        let now = sys::monotonic_ns();
        let after = clock::now();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), now);
        }
    }
    LAST_CLOCK.store(best.2, Ordering::Relaxed);
    let mut line = Line::<80>::new();
    let _ = writeln!(line, "clock {} {}", best.1, best.2);
    append(line.bytes());
}

/// A reading, if the last is older than a second.
pub fn pair_clocks_from_time_to_time() {
    let last = LAST_CLOCK.load(Ordering::Relaxed);
    let now = sys::monotonic_ns();
    if now.wrapping_sub(last) > 1_000_000_000
        && LAST_CLOCK
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    {
        pair_clocks();
    }
}
