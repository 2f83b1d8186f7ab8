//! Coming into a process that runs already, without root, and leaving it as it was (docs/ATTACH.md).
//!
//! 1. A thread that waits at a safe place ([`safe`]) is sent to `pthread_create` and back ([`call`]).
//! 2. The new thread loads our library, which opens the session, while the program runs.
//! 3. All other threads are stopped ([`everyone`]) while the library looks for functions and the tracer writes the
//!    jumps ([`changes`]). Then everything runs again, and the new thread ends.
//!
//! Leaving goes the other way round. Where something is not safe, the threads run on for a moment and it is tried
//! again, for a bounded time; then it is said why not.

mod call;
mod changes;
mod error;
mod everyone;
mod process;
mod safe;
mod stacks;
mod stopped;

pub use error::AttachError;

use self::call::{RemoteCall, TO_LOAD};
use self::changes::Remote;
use self::everyone::while_all_stand;
use self::process::{Process, find_loaded};
use crate::preload::folder;
use event::attach::step;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often everything is stopped before it is given up.
const TRIES: u32 = 100;
/// What the library does while everything stands still.
const TO_PREPARE: Duration = Duration::from_secs(10);
/// Where the library says what it has done.
const CONTROL: &str = "cutrace_control";

/// Whether a process can be entered, as far as that can be said without disturbing it.
pub fn check(pid: u32) -> Result<(), AttachError> {
    Process::examine(pid).map(drop)
}

/// How long a program stood still, and what for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pause {
    /// To stop all threads.
    pub stopping: Duration,
    /// To look for functions.
    pub preparing: Duration,
    /// To make sure that no thread is where code changes.
    pub checking: Duration,
    /// To write the jumps, and to let all threads go.
    pub writing: Duration,
}

impl Pause {
    pub fn whole(&self) -> Duration {
        self.stopping + self.preparing + self.checking + self.writing
    }
}

/// A process that has our hooks.
pub struct Attachment {
    pid: u32,
    library: PathBuf,
    /// Where the library keeps its account of them.
    control: u64,
    session: PathBuf,
    /// How long the whole program stood still.
    pub paused: Pause,
    /// Places that another tool had changed: functions there are not hooked.
    pub left_alone: usize,
}

impl Attachment {
    /// Loads the library into a process and hooks it for a session.
    pub fn begin(pid: u32, library: &Path, session: &Path) -> Result<Attachment, AttachError> {
        let _signals = SignalsLater::new();
        let process = Process::examine(pid)?;
        if !process.sees(session) {
            return Err(AttachError::OtherFiles { pid });
        }
        clean_up(pid, library)?;
        let text = session.as_os_str().as_bytes();
        let call = RemoteCall::begin(&process, library, "cutrace_attach", text)?;
        if call.wait(TO_LOAD)? != step::READY {
            return Err(AttachError::Refused { pid });
        }
        let control = call.control().unwrap_or(0);
        let remote = Remote::at(pid, control).ok_or(AttachError::OtherVersion { pid })?;
        let (paused, left_alone) = hook(pid, &call, &remote)?;
        call.say(step::RUNNING);
        call.wait(TO_PREPARE)?;
        Ok(Attachment {
            pid,
            library: library.to_owned(),
            control,
            session: session.to_owned(),
            paused,
            left_alone,
        })
    }

    /// Takes every hook off, from the process and from what it has forked meanwhile.
    pub fn end(&self) -> Result<(), AttachError> {
        let _signals = SignalsLater::new();
        for pid in self.children() {
            // Processes come and go.
            let _ = unhook(pid, self.control);
        }
        let ended = unhook(self.pid, self.control).and_then(|()| {
            let process = Process::examine(self.pid)?;
            let call = RemoteCall::begin(&process, &self.library, "cutrace_detach", b"")?;
            call.wait(TO_LOAD).map(drop)
        });
        match ended {
            Err(AttachError::Ended { .. } | AttachError::Gone { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// Processes that have its hooks because they were forked from it.
    fn children(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has_hooks = |pid: &u32| {
            let remote = Remote::at(*pid, self.control);
            let session = remote.and_then(|remote| remote.session());
            *pid != self.pid && session.is_some_and(|session| session == self.session)
        };
        pids.filter(has_hooks).collect()
    }
}

/// Has a library of ours in a process begin or end something that needs no change of code.
pub fn call(
    pid: u32,
    library: &Path,
    function: &'static str,
    text: &[u8],
) -> Result<(), AttachError> {
    let _signals = SignalsLater::new();
    let process = Process::examine(pid)?;
    let call = RemoteCall::begin(&process, library, function, text)?;
    match call.wait(TO_LOAD)? {
        step::DONE => Ok(()),
        _ => Err(AttachError::Refused { pid }),
    }
}

/// Stops everything, lets the library prepare, and writes the jumps.
fn hook(pid: u32, call: &RemoteCall<'_>, remote: &Remote) -> Result<(Pause, usize), AttachError> {
    let thread = call.thread();
    for attempt in 0..TRIES {
        let mut watch = Stopwatch::new();
        let hooked = while_all_stand(pid, thread, |stopped| {
            let stopping = watch.lap();
            call.say(step::STOPPED);
            match call.wait(TO_PREPARE)? {
                step::PREPARED => {}
                step::FAILED => return Err(AttachError::Refused { pid }),
                _ => return Ok(None),
            }
            let preparing = watch.lap();
            let changes = remote.changes().ok_or(AttachError::Refused { pid })?;
            let are_in_use = changes.are_in_use(pid, stopped);
            let checking = watch.lap();
            if are_in_use {
                return Ok(None);
            }
            let left = match stopped.first() {
                Some(thread) => changes.make(thread),
                None => changes.len(),
            };
            let paused = Pause {
                stopping,
                preparing,
                checking,
                writing: Duration::ZERO,
            };
            Ok(Some((paused, left)))
        })??;
        if let Some((paused, left)) = hooked {
            let writing = watch.lap();
            return Ok((Pause { writing, ..paused }, left));
        }
        std::thread::sleep(Duration::from_millis(u64::from(attempt.min(20)) + 1));
    }
    Err(AttachError::Busy { pid })
}

struct Stopwatch(Instant);

impl Stopwatch {
    fn new() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Since the last lap.
    fn lap(&mut self) -> Duration {
        let lap = self.0.elapsed();
        self.0 += lap;
        lap
    }
}

/// Takes the jumps off. Threads may be anywhere: what is changed is one instruction, and comes back as it was.
fn unhook(pid: u32, control: u64) -> Result<(), AttachError> {
    let Some(remote) = Remote::at(pid, control) else {
        return Err(AttachError::Ended { pid });
    };
    while_all_stand(pid, None, |stopped| {
        let changes = remote.changes().ok_or(AttachError::Ended { pid })?;
        if let Some(thread) = stopped.first() {
            changes.take_back(thread);
        }
        let _ = remote.stop_recording();
        remote.forget_session();
        Ok(())
    })?
}

/// What a cutrace that was killed has left in the process is taken off; one that runs is left alone.
fn clean_up(pid: u32, library: &Path) -> Result<(), AttachError> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    for (_, control) in find_loaded(pid, &name, CONTROL) {
        let control = control.ok_or(AttachError::OtherVersion { pid })?;
        let remote = Remote::at(pid, control).ok_or(AttachError::OtherVersion { pid })?;
        let Some(session) = remote.session() else {
            continue;
        };
        if let Some(tracer) = folder::owner(&session) {
            return Err(AttachError::Attached { pid, tracer });
        }
        unhook(pid, control)?;
    }
    Ok(())
}

/// Signals to cutrace wait while threads of the program are where they must not be left.
struct SignalsLater(libc::sigset_t);

impl SignalsLater {
    fn new() -> Self {
        // SAFETY: sets of our own, and this thread's mask.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            SignalsLater(before)
        }
    }
}

impl Drop for SignalsLater {
    fn drop(&mut self) {
        // SAFETY: as it was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
