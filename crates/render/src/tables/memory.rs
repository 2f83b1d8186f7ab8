//! Memory: how much, when, who holds it, what was never freed.

use super::{
    managed::managed,
    section::{Section, device_name, since_start},
    tensors::tensors,
};
use crate::{
    Cell, Paint, Style, Table,
    units::{bytes, count, counted},
};
use analyse::{
    CallSite, Report,
    frees::BadFree,
    leaks::{Judged, Leak},
    memory::SpaceUse,
};

/// Rows shown of each table.
const ROWS: usize = 10;
/// Frames shown of a stack.
const FRAMES: usize = 4;

pub fn memory(report: &Report, style: &Style) -> String {
    let memory = &report.memory;
    let mut section = Section::new(style);
    section.heading("Memory");
    if memory.allocations == 0 && memory.frees == 0 {
        section.line("The trace contains no allocations.");
        managed(&mut section, report);
        tensors(&mut section, report);
        return section.finish();
    }
    section.line(&format!(
        "Allocated {}, {}; freed {}, {}; live at the end: {}, {}.",
        counted(memory.allocations, "time", "times"),
        bytes(memory.allocated_bytes),
        counted(memory.frees, "time", "times"),
        bytes(memory.freed_bytes),
        count(memory.live),
        bytes(memory.live_bytes),
    ));
    if memory.of_unknown_size > 0 {
        section.line(&format!(
            "The trace does not say the size of {}: those bytes are not counted.",
            counted(memory.of_unknown_size, "allocation", "allocations")
        ));
    }
    if memory.not_followed > 0 {
        section.line(&format!(
            "Too many live allocations to track one by one: {} only counted.",
            counted(memory.not_followed, "allocation", "allocations")
        ));
    }
    uses(&mut section, report);
    tensors(&mut section, report);
    managed(&mut section, report);
    over_time(&mut section, report);
    leaks(&mut section, report);
    bad_frees(&mut section, report);
    calls(&mut section, report);
    section.finish()
}

fn space_name(space: &SpaceUse) -> &'static str {
    space.space.map_or("?", |space| space.as_str())
}

fn uses(section: &mut Section<'_>, report: &Report) {
    section.heading("In use");
    let mut table = Table::new()
        .right("Process")
        .right("GPU")
        .left("Space")
        .right("Allocations")
        .right("Peak")
        .right("At")
        .right("At the end");
    let uses = &report.memory.uses;
    for one in uses.iter().take(ROWS) {
        let space = &one.space;
        table.row([
            one.pid.map_or("others".into(), |pid| pid.to_string()),
            device_name(one.device),
            space_name(space).to_owned(),
            count(space.allocations),
            bytes(space.peak_bytes),
            since_start(report, space.peak_at_ns, section.style),
            bytes(space.live_bytes),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(uses.len()), uses.len() as u64);
}

fn over_time(section: &mut Section<'_>, report: &Report) {
    let spaces: Vec<_> = (report.memory.spaces.iter())
        .filter(|space| space.peak_bytes > 0)
        .collect();
    if spaces.is_empty() {
        return;
    }
    section.heading("Over time, all processes");
    let mut table = Table::new().left("").left("").right("");
    let width = section.style.width.saturating_sub(26).clamp(8, 100);
    for space in spaces {
        table.row([
            space_name(space).to_owned(),
            sparkline(space, report, width, section.style),
            bytes(space.peak_bytes),
        ]);
    }
    section.table(&table);
}

/// A row of bars, one a column, as high as the level went in it.
fn sparkline(space: &SpaceUse, report: &Report, width: usize, style: &Style) -> String {
    let curve = &space.curve;
    let bars: &[char] = if style.unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['.', ':', '-', '=', '+', '*', '%', '#']
    };
    let top = curve.peaks.iter().copied().max().unwrap_or(0).max(1);
    let length = report.overview.end_ns.saturating_sub(curve.from_ns).max(1);
    let bin = |ns: u128| (ns / u128::from(curve.bin_ns.max(1))) as usize;
    let mut text = String::new();
    for column in 0..width as u128 {
        let step = |column: u128| u128::from(length) * column / width as u128;
        let first = bin(step(column));
        let last = bin(step(column + 1).saturating_sub(1)).max(first);
        // Beyond the last change the level stays what that made it.
        let end = curve.peaks.len().saturating_sub(1);
        let level = (curve.peaks.get(first..=last.min(end)))
            .and_then(|levels| levels.iter().copied().max())
            .unwrap_or(space.live_bytes);
        let height = u128::from(level) * bars.len() as u128 / u128::from(top);
        text.push(match (level, height as usize) {
            (0, _) => ' ',
            (_, height) => bars[height.clamp(1, bars.len()) - 1],
        });
    }
    text
}

fn leaks(section: &mut Section<'_>, report: &Report) {
    let leaks = &report.memory.leaks;
    section.heading("Never freed");
    let judged = match leaks.judged {
        Judged::ProgramEnded => {
            "The program exited with status 0: memory that it still held was never freed."
        }
        Judged::ProgramFailed => {
            "The program failed or was killed, so memory it still held is no evidence of a leak. Listed: memory that \
             kept growing, and memory lost with its context."
        }
        Judged::EndUnknown => {
            "The trace does not say how the program ended. Listed: memory that kept growing, and memory lost with its \
             context."
        }
        Judged::CallsLeftOut => {
            "Unknown: calls were left out of the trace (-e, --min-duration), frees among them."
        }
        Judged::EventsLost => {
            "Events were lost, perhaps including frees. Listed: memory that kept growing, and memory lost with its \
             context."
        }
    };
    section.line(judged);
    if leaks.judged == Judged::CallsLeftOut {
        return;
    }
    if leaks.groups.is_empty() {
        section.line("Nothing.");
        return;
    }
    let mut table = Table::new()
        .right("Bytes")
        .right("Count")
        .left("")
        .left("By")
        .right("First")
        .right("Last");
    for leak in leaks.groups.iter().take(ROWS) {
        table.row(leak_row(section, report, leak));
    }
    section.table(&table);
    section.more(ROWS.min(leaks.groups.len()), leaks.groups.len() as u64);
    for leak in leaks.groups.iter().take(ROWS) {
        if !leak.holder.place.stack.is_empty() {
            section.line(&format!("{}, called from:", leak.holder.place.function));
            for frame in leak.holder.place.stack.iter().take(FRAMES) {
                section.line(&format!("  {frame}"));
            }
        }
    }
}

fn leak_row(section: &Section<'_>, report: &Report, leak: &Leak) -> [Cell; 6] {
    let holder = &leak.holder;
    let how = match (leak.grows, leak.with_context) {
        (true, _) => Cell::painted("grows", Paint::Alarm),
        (false, true) => "context".into(),
        (false, false) => "kept".into(),
    };
    [
        bytes(holder.bytes).into(),
        count(holder.count).into(),
        how,
        place_words(&holder.place).into(),
        since_start(report, holder.first_at_ns, section.style).into(),
        since_start(report, holder.last_at_ns, section.style).into(),
    ]
}

/// The function, and what else tells the place from others.
pub(super) fn place_words(place: &CallSite) -> String {
    match (place.stack.first(), place.size_bytes) {
        (Some(frame), _) => format!("{} < {frame}", place.function),
        (None, Some(size)) => format!("{} of {}", place.function, bytes(size)),
        (None, None) => place.function.to_string(),
    }
}

fn bad_frees(section: &mut Section<'_>, report: &Report) {
    let frees = &report.memory.bad_frees;
    if frees.of_older_memory > 0 {
        section.line(&format!(
            "{} of memory allocated before the trace began, or by calls it did not record.",
            counted(frees.of_older_memory, "free", "frees")
        ));
    }
    if frees.bad.is_empty() {
        return;
    }
    section.heading("Bad frees");
    let mut table = Table::new()
        .right("At")
        .right("Event")
        .left("Function")
        .left("Pointer")
        .left("Why");
    for bad in frees.bad.iter().take(ROWS) {
        let why = match bad.what {
            BadFree::Twice => "freed twice",
            BadFree::OfAnotherProcess => "memory of another process",
            BadFree::WrongFunction => "freed by the wrong function",
            BadFree::Refused => "refused",
        };
        let why = match &bad.error {
            Some(error) => format!("{why}: {error}"),
            None => why.to_owned(),
        };
        table.row([
            since_start(report, bad.at_ns, section.style),
            bad.op_id.to_string(),
            bad.function.to_string(),
            bad.ptr.map_or("?".into(), |ptr| format!("{ptr:#x}")),
            why,
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(frees.bad.len()), frees.bad_count);
}

fn calls(section: &mut Section<'_>, report: &Report) {
    section.heading("By function");
    let mut table = Table::new()
        .left("Function")
        .right("Calls")
        .right("Bytes")
        .right("Time");
    let functions = &report.memory.functions;
    for function in functions.iter().take(ROWS) {
        table.row([
            function.function.to_string(),
            count(function.calls),
            bytes(function.bytes),
            section.time(function.time_ns),
        ]);
    }
    section.table(&table);
    section.more(ROWS.min(functions.len()), functions.len() as u64);
}
