//! PTX number literals: decimal, hexadecimal, octal and binary integers with an optional `U`,
//! exact `0f`/`0d` floats, decimal floats.

use crate::token::Kind;

/// Why a text that begins with a digit is no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumberError {
    #[error("expected {digits} hexadecimal digits after {prefix}")]
    ExactDigits { digits: u8, prefix: &'static str },
    #[error("`{0}` inside a number")]
    Inside(char),
    #[error("the integer does not fit into 64 bits")]
    TooLarge,
    #[error("expected digits after the radix prefix")]
    NoDigits,
    #[error("`{0}` is not a number")]
    NotANumber(String),
}

/// Reads the literal at the start of `bytes`: its kind and its length.
pub(crate) fn scan_number(bytes: &[u8]) -> Result<(Kind, usize), NumberError> {
    let (kind, len) = match bytes {
        [b'0', b'f' | b'F', ..] => {
            let bits = exact_hex(&bytes[2..], 8).ok_or(NumberError::ExactDigits {
                digits: 8,
                prefix: "0f",
            })?;
            (Kind::Float32(bits as u32), 10)
        }
        [b'0', b'd' | b'D', ..] => {
            let bits = exact_hex(&bytes[2..], 16).ok_or(NumberError::ExactDigits {
                digits: 16,
                prefix: "0d",
            })?;
            (Kind::Float64(bits), 18)
        }
        [b'0', b'x' | b'X', ..] => integer(bytes, 2, 16)?,
        [b'0', b'b' | b'B', ..] => integer(bytes, 2, 2)?,
        _ => match decimal_float_len(bytes) {
            Some(len) => (decimal_float(&bytes[..len])?, len),
            None if bytes[0] == b'0' => integer(bytes, 0, 8)?,
            None => integer(bytes, 0, 10)?,
        },
    };
    match bytes.get(len) {
        Some(b) if b.is_ascii_alphanumeric() || *b == b'_' => Err(NumberError::Inside(*b as char)),
        _ => Ok((kind, len)),
    }
}

fn exact_hex(bytes: &[u8], digits: usize) -> Option<u64> {
    let text = bytes
        .get(..digits)
        .filter(|t| t.iter().all(u8::is_ascii_hexdigit))?;
    Some(fold_digits(text, 16)?.0)
}

fn integer(bytes: &[u8], prefix: usize, radix: u32) -> Result<(Kind, usize), NumberError> {
    let (value, digits) = fold_digits(&bytes[prefix..], radix).ok_or(NumberError::TooLarge)?;
    if digits == 0 {
        return Err(NumberError::NoDigits);
    }
    let mut len = prefix + digits;
    let suffix = bytes.get(len) == Some(&b'U');
    len += usize::from(suffix);
    let unsigned = suffix || value > i64::MAX as u64;
    Ok((Kind::Int { value, unsigned }, len))
}

/// The value of the leading digits and how many there are; None on overflow.
fn fold_digits(bytes: &[u8], radix: u32) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut count = 0;
    for digit in bytes.iter().map_while(|b| (*b as char).to_digit(radix)) {
        value = value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))?;
        count += 1;
    }
    Some((value, count))
}

/// `1.5`, `1.`, `.5`, `1e9`, `1.5e-3`: the length, or None if it is not a float.
fn decimal_float_len(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut len = digits(0);
    let mut float = false;
    if bytes.get(len) == Some(&b'.') {
        float = true;
        len += 1;
        len += digits(len);
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits((len + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            float = true;
            len += 1 + sign + exponent;
        }
    }
    float.then_some(len)
}

fn decimal_float(bytes: &[u8]) -> Result<Kind, NumberError> {
    let text = String::from_utf8_lossy(bytes);
    let value: f64 = text
        .parse()
        .map_err(|_| NumberError::NotANumber(text.into_owned()))?;
    Ok(Kind::Float64(value.to_bits()))
}
