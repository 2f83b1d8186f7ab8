//! The loop of the tracer's process: threads stop, are looked at, and go on.
//!
//! What takes time is done while the thread is running again. When nobody reads the reports any
//! more, the loop goes on without telling: the filter stays in the traced processes for as long as
//! they live, and without a tracer their calls would fail.

use super::filter::Stop;
use super::frame::{self, Frame, SystemCall};
use super::inject::Injection;
use super::ranges::Ranges;
use super::reading::{after, before};
use super::traced::Traced;
use super::watched::{Watched, status_of};
use crate::clock::monotonic;
use crate::ioctl::{Driver, DriverFiles, Opened, Payload, Request};
use crate::ptrace::{self, Resume, Syscall};
use nvidia_ioctl::Version;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by a signal: the tracer is to let go of a process that it was attached to.
pub static LET_GO: AtomicBool = AtomicBool::new(false);

/// What is stopped at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What the filter says.
    Filtered,
    /// Every system call: there is no filter in a process that was running already.
    Everything,
}

pub struct Tracer {
    mode: Mode,
    driver: Driver,
    /// None when nobody listens any more.
    out: Option<File>,
    buffer: Vec<u8>,
    files: DriverFiles,
    ranges: Ranges,
    watched: Watched,
    threads: HashMap<libc::pid_t, Thread>,
    /// For the process that takes over.
    traced: Traced,
    stops: u64,
    /// There is a processor to look from while the program runs on another.
    looks: bool,
}

#[derive(Default)]
struct Thread {
    /// The process; 0 until it is looked up.
    pid: u32,
    /// In a call that was told.
    inside: Option<Inside>,
    /// In a call that is of no interest, where every call stops.
    skipping: bool,
    /// Away, to put our second filter in.
    injection: Option<Injection>,
}

/// What there is to do when the call has returned.
enum Inside {
    /// To be read again.
    Ioctl {
        argument: u64,
        before: Payload,
    },
    /// It returns a descriptor: what that number was before is of no use.
    Open,
    Map {
        opened: Opened,
        length: u64,
    },
    /// Closes or unmaps.
    Ends,
}

/// How long to look for the next stop before sleeping, in nanoseconds.
const LOOK_FOR: u64 = 30_000;
/// Frames are handed on when there are so many bytes of them, or nothing else to do.
const MOST_KEPT: usize = 64 << 10;
/// Results of calls that the kernel begins anew by itself.
const RESTARTED: std::ops::Range<i64> = -516..-511;
/// Longer paths are no device's.
const LONGEST_PATH: usize = 512;

impl Tracer {
    pub fn new(mode: Mode, driver: Option<Version>, out: File, traced: Traced) -> Self {
        Tracer {
            mode,
            driver: Driver::new(driver),
            out: Some(out),
            buffer: Vec::new(),
            files: DriverFiles::new(),
            ranges: Ranges::default(),
            watched: Watched::new(),
            threads: HashMap::new(),
            traced,
            stops: 0,
            looks: std::thread::available_parallelism().is_ok_and(|count| count.get() > 1),
        }
    }

    /// Attaches to a process and everything it begins. All its threads, where it has some already.
    pub fn attach(&mut self, pid: u32) {
        let result = match self.mode {
            Mode::Filtered => ptrace::seize(pid as libc::pid_t),
            Mode::Everything => self.seize_threads(pid),
        };
        self.traced.add(pid as libc::pid_t);
        if self.mode == Mode::Everything {
            self.ranges.learn(pid);
        }
        let error = result.err().and_then(|why| why.raw_os_error()).unwrap_or(0);
        self.tell(&Frame::Attached(error));
        self.hand_on();
    }

    /// Traces what a tracer traced that was killed: these threads, those that their processes have
    /// beside them, and the children that they made meanwhile.
    pub fn take_over(&mut self, threads: &[libc::pid_t]) {
        self.watched.is_heir = true;
        let mut processes: Vec<u32> = Vec::new();
        let mut found: Vec<u32> = (threads.iter())
            .filter_map(|tid| process_of(*tid))
            .collect();
        while !found.is_empty() {
            for pid in found {
                if !processes.contains(&pid) {
                    // One that is gone needs nobody.
                    let _ = self.seize_all(pid);
                    processes.push(pid);
                }
            }
            found = children_of(&processes);
            found.retain(|pid| !processes.contains(pid));
        }
        self.tell(&Frame::Attached(0));
        self.hand_on();
    }

    /// Every thread of a process, to be stopped at once: it has no filter that would.
    fn seize_threads(&mut self, pid: u32) -> io::Result<()> {
        for tid in self.seize_all(pid)? {
            let _ = ptrace::interrupt(tid);
        }
        Ok(())
    }

    /// Every thread of a process; the threads that they make are ours by that.
    fn seize_all(&mut self, pid: u32) -> io::Result<Vec<libc::pid_t>> {
        let mut seized = Vec::new();
        loop {
            let before = seized.len();
            for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
                let name = entry?.file_name();
                let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                if seized.contains(&tid) {
                    continue;
                }
                match ptrace::seize(tid) {
                    Ok(()) => {}
                    // It ended, or a thread that we have made it for us.
                    Err(_) if !seized.is_empty() => {}
                    Err(why) => return Err(why),
                }
                seized.push(tid);
                self.traced.add(tid);
                self.threads.entry(tid).or_default().pid = pid;
            }
            if seized.len() == before {
                return Ok(seized);
            }
        }
    }

    /// Runs until the last traced thread has ended, or all have been let go.
    pub fn run(&mut self) {
        self.traced.board().is_busy(monotonic());
        loop {
            if LET_GO.load(Ordering::Relaxed) && self.mode == Mode::Everything {
                self.let_go();
                break;
            }
            match self.next() {
                Ok((tid, status)) => self.step(tid, status),
                Err(why) if why.raw_os_error() == Some(libc::ECHILD) => break,
                Err(_) => {}
            }
        }
        self.tell_cost();
        self.hand_on();
        self.traced.board().has_told_all();
    }

    /// The next stop. Requests come in rows: for a moment it is cheaper to look again than to sleep
    /// and be woken. What was told waits meanwhile, because handing it on wakes others.
    fn next(&mut self) -> io::Result<(libc::pid_t, libc::c_int)> {
        if self.out.is_some() && self.looks {
            let began = monotonic();
            if self.buffer.is_empty() {
                self.traced.board().is_busy(began);
            }
            loop {
                let (tid, status) = ptrace::wait(libc::WNOHANG)?;
                if tid != 0 {
                    return Ok((tid, status));
                }
                if monotonic().saturating_sub(began) > LOOK_FOR {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        self.hand_on();
        self.traced.board().has_told_all();
        let stopped = ptrace::wait(0);
        self.traced.board().is_busy(monotonic());
        stopped
    }

    fn step(&mut self, tid: libc::pid_t, status: libc::c_int) {
        let now = monotonic();
        if !libc::WIFSTOPPED(status) {
            self.traced.remove(tid);
            self.watched.forget(tid as u32);
            self.ranges.forget(tid as u32);
            if let Some(thread) = self.threads.remove(&tid)
                && thread.inside.is_some()
            {
                self.tell(&Frame::Gone { tid: tid as u32 });
            }
            return;
        }
        self.stops += 1;
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match event {
            libc::PTRACE_EVENT_SECCOMP => self.filtered(tid, now),
            0 if signal == libc::SIGTRAP | 0x80 => self.at_syscall(tid, now),
            0 => self.resume(tid, signal),
            libc::PTRACE_EVENT_STOP => match signal {
                libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => {
                    ptrace::listen(tid);
                }
                _ => self.resume(tid, 0),
            },
            libc::PTRACE_EVENT_EXEC => {
                self.replaced(tid);
                self.resume(tid, 0);
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Some(new) = ptrace::event_message(tid) {
                    self.traced.add(new as libc::pid_t);
                    let parent = self.process(tid);
                    self.watched.made(parent, new as u32);
                }
                self.resume(tid, 0);
            }
            _ => self.resume(tid, 0),
        }
    }

    /// A program took the place of another: its other threads are gone, and the one that asked for
    /// it has the number of the first.
    fn replaced(&mut self, tid: libc::pid_t) {
        let former = ptrace::event_message(tid).unwrap_or(tid as u64) as libc::pid_t;
        let pid = tid as u32;
        let gone: Vec<libc::pid_t> = (self.threads.iter())
            .filter(|(other, thread)| thread.pid == pid || **other == former || **other == tid)
            .map(|(other, _)| *other)
            .collect();
        self.ranges.forget(pid);
        if former != tid {
            self.traced.remove(former);
        }
        for other in gone {
            let thread = self.threads.remove(&other);
            if thread.is_some_and(|thread| thread.inside.is_some()) {
                self.tell(&Frame::Gone { tid: other as u32 });
            }
        }
    }

    fn resume(&self, tid: libc::pid_t, signal: libc::c_int) {
        let how = match self.mode {
            Mode::Filtered if !self.is_away(tid) => Resume::Run,
            _ => Resume::ToSyscall,
        };
        ptrace::resume(tid, how, signal);
    }

    fn is_away(&self, tid: libc::pid_t) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| thread.injection.is_some())
    }

    /// The filter stopped a call that is about to begin.
    fn filtered(&mut self, tid: libc::pid_t, now: u64) {
        if self.out.is_none() || self.is_away(tid) {
            return self.resume(tid, 0);
        }
        let call = match ptrace::syscall(tid) {
            Some(Syscall::Filtered {
                arguments, message, ..
            }) => {
                let stop = Stop::of_message(message);
                if stop == Some(Stop::Close) && arguments[0] as i32 == event::FILTER_IS_OURS {
                    ptrace::registers(tid)
                        .and_then(|regs| ptrace::set_registers(tid, &regs.answered(0)));
                }
                stop.and_then(|stop| self.look(tid, stop, arguments, now))
            }
            _ => None,
        };
        match call {
            Some(call) => self.begin(tid, call),
            None => ptrace::resume(tid, Resume::Run, 0),
        }
    }

    /// A call has returned; where every call stops, it may also be about to begin.
    fn at_syscall(&mut self, tid: libc::pid_t, now: u64) {
        match ptrace::syscall(tid) {
            Some(Syscall::Exit { result }) if self.is_away(tid) => self.back(tid, result),
            _ if self.is_away(tid) => self.resume(tid, 0),
            Some(Syscall::Exit { result }) => self.end(tid, result, now),
            Some(Syscall::Entry { number, arguments }) => {
                let stop = Stop::of_call(number, &arguments).filter(|_| self.out.is_some());
                let call = stop.and_then(|stop| self.look(tid, stop, arguments, now));
                match call {
                    Some(call) => self.begin(tid, call),
                    None => {
                        self.threads.entry(tid).or_default().skipping = true;
                        self.resume(tid, 0);
                    }
                }
            }
            _ => self.resume(tid, 0),
        }
    }

    fn begin(&mut self, tid: libc::pid_t, call: SystemCall) {
        let time = monotonic();
        ptrace::resume(tid, Resume::ToSyscall, 0);
        let pid = self.process(tid);
        self.tell(&Frame::Begin {
            time,
            pid,
            tid: tid as u32,
            call: call.clone(),
        });
        let inside = match call {
            SystemCall::Ioctl { request, before } => Inside::Ioctl {
                argument: request.argument,
                before,
            },
            SystemCall::Open { .. } => Inside::Open,
            SystemCall::Map { opened, length, .. } => Inside::Map { opened, length },
            SystemCall::Close { .. } | SystemCall::Unmap { .. } => Inside::Ends,
        };
        self.threads.entry(tid).or_default().inside = Some(inside);
    }

    fn end(&mut self, tid: libc::pid_t, result: i64, now: u64) {
        let thread = self.threads.entry(tid).or_default();
        let (pid, inside) = (thread.pid, thread.inside.take());
        if std::mem::take(&mut thread.skipping) {
            return self.resume(tid, 0);
        }
        let failed = (-4095..0).contains(&result);
        let uses = match &inside {
            Some(Inside::Open) => !failed,
            Some(Inside::Ioctl { .. } | Inside::Map { .. }) => !RESTARTED.contains(&result),
            _ => false,
        };
        let after = match inside {
            None => return self.resume(tid, 0),
            Some(Inside::Ioctl { argument, before }) => after(tid, argument, before),
            Some(Inside::Open) => {
                self.files.forget(pid, result as i32);
                Payload::default()
            }
            Some(Inside::Map { opened, length }) if !failed => {
                self.ranges.mapped(pid, result as u64, length, opened);
                Payload::default()
            }
            Some(_) => Payload::default(),
        };
        if !(uses && self.send_away(tid, pid)) {
            self.resume(tid, 0);
        }
        self.tell(&Frame::End {
            time: now,
            tid: tid as u32,
            result,
            after,
        });
    }

    /// A process that uses the driver's files gets the second filter, once. Says whether the thread
    /// is on its way.
    fn send_away(&mut self, tid: libc::pid_t, pid: u32) -> bool {
        if self.mode != Mode::Filtered {
            return false;
        }
        match self.watched.wants(pid) {
            Ok(false) => false,
            Ok(true) => {
                let injection = Injection::begin(tid);
                let begun = injection.is_some();
                self.threads.entry(tid).or_default().injection = injection;
                if !begun {
                    let why = frame::Unseen::Refused;
                    self.tell(&Frame::Unseen { pid, why });
                }
                begun
            }
            Err(why) => {
                self.tell(&Frame::Unseen { pid, why });
                false
            }
        }
    }

    /// One of the calls has returned that a thread makes for us.
    fn back(&mut self, tid: libc::pid_t, result: i64) {
        let pid = self.process(tid);
        let thread = self.threads.entry(tid).or_default();
        let Some(injection) = &mut thread.injection else {
            return;
        };
        let Some(outcome) = injection.returned(tid, result) else {
            return;
        };
        thread.injection = None;
        self.resume(tid, 0);
        if let Err(why) = outcome {
            self.tell(&Frame::Unseen { pid, why });
        }
    }

    /// What a call is, if it is one on the driver's files.
    fn look(
        &mut self,
        tid: libc::pid_t,
        stop: Stop,
        arguments: [u64; 6],
        now: u64,
    ) -> Option<SystemCall> {
        let pid = self.process(tid);
        match stop {
            Stop::Ioctl => {
                let fd = arguments[0] as i32;
                let cmd = arguments[1] as u32;
                let mut opened = self.files.of(pid, fd, now)?;
                // Letters are the frontends', bare numbers UVM's: a descriptor may have changed hands.
                if opened.file.is_uvm() == (cmd & 0xff00 == 0x4600) {
                    self.files.forget(pid, fd);
                    opened = self.files.of(pid, fd, now)?;
                }
                let request = Request {
                    opened,
                    fd,
                    cmd,
                    argument: arguments[2],
                };
                let before = before(tid, &request, self.driver.version);
                self.driver.learn(&request, &before);
                Some(SystemCall::Ioctl { request, before })
            }
            Stop::Open => open(tid, "open", arguments[0], arguments[1]),
            Stop::Openat => open(tid, "openat", arguments[1], arguments[2]),
            Stop::Openat2 => open(tid, "openat2", arguments[1], 0),
            Stop::Mmap => {
                let fd = arguments[4] as i32;
                Some(SystemCall::Map {
                    opened: self.files.of(pid, fd, now)?,
                    fd,
                    length: arguments[1],
                    protection: arguments[2],
                    offset: arguments[5],
                })
            }
            Stop::Close => {
                let fd = arguments[0] as i32;
                // Not as it was a moment ago: it may have been another file's since.
                self.files.forget(pid, fd);
                let opened = self.files.of(pid, fd, now)?;
                self.files.forget(pid, fd);
                Some(SystemCall::Close { opened, fd })
            }
            Stop::Munmap => {
                let [address, length, ..] = arguments;
                Some(SystemCall::Unmap {
                    opened: self.ranges.unmapped(pid, address, length)?,
                    address,
                    length,
                })
            }
        }
    }

    fn process(&mut self, tid: libc::pid_t) -> u32 {
        let thread = self.threads.entry(tid).or_default();
        if thread.pid == 0 {
            thread.pid = process_of(tid).unwrap_or(tid as u32);
        }
        thread.pid
    }

    fn tell(&mut self, frame: &Frame) {
        if self.out.is_some() {
            frame::put(&mut self.buffer, frame);
        }
        if self.buffer.len() >= MOST_KEPT {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if let Some(out) = &mut self.out
            && out.write_all(&self.buffer).is_err()
        {
            self.out = None;
        }
        self.buffer.clear();
    }

    fn tell_cost(&mut self) {
        let frame = Frame::Cost {
            cpu: own_time(),
            stops: self.stops,
        };
        self.tell(&frame);
    }

    /// Stops every thread once more, to let it go as it was found.
    fn let_go(&mut self) {
        let mut left: Vec<libc::pid_t> = self.threads.keys().copied().collect();
        for tid in &left {
            let _ = ptrace::interrupt(*tid);
        }
        while !left.is_empty() {
            let Ok((tid, status)) = ptrace::wait(0) else {
                break;
            };
            left.retain(|other| *other != tid);
            if !libc::WIFSTOPPED(status) {
                continue;
            }
            let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
            // A signal on its way is passed on; a stopped process stays stopped.
            let signal = match event {
                0 if signal != libc::SIGTRAP | 0x80 => signal,
                libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => signal,
                _ => 0,
            };
            ptrace::detach(tid, signal);
        }
    }
}

fn open(tid: libc::pid_t, name: &'static str, path: u64, flags: u64) -> Option<SystemCall> {
    let path = ptrace::read_text(tid, path, LONGEST_PATH);
    let file = path.rsplit(|byte| *byte == b'/').next()?;
    file.starts_with(b"nvidia").then(|| SystemCall::Open {
        name,
        path: String::from_utf8_lossy(&path).into_owned(),
        flags,
    })
}

/// The process a thread belongs to.
fn process_of(tid: libc::pid_t) -> Option<u32> {
    status_of(tid as u32, "Tgid:")?.try_into().ok()
}

/// Processes that have one of these as their parent.
fn children_of(processes: &[u32]) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let parent = status_of(*pid, "PPid:").and_then(|parent| parent.try_into().ok());
        parent.is_some_and(|parent| processes.contains(&parent))
    };
    pids.filter(is_child).collect()
}

/// CPU time of this process.
fn own_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
