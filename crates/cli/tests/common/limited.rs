//! Tests end, well or not, within a time, and their commands begin with the signals that they expect:
//! under `nohup` and in a shell's background SIGHUP or SIGINT would be ignored, and what a test sends
//! would never arrive.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    os::unix::process::CommandExt,
    process::Command,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// Between one command of a test and the next, or the test's end: far more than any of them takes on a
/// busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// For the test to notice that its commands were ended.
const GRACE: Duration = Duration::from_secs(20);

thread_local! {
    /// Gone with the test's thread, and the watch with it.
    static WATCH: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// From now on this test has so much time again. After that its commands are ended, with all that came of
/// them; what the test waits for ends, and it fails.
pub fn limit() {
    WATCH.with_borrow_mut(|watch| {
        if watch.as_ref().is_none_or(|watch| watch.send(()).is_err()) {
            *watch = Some(start());
        }
    });
}

fn start() -> Sender<()> {
    let (sender, signs) = mpsc::channel();
    let name = thread::current().name().unwrap_or("a test").to_owned();
    // SAFETY: a question without side effects.
    let of = unsafe { libc::gettid() };
    thread::spawn(move || watch(&name, of, &signs));
    sender
}

fn watch(name: &str, of: libc::pid_t, signs: &Receiver<()>) {
    loop {
        match signs.recv_timeout(LIMIT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    eprintln!("{name}: nothing has ended within {LIMIT:?}: its commands are killed");
    let children = fs::read_to_string(format!("/proc/self/task/{of}/children"));
    for child in children.iter().flat_map(|list| list.split_whitespace()) {
        if let Ok(pid) = child.parse() {
            end_with_children(pid);
        }
    }
    if signs.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
        eprintln!("{name}: it does not end by that, either");
        std::process::abort();
    }
}

/// The process and all that came of it, as far as they still hang together.
fn end_with_children(pid: u32) {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let parent_of = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
            parent.parse().ok()
        };
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some((pid, parent)) = pid.and_then(|pid| Some((pid, parent_of(pid)?))) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut doomed = vec![pid];
    let mut next = 0;
    while let Some(pid) = doomed.get(next) {
        doomed.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    for pid in doomed {
        // SAFETY: a plain system call; nobody has waited for the first of them.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
}

/// What a shell gives to a command in its foreground.
pub fn usual_signals(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe {
        command.pre_exec(|| {
            reset();
            Ok(())
        })
    }
}

/// The same in this process.
#[allow(dead_code)] // Not every test file needs it.
pub fn reset() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGCHLD,
    ] {
        // SAFETY: async-signal-safe calls; the set is initialised before it is used.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}
