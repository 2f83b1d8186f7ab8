//! Maps read while the program runs: every so often, and when a signal is about to end it.
//!
//! Two threads of ours, started with the first context. One copies the maps out of the device; the
//! other waits for a signal, gives the first a moment, and then lets the signal do what it would have
//! done. So a copy that never ends holds up neither the signal nor the program.

use crate::notes::Notes;
use crate::{clock, interrupt, state};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// How long a signal waits for the maps.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why maps are read.
#[derive(Debug, Clone, Copy)]
pub enum Why {
    Interval,
    Signal(i32),
    End,
}

/// A thread that waits for the maps to be read.
struct Wanted {
    why: Why,
    done: std::sync::mpsc::SyncSender<()>,
}

/// Begins to read them; once in a process.
pub fn start(folder: &Path, every: Option<Duration>) {
    let (ask, asked) = channel();
    let own = folder.to_owned();
    let threads_run = interrupt::without_signals(|| {
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let reader = named("cutrace-maps").spawn(move || read_on(&asked, every));
        let waiter = named("cutrace-signal").spawn(move || wait_for_signals(&own, &ask));
        reader.is_ok() && waiter.is_ok()
    });
    if threads_run {
        interrupt::begin();
    }
}

fn read_on(asked: &Receiver<Wanted>, every: Option<Duration>) {
    let mut next = every.map(|every| Instant::now() + every);
    loop {
        let wanted = match next {
            Some(next) => asked.recv_timeout(next.saturating_duration_since(Instant::now())),
            None => asked.recv().map_err(RecvTimeoutError::from),
        };
        match wanted {
            Ok(wanted) => {
                state::with(|state| state.read_maps(wanted.why));
                let _ = wanted.done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                if state::with(|state| state.read_maps(Why::Interval)).is_none() {
                    return;
                }
                // What was missed is not made up for.
                let now = Instant::now();
                while let (Some(at), Some(every)) = (next.as_mut(), every)
                    && *at <= now
                {
                    *at += every;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn wait_for_signals(folder: &Path, ask: &Sender<Wanted>) {
    loop {
        let signal = interrupt::wait();
        read_before(signal, folder, ask, PATIENCE);
        interrupt::pass_on(signal);
    }
}

/// Has the maps read, if that is done in time.
fn read_before(signal: i32, folder: &Path, ask: &Sender<Wanted>, patience: Duration) {
    let (done, is_done) = sync_channel(1);
    let wanted = Wanted {
        why: Why::Signal(signal),
        done,
    };
    if ask.send(wanted).is_ok() && is_done.recv_timeout(patience).is_err() {
        // The state may be in use: lines of their own are as good.
        let words = format!(
            "maps in device memory could not be read within {} s of {}: the device did not answer",
            patience.as_secs(),
            interrupt::name(signal)
        );
        Notes::open(folder).say("note", &words);
    }
}

/// Leaves word of which reading the maps in the folder are of.
pub fn note(folder: &Path, number: u64, why: Why) {
    let words = match why {
        Why::Interval => "interval".to_owned(),
        Why::Signal(signal) => interrupt::name(signal).to_owned(),
        Why::End => "end".to_owned(),
    };
    let path: PathBuf = folder.join(format!("reading.{}", std::process::id()));
    let aside = path.with_extension(format!("{}.part", std::process::id()));
    if fs::write(&aside, format!("{number} {} {words}\n", clock::monotonic())).is_ok() {
        let _ = fs::rename(&aside, &path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cutrace-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    fn notes(folder: &Path) -> String {
        let path = folder.join(format!("notes.{}", std::process::id()));
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_signal_waits_for_a_device_that_does_not_answer_so_long_and_no_longer() {
        let folder = folder("late");
        let (ask, asked) = channel();
        let began = Instant::now();
        read_before(libc::SIGINT, &folder, &ask, Duration::from_secs(1));
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert!(began.elapsed() < Duration::from_secs(30));
        let words = "note maps in device memory could not be read within 1 s of SIGINT: ";
        assert!(notes(&folder).starts_with(words), "{}", notes(&folder));
        // It was asked, and may still be at it.
        assert!(matches!(
            asked.recv().expect("asked").why,
            Why::Signal(libc::SIGINT)
        ));
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn a_signal_does_not_wait_when_maps_are_read() {
        let folder = folder("in-time");
        let (ask, asked) = channel::<Wanted>();
        let reader = std::thread::spawn(move || {
            let wanted = asked.recv().expect("asked");
            wanted.done.send(()).expect("waited for");
        });
        let began = Instant::now();
        read_before(libc::SIGTERM, &folder, &ask, Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        reader.join().expect("read");
        assert_eq!(notes(&folder), "");
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn readings_are_counted_and_say_why() {
        let folder = folder("readings");
        note(&folder, 1, Why::Interval);
        note(&folder, 2, Why::Signal(libc::SIGHUP));
        let path = folder.join(format!("reading.{}", std::process::id()));
        let text = fs::read_to_string(path).expect("a reading");
        assert!(
            text.starts_with("2 ") && text.ends_with(" SIGHUP\n"),
            "{text}"
        );
        let _ = fs::remove_dir_all(folder);
    }
}
