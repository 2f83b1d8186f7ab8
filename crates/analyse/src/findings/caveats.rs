//! What the reader must know of the trace before believing the rest.

use super::{Draft, Finding, FindingInput, Id, Severity, words};

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    let overview = &seen.report.overview;
    if overview.lost > 0 {
        let kept = overview.events.saturating_add(overview.lost);
        found.push(
            Draft::new(Id::LostEvents, seen)
                .number("lost", overview.lost)
                .number("kept", overview.events)
                .at_least(Severity::Note)
                .say(
                    seen,
                    format!("{} lost", words::counted(overview.lost, "event was", "events were")),
                    format!(
                        "{} of all events. Counts and times are too low, and an allocation or a free may be missing.",
                        words::percent(overview.lost as f64 / kept.max(1) as f64)
                    ),
                    "Record fewer calls (select categories with -e), or give cutrace larger buffers.",
                ),
        );
    }
    let not_followed = seen.report.memory.not_followed;
    if not_followed > 0 {
        found.push(
            Draft::new(Id::MemoryNotFollowed, seen)
                .number("allocations", not_followed)
                .at_least(Severity::Note)
                .say(
                    seen,
                    format!("{not_followed} live allocations were counted but not tracked"),
                    "Too many were live at once to track each one: the bytes in use are correct, but leaks among them \
                     cannot be located."
                        .to_owned(),
                    "Record a shorter run.",
                ),
        );
    }
}
