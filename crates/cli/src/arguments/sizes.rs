//! Sizes as people type them.

/// `500MB`, `2GB`, `1.5GiB`; a trace smaller than a megabyte says nothing.
pub fn at_least_1mb(text: &str) -> Result<u64, String> {
    let bytes = with_unit(text)?;
    match bytes {
        1_000_000.. => Ok(bytes),
        _ => Err("a trace needs at least 1MB".into()),
    }
}

fn with_unit(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size in MB or GB, such as 500MB or 2GB".to_owned();
    let digits = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * unit as f64;
    match bytes.is_finite() && (0.0..=u64::MAX as f64).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(at_least_1mb("2GB"), Ok(2_000_000_000));
        assert_eq!(at_least_1mb("1.5g"), Ok(1_500_000_000));
        assert_eq!(at_least_1mb("1GiB"), Ok(1 << 30));
        for wrong in ["2", "GB", "-1GB", "999kB", "1e400GB", "nanGB", "2XB", ""] {
            assert!(at_least_1mb(wrong).is_err(), "{wrong}");
        }
    }
}
