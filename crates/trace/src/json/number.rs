//! Fixed-point numbers: times are written in milli- and microseconds and must come back as the
//! same nanoseconds, which no double promises.

/// Append `value` with so many of its digits after the point.
#[inline]
pub fn write_fixed<const DECIMALS: usize>(out: &mut Vec<u8>, value: i64) {
    let scale = 10u64.pow(DECIMALS as u32);
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    super::write::uint(out, magnitude / scale);
    let mut part = magnitude % scale;
    let mut digits = [b'0'; DECIMALS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (part % 10) as u8;
        part /= 10;
    }
    out.push(b'.');
    out.extend_from_slice(&digits);
}

/// Read a JSON number token as an integer of units 10^-decimals, to the nearest.
///
/// Plain decimals are exact; exponents, which other tools may write, go through a double.
#[inline]
pub fn parse_fixed(token: &str, decimals: usize) -> Option<i64> {
    let (negative, digits) = match token.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token),
    };
    let bytes = digits.as_bytes();
    let whole = bytes
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(bytes.len());
    let part = match bytes.get(whole) {
        None => &[],
        Some(b'.') => &bytes[whole + 1..],
        Some(_) => return through_double(token, decimals),
    };
    if whole == 0 {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in &bytes[..whole] {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    if !part.iter().all(u8::is_ascii_digit) {
        return through_double(token, decimals);
    }
    for place in 0..decimals {
        let digit = part.get(place).map_or(0, |digit| digit - b'0');
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if part.get(decimals).is_some_and(|&digit| digit >= b'5') {
        value = value.checked_add(1)?;
    }
    if negative {
        0i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

fn through_double(token: &str, decimals: usize) -> Option<i64> {
    let scaled = token.parse::<f64>().ok()? * 10f64.powi(decimals as i32);
    // Beyond 2⁶³ the cast would saturate in silence.
    (scaled.abs() < 9.2e18).then(|| scaled.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nanoseconds_survive(value: i64) {
            let mut out = Vec::new();
            write_fixed::<6>(&mut out, value);
            let text = String::from_utf8(out).expect("digits");
            prop_assert_eq!(parse_fixed(&text, 6), Some(value));
        }
    }

    #[test]
    fn other_spellings_are_read_too() {
        assert_eq!(parse_fixed("0.001234", 6), Some(1234));
        assert_eq!(parse_fixed("1", 6), Some(1_000_000));
        assert_eq!(parse_fixed("0.0012340000000000001", 6), Some(1234));
        assert_eq!(parse_fixed("0.0012339999999999999", 6), Some(1234));
        assert_eq!(parse_fixed("1.5e-05", 6), Some(15));
        assert_eq!(parse_fixed("-0.5", 3), Some(-500));
        for wrong in [
            "",
            "-",
            ".5",
            "1.2.3",
            "abc",
            "1e999",
            "99999999999999999999",
        ] {
            assert_eq!(parse_fixed(wrong, 6), None, "{wrong}");
        }
    }
}
