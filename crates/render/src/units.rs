//! Numbers as people read them: times, sizes, counts and shares.

use crate::Style;

/// `812 ns`, `20.1 µs`, `3.25 ms`, `1.50 s`, `2 min 05 s`, `3 h 02 min`: three digits that matter.
pub fn time(ns: u64, style: &Style) -> String {
    const UNITS: [(u64, f64); 3] = [
        (1_000_000, 1e3),
        (1_000_000_000, 1e6),
        (60_000_000_000, 1e9),
    ];
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let names = [style.micro(), "ms", "s"];
    for ((below, scale), name) in UNITS.into_iter().zip(names) {
        let digits = three_digits(ns as f64 / scale);
        // 999.96 µs would be rounded to 1000 µs: that is the next unit's 1.00.
        if ns < below && (digits.as_str() != "1000" || name == "s") {
            return format!("{digits} {name}");
        }
    }
    let seconds = ns / 1_000_000_000;
    if seconds < 3_600 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60)
    }
}

/// `512 B`, `4.00 KiB`, `3.81 MiB`.
pub fn bytes(count: u64) -> String {
    if count < 1_024 {
        return format!("{count} B");
    }
    let mut size = count as f64;
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        size /= 1_024.0;
        if size < 999.5 || unit == "EiB" {
            return format!("{} {unit}", three_digits(size));
        }
    }
    unreachable!("the last unit takes everything")
}

/// `12.3 GB/s`, in powers of ten as bandwidths are given; `-` for no time at all.
pub fn bandwidth(count: u64, ns: u64) -> String {
    if ns == 0 {
        return "-".into();
    }
    let mut rate = count as f64 / (ns as f64 / 1e9);
    for unit in ["B/s", "kB/s", "MB/s", "GB/s"] {
        if rate < 999.5 {
            return format!("{} {unit}", three_digits(rate));
        }
        rate /= 1e3;
    }
    format!("{} TB/s", three_digits(rate))
}

/// `12,345,678`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 copy`, `1,234 copies`
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `42.0 %` of a whole; `-` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if percent > 0.0 && percent < 0.05 {
        "<0.1 %".into()
    } else {
        format!("{percent:.1} %")
    }
}

fn three_digits(number: f64) -> String {
    if number < 9.995 {
        format!("{number:.2}")
    } else if number < 99.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_one_unit() {
        let style = Style::default();
        let shown: Vec<_> = [
            0,
            812,
            1_000,
            20_118,
            999_400,
            999_960,
            3_250_000,
            1_500_000_000,
            59_990_000_000,
            125_000_000_000,
            10_920_000_000_000,
            u64::MAX,
        ]
        .map(|ns| time(ns, &style))
        .into();
        let expected = [
            "0 ns",
            "812 ns",
            "1.00 µs",
            "20.1 µs",
            "999 µs",
            "1.00 ms",
            "3.25 ms",
            "1.50 s",
            "60.0 s",
            "2 min 05 s",
            "3 h 02 min",
            "5124095 h 34 min",
        ];
        assert_eq!(shown, expected);
        let ascii = Style {
            unicode: false,
            ..style
        };
        assert_eq!(time(20_118, &ascii), "20.1 us");
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!(
            [0, 1_023, 1_024, 4_000_000, 1_048_575, u64::MAX].map(bytes),
            [
                "0 B", "1023 B", "1.00 KiB", "3.81 MiB", "1.00 MiB", "16.0 EiB"
            ]
        );
        assert_eq!(bandwidth(12_300_000_000, 1_000_000_000), "12.3 GB/s");
        assert_eq!(bandwidth(1, 0), "-");
    }

    #[test]
    fn counts_and_shares() {
        assert_eq!(
            [7, 999, 1_000, 12_345_678].map(count),
            ["7", "999", "1,000", "12,345,678"]
        );
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(0, 5), "0.0 %");
        assert_eq!(share(5, 0), "-");
    }
}
