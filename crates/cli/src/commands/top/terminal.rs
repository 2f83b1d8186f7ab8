//! The terminal while the screen is shown: it is taken over as a whole, and given back however cutrace ends. Only
//! SIGKILL cannot be helped: `reset` mends the terminal then.

use anyhow::{Context, Result};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use std::{
    fs::File,
    io::{self, Write},
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::{
        Once,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

pub type Screen = Terminal<CrosstermBackend<File>>;

/// The terminal's descriptor while the screen is shown; -1 otherwise.
static SHOWN_ON: AtomicI32 = AtomicI32::new(-1);
/// How the terminal was before. Written once, before `SHOWN_ON`.
static mut BEFORE: MaybeUninit<libc::termios> = MaybeUninit::uninit();
/// The process was stopped and goes on: the terminal has to be taken over again.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Signals that end us unless a handler is there; while a command runs, its launcher passes them on instead.
const FATAL: [libc::c_int; 5] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGABRT,
];

/// Takes the terminal over.
pub fn enter() -> Result<Screen> {
    let tty = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .context("top needs a terminal; --batch N prints plain text instead")?;
    remember(tty.as_raw_fd())?;
    give_back_however();
    take_over(&mut &tty)?;
    SHOWN_ON.store(tty.as_raw_fd(), Ordering::SeqCst);
    Ok(Terminal::new(CrosstermBackend::new(tty))?)
}

fn take_over(tty: &mut &File) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(tty, EnterAlternateScreen)
}

/// Gives the terminal back; doing so twice is harmless.
pub fn leave(screen: &mut Screen) {
    if SHOWN_ON.swap(-1, Ordering::SeqCst) >= 0 {
        let _ = disable_raw_mode();
        let _ = execute!(screen.backend_mut(), LeaveAlternateScreen, Show);
    }
}

/// After a stop: takes the terminal over again, if that is needed.
pub fn continue_after_stop(screen: &mut Screen) -> io::Result<()> {
    if CONTINUED.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        enable_raw_mode()?;
        execute!(screen.backend_mut(), EnterAlternateScreen)?;
        screen.clear()?;
    }
    Ok(())
}

/// Waits for keys, for so long at most. False: the terminal is gone, and must not be read from: crossterm would read its
/// end over and over, and never return.
pub fn wait_for_keys(longest: Duration) -> bool {
    let mut tty = libc::pollfd {
        fd: SHOWN_ON.load(Ordering::SeqCst),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, which stays open while the screen is shown; -1 is none.
    let found = unsafe { libc::poll(&raw mut tty, 1, longest.as_millis() as libc::c_int) };
    found <= 0 || tty.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0
}

fn remember(tty: RawFd) -> Result<()> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: the call fills the struct or fails. Nobody reads `BEFORE` until `SHOWN_ON` is set.
    unsafe {
        if libc::tcgetattr(tty, found.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error()).context("cannot read the terminal's settings");
        }
        BEFORE = found;
    }
    Ok(())
}

/// In a signal handler or a panic: only calls that are allowed there.
fn give_back_now() {
    let tty = SHOWN_ON.swap(-1, Ordering::SeqCst);
    if tty < 0 {
        return;
    }
    // Colours off, the cursor on, the main screen.
    const BACK: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
    // SAFETY: async-signal-safe calls on a descriptor that stays open; `BEFORE` was written before `SHOWN_ON`.
    unsafe {
        libc::write(tty, BACK.as_ptr().cast(), BACK.len());
        let before = &raw const BEFORE;
        libc::tcsetattr(tty, libc::TCSANOW, before.cast());
    }
}

extern "C" fn on_fatal(signal: libc::c_int) {
    give_back_now();
    // SAFETY: async-signal-safe calls.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn on_continue(_: libc::c_int) {
    CONTINUED.store(true, Ordering::SeqCst);
}

fn give_back_however() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back_now();
            usual(panic);
        }));
        for signal in FATAL {
            // SAFETY: the handler makes async-signal-safe calls only. One that is ignored (nohup) stays so.
            unsafe {
                let before = libc::signal(signal, on_fatal as *const () as usize);
                if before == libc::SIG_IGN {
                    libc::signal(signal, libc::SIG_IGN);
                }
            }
        }
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGCONT, on_continue as *const () as usize) };
    });
}

/// Our standard streams, and so the command's, somewhere else than on the terminal. They come back when this is
/// dropped.
pub struct Aside(Vec<(RawFd, OwnedFd)>);

impl Aside {
    /// Output that would go to the terminal goes to `file`; input that would come from there is empty.
    pub fn put(file: &File) -> io::Result<Self> {
        let nothing = File::open("/dev/null")?;
        let mut moved = Aside(Vec::new());
        let streams: [(RawFd, RawFd); 3] = [
            (libc::STDIN_FILENO, nothing.as_raw_fd()),
            (libc::STDOUT_FILENO, file.as_raw_fd()),
            (libc::STDERR_FILENO, file.as_raw_fd()),
        ];
        for (stream, instead) in streams {
            // SAFETY: questions and copies of descriptors; what is moved away is kept.
            unsafe {
                if libc::isatty(stream) == 1 {
                    moved.replace(stream, instead)?;
                }
            }
        }
        Ok(moved)
    }

    /// What the command prints on standard output goes to standard error: ours is for frames. Gives our own.
    pub fn output_to_errors() -> io::Result<(Self, File)> {
        let mut moved = Aside(Vec::new());
        // SAFETY: both are open.
        let ours = unsafe {
            moved.replace(libc::STDOUT_FILENO, libc::STDERR_FILENO)?;
            File::from(moved.0[0].1.try_clone()?)
        };
        Ok((moved, ours))
    }

    unsafe fn replace(&mut self, stream: RawFd, instead: RawFd) -> io::Result<()> {
        io::stdout().flush()?;
        // SAFETY: the caller says that both are open.
        unsafe {
            let saved = libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3);
            if saved < 0 {
                return Err(io::Error::last_os_error());
            }
            self.0.push((stream, OwnedFd::from_raw_fd(saved)));
            if libc::dup2(instead, stream) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (stream, saved) in self.0.drain(..) {
            // SAFETY: both are open.
            unsafe { libc::dup2(saved.as_raw_fd(), stream) };
        }
    }
}
