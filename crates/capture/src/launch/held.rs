//! A command that waits before it begins: sources that watch it from the first instruction have
//! time to attach to it.

use super::signals::{self, Forwarding};
use super::{Command, Exit, LaunchError, wait};
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// Who the command is to run as, where that is not who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// What is done in the new process before the command begins.
#[derive(Debug, Clone, Default)]
pub struct Preparation {
    pub user: Option<User>,
    /// A process that may trace this one though it is not among its ancestors.
    pub tracer: Option<u32>,
    /// A filter of system calls, installed last.
    pub seccomp: Vec<libc::sock_filter>,
}

/// A command that has its process, and waits in it.
pub struct HeldCommand {
    program: OsString,
    pid: libc::pid_t,
    go: Option<OwnedFd>,
    /// Says why the command could not begin; closed when it has.
    failure: OwnedFd,
    forwarding: Option<Forwarding>,
}

/// Makes the command's process and holds it before its beginning.
pub fn hold(command: &Command, preparation: &Preparation) -> Result<HeldCommand, LaunchError> {
    let start = |source| LaunchError::Start {
        program: command.program.clone(),
        source,
    };
    let image = Image::new(command).map_err(start)?;
    let (wait_to_go, go) = pipe().map_err(start)?;
    let (failure, tell) = pipe().map_err(start)?;
    let mask = signals::mask();
    let forwarding = Forwarding::start();
    // SAFETY: the child makes only async-signal-safe calls on memory that is ready before.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(start(io::Error::last_os_error()));
    }
    if pid == 0 {
        // The other end must be ours alone, or nobody would notice that we are gone.
        // SAFETY: the child owns its copies of the descriptors.
        unsafe { libc::close(go.as_raw_fd()) };
        // What is sent to the command before it has begun ends it, as it would later.
        forwarding.reset();
        let ends = (tell.as_raw_fd(), wait_to_go.as_raw_fd());
        let why = begin(&image, preparation, ends, &mask);
        let code = why.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
        // SAFETY: both calls are async-signal-safe.
        unsafe {
            libc::write(tell.as_raw_fd(), code.as_ptr().cast(), code.len());
            libc::_exit(127);
        }
    }
    forwarding.to(pid);
    drop(tell);
    let mut ready = 0u8;
    // SAFETY: one byte, with room for it. If it does not come, the child is gone, as wait will say.
    retried(|| unsafe { libc::read(failure.as_raw_fd(), (&raw mut ready).cast(), 1) });
    Ok(HeldCommand {
        program: command.program.clone(),
        pid,
        go: Some(go),
        failure,
        forwarding: Some(forwarding),
    })
}

impl HeldCommand {
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Lets the command begin; returns when it has, or could not.
    pub fn release(&mut self) -> Result<(), LaunchError> {
        let Some(go) = self.go.take() else {
            return Ok(());
        };
        // SAFETY: one byte of a live buffer.
        let told = unsafe { libc::write(go.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        drop(go);
        let mut code = [0u8; 4];
        // SAFETY: the buffer has room for what is read.
        let failed = told == 1
            && retried(|| unsafe {
                libc::read(self.failure.as_raw_fd(), code.as_mut_ptr().cast(), 4)
            }) == 4;
        if !failed {
            return Ok(());
        }
        self.forwarding = None;
        let _ = wait::reap(self.pid);
        self.pid = 0;
        let why = io::Error::from_raw_os_error(i32::from_ne_bytes(code));
        Err(LaunchError::from_spawn(&self.program, why))
    }

    /// Waits for the end. Meanwhile, signals sent to us go to the command, and when it stops, we stop.
    pub fn wait(mut self) -> Result<Exit, LaunchError> {
        let ended = wait::until_ended(self.pid);
        self.forwarding = None;
        let exit = ended.and_then(|()| wait::reap(self.pid));
        self.pid = 0;
        exit.map_err(|source| LaunchError::Wait {
            program: self.program.clone(),
            source,
        })
    }
}

impl Drop for HeldCommand {
    /// A command that was never let go ends: it has not begun.
    fn drop(&mut self) {
        if self.pid != 0 && self.go.take().is_some() {
            self.forwarding = None;
            let _ = wait::reap(self.pid);
        }
    }
}

/// What exec needs, made before the fork: allocating is not allowed after it.
struct Image {
    program: CString,
    _words: Vec<CString>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

impl Image {
    fn new(command: &Command) -> io::Result<Image> {
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        };
        let program = text(command.program.as_bytes())?;
        let mut words = vec![program.clone()];
        for word in &command.args {
            words.push(text(word.as_bytes())?);
        }
        let count = words.len();
        let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        for (name, value) in &command.environment {
            variables.retain(|(known, _)| known != name);
            variables.push((name.clone(), value.clone()));
        }
        for (name, value) in variables {
            let mut both = name;
            both.push("=");
            both.push(value);
            words.push(text(both.as_bytes())?);
        }
        let pointers = |words: &[CString]| {
            let pointers = words.iter().map(|word| word.as_ptr());
            pointers.chain([ptr::null()]).collect()
        };
        Ok(Image {
            program,
            arguments: pointers(&words[..count]),
            environment: pointers(&words[count..]),
            _words: words,
        })
    }
}

/// In the child, until there is no way back. Returns only if it failed.
fn begin(
    image: &Image,
    prepared: &Preparation,
    (ready, go): (RawFd, RawFd),
    mask: &libc::sigset_t,
) -> io::Error {
    // SAFETY: plain system calls on memory that lives until the end.
    unsafe {
        // Handlers are ours; the standard library ignores SIGPIPE, which the program must not.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Some(tracer) = prepared.tracer {
            // Without Yama there is nothing to allow, and this fails.
            libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0);
        }
        let mut byte = 0u8;
        libc::write(ready, (&raw const byte).cast(), 1);
        match retried(|| libc::read(go, (&raw mut byte).cast(), 1)) {
            1 => {}
            // Nobody is left to let us go.
            _ => libc::_exit(127),
        }
        if let Some(user) = &prepared.user
            && (libc::setgroups(user.groups.len(), user.groups.as_ptr()) != 0
                || libc::setgid(user.gid) != 0
                || libc::setuid(user.uid) != 0)
        {
            return io::Error::last_os_error();
        }
        crate::files::restore_limit();
        if let Err(why) = signals::set_mask(mask) {
            return why;
        }
        if !prepared.seccomp.is_empty()
            && let Err(why) = install_filter(&prepared.seccomp)
        {
            return why;
        }
        libc::execvpe(
            image.program.as_ptr(),
            image.arguments.as_ptr(),
            image.environment.as_ptr(),
        );
    }
    io::Error::last_os_error()
}

/// With the right to, without giving up setuid programs below; else at that price, which tracing
/// has anyway.
fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call.
    let install = || unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if install() == 0 {
        return Ok(());
    }
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if install() == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the call fills the two places; the descriptors are new and nobody else's.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

fn retried(mut call: impl FnMut() -> libc::ssize_t) -> libc::ssize_t {
    loop {
        let result = call();
        if result >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return result;
        }
    }
}
