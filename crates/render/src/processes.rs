//! What processes and GPUs are called where their numbers are shown.

use event::{Meta, ProcessName, ProcessOrigin, Summary};
use std::collections::BTreeSet;

/// A command line longer than this is cut.
const LONGEST: usize = 60;
/// Processes that a legend names.
const MOST_LINES: usize = 16;

/// As one would type it: `python3 train.py --epochs 3`, without the program's folders.
pub fn title(process: &ProcessName) -> String {
    let arguments = process.command.iter().skip(1);
    let words = std::iter::once(&process.name).chain(arguments);
    let words: Vec<&str> = words.map(String::as_str).collect();
    // One line, whatever the program was given.
    let title: String = (origin(process) + &words.join(" "))
        .chars()
        .map(|sign| if sign.is_control() { ' ' } else { sign })
        .collect();
    if title.chars().count() <= LONGEST {
        return title;
    }
    let cut: String = title.chars().take(LONGEST - 1).collect();
    format!("{}…", cut.trim_end())
}

/// Where a process of a merged trace ran: `rank 3, node2: `.
pub fn origin(process: &ProcessName) -> String {
    let Some(origin) = &process.origin else {
        return String::new();
    };
    let rank = origin.rank.map(|rank| format!("rank {rank}"));
    let host = Some(origin.host.clone()).filter(|host| !host.is_empty());
    let words: Vec<String> = rank.into_iter().chain(host).collect();
    match words.is_empty() {
        true => String::new(),
        false => format!("{}: ", words.join(", ")),
    }
}

/// The host of a GPU, in a trace that was merged from those of several hosts.
pub fn gpu_host(meta: &Meta, device: u32) -> Option<&str> {
    let mut hosts = meta.merged.iter().map(|from| from.host.name.as_str());
    let first = hosts.next()?;
    hosts.find(|host| *host != first)?;
    let from = (meta.merged.iter()).find(|from| from.gpus.iter().any(|gpu| gpu.index == device));
    from.map(|from| from.host.name.as_str())
}

/// The trace's own command, for traces that have no names; of a merged trace, that of the trace that the number is from.
fn of_meta(meta: &Meta, pid: u32) -> Option<ProcessName> {
    for from in &meta.merged {
        let own = from
            .pid
            .filter(|own| own.checked_add(from.process_offset) == Some(pid));
        let alone = Meta {
            merged: Vec::new(),
            ..from.clone()
        };
        if let Some(name) = own.and_then(|own| of_meta(&alone, own)) {
            let origin = ProcessOrigin {
                host: from.host.name.clone(),
                rank: from.identity.rank,
                pid: name.pid,
            };
            return Some(ProcessName {
                pid,
                origin: Some(origin),
                ..name
            });
        }
    }
    let program = meta.command.first().filter(|_| meta.pid == Some(pid))?;
    Some(ProcessName {
        pid,
        parent: None,
        name: program.rsplit('/').next().unwrap_or(program).to_owned(),
        command: meta.command.clone(),
        origin: None,
    })
}

/// A process by its number: the name it had at the end.
pub fn find(meta: &Meta, summary: Option<&Summary>, pid: u32) -> Option<ProcessName> {
    let mut known = summary.iter().flat_map(|summary| &summary.processes);
    let known = known.find(|process| process.pid == pid && !process.name.is_empty());
    known.cloned().or_else(|| of_meta(meta, pid))
}

/// Lines that say whose the numbers are, where there are several processes: those that are known.
pub fn legend(pids: impl IntoIterator<Item = u32>, known: &[ProcessName]) -> Vec<String> {
    let pids: BTreeSet<u32> = pids.into_iter().collect();
    if pids.len() < 2 {
        return Vec::new();
    }
    let name = |pid: &u32| {
        let found = known.iter().find(|process| process.pid == *pid)?;
        (!found.name.is_empty()).then(|| format!("process {pid}: {}", title(found)))
    };
    let mut lines: Vec<String> = pids.iter().filter_map(name).collect();
    let more = lines.len().saturating_sub(MOST_LINES);
    if more > 0 {
        lines.truncate(MOST_LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        let mut process = ProcessName {
            pid: 7,
            parent: None,
            name: "python3".into(),
            command: ["/usr/bin/python3", "-c", "a\nb"].map(Into::into).to_vec(),
            origin: None,
        };
        assert_eq!(title(&process), "python3 -c a b");
        process.command.push("x".repeat(200));
        assert_eq!(title(&process).chars().count(), LONGEST);
        process.command.clear();
        assert_eq!(title(&process), "python3");
    }

    #[test]
    fn the_summary_knows_more_than_the_head() {
        let meta = Meta {
            pid: Some(7),
            command: vec!["/bin/sh".into(), "-c".into()],
            ..Meta::default()
        };
        let summary = Summary {
            processes: vec![ProcessName {
                pid: 8,
                name: "app".into(),
                ..ProcessName::default()
            }],
            ..Summary::default()
        };
        let name = |pid| find(&meta, Some(&summary), pid).map(|process| title(&process));
        assert_eq!(name(7).as_deref(), Some("sh -c"));
        assert_eq!(name(8).as_deref(), Some("app"));
        assert_eq!(name(9), None);
        // Two hosts, whose tails have no names.
        let merged = |host: &str, process_offset| {
            let mut meta = meta.clone();
            meta.host.name = host.into();
            meta.process_offset = process_offset;
            meta.gpus = vec![event::Gpu {
                index: process_offset / 100,
                ..event::Gpu::default()
            }];
            meta
        };
        let both = Meta {
            merged: vec![merged("node1", 0), merged("node2", 100)],
            ..meta.clone()
        };
        let name = |pid| find(&both, None, pid).map(|process| title(&process));
        assert_eq!(name(7).as_deref(), Some("node1: sh -c"));
        assert_eq!(name(107).as_deref(), Some("node2: sh -c"));
        assert_eq!(gpu_host(&both, 0), Some("node1"));
        assert_eq!(gpu_host(&both, 1), Some("node2"));
        assert_eq!(gpu_host(&meta, 0), None);
        assert_eq!(legend([8, 9], &summary.processes), ["process 8: app"]);
        // One process needs no telling apart.
        assert!(legend([8, 8], &summary.processes).is_empty());
    }
}
