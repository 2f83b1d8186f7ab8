//! What is worth changing, worst first.

use super::section::{Section, since_start};
use crate::{
    Paint, Style, printable,
    units::{bytes, share},
};
use analyse::{
    Report,
    findings::{Finding, Severity},
};

pub fn findings(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    section.heading("Findings");
    if report.findings.is_empty() {
        section.line("No problems found.");
        return section.finish();
    }
    for (number, finding) in report.findings.iter().enumerate() {
        one(&mut section, report, number + 1, finding);
    }
    if report.overview.simulated {
        section
            .line("The device was softgpu, which runs on the CPU: times are not those of a GPU.");
    }
    section.finish()
}

/// The first few findings, a line each: for the end of a run.
pub fn top_findings(report: &Report, most: usize, style: &Style) -> String {
    let mut section = Section::new(style);
    for finding in report.findings.iter().take(most) {
        section.painted_line(&format!(
            "{} {}",
            mark(finding.severity, style),
            headline(finding, report, style)
        ));
    }
    section.more(
        most.min(report.findings.len()),
        report.findings.len() as u64,
    );
    section.finish()
}

fn one(section: &mut Section<'_>, report: &Report, number: usize, finding: &Finding) {
    let style = section.style;
    section.blank();
    let paint = match finding.severity {
        Severity::High => Paint::Alarm,
        Severity::Medium => Paint::Warning,
        Severity::Low | Severity::Note => Paint::Faint,
    };
    let severity = style.paint(paint, finding.severity.as_str());
    section.painted_line(&format!(
        "{number}. {} [{}, {severity}]",
        headline(finding, report, style),
        finding.id
    ));
    section.indented(&shown(&finding.detail, style));
    section.indented(&shown(&finding.advice, style));
    let sure = finding.confidence.as_str();
    let time = |ns| crate::units::time(ns, style);
    let saves = match (finding.cost_ns, finding.cost_per_step_ns) {
        (_, Some(each)) => format!("Saves at most {} per step ({sure}).", time(each)),
        (Some(ns), None) => format!("Saves at most {} ({sure}).", time(ns)),
        (None, None) => format!("Confidence: {sure}."),
    };
    section.indented(&saves);
    let mut place = format!("From {}", since_start(report, finding.from_ns, style));
    if finding.to_ns > finding.from_ns {
        place.push_str(&format!(
            " to {}",
            since_start(report, finding.to_ns, style)
        ));
    }
    if !finding.op_ids.is_empty() {
        let ids: Vec<_> = finding.op_ids.iter().map(u64::to_string).collect();
        let word = if ids.len() == 1 { "event" } else { "events" };
        place.push_str(&format!("; {word} {}", ids.join(", ")));
    }
    place.push('.');
    section.indented(&place);
}

/// The title, and what it costs where that is known.
fn headline(finding: &Finding, report: &Report, style: &Style) -> String {
    let title = printable(&shown(&finding.title, style));
    // Some titles end in the very time they cost.
    let timed = ["ns", "µs", "us", "ms", " s"]
        .iter()
        .any(|unit| title.ends_with(unit));
    if let Some(ns) = finding.cost_per_step_ns {
        return format!("{title}: up to {} per step", crate::units::time(ns, style));
    }
    match (finding.cost_ns, finding.cost_bytes) {
        (Some(ns), _) if timed => {
            format!("{title}, {} of the run", share(ns, report.overview.wall_ns))
        }
        (Some(ns), _) => format!(
            "{title}: {}, {} of the run",
            crate::units::time(ns, style),
            share(ns, report.overview.wall_ns)
        ),
        (None, Some(size)) if !title.contains(" B ") && !title.contains("iB") => {
            format!("{title}: {}", bytes(size))
        }
        _ => title,
    }
}

fn mark(severity: Severity, style: &Style) -> String {
    let (sign, paint) = match severity {
        Severity::High => ("!!", Paint::Alarm),
        Severity::Medium => ("! ", Paint::Warning),
        Severity::Low => ("- ", Paint::Faint),
        Severity::Note => ("i ", Paint::Faint),
    };
    style.paint(paint, sign)
}

/// Sentences come with signs that a plain terminal cannot show.
fn shown(text: &str, style: &Style) -> String {
    if style.unicode {
        text.to_owned()
    } else {
        text.replace('µ', "u").replace('×', "x")
    }
}
