//! The line that long runs show on a terminal: events, how fast they come, how many were lost; and what
//! is still done when the program has ended. It appears after a second, is drawn over itself a few times
//! a second, and is gone at the end.

use capture::{
    launch::block_signals,
    trace_file::{LiveCounts, Stage},
};
use render::units::count;
use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Runs that are shorter than this show nothing.
const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(250);
/// How far back the rate looks: shorter than that it jumps.
const RATE_OVER: usize = 8;
/// Goes to the line's beginning and empties it.
const CLEAR: &str = "\r\x1b[K";

/// What the line says so long after the program has ended.
fn ending(stage: Stage, events: u64, since: Duration) -> String {
    let words = match stage {
        Stage::Recording | Stage::Writing => "writing the trace",
        Stage::Packing => "converting the trace to Arrow",
        Stage::Ordering => "putting the trace in order",
        Stage::Repairing => "completing the trace, which was cut short",
    };
    let (events, seconds) = (count(events), since.as_secs());
    format!("cutrace: the program has ended; {words}: {events} events, {seconds} s")
}

/// The line; it is erased when this is dropped.
pub struct Progress {
    /// Dropped to stop the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// None where nobody would see it. A terminal that the program writes to as well is its own until the
    /// program has ended: whatever is drawn there could end up in the middle of its words.
    pub fn start(seen: Arc<LiveCounts>, is_shared: bool) -> Option<Self> {
        if !io::stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|it| it == "dumb") {
            return None;
        }
        let (running, stop) = mpsc::channel::<()>();
        let body = move || {
            block_signals();
            let mut rate = Rate::default();
            let mut drawn = false;
            let began = Instant::now();
            let mut ended = None;
            while stop.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                let ((events, lost), stage) = (seen.counts(), seen.stage());
                let text = if stage != Stage::Recording {
                    let since = now - *ended.get_or_insert(now);
                    (since >= FIRST).then(|| ending(stage, events, since))
                } else if !is_shared && now - began >= FIRST {
                    Some(line(events, rate.after(events, now), lost))
                } else {
                    None
                };
                // A program that has taken the terminal for itself is not to be drawn over.
                if let Some(text) = text.filter(|_| in_foreground()) {
                    draw(&fitting(&text, width()));
                    drawn = true;
                }
            }
            if drawn && in_foreground() {
                draw("");
            }
        };
        let thread = thread::Builder::new()
            .name("cutrace-progress".into())
            .spawn(body)
            .ok()?;
        Some(Progress {
            running: Some(running),
            thread: Some(thread),
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// In one write, so that nothing of the program's comes between; the cursor is left at the line's
/// beginning, so that what the program writes goes over it.
fn draw(line: &str) {
    let text = if line.is_empty() {
        CLEAR.to_owned()
    } else {
        format!("{CLEAR}{line}\r")
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

fn line(events: u64, rate: u64, lost: u64) -> String {
    format!(
        "cutrace: {} events, {}/s, {} lost",
        count(events),
        count(rate),
        count(lost)
    )
}

/// A line that wraps could not be erased.
fn fitting(text: &str, width: usize) -> String {
    text.chars().take(width.saturating_sub(1)).collect()
}

/// Events a second, over the last two seconds or so.
#[derive(Default)]
struct Rate {
    marks: Vec<(Instant, u64)>,
}

impl Rate {
    fn after(&mut self, events: u64, now: Instant) -> u64 {
        self.marks.push((now, events));
        if self.marks.len() > RATE_OVER {
            self.marks.remove(0);
        }
        let (then, before) = self.marks[0];
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds == 0.0 {
            // The first look: since the start.
            return (events as f64 / FIRST.as_secs_f64()) as u64;
        }
        (events.saturating_sub(before) as f64 / seconds) as u64
    }
}

fn width() -> usize {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the call writes the struct and nothing else.
    let asked = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) };
    match size.ws_col {
        columns if asked == 0 && columns > 0 => columns.into(),
        _ => 80,
    }
}

/// Whether the terminal listens to us. One that is nobody's in particular does.
fn in_foreground() -> bool {
    // SAFETY: questions without side effects.
    let (owner, own) = unsafe { (libc::tcgetpgrp(libc::STDERR_FILENO), libc::getpgrp()) };
    owner == -1 || owner == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_and_its_numbers_can_be_read() {
        let text = "cutrace: 1,234,567 events, 999/s, 0 lost";
        assert_eq!(line(1_234_567, 999, 0), text);
        assert_eq!(
            (fitting(text, 80), fitting(text, 0)),
            (text.into(), String::new())
        );
        assert_eq!(fitting(text, 10), "cutrace: ");
        let late = ending(Stage::Ordering, 1000, Duration::from_millis(2900));
        let text = "cutrace: the program has ended; putting the trace in order: 1,000 events, 2 s";
        assert_eq!(late, text);
    }

    #[test]
    fn the_rate_is_of_the_last_moments() {
        let mut rate = Rate::default();
        let start = Instant::now();
        let at = |quarters| start + Duration::from_millis(250 * quarters);
        assert_eq!(rate.after(1000, at(0)), 1000);
        for quarter in 1..=20 {
            assert_eq!(rate.after(1000 + 100 * quarter, at(quarter)), 400);
        }
        for quarter in 21..40 {
            rate.after(3000, at(quarter));
        }
        assert_eq!(rate.after(3000, at(40)), 0);
    }
}
