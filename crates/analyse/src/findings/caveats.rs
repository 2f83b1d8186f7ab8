//! What the reader must know of the trace before believing the rest.

use super::{Draft, Finding, FindingInput, Severity, words};

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let overview = &seen.report.overview;
    if overview.lost > 0 {
        let kept = overview.events.saturating_add(overview.lost);
        found.push(
            Draft::new("lost-events", seen)
                .number("lost", overview.lost)
                .number("kept", overview.events)
                .at_least(Severity::Note)
                .say(
                    seen,
                    format!("{} lost", words::count(overview.lost, "event was", "events were")),
                    format!(
                        "{} of what happened. Counts and times are lower than they were, and a free or \
                         an allocation may be missing.",
                        words::percent(overview.lost as f64 / kept.max(1) as f64)
                    ),
                    "Trace less (-e with the categories of interest), or give the tracer more room.",
                ),
        );
    }
    let not_followed = seen.report.memory.not_followed;
    if not_followed > 0 {
        found.push(
            Draft::new("memory-not-followed", seen)
                .number("allocations", not_followed)
                .at_least(Severity::Note)
                .say(
                    seen,
                    format!("{not_followed} live allocations were only counted"),
                    "More were live at once than are followed one by one: bytes in use are right, but \
                     leaks among them have no place."
                        .to_owned(),
                    "Look at a shorter run.",
                ),
        );
    }
}
