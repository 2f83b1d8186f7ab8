//! All threads of a process stand still, by ptrace, and go on together.
//!
//! The kernel keeps signals that the program ignores (SIGCHLD above all) if the thread that they are for is traced.
//! If that thread stands still, another is woken for them, and its call is interrupted: only if that one is traced as
//! well can its call be mended. So all threads are traced before the first is stopped, and those that such signals are
//! for are let go first.
//!
//! Even so one that was let go may be woken for a signal of one that was not. [`while_all_stand`] leaves no such moment: the
//! kernel lets all threads of a tracer that ends go at once, and no process ends meanwhile.

use super::AttachError;
use super::process::{self, Status};
use super::stopped::{Became, LOOK, Stopped, TO_STOP, release_later, seize, wait};
use crate::ptrace;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// New threads come while others are stopped: this often they are looked for again.
const ROUNDS: usize = 100;
/// How long it is tried to stop a thread.
const LONGEST: Duration = Duration::from_secs(30);

/// How long the kernel may take to let threads go whose tracer has ended.
const TO_LET_GO: Duration = Duration::from_secs(1);

/// Stops all threads but one, does something meanwhile, and lets them go at one moment.
pub fn while_all_stand<T: Send>(
    pid: u32,
    but: Option<libc::pid_t>,
    meanwhile: impl FnOnce(&[Stopped]) -> T + Send,
) -> Result<T, AttachError> {
    // The tracer of a thread is a thread of ours: this one, which ends with it.
    let tracer = move || {
        let all = Everyone::stop_patiently(pid, but)?;
        let done = meanwhile(&all);
        Ok((done, all.leave()))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("cutrace-attach".into())
            .spawn_scoped(scope, tracer);
        let thread = thread.map_err(|source| AttachError::System {
            pid,
            what: "starting a thread",
            source,
        })?;
        let (done, left) = match thread.join() {
            Ok(ended) => ended?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let until = Instant::now() + TO_LET_GO;
        let is_traced = |tid: &libc::pid_t| Status::is_traced(pid, *tid);
        while left.iter().any(is_traced) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        Ok(done)
    })
}

/// Goes on when dropped.
pub struct Everyone {
    pid: u32,
    stopped: Vec<Stopped>,
    /// Traced, and not stopped yet.
    running: Vec<libc::pid_t>,
}

impl Everyone {
    /// Stops all threads but one. A thread that does not stop is in the kernel for long, or gets no processor: the others
    /// run on meanwhile, and it is tried again.
    pub fn stop_patiently(pid: u32, but: Option<libc::pid_t>) -> Result<Everyone, AttachError> {
        let until = Instant::now() + LONGEST;
        loop {
            match Everyone::stop(pid, but) {
                Err(AttachError::Unstoppable { .. }) if Instant::now() < until => {}
                done => return done,
            }
        }
    }

    fn stop(pid: u32, but: Option<libc::pid_t>) -> Result<Everyone, AttachError> {
        let mut all = Everyone {
            pid,
            stopped: Vec::new(),
            running: Vec::new(),
        };
        for _ in 0..ROUNDS {
            all.trace(but)?;
            if all.running.is_empty() {
                return match all.stopped.is_empty() && but.is_none() {
                    true => Err(AttachError::Ended { pid }),
                    false => Ok(all),
                };
            }
            all.wait()?;
        }
        Err(AttachError::Busy { pid })
    }

    /// Traces threads until there are none that are not.
    fn trace(&mut self, but: Option<libc::pid_t>) -> Result<(), AttachError> {
        let pid = self.pid;
        for _ in 0..ROUNDS {
            let mut new = process::threads(pid);
            new.retain(|tid| !self.has(*tid) && Some(*tid) != but);
            if new.is_empty() {
                return Ok(());
            }
            new.sort_by_cached_key(|tid| process::gets_signals(pid, *tid));
            let before = self.running.len();
            for tid in new {
                if seize(pid, tid)? {
                    self.running.push(tid);
                }
            }
            if self.running.len() == before {
                // What is left is ending.
                return Ok(());
            }
        }
        Ok(())
    }

    fn has(&self, tid: libc::pid_t) -> bool {
        self.running.contains(&tid) || self.stopped.iter().any(|known| known.tid == tid)
    }

    /// Stops those that are traced.
    fn wait(&mut self) -> Result<(), AttachError> {
        for tid in &self.running {
            // One that is gone is found out below.
            let _ = ptrace::interrupt(*tid);
        }
        let until = Instant::now() + TO_STOP;
        while let Some(tid) = self.running.pop() {
            match wait(self.pid, tid, until)? {
                Became::Stopped(thread) => self.stopped.push(thread),
                Became::Gone => {}
                Became::Running => {
                    let pid = self.pid;
                    self.let_go();
                    release_later(tid);
                    return Err(AttachError::Unstoppable { pid, thread: tid });
                }
            }
        }
        Ok(())
    }

    /// Takes the first that is fit out of them: it stays stopped while the others run.
    pub fn take(&mut self, is_fit: impl Fn(&Stopped) -> bool) -> Option<Stopped> {
        let place = self.stopped.iter().position(is_fit)?;
        Some(self.stopped.swap_remove(place))
    }

    /// Leaves them to the end of this thread, as many as may be: which those are.
    fn leave(mut self) -> Vec<libc::pid_t> {
        self.stopped.iter_mut().for_each(Stopped::mend);
        let all = std::mem::take(&mut self.stopped);
        let (left, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Stopped::may_be_left);
        self.stopped = others;
        left.into_iter().map(Stopped::leave).collect()
    }

    fn let_go(&mut self) {
        let until = Instant::now() + TO_STOP;
        for tid in self.running.drain(..) {
            let _ = ptrace::interrupt(tid);
            match wait(self.pid, tid, until) {
                Ok(Became::Stopped(thread)) => self.stopped.push(thread),
                Ok(Became::Running) => release_later(tid),
                _ => {}
            }
        }
        // Parents first, and of those first the ones whose calls cannot be interrupted.
        let pid = self.pid;
        self.stopped.sort_by_cached_key(|thread| {
            let is_parent = process::gets_signals(pid, thread.tid);
            (!is_parent, thread.is_in_fragile_call())
        });
        // Registers before: from the first to the last it should take no time.
        self.stopped.iter_mut().for_each(Stopped::mend);
        self.stopped.drain(..).for_each(drop);
    }
}

impl Deref for Everyone {
    type Target = [Stopped];

    fn deref(&self) -> &[Stopped] {
        &self.stopped
    }
}

impl Drop for Everyone {
    fn drop(&mut self) {
        self.let_go();
    }
}
