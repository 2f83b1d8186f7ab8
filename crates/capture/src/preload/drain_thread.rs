//! The thread that empties the rings. It only copies: what the copies mean is found out elsewhere,
//! so that a slow disk does not hold up the traced program.

use super::clock;
use super::drain::Reader;
use super::ring::Ring;
use super::session::thread_time;
use crate::call::item::Batch;
use crate::clock::monotonic;
use event::ClockPair;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// From the draining thread to the assembling one.
pub enum Message {
    /// A ring was found; rings are numbered in the order of these.
    Ring {
        pid: u32,
        tid: u32,
    },
    Batch(Batch),
    /// A ring made no sense; no more of it will come.
    Damaged,
    /// Processes that were still there when tracing stopped.
    StillRunning(usize),
    /// How the clocks stand, before what was drained after it.
    Clock(ClockPair),
    /// Every ring has been looked at since this moment.
    Round(u64),
}

/// Rings drained at once, at most; a bound on what a hostile folder makes us map.
const MOST_RINGS: usize = 16 << 10;
/// How often to look for new rings.
const SCAN: Duration = Duration::from_millis(5);
/// How often to ask whether a ring's process is still there.
const ASK: Duration = Duration::from_millis(200);
/// A thread that sleeps a little is woken at once on a busy machine; one that spins has to wait.
/// But each look takes cache lines away from the threads that fill them: the pauses are as long as
/// the rings allow.
const TINY_PAUSE: Duration = Duration::from_micros(20);
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// How far the draining thread is ahead, in bytes, so that a burst is taken in whole and a flood
/// without end does not take all memory.
pub struct Ahead {
    bytes: AtomicUsize,
    most: usize,
}

impl Ahead {
    pub fn new(most: usize) -> Self {
        Ahead {
            bytes: AtomicUsize::new(0),
            most,
        }
    }

    fn more(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn less(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_too_far(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most
    }
}

struct Found {
    number: usize,
    reader: Reader,
    asked: Instant,
}

struct Drainer<'a> {
    folder: &'a Path,
    messages: &'a Sender<Message>,
    /// Batches that have been used, whose memory serves again: fresh memory takes the kernel longer
    /// than filling it takes us.
    used: &'a Receiver<Batch>,
    ahead: &'a Ahead,
    rings: Vec<Found>,
    count: usize,
}

/// Runs until it is told to stop and the rings are empty. Returns the CPU time it took.
pub fn drain_all(
    folder: &Path,
    stop: &AtomicBool,
    messages: &Sender<Message>,
    used: &Receiver<Batch>,
    ahead: &Ahead,
) -> Duration {
    let mut drainer = Drainer {
        folder,
        messages,
        used,
        ahead,
        rings: Vec::new(),
        count: 0,
    };
    be_prompt();
    let mut scanned: Option<Instant> = None;
    let mut pause = SHORTEST_PAUSE;
    let mut paired = 0;
    loop {
        // Past the bound the rings fill up, and what they do not hold is counted as lost.
        while ahead.is_too_far() {
            std::thread::sleep(LONGEST_PAUSE);
        }
        // Asked before the round: what the program did before it ended is in this round.
        let last = stop.load(Ordering::Acquire);
        let began = monotonic();
        if began.saturating_sub(paired) >= clock::SPACING {
            paired = began;
            let _ = messages.send(Message::Clock(clock::pair()));
        }
        if last || scanned.is_none_or(|at| at.elapsed() >= SCAN) {
            drainer.scan();
            scanned = Some(Instant::now());
        }
        let moved = drainer.round();
        if last {
            let _ = messages.send(Message::StillRunning(drainer.still_running()));
        }
        if messages.send(Message::Round(began)).is_err() || last {
            return thread_time();
        }
        pause = match moved {
            Moved::Much => TINY_PAUSE,
            Moved::Some => (pause / 2).max(SHORTEST_PAUSE),
            Moved::Little => (pause.max(SHORTEST_PAUSE) * 2).min(LONGEST_PAUSE),
        };
        std::thread::sleep(pause);
    }
}

/// Asks to be woken exactly, and before the threads that fill the rings; both may be refused.
pub fn be_prompt() {
    // SAFETY: both calls concern this thread alone and take no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::setpriority(libc::PRIO_PROCESS, libc::gettid().cast_unsigned(), -10);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moved {
    /// Nothing, or hardly anything beside what the rings can hold.
    Little,
    Some,
    /// A ring was filling up.
    Much,
}

impl Found {
    fn is_over(&mut self) -> bool {
        if self.reader.ring().is_closed() {
            return true;
        }
        if self.asked.elapsed() < ASK {
            return false;
        }
        self.asked = Instant::now();
        self.reader.ring().has_producer() == Some(false)
    }
}

impl Drainer<'_> {
    /// Takes up rings that have appeared.
    fn scan(&mut self) {
        let Ok(entries) = fs::read_dir(self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let is_ring = entry.file_name().as_encoded_bytes().starts_with(b"ring.");
            let path = entry.path();
            if !is_ring || self.rings.len() >= MOST_RINGS {
                continue;
            }
            // One that is not whole yet is looked at again next time. One that is loses its name: it
            // is not taken up twice, and its memory is free as soon as both sides let go of it.
            if let Some(ring) = Ring::open(&path).filter(|_| fs::remove_file(&path).is_ok()) {
                let (pid, tid) = (ring.pid, ring.tid);
                if self.messages.send(Message::Ring { pid, tid }).is_err() {
                    return;
                }
                self.rings.push(Found {
                    number: self.count,
                    reader: Reader::new(ring),
                    asked: Instant::now(),
                });
                self.count += 1;
            }
        }
    }

    /// Processes that have not let go of their rings.
    fn still_running(&self) -> usize {
        let rings = self.rings.iter().map(|found| found.reader.ring());
        let running = rings
            .filter(|ring| ring.has_producer() == Some(true))
            .map(|ring| ring.pid);
        running.collect::<HashSet<u32>>().len()
    }

    fn round(&mut self) -> Moved {
        let mut moved = Moved::Little;
        let (messages, used, ahead) = (self.messages, self.used, self.ahead);
        self.rings.retain_mut(|found| {
            // Asked before draining: a ring without a producer gets nothing more.
            let over = found.is_over();
            let (backlog, capacity) = (found.reader.backlog(), found.reader.ring().capacity());
            moved = moved.max(if backlog > capacity / 8 {
                Moved::Much
            } else if backlog > capacity / 32 {
                Moved::Some
            } else {
                Moved::Little
            });
            // What comes while this is read may wait for the next round, and other rings too.
            let until = found.reader.head();
            loop {
                let steps = found.reader.steps();
                let mut batch = (used.try_recv().ok())
                    .filter(|used| used.has_room(steps))
                    .map_or_else(|| Batch::with_room(steps), Batch::emptied);
                batch.ring = found.number;
                let drained = found.reader.drain(&mut batch);
                if !batch.items.is_empty() {
                    ahead.more(batch.size());
                    let _ = messages.send(Message::Batch(batch));
                }
                match drained {
                    Ok(true) if found.reader.cursor() < until => {}
                    Ok(_) => break,
                    Err(_) => {
                        let _ = messages.send(Message::Damaged);
                        return false;
                    }
                }
            }
            !over
        });
        moved
    }
}
