//! Times as people type them.

use std::time::Duration;

/// A number with a unit.
pub fn with_unit(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("expected a number with ns, us, ms or s, such as 10us".into()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a number"))?;
    length(number * unit, text)
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of seconds"))?;
    length(number, text)
}

fn length(seconds: f64, text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text:?} is not a length of time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(with_unit("10us"), Ok(Duration::from_micros(10)));
        assert_eq!(with_unit("1.5ms"), Ok(Duration::from_micros(1_500)));
        for wrong in ["10", "ms", "-1s", "1e400s", "10 us", "nans"] {
            assert!(with_unit(wrong).is_err(), "{wrong}");
        }
    }
}
