//! The time axis, and ranges of time.

use crate::Style;
use event::Event;
use std::ops::Range;

/// The range that shows an event with what stands around it, nanoseconds since the trace's start:
/// twice its own length on either side, and never less than 20 µs.
pub fn around(event: &Event, start: u64) -> Range<u64> {
    let length = event.duration().unwrap_or(0);
    let margin = length.saturating_mul(2).max(20_000);
    let begin = event.start.saturating_sub(start);
    begin.saturating_sub(margin)..begin.saturating_add(length).saturating_add(margin)
}

/// Labels and a ruler with their marks at the same columns.
pub fn lines(range: &Range<u64>, zero: u64, columns: usize, style: Style) -> [String; 2] {
    let length = range.end - range.start;
    let (begin, end) = (range.start - zero, range.end - zero);
    let (unit, name) = unit(end, style);
    // A label and a gap may need a dozen columns.
    let step = step(length, (columns / 12).max(1) as u64);
    let (mark, line) = if style.unicode {
        ('┬', '─')
    } else {
        ('+', '-')
    };
    let mut ruler = vec![line; columns];
    let mut labels = String::new();
    let mut written = 0;
    let mut at = begin.div_ceil(step).saturating_mul(step);
    while at < end {
        let column = column(at - begin, length, columns);
        ruler[column] = mark;
        let label = format!("{}{name}", decimal(at, unit));
        let size = label.chars().count();
        // A label that would reach behind the edge ends there.
        let place = column.min(columns.saturating_sub(size));
        if written == 0 || place > written {
            labels.extend(std::iter::repeat_n(' ', place - written));
            labels.push_str(&label);
            written = place + size;
        }
        let Some(next) = at.checked_add(step) else {
            break;
        };
        at = next;
    }
    [labels, ruler.into_iter().collect()]
}

/// The column of a moment, counted from the range's start.
fn column(at: u64, length: u64, columns: usize) -> usize {
    let column = u128::from(at) * columns as u128 / u128::from(length.max(1));
    (column as usize).min(columns - 1)
}

/// The unit in which the largest number has one to five digits.
fn unit(most: u64, style: Style) -> (u64, &'static str) {
    match most {
        0..10_000 => (1, " ns"),
        10_000..10_000_000 => (1_000, if style.unicode { " µs" } else { " us" }),
        10_000_000..10_000_000_000 => (1_000_000, " ms"),
        _ => (1_000_000_000, " s"),
    }
}

/// A step of 1, 2 or 5 and zeros that cuts `length` into `parts` at most.
fn step(length: u64, parts: u64) -> u64 {
    let mut step = 1u64;
    for factor in [2, 5, 10].into_iter().cycle() {
        if length / step <= parts {
            return step;
        }
        let base = 10u64.pow(step.ilog10());
        let Some(next) = base.checked_mul(factor) else {
            return step;
        };
        step = next;
    }
    step
}

/// `at / unit` with as many decimals as it has.
fn decimal(at: u64, unit: u64) -> String {
    let (whole, part) = (at / unit, at % unit);
    if part == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let text = format!("{whole}.{part:0digits$}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Extent, Layer};

    #[test]
    fn steps_are_round() {
        assert_eq!(step(1_000, 5), 200);
        assert_eq!(step(999, 1), 500);
        assert_eq!(step(1, 4), 1);
        assert_eq!(step(60_000_000, 4), 20_000_000);
        assert!(u64::MAX / step(u64::MAX, 4) <= 4);
    }

    #[test]
    fn marks_stand_under_their_labels() {
        let lines = lines(&(1_000..101_000), 1_000, 60, Style::default());
        assert_eq!(
            lines[0],
            "0 µs        20 µs       40 µs       60 µs       80 µs"
        );
        assert_eq!(lines[1].chars().filter(|&mark| mark == '┬').count(), 5);
        assert_eq!(lines[1].chars().count(), 60);
    }

    #[test]
    fn an_event_is_shown_with_its_surroundings() {
        let mut event = Event::new(1, Layer::Driver, Category::Memory, "cuMemAlloc", 150_000);
        assert_eq!(around(&event, 100_000), 30_000..70_000);
        event.extent = Extent::Closed(100_000);
        assert_eq!(around(&event, 100_000), 0..350_000);
    }
}
