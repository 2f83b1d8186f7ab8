//! How large a trace may become: `--max-size`, and some of the disk is left to others. When either is
//! reached, recording stops; the program goes on, and what it does from then on is counted as lost.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Of a disk's size, in percent.
const KEPT_FREE: f64 = 5.0;
/// For tests: another share, 0 for none.
const KEPT_FREE_VARIABLE: &str = "CUTRACE_KEEP_FREE";
/// Kept for the trace's tail, which names processes and back ends.
const TAIL: u64 = 256 << 10;
/// The rest of the room that is not worth another batch.
const LEAST: u64 = 32 << 10;
/// Bytes between two looks at the disk, at most: others write to it, too.
const STEP: u64 = 4 << 20;

/// A file, with how many bytes have been written to it.
pub struct Counted {
    file: File,
    written: Arc<AtomicU64>,
}

impl Counted {
    pub fn new(file: File) -> (Self, Arc<AtomicU64>) {
        let written = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            file,
            written: written.clone(),
        };
        (counted, written)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written.fetch_add(count as u64, Ordering::Release);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Why recording stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// `--max-size`
    Size(u64),
    /// So many percent of the disk were left.
    Disk(f64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Size(most) => write!(f, "the trace reached --max-size {}", size(*most)),
            Limit::Disk(percent) => write!(f, "only {percent:.2} % of the disk was free"),
        }
    }
}

/// `1.5 GB`
pub fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let bytes = bytes as f64;
    for (unit, name) in units {
        if bytes >= unit {
            let number = bytes / unit;
            let digits = if number < 10.0 && number.fract() > 0.05 {
                1
            } else {
                0
            };
            return format!("{number:.digits$} {name}");
        }
    }
    format!("{bytes} bytes")
}

/// What to do with a trace of a certain size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    GoOn,
    /// Write out what is gathered, and ask again: only then it is known how large it is.
    WriteOut,
    Stop(Limit),
}

/// The room of one trace.
pub struct Room {
    most: Option<u64>,
    disk: Option<Disk>,
    /// Nothing is looked at below this size.
    next: u64,
}

struct Disk {
    file: File,
    /// Bytes that stay free.
    floor: u64,
}

impl Room {
    /// For a trace in this file. A disk that is nearly full at the start has half of what is free to give.
    pub fn new(file: &File, most: Option<u64>) -> Self {
        let share = std::env::var(KEPT_FREE_VARIABLE).ok();
        let share = share.and_then(|text| text.parse().ok());
        let share: f64 = share.unwrap_or(KEPT_FREE);
        let disk = (share > 0.0).then(|| free(file)).flatten();
        let disk = disk.and_then(|(free, whole)| {
            Some(Disk {
                file: file.try_clone().ok()?,
                floor: ((whole as f64 * share / 100.0) as u64).min(free / 2),
            })
        });
        Room {
            most,
            disk,
            next: 0,
        }
    }

    /// `written` bytes are on the disk, `pending` ones at most will be.
    pub fn verdict(&mut self, written: u64, pending: u64) -> Verdict {
        if written + pending < self.next {
            return Verdict::GoOn;
        }
        let (left, limit) = self.left(written);
        if pending < left && left - pending > LEAST {
            let step = ((left - pending) / 2).min(STEP);
            self.next = written + pending + step;
            return Verdict::GoOn;
        }
        self.next = 0;
        match limit {
            _ if pending > 0 && left > LEAST => Verdict::WriteOut,
            Some(limit) => Verdict::Stop(limit),
            None => Verdict::GoOn,
        }
    }

    /// Bytes that may still be written, and what ends there.
    fn left(&self, written: u64) -> (u64, Option<Limit>) {
        let mut left = (u64::MAX, None);
        if let Some(most) = self.most {
            let room = most.saturating_sub(written + TAIL);
            left = (room, Some(Limit::Size(most)));
        }
        if let Some(disk) = &self.disk
            && let Some((free, whole)) = free(&disk.file)
        {
            let room = free.saturating_sub(disk.floor);
            if room < left.0 {
                let percent = 100.0 * free as f64 / whole as f64;
                left = (room, Some(Limit::Disk(percent)));
            }
        }
        left
    }

    /// The trace goes on in another file of the same disk. The one before is let go: it may be removed,
    /// and takes room until nobody has it open.
    pub fn move_to(&mut self, file: File) {
        if let Some(disk) = &mut self.disk {
            disk.file = file;
        }
        self.next = 0;
    }

    /// Whether so much more can be written at once.
    pub fn has(&self, written: u64, more: u64) -> bool {
        self.left(written).0 > more
    }
}

/// Free bytes of the file's disk, and all of them. None for what has no size, as pipes.
fn free(file: &File) -> Option<(u64, u64)> {
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    // SAFETY: all zeroes is one, and the call writes nothing else.
    let found = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::fstatvfs(file.as_raw_fd(), &mut found) == 0).then_some(found)
    }?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let (free, whole) = (bytes(found.f_bavail), bytes(found.f_blocks));
    (whole > 0).then_some((free, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_kept_by_whoever_cannot_say_how_much_is_gathered() {
        let most = 20 << 20;
        let mut room = Room {
            most: Some(most),
            disk: None,
            next: 0,
        };
        // Gathered rows become a quarter of what they might.
        let (mut written, mut pending, mut batches) = (0, 0, 0);
        let why = loop {
            pending += 1000;
            match room.verdict(written, pending) {
                Verdict::GoOn if pending < 8 << 20 => continue,
                Verdict::Stop(why) => break why,
                _ => {}
            }
            written += pending / 4;
            pending = 0;
            batches += 1;
            assert!(written + TAIL <= most, "{written}");
            if let Verdict::Stop(why) = room.verdict(written, 0) {
                break why;
            }
        };
        assert_eq!(why, Limit::Size(most));
        assert!(written + TAIL + 2 * LEAST > most, "{written} of {most}");
        assert!(batches < 60, "{batches} batches");
    }

    #[test]
    fn sizes_read_well() {
        let all = [999, 2_000_000_000, 1_500_000_000, 256_000_000, 20 << 20].map(size);
        assert_eq!(all, ["999 bytes", "2 GB", "1.5 GB", "256 MB", "21 MB"]);
        let words = Limit::Disk(4.987).to_string();
        assert_eq!(words, "only 4.99 % of the disk was free");
    }

    #[test]
    fn a_pipe_has_no_disk() {
        let null = File::options().write(true).open("/dev/null").expect("open");
        let mut room = Room::new(&null, None);
        assert_eq!(room.verdict(1 << 40, 1 << 30), Verdict::GoOn);
    }
}
