//! Days of the calendar, for the build script.

/// The day of a Unix time, as YYYY-MM-DD: Howard Hinnant's civil_from_days.
pub fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_798_761_599, "2026-12-31"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(day(seconds), wanted);
        }
    }
}
