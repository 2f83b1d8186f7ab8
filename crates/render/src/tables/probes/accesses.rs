//! `gpu mem` as a table: accesses by the line they stand in, and below each where its threads went.

use crate::units::{count, counted};
use event::probed::{CACHE_LINE_BYTES, CacheLine, MemoryAccess, MemoryOwner};
use std::fmt::Write as _;

/// Busiest lines and owners that are shown.
const MOST_SHOWN: usize = 3;

pub fn table(accesses: &[MemoryAccess], text: &mut String) {
    if accesses.is_empty() {
        let _ = writeln!(text, "\nno access was counted");
        return;
    }
    let sampled = accesses.iter().find(|one| one.one_of > 1);
    let _ = write!(
        text,
        "\n{:>6} {:>5}  {:<16} {:>14} {:>16} {:>18}  {:>15}",
        "access", "line", "what", "requests", "threads", "bytes", "sectors/request"
    );
    let _ = writeln!(
        text,
        "{}",
        if sampled.is_some() {
            "   ± (95 %)"
        } else {
            ""
        }
    );
    for one in accesses {
        let what = format!("{} {}", one.space, one.kind);
        let unit = if one.is_shared { " passes" } else { "" };
        let error = match one.one_of {
            0 | 1 => String::new(),
            _ => format!("{:>8.1} %", one.error_ppm as f64 / 1e4),
        };
        let width = if sampled.is_some() { 7 } else { 0 };
        let _ = writeln!(
            text,
            "{:>6} {:>5}  {what:<16} {:>14} {:>16} {:>18}  {:>15.1}{unit:<width$}{error}",
            one.number,
            // Code without line information has lines 0.
            if one.line == 0 {
                "-".into()
            } else {
                one.line.to_string()
            },
            count(one.requests),
            count(one.threads),
            count(one.bytes),
            one.parts as f64 / one.requests.max(1) as f64
        );
        went(one, text);
    }
    if let Some(one) = sampled {
        let _ = writeln!(
            text,
            "\nOne request in {} was counted: the numbers are estimates. Lines that were seldom used may be missing.",
            one.one_of
        );
    }
}

fn went(one: &MemoryAccess, text: &mut String) {
    let share = |threads: u64| 100.0 * threads as f64 / one.threads.max(1) as f64;
    // What would read 0.0 % is no news.
    let is_seen = |threads: u64| share(threads) >= 0.05;
    let owners = one.owners.iter().filter(|(_, threads)| is_seen(*threads));
    for (owner, threads) in owners.take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "{:>14}{:>5.1} % in {}",
            "",
            share(*threads),
            name(owner)
        );
    }
    let lines = counted(one.lines, "line", "lines");
    let from = match one.least == one.most {
        true => String::new(),
        // The line with the fewest threads has not been seen.
        false if one.one_of > 1 => "up to ".into(),
        false => format!("{} to ", count(one.least)),
    };
    let most = count(one.most);
    match one.hot.first() {
        None => {}
        Some(only) if one.lines == 1 => {
            let place = place(one, only);
            let _ = writeln!(
                text,
                "{:>14}1 line of {CACHE_LINE_BYTES} bytes, {most} threads: {place}",
                ""
            );
        }
        Some(_) => {
            let _ = writeln!(
                text,
                "{:>14}{lines} of {CACHE_LINE_BYTES} bytes, {from}{most} threads each",
                ""
            );
        }
    }
    // Hot is what has more than twice its share.
    let told = one.threads.saturating_sub(one.untold);
    let is_hot =
        |line: &&CacheLine| line.threads.saturating_mul(one.lines) > told.saturating_mul(2);
    let hot = (one.hot.iter()).filter(|line| is_hot(line) && is_seen(line.threads));
    for line in hot.take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "{:>16}{:>5.1} % at {}",
            "",
            share(line.threads),
            place(one, line)
        );
    }
    if one.untold > 0 {
        let threads = counted(one.untold, "thread", "threads");
        let whose = match is_seen(one.untold) {
            true => format!("{:>5.1} % ({threads})", share(one.untold)),
            false => threads,
        };
        let _ = writeln!(
            text,
            "{:>14}{whose} at lines that did not fit into the table",
            ""
        );
    }
}

fn place(one: &MemoryAccess, line: &CacheLine) -> String {
    match &line.owner {
        Some((owner, offset)) if *offset < 0 => format!("{:#x}, {}", line.address, short(owner)),
        Some((owner, offset)) => format!("{:#x}, {} + {offset:#x}", line.address, short(owner)),
        None if one.is_shared => format!("shared memory + {:#x}", line.address),
        None => format!("{:#x}, in no known allocation", line.address),
    }
}

fn short(owner: &MemoryOwner) -> String {
    match owner.number {
        0 => owner.name.clone(),
        number => format!("{} {number}", owner.name),
    }
}

fn name(owner: &MemoryOwner) -> String {
    let bytes = count(owner.bytes);
    let mut text = match owner.number {
        0 => format!("variable {} ({bytes} bytes)", owner.name),
        number => format!("{} {number} ({bytes} bytes)", owner.name),
    };
    if owner.times > 1 {
        let _ = write!(text, ", the last of {} at this address", owner.times);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_listed_as_none() {
        let owner = |number: u64| MemoryOwner {
            name: "cudaMalloc".into(),
            number,
            bytes: 4096,
            op: number,
            times: 1,
        };
        let line = |address: u64, threads: u64| CacheLine {
            address,
            threads,
            owner: None,
        };
        let access = MemoryAccess {
            pid: 1,
            context: 0,
            number: 0,
            line: 7,
            space: "global",
            kind: "load",
            size: 4,
            one_of: 1,
            error_ppm: 0,
            requests: 1000,
            threads: 100_000,
            bytes: 400_000,
            parts: 4000,
            is_shared: false,
            // So many that a line with 49 threads has more than twice its share.
            lines: 10_000,
            least: 1,
            most: 49,
            untold: 3,
            hot: vec![line(0x1000, 49), line(0x2000, 40)],
            owners: vec![(owner(1), 99_960), (owner(2), 40)],
        };
        let mut text = String::new();
        table(std::slice::from_ref(&access), &mut text);
        assert!(text.contains("100.0 % in cudaMalloc 1 "), "{text}");
        assert!(!text.contains(" 0.0 %"), "{text}");
        assert!(!text.contains("cudaMalloc 2"), "{text}");
        assert!(
            text.contains("              3 threads at lines that "),
            "{text}"
        );
        assert!(!text.contains('±') && text.contains("1 to 49"), "{text}");
        let sampled = MemoryAccess {
            one_of: 16,
            error_ppm: 23_456,
            ..access.clone()
        };
        text.clear();
        table(&[sampled], &mut text);
        assert!(
            text.contains("± (95 %)") && text.contains("2.3 %"),
            "{text}"
        );
        assert!(
            text.contains("up to 49") && text.contains("One request in 16 "),
            "{text}"
        );
        text.clear();
        let hot = MemoryAccess {
            hot: vec![line(0x1000, 60)],
            owners: vec![(owner(1), 99_900), (owner(2), 100)],
            ..access
        };
        text.clear();
        table(&[hot], &mut text);
        assert!(text.contains("  0.1 % at 0x1000"), "{text}");
        assert!(text.contains("  0.1 % in cudaMalloc 2 "), "{text}");
    }
}
