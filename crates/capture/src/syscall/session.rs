//! One traced run, seen from us: the tracer's process is started, the command is given to it, and
//! a thread turns what it tells into events.

use super::SyscallError;
use super::events::{Events, Totals};
use super::filter;
use super::frame::{self, Frame, Unseen};
use super::process::{self, TracerProcess};
use super::traced::Board;
use super::tracer::Mode;
use crate::clock::monotonic;
use crate::ioctl::{self, Decoder};
use crate::launch::{Preparation, block_signals};
use crate::{Deadline, Sink, SinkError};
use event::{Backend, Hooks, ProcessName, Selection};
use nvidia_ioctl::Version;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which calls become records.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub filter: Option<Selection<String>>,
    /// Shorter calls are left out.
    pub min_duration: Duration,
    /// Calls that begin later are left out.
    pub deadline: Deadline,
}

/// The tracer's process is there, and has nothing to trace yet.
pub struct Session {
    mode: Mode,
    process: TracerProcess,
    version: Option<Version>,
    /// Frames that came along with the answer to the order.
    early: Vec<u8>,
}

/// A command that is traced.
pub struct Recording<S> {
    stop: Arc<AtomicBool>,
    tracer: libc::pid_t,
    /// It is to let go of what it traces.
    lets_go: bool,
    reader: JoinHandle<(S, SyscallReport)>,
}

/// What there is to say at the end.
#[derive(Debug, Default)]
pub struct SyscallReport {
    pub ioctls: u64,
    pub calls: u64,
    /// How often a thread was stopped.
    pub stops: u64,
    pub tracer_cpu: Duration,
    /// Some of what was traced goes on; the tracer stays with it.
    pub still_running: bool,
    pub notes: Vec<String>,
    /// What the processes are called that made these calls.
    pub processes: Vec<ProcessName>,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// How long to wait for the tracer's last words when the command has ended.
const LAST_WORDS: u64 = 300_000_000;
/// How often to look whether to stop, in milliseconds.
const LOOK: libc::c_int = 20;
const READ_AT_ONCE: usize = 64 << 10;
/// What is read ahead, at most: 256 MiB.
const CHUNKS_AHEAD: usize = 4 << 10;

impl Session {
    /// For a command that is to be started: [`Session::prepare`] puts the filter into it.
    pub fn for_command() -> Result<Self, SyscallError> {
        Self::new(Mode::Filtered)
    }

    /// For a process that runs already: each of its system calls stops, since no filter can be put
    /// into it, nor be taken out again.
    pub fn for_process() -> Result<Self, SyscallError> {
        Self::new(Mode::Everything)
    }

    fn new(mode: Mode) -> Result<Self, SyscallError> {
        let version = ioctl::loaded_driver();
        // The tables are read before the program waits for them.
        let known = version.unwrap_or(Version::NEWEST);
        nvidia_ioctl::known(nvidia_ioctl::Known::Controls, known).count();
        let process = process::start(mode, version).map_err(SyscallError::Start)?;
        Ok(Session {
            mode,
            process,
            version,
            early: Vec::new(),
        })
    }

    /// What is to be done in the command's process.
    pub fn prepare(&self, preparation: &mut Preparation) {
        preparation.tracer = Some(self.process.pid as u32);
        preparation.seccomp = filter::program();
    }

    /// Traces a process from now on.
    pub fn attach(&mut self, pid: u32) -> Result<(), SyscallError> {
        let told = self.process.orders.write_all(&pid.to_ne_bytes());
        told.map_err(|_| SyscallError::Gone)?;
        loop {
            if let Ok(Some((frame, length))) = frame::take(&self.early) {
                self.early.drain(..length);
                return match frame {
                    Frame::Attached(0) => Ok(()),
                    Frame::Attached(code) => Err(SyscallError::of_attach(pid, code)),
                    _ => Err(SyscallError::Gone),
                };
            }
            if !matches!(more(&mut self.process.frames, &mut self.early), Ok(true)) {
                return Err(SyscallError::Gone);
            }
        }
    }

    /// Begins to turn what the tracer tells into records.
    pub fn start<S: Sink>(
        self,
        options: Options,
        mut sink: S,
    ) -> Result<Recording<S>, SyscallError> {
        let begun = sink.begin(Backend {
            name: "syscall".into(),
            hooks: Hooks::default(),
            missing: Vec::new(),
        });
        let mut events = Events::new(options, Decoder::new(self.version), sink);
        events.totals.failure = begun.err();
        let stop = Arc::new(AtomicBool::new(false));
        let frames = [self.process.frames, self.process.later];
        let (early, stopped, board) = (self.early, stop.clone(), self.process.board);
        let reader = std::thread::Builder::new()
            .name("cutrace-syscall".into())
            .spawn(move || {
                block_signals();
                read_all(frames, early, events, stopped, board)
            })
            .map_err(SyscallError::Start)?;
        Ok(Recording {
            stop,
            tracer: self.process.pid,
            lets_go: self.mode == Mode::Everything,
            reader,
        })
    }
}

impl<S: Sink> Recording<S> {
    /// The command has ended, or nobody wants to know any more. A process that was attached to is
    /// let go; the tracer stays with children that go on, silently.
    pub fn finish(self) -> (S, SyscallReport) {
        self.stop.store(true, Ordering::Release);
        // The flag and the wait for the next stop are not one step: once may be too early.
        while self.lets_go && !self.reader.is_finished() {
            // SAFETY: the tracer is our child, and has not been waited for.
            unsafe { libc::kill(self.tracer, libc::SIGTERM) };
            std::thread::sleep(Duration::from_millis(5));
        }
        let (sink, report) =
            (self.reader.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if report.still_running {
            return (sink, report);
        }
        // SAFETY: as above; it has closed its pipe and is about to end.
        unsafe { libc::waitpid(self.tracer, std::ptr::null_mut(), 0) };
        (sink, report)
    }
}

/// What is read ahead.
enum Ahead {
    Bytes(Vec<u8>),
    /// What comes is another tracer's.
    Another,
    /// Nothing older than this moment will come.
    Until(u64),
}

/// Reads what the tracer tells, far ahead of those who write it down where need be: the program
/// waits for the tracer, and the tracer must not wait for a disk. Returns whether a tracer goes on.
fn read_ahead(
    frames: [File; 2],
    stop: &AtomicBool,
    board: Board,
    ahead: &SyncSender<Ahead>,
) -> bool {
    frames
        .into_iter()
        .any(|frames| read_one(frames, stop, board, ahead) || ahead.send(Ahead::Another).is_err())
}

fn read_one(mut frames: File, stop: &AtomicBool, board: Board, ahead: &SyncSender<Ahead>) -> bool {
    let mut quiet_since = None;
    loop {
        // Asked before the pipe is found to be empty.
        let told = board.told_until(monotonic());
        if !readable(&frames, LOOK) {
            if ahead.send(Ahead::Until(told)).is_err() {
                return true;
            }
            if stop.load(Ordering::Acquire) {
                let since = *quiet_since.get_or_insert_with(monotonic);
                if monotonic().saturating_sub(since) > LAST_WORDS {
                    // From here on the tracer tells nothing, whatever it sees.
                    return true;
                }
            }
            continue;
        }
        let mut chunk = Vec::new();
        match more(&mut frames, &mut chunk) {
            Ok(true) if ahead.send(Ahead::Bytes(chunk)).is_ok() => {}
            Ok(false) => return false,
            _ => return true,
        }
    }
}

fn read_all<S: Sink>(
    frames: [File; 2],
    mut bytes: Vec<u8>,
    mut events: Events<S>,
    stop: Arc<AtomicBool>,
    board: Board,
) -> (S, SyscallReport) {
    let (chunks, received) = sync_channel(CHUNKS_AHEAD);
    let ahead = std::thread::spawn(move || {
        block_signals();
        read_ahead(frames, &stop, board, &chunks)
    });
    let mut written = 0;
    let mut notes = Vec::new();
    loop {
        if let Err(why) = take_all(&mut bytes, &mut events) {
            notes.push(format!("{why}: system calls after this were not recorded"));
            break;
        }
        match received.recv() {
            // Whatever the first of two tracers was about to say is not known.
            Ok(Ahead::Another) => bytes.clear(),
            Ok(Ahead::Bytes(mut chunk)) => bytes.append(&mut chunk),
            Ok(Ahead::Until(moment)) => {
                events.until(moment);
                // The reader of a trace sees what has happened so far.
                if events.totals.calls != written && events.totals.failure.is_none() {
                    written = events.totals.calls;
                    events.totals.failure = events.sink.flush().err();
                }
            }
            Err(_) => break,
        }
    }
    drop(received);
    events.finish();
    if events.taken_over {
        let what = "the process that traces system calls (cutrace-ptrace) was killed and replaced: in between, system \
                    calls into the driver failed with ENOSYS";
        notes.push(what.into());
    }
    let still_running = ahead.join().unwrap_or(true);
    let Totals {
        ioctls,
        calls,
        cpu,
        stops,
        unwritten,
        failure,
        unseen,
        why_unseen,
        names,
    } = events.totals;
    if let Some(why) = why_unseen {
        notes.push(unseen_text(unseen.len(), why));
    }
    let report = SyscallReport {
        ioctls,
        calls,
        stops,
        tracer_cpu: Duration::from_nanos(cpu),
        still_running,
        notes,
        processes: names.into_vec(),
        unwritten,
        failure,
    };
    (events.sink, report)
}

fn unseen_text(count: usize, why: Unseen) -> String {
    let why = match why {
        Unseen::OwnFilters => "has its own seccomp filters",
        Unseen::Refused => "refused a second seccomp filter",
    };
    let whose = match count {
        1 => "1 process and its children: it".to_owned(),
        _ => format!("{count} processes and their children: the first"),
    };
    format!("close and munmap were not recorded in {whose} {why}")
}

/// Takes every whole frame.
pub(super) fn take_all<S: Sink>(
    bytes: &mut Vec<u8>,
    events: &mut Events<S>,
) -> Result<(), frame::Malformed> {
    let mut taken = 0;
    while let Some((frame, length)) = frame::take(&bytes[taken..])? {
        taken += length;
        events.take(frame);
    }
    bytes.drain(..taken);
    Ok(())
}

/// Reads some more; false at the end.
fn more(file: &mut File, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let length = bytes.len();
    bytes.resize(length + READ_AT_ONCE, 0);
    let read = loop {
        match file.read(&mut bytes[length..]) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    bytes.truncate(length + *read.as_ref().unwrap_or(&0));
    read.map(|read| read > 0)
}

fn readable(file: &File, milliseconds: libc::c_int) -> bool {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut poll, 1, milliseconds) > 0 }
}
