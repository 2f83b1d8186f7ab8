//! Histograms as text.

use std::fmt::Write as _;

const WIDTH: u64 = 40;

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
        let bar = "█".repeat((count * WIDTH).div_ceil(*most) as usize);
        let _ = writeln!(text, "  {:>12} ns … {count:>10}  {bar}", grouped(from));
    }
}

/// Thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(grouped(100), "100");
    }

    #[test]
    fn bins_between_are_shown() {
        let mut text = String::new();
        durations(&[0, 0, 4, 0, 2, 0], &mut text);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("             2 ns …          4  ████"));
    }
}
