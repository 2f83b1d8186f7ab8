//! `gpu mem` as a table: accesses by the line they stand in, and below each where its threads went.

use super::bars::grouped;
use crate::probes::{Access, LINE_BYTES, Line, Owner};
use std::fmt::Write as _;

/// Busiest lines and owners that are shown.
const MOST_SHOWN: usize = 3;

pub fn table(accesses: &[Access], text: &mut String) {
    if accesses.is_empty() {
        let _ = writeln!(text, "\nno access was counted");
        return;
    }
    let _ = writeln!(
        text,
        "\n{:>6} {:>5}  {:<16} {:>14} {:>16} {:>18}  {:>15}",
        "access", "line", "what", "requests", "threads", "bytes", "sectors/request"
    );
    for one in accesses {
        let what = format!("{} {}", one.space, one.kind);
        let unit = if one.is_shared { " passes" } else { "" };
        let _ = writeln!(
            text,
            "{:>6} {:>5}  {what:<16} {:>14} {:>16} {:>18}  {:>15.1}{unit}",
            one.number,
            // Code without line information has lines 0.
            if one.line == 0 {
                "-".into()
            } else {
                one.line.to_string()
            },
            grouped(one.requests),
            grouped(one.threads),
            grouped(one.bytes),
            one.parts as f64 / one.requests.max(1) as f64
        );
        went(one, text);
    }
}

fn went(one: &Access, text: &mut String) {
    let share = |threads: u64| 100.0 * threads as f64 / one.threads.max(1) as f64;
    for (owner, threads) in one.owners.iter().take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "{:>14}{:>5.1} % in {}",
            "",
            share(*threads),
            name(owner)
        );
    }
    let lines = counted(one.lines, "line");
    let from = match one.least == one.most {
        true => String::new(),
        false => format!("{} to ", grouped(one.least)),
    };
    let most = grouped(one.most);
    match one.hot.first() {
        None => {}
        Some(only) if one.lines == 1 => {
            let place = place(one, only);
            let _ = writeln!(
                text,
                "{:>14}1 line of {LINE_BYTES} bytes, {most} threads: {place}",
                ""
            );
        }
        Some(_) => {
            let _ = writeln!(
                text,
                "{:>14}{lines} of {LINE_BYTES} bytes, {from}{most} threads each",
                ""
            );
        }
    }
    // Hot is what has more than twice its share.
    let told = one.threads.saturating_sub(one.untold);
    let is_hot = |line: &&Line| line.threads.saturating_mul(one.lines) > told.saturating_mul(2);
    for line in one.hot.iter().filter(is_hot).take(MOST_SHOWN) {
        let _ = writeln!(
            text,
            "{:>16}{:>5.1} % at {}",
            "",
            share(line.threads),
            place(one, line)
        );
    }
    if one.untold > 0 {
        let _ = writeln!(
            text,
            "{:>14}{:>5.1} % at lines that there was no room to tell apart ({} threads)",
            "",
            share(one.untold),
            grouped(one.untold)
        );
    }
}

fn place(one: &Access, line: &Line) -> String {
    match &line.owner {
        Some((owner, offset)) if *offset < 0 => format!("{:#x}, {}", line.address, short(owner)),
        Some((owner, offset)) => format!("{:#x}, {} + {offset:#x}", line.address, short(owner)),
        None if one.is_shared => format!("shared memory + {:#x}", line.address),
        None => format!("{:#x}, of no allocation that the trace knows", line.address),
    }
}

fn short(owner: &Owner) -> String {
    match owner.number {
        0 => owner.name.clone(),
        number => format!("{} {number}", owner.name),
    }
}

fn name(owner: &Owner) -> String {
    let bytes = grouped(owner.bytes);
    let mut text = match owner.number {
        0 => format!("variable {} ({bytes} bytes)", owner.name),
        number => format!("{} {number} ({bytes} bytes)", owner.name),
    };
    if owner.times > 1 {
        let _ = write!(text, ", the last of {} at this address", owner.times);
    }
    text
}

fn counted(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", grouped(count))
}
