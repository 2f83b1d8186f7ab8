//! Histograms as text.

use crate::units;
use std::fmt::Write as _;

const WIDTH: u64 = 40;

/// As long as the count is large, the largest being the whole width, to an eighth of a letter; something
/// that is there has a bar.
pub fn bar(count: u64, most: u64) -> String {
    let eighths = u128::from(count) * u128::from(WIDTH) * 8;
    let eighths = (eighths + u128::from(most) / 2) / u128::from(most.max(1));
    let eighths = (eighths as usize).max(usize::from(count > 0));
    let mut text = "█".repeat(eighths / 8);
    text.extend("▏▎▍▌▋▊▉".chars().nth((eighths % 8).wrapping_sub(1)));
    text
}

/// Bins of powers of two: bin n has what is below 2^n and not below half of it.
pub fn durations(bins: &[u64], text: &mut String) {
    let Some(most) = bins.iter().max().filter(|most| **most > 0) else {
        return;
    };
    let first = bins.iter().position(|count| *count > 0).unwrap_or(0);
    let last = bins.iter().rposition(|count| *count > 0).unwrap_or(0);
    for (bin, count) in bins.iter().enumerate().take(last + 1).skip(first) {
        let from = if bin == 0 {
            0
        } else {
            1u64 << (bin - 1).min(63)
        };
        let line = format!(
            "  {:>13} ns … {:>10}  {}",
            units::count(from),
            units::count(*count),
            bar(*count, *most)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_between_are_shown() {
        let mut text = String::new();
        durations(&[0, 0, 4, 0, 2, 0], &mut text);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.starts_with("              2 ns …          4  ████"),
            "{text}"
        );
    }

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let eighths = |count, most| {
            let text = bar(count, most);
            let letters = text.chars().count();
            let last = "▏▎▍▌▋▊▉█".chars().position(|it| text.ends_with(it));
            last.map_or(0, |last| (letters - 1) * 8 + last + 1)
        };
        assert_eq!(eighths(44, 44), 320);
        assert_eq!(eighths(22, 44), 160);
        assert_eq!(eighths(16, 44), 116);
        assert_eq!(eighths(2, 44), 15);
        assert_eq!(eighths(0, 44), 0);
        assert_eq!(eighths(1, u64::MAX), 1, "what is there is seen");
        assert_eq!(eighths(u64::MAX, u64::MAX), 320);
    }
}
