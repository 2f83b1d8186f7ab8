//! What hooks counted in the kernel, drawn as bpftrace draws it: users know how to read that.

use crate::printable;
use event::{Aggregate, Bucket};
use std::fmt::Write as _;

/// Columns of the longest bar.
const BAR: u64 = 52;

/// A line for each count, a drawing for each histogram; nothing if there is none.
pub fn aggregates_text(aggregates: &[Aggregate]) -> String {
    let mut text = String::new();
    for aggregate in aggregates {
        let key = printable(&aggregate.key);
        let of = printable(&aggregate.of);
        if aggregate.histogram.is_empty() {
            let _ = writeln!(text, "@{of}[{key}]: {}", aggregate.count);
            continue;
        }
        if !text.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
        let _ = writeln!(text, "@{of}[{key}]:");
        bars(&mut text, &aggregate.histogram);
        let _ = write!(text, "count {}", aggregate.count);
        if let Some(total) = aggregate.total {
            let count = i64::try_from(aggregate.count).unwrap_or(i64::MAX).max(1);
            let _ = write!(text, ", average {}, total {total}", total / count);
        }
        text.push_str("\n\n");
    }
    text
}

fn bars(text: &mut String, histogram: &[Bucket]) {
    let most = histogram.iter().map(|bucket| bucket.count).max();
    let most = most.unwrap_or(0).max(1);
    let mut line = |bucket: &Bucket| {
        let width = (u128::from(bucket.count) * u128::from(BAR) / u128::from(most)) as usize;
        let bar = "@".repeat(width);
        let _ = writeln!(text, "{:<16}{:>8} |{bar:<52}|", label(bucket), bucket.count);
    };
    let mut before: Option<Bucket> = None;
    for bucket in histogram {
        // Where nothing was, between what was: a gap is to be seen.
        let mut next = before.and_then(|before| before.to);
        while let Some(from) = next
            && bucket.from.is_some_and(|wanted| from < wanted)
        {
            let empty = Bucket {
                from: Some(from),
                to: Some(from.saturating_mul(2).max(1)),
                count: 0,
            };
            next = empty.to.filter(|to| *to > from);
            line(&empty);
        }
        line(bucket);
        before = Some(*bucket);
    }
}

/// `[512, 1K)`; `[0]`, `[1]` for single numbers.
fn label(bucket: &Bucket) -> String {
    match (bucket.from, bucket.to) {
        (None, _) => "(..., 0)".to_owned(),
        (Some(from), Some(to)) if to - from.min(to) == 1 => format!("[{from}]"),
        (Some(from), Some(to)) => format!("[{}, {})", short(from), short(to)),
        (Some(from), None) => format!("[{}, ...)", short(from)),
    }
}

/// 2048 is 2K.
fn short(number: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let power = (number.max(1).ilog2() / 10).min(6) as usize;
    format!("{}{}", number >> (10 * power), UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_as_bpftrace_draws() {
        let key = "uprobe:/usr/lib/libcuda.so.1:cuInit".to_owned();
        let counted = Aggregate {
            key: key.clone(),
            of: "count".into(),
            count: 5000,
            ..Aggregate::default()
        };
        let histogram = vec![
            Bucket::below_zero(408),
            Bucket::zero(136),
            Bucket::power(0, 136),
            Bucket::power(1, 270),
            Bucket::power(4, 2160),
            Bucket::power(10, 1),
        ];
        let drawn = Aggregate {
            key,
            of: "arg1".into(),
            count: 3111,
            total: Some(-7),
            histogram,
        };
        insta::assert_snapshot!(aggregates_text(&[counted, drawn]), @r"
        @count[uprobe:/usr/lib/libcuda.so.1:cuInit]: 5000

        @arg1[uprobe:/usr/lib/libcuda.so.1:cuInit]:
        (..., 0)             408 |@@@@@@@@@                                           |
        [0]                  136 |@@@                                                 |
        [1]                  136 |@@@                                                 |
        [2, 4)               270 |@@@@@@                                              |
        [4, 8)                 0 |                                                    |
        [8, 16)                0 |                                                    |
        [16, 32)            2160 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [32, 64)               0 |                                                    |
        [64, 128)              0 |                                                    |
        [128, 256)             0 |                                                    |
        [256, 512)             0 |                                                    |
        [512, 1K)              0 |                                                    |
        [1K, 2K)               1 |                                                    |
        count 3111, average 0, total -7
        ");
    }

    #[test]
    fn numbers_are_shortened_as_bpftrace_does() {
        let shown = |power| label(&Bucket::power(power, 1));
        assert_eq!(shown(0), "[1]");
        assert_eq!(shown(9), "[512, 1K)");
        assert_eq!(shown(13), "[8K, 16K)");
        assert_eq!(shown(19), "[512K, 1M)");
        assert_eq!(shown(63), "[8E, ...)");
        assert_eq!(aggregates_text(&[]), "");
    }
}
