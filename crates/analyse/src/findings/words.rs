//! Numbers in sentences.

pub use event::counted;

/// `3.2 ms`
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", short(value))
}

/// `1.5 MiB`
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{count} B"),
                _ => format!("{} {unit}", short(value)),
            };
        }
        value /= 1024.0;
    }
    format!("{} EiB", short(value))
}

/// `12 %`
pub fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// A kernel's name as it fits into a sentence.
pub fn kernel(name: &str) -> String {
    names::short_name(name)
}

/// One decimal where it matters.
fn short(value: f64) -> String {
    if value >= 99.95 || (value - value.round()).abs() < 0.05 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1_500, 80_000_000, 2_000_000_000].map(time),
            ["0 ns", "999 ns", "1.5 µs", "80 ms", "2 s"]
        );
        assert_eq!(
            [0, 1_023, 1_536, 32 << 20, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.5 KiB", "32 MiB", "16 EiB"]
        );
        assert_eq!([0.0, 0.123, 1.0].map(percent), ["0 %", "12.3 %", "100 %"]);
        assert_eq!(counted(1, "copy", "copies"), "1 copy");
    }
}
