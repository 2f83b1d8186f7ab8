//! A fleet's report: for the terminal, and as a page of its own.

use super::section::Section;
use crate::{
    Cell, Paint, Style, Table,
    units::{count, time},
};
use analyse::{
    diff::FunctionChange,
    fleet::{Complaint, Fleet, GpuState, HostState, RunHead, is_faster, is_slower},
};
use std::fmt::Write as _;

/// Rows shown of each table.
const ROWS: usize = 20;

/// One part: a heading, what is to say, a table.
struct Part {
    heading: String,
    lines: Vec<String>,
    table: Table,
    /// Rows that there are, and that the table may not have.
    rows: usize,
}

/// The report as text.
pub fn fleet(fleet: &Fleet, style: &Style) -> String {
    let mut section = Section::new(style);
    for part in parts(fleet, style) {
        section.heading(&part.heading);
        for line in &part.lines {
            section.line(line);
        }
        section.table(&part.table);
        section.more(part.table.len(), part.rows as u64);
    }
    section.finish()
}

/// The report as a page that needs nothing else.
pub fn fleet_page(fleet: &Fleet) -> String {
    let style = Style {
        cut: false,
        ..Style::default()
    };
    let title = format!("cutrace: run {}", fleet.new.run);
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
    );
    let _ = writeln!(page, "<title>{}</title>", escaped(&title));
    page.push_str(
        "<style>:root{color-scheme:light dark}body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}\
         table{border-collapse:collapse;width:100%}th,td{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #8884}\
         .right{text-align:right;font-variant-numeric:tabular-nums}.alarm{color:#c22;font-weight:600}.good{color:#286}\
         .faint{opacity:.65}.scroll{overflow-x:auto}</style>\n",
    );
    let _ = writeln!(page, "<h1>{}</h1>", escaped(&title));
    for part in parts(fleet, &style) {
        let _ = writeln!(page, "<h2>{}</h2>", escaped(&part.heading));
        for line in &part.lines {
            let _ = writeln!(page, "<p>{}</p>", escaped(line));
        }
        if !part.table.is_empty() {
            let _ = writeln!(page, "<div class=\"scroll\">{}</div>", part.table.html());
        }
        if part.rows > part.table.len() {
            let rest = part.rows - part.table.len();
            let _ = writeln!(page, "<p class=\"faint\">and {rest} more</p>");
        }
    }
    page.push_str("</html>\n");
    page
}

/// Text in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            _ => shown.push(sign),
        }
    }
    shown
}

fn parts(fleet: &Fleet, style: &Style) -> Vec<Part> {
    let mut parts = vec![runs(fleet, style)];
    if let Some(diff) = &fleet.diff {
        parts.push(changes("Kernels that changed", &diff.kernels, style));
        parts.push(changes("Functions that changed", &diff.functions, style));
    }
    parts.push(hosts(fleet));
    parts.push(gpus(fleet, style));
    parts
}

fn runs(fleet: &Fleet, style: &Style) -> Part {
    let mut table = Table::new()
        .left("")
        .left("Run")
        .right("Hosts")
        .right("Traces")
        .right("Took")
        .right("Events")
        .optional("Lost")
        .optional_left("Command");
    let mut row = |name: &str, head: &RunHead| {
        table.row([
            name,
            &head.run,
            &count(head.hosts),
            &count(head.recordings),
            &time(head.wall_ns, style),
            &count(head.events),
            &count(head.lost),
            &head.command,
        ]);
    };
    if let Some(base) = &fleet.base {
        row("base", base);
    }
    row("new", &fleet.new);
    let mut lines = Vec::new();
    match &fleet.base {
        None => {
            lines.push("The lake has no earlier run to compare with (--base names one).".into())
        }
        Some(base) if base.simulated != fleet.new.simulated => lines.push(
            "One of them ran on softgpu, which runs on the CPU: their times cannot be compared."
                .into(),
        ),
        Some(_) => {}
    }
    Part {
        heading: "Runs".into(),
        lines,
        rows: table.len(),
        table,
    }
}

/// Those whose single calls take another time, slower first, by what that costs.
fn changes(heading: &str, rows: &[FunctionChange], style: &Style) -> Part {
    let mut table = Table::new()
        .left("Name")
        .right("Calls")
        .right("p50 before")
        .right("p50 now")
        .right("Change")
        .right("Total")
        .left("Calls are");
    let mut changed: Vec<&FunctionChange> = (rows.iter())
        .filter(|row| is_slower(row) || is_faster(row))
        .collect();
    changed.sort_by_key(|row| {
        let cost = i128::from(row.p50.change) * i128::from(row.calls.b);
        (!is_slower(row), std::cmp::Reverse(cost.unsigned_abs()))
    });
    for row in changed.iter().take(ROWS) {
        let part = row.p50.relative.unwrap_or(0.0) * 100.0;
        let (word, paint) = match is_slower(row) {
            true => ("slower", Paint::Alarm),
            false => ("faster", Paint::Good),
        };
        table.row([
            Cell::from(&**row.short_name.as_ref().unwrap_or(&row.name)),
            count(row.calls.b).into(),
            time(row.p50.a, style).into(),
            time(row.p50.b, style).into(),
            Cell::painted(format!("{part:+.1} %"), paint),
            time(row.total.b, style).into(),
            Cell::painted(word, paint),
        ]);
    }
    let few = (rows.iter())
        .filter(|row| row.significance.verdict == analyse::diff::Verdict::NotEnough)
        .count();
    let mut lines = vec![match changed.len() {
        0 => format!(
            "None of {} changed significantly.",
            count(rows.len() as u64)
        ),
        number => format!("{} of {}.", count(number as u64), count(rows.len() as u64)),
    }];
    if few > 0 {
        lines.push(format!(
            "{} have too few calls in one of the runs to tell.",
            count(few as u64)
        ));
    }
    Part {
        heading: heading.into(),
        lines,
        rows: changed.len(),
        table,
    }
}

fn hosts(fleet: &Fleet) -> Part {
    let mut table = Table::new()
        .left("Host")
        .right("Kernels beside others")
        .optional("beside before")
        .right("Clock")
        .right("Throttled")
        .optional("Hottest")
        .optional("ECC corrected")
        .right("uncorrected")
        .left("");
    let dash = || "-".to_owned();
    let percent =
        |part: Option<f64>| part.map_or_else(dash, |part| format!("{:+.1} %", part * 100.0));
    for host in fleet.hosts.iter().take(ROWS) {
        let words: Vec<String> = host.complaints.iter().map(complaint).collect();
        table.row([
            Cell::from(&host.host),
            percent(host.slower_than_others).into(),
            percent(host.slower_than_before).into(),
            (host.clock_mhz)
                .map_or_else(dash, |mhz| format!("{mhz:.0} MHz"))
                .into(),
            (host.throttled_share)
                .map_or_else(dash, |share| format!("{:.1} %", share * 100.0))
                .into(),
            (host.hottest_c)
                .map_or_else(dash, |heat| format!("{heat} °C"))
                .into(),
            (host.ecc_corrected)
                .map_or_else(dash, |errors| errors.to_string())
                .into(),
            (host.ecc_uncorrected)
                .map_or_else(dash, |errors| errors.to_string())
                .into(),
            Cell::painted(words.join("; "), Paint::Alarm),
        ]);
    }
    let bad = fleet.bad_hosts();
    let mut lines = vec![match bad {
        0 => format!(
            "Nothing is wrong with any of {}.",
            hosts_words(&fleet.hosts)
        ),
        bad => format!("{bad} of {} need looking at.", hosts_words(&fleet.hosts)),
    }];
    if fleet
        .hosts
        .iter()
        .all(|host| host.clock_mhz.is_none() && host.throttled_share.is_none())
    {
        lines.push("No clocks and errors: record with NVML's samples (--method nvml is part of auto on a GPU).".into());
    }
    Part {
        heading: "Hosts".into(),
        lines,
        rows: fleet.hosts.len(),
        table,
    }
}

fn hosts_words(hosts: &[HostState]) -> String {
    match hosts.len() {
        1 => "1 host".into(),
        number => format!("{} hosts", count(number as u64)),
    }
}

fn complaint(complaint: &Complaint) -> String {
    match complaint {
        Complaint::SlowerThanOthers { by } => {
            format!("kernels {:.1} % slower than on other hosts", by * 100.0)
        }
        Complaint::SlowerThanBefore { by } => {
            format!("kernels {:.1} % slower than in the base run", by * 100.0)
        }
        Complaint::SlowClock { mhz, others_mhz } => {
            format!("clock {mhz:.0} MHz, others {others_mhz:.0} MHz")
        }
        Complaint::Throttled { share } => {
            format!("throttled in {:.1} % of the samples", share * 100.0)
        }
        Complaint::Ecc {
            corrected,
            uncorrected,
        } => format!("{corrected} corrected and {uncorrected} uncorrected ECC errors"),
    }
}

fn gpus(fleet: &Fleet, style: &Style) -> Part {
    let mut table = Table::new()
        .left("Host")
        .right("Rank")
        .right("GPU")
        .right("Busy")
        .right("of")
        .right("Idle");
    let dash = || "-".to_owned();
    let idle: Vec<&GpuState> = fleet.gpus.iter().filter(|gpu| gpu.is_idle()).collect();
    for gpu in idle.iter().take(ROWS) {
        let share = gpu.idle_share.unwrap_or(1.0);
        table.row([
            Cell::from(&gpu.host),
            gpu.rank.to_string().into(),
            (gpu.device)
                .map_or_else(dash, |device| device.to_string())
                .into(),
            (gpu.busy_ns)
                .map_or_else(dash, |busy| time(busy, style))
                .into(),
            (gpu.span_ns)
                .map_or_else(dash, |span| time(span, style))
                .into(),
            Cell::painted(format!("{:.1} %", share * 100.0), Paint::Alarm),
        ]);
    }
    let line = match (idle.len(), fleet.gpus.len()) {
        (_, 0) => "No GPU times were recorded.".to_owned(),
        (0, all) => format!(
            "None of {} worked less than half of the time.",
            gpu_words(all)
        ),
        (idle, all) => format!(
            "{} of {} worked less than half of the time between their first and last work.",
            count(idle as u64),
            gpu_words(all)
        ),
    };
    Part {
        heading: "Idle GPUs".into(),
        lines: vec![line],
        rows: idle.len(),
        table,
    }
}

fn gpu_words(number: usize) -> String {
    match number {
        1 => "1 GPU".into(),
        number => format!("{} GPUs", count(number as u64)),
    }
}
