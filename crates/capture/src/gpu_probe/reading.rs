//! Of when the maps are that a program has left in the folder.

use crate::preload::folder::read_left;
use std::path::Path;

/// The last time a process left its maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapReading {
    pub pid: u32,
    /// How many there have been.
    pub number: u64,
    /// By the host's clock, in ns.
    pub at: u64,
    pub why: ReadingCause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadingCause {
    /// The program went on.
    Interval,
    /// A signal came that was about to end the program: its name.
    Signal(String),
    /// The program ended in order.
    End,
}

/// Longer than any of the lines.
const MOST_BYTES: u64 = 256;

/// Those of all processes, by process.
pub fn map_readings(folder: &Path) -> Vec<MapReading> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<MapReading> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let pid = name.strip_prefix("reading.")?.parse().ok()?;
            let text = read_left(&entry.path(), MOST_BYTES).ok()?;
            parse(pid, std::str::from_utf8(&text).ok()?)
        })
        .collect();
    found.sort_by_key(|reading| reading.pid);
    found
}

fn parse(pid: u32, line: &str) -> Option<MapReading> {
    let mut words = line.split_whitespace();
    Some(MapReading {
        pid,
        number: words.next()?.parse().ok()?,
        at: words.next()?.parse().ok()?,
        why: match words.next()? {
            "interval" => ReadingCause::Interval,
            "end" => ReadingCause::End,
            signal => ReadingCause::Signal(signal.to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reading_of_each_process_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        put("reading.7", "3 1000 interval\n");
        put("reading.5", "4 2000 SIGINT\n");
        put("reading.6", "1 3000 end\n");
        put("reading.8", "nonsense\n");
        put("reading.9.part", "1 1 end\n");
        let found = map_readings(folder.path());
        let causes: Vec<(u32, &ReadingCause)> = (found.iter())
            .map(|reading| (reading.pid, &reading.why))
            .collect();
        assert_eq!(
            causes,
            [
                (5, &ReadingCause::Signal("SIGINT".into())),
                (6, &ReadingCause::End),
                (7, &ReadingCause::Interval),
            ]
        );
        assert_eq!((found[2].number, found[2].at), (3, 1000));
    }
}
