//! C's printf conversions, for device printf.

/// A part of a format string.
pub enum FormatPart<'f> {
    Text(&'f [u8]),
    Conversion(Conversion),
}

/// `%-8.3lld` and the like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    pub width_argument: bool,
    precision: Option<usize>,
    pub precision_argument: bool,
    /// Bytes of an integer argument after its length modifier.
    length: u8,
    letter: u8,
}

/// Wider output than this is not what anybody meant.
const MAX_WIDTH: usize = 4096;

/// Splits a format string.
pub fn pieces(format: &[u8]) -> Vec<FormatPart<'_>> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(percent) = rest.iter().position(|&byte| byte == b'%') {
        if percent > 0 {
            pieces.push(FormatPart::Text(&rest[..percent]));
        }
        let after = &rest[percent + 1..];
        match parse(after) {
            Some((_, used)) if after[used - 1] == b'%' => {
                pieces.push(FormatPart::Text(b"%"));
                rest = &after[used..];
            }
            Some((conversion, used)) => {
                pieces.push(FormatPart::Conversion(conversion));
                rest = &after[used..];
            }
            None => {
                pieces.push(FormatPart::Text(b"%"));
                rest = after;
            }
        }
    }
    if !rest.is_empty() {
        pieces.push(FormatPart::Text(rest));
    }
    pieces
}

/// Reads a conversion behind its `%`; how many bytes it took.
fn parse(text: &[u8]) -> Option<(Conversion, usize)> {
    let mut conversion = Conversion {
        length: 4,
        ..Conversion::default()
    };
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'-' => conversion.left = true,
            b'+' => conversion.plus = true,
            b' ' => conversion.space = true,
            b'#' => conversion.alternate = true,
            b'0' => conversion.zero = true,
            _ => break,
        }
        at += 1;
    }
    let number = |at: &mut usize| {
        let mut value = 0usize;
        while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
            value = (value * 10 + usize::from(digit - b'0')).min(MAX_WIDTH);
            *at += 1;
        }
        value
    };
    if text.get(at) == Some(&b'*') {
        conversion.width_argument = true;
        at += 1;
    } else {
        conversion.width = number(&mut at);
    }
    if text.get(at) == Some(&b'.') {
        at += 1;
        if text.get(at) == Some(&b'*') {
            conversion.precision_argument = true;
            at += 1;
        } else {
            conversion.precision = Some(number(&mut at));
        }
    }
    let (length, skip) = match text.get(at..)? {
        [b'h', b'h', ..] => (1, 2),
        [b'h', ..] => (2, 1),
        [b'l', b'l', ..] => (8, 2),
        [b'l' | b'j' | b'z' | b't', ..] => (8, 1),
        [b'L', ..] => (8, 1),
        _ => (4, 0),
    };
    conversion.length = length;
    at += skip;
    conversion.letter = *text.get(at)?;
    let is_known = matches!(
        conversion.letter,
        b'd' | b'i'
            | b'u'
            | b'x'
            | b'X'
            | b'o'
            | b'c'
            | b's'
            | b'p'
            | b'f'
            | b'F'
            | b'e'
            | b'E'
            | b'g'
            | b'G'
            | b'a'
            | b'A'
            | b'%'
    );
    is_known.then_some((conversion, at + 1))
}

impl Conversion {
    pub fn set_width(&mut self, width: i32) {
        self.left |= width < 0;
        self.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
    }

    pub fn set_precision(&mut self, precision: i32) {
        self.precision = usize::try_from(precision).ok().map(|p| p.min(MAX_WIDTH));
    }

    pub fn is_string(&self) -> bool {
        self.letter == b's'
    }

    fn is_float(&self) -> bool {
        b"fFeEgGaA".contains(&self.letter)
    }

    /// Bytes of the argument in the packed buffer: promoted as C promotes.
    pub fn bytes(&self) -> u8 {
        match self.letter {
            b's' | b'p' => 8,
            b'c' => 4,
            _ if self.is_float() => 8,
            _ => self.length.max(4),
        }
    }

    fn pad(&self, body: &[u8], out: &mut Vec<u8>) {
        let fill = self.width.saturating_sub(body.len());
        if !self.left {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
        out.extend_from_slice(body);
        if self.left {
            out.extend(std::iter::repeat_n(b' ', fill));
        }
    }

    /// Sign or prefix, zeros if asked for, digits.
    fn assemble(&self, prefix: &str, digits: &str, zero: bool, out: &mut Vec<u8>) {
        let mut body = prefix.as_bytes().to_vec();
        if zero && !self.left {
            let fill = self.width.saturating_sub(prefix.len() + digits.len());
            body.extend(std::iter::repeat_n(b'0', fill));
        }
        body.extend_from_slice(digits.as_bytes());
        self.pad(&body, out);
    }

    pub fn string(&self, string: &[u8], out: &mut Vec<u8>) {
        let shown = match self.precision {
            Some(precision) => &string[..precision.min(string.len())],
            None => string,
        };
        self.pad(shown, out);
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    pub fn number(&self, bits: u64, out: &mut Vec<u8>) {
        match self.letter {
            b'c' => self.pad(&[bits as u8], out),
            b'p' => {
                let digits = match bits {
                    0 => return self.pad(b"(nil)", out),
                    bits => format!("{bits:x}"),
                };
                self.assemble("0x", &digits, self.zero, out);
            }
            _ if self.is_float() => self.float(f64::from_bits(bits), out),
            b'd' | b'i' => {
                let shift = 64 - u32::from(self.length) * 8;
                let value = (bits << shift) as i64 >> shift;
                let digits = value.unsigned_abs().to_string();
                self.integer(self.sign(value < 0), digits, value == 0, out);
            }
            letter => {
                let value = bits & (u64::MAX >> (64 - u32::from(self.length) * 8));
                let (prefix, digits) = match letter {
                    b'x' => ("0x", format!("{value:x}")),
                    b'X' => ("0X", format!("{value:X}")),
                    b'o' => ("", format!("{value:o}")),
                    _ => ("", value.to_string()),
                };
                let prefix = if self.alternate && value != 0 {
                    prefix
                } else {
                    ""
                };
                let digits = if letter == b'o' && self.alternate && value != 0 {
                    format!("0{digits}")
                } else {
                    digits
                };
                // %#o always shows a zero.
                let may_vanish = value == 0 && !(letter == b'o' && self.alternate);
                self.integer(prefix, digits, may_vanish, out);
            }
        }
    }

    fn integer(&self, prefix: &str, mut digits: String, may_vanish: bool, out: &mut Vec<u8>) {
        if let Some(precision) = self.precision {
            if precision == 0 && may_vanish {
                digits.clear();
            }
            while digits.len() < precision {
                digits.insert(0, '0');
            }
        }
        // A precision switches zero padding off.
        self.assemble(prefix, &digits, self.zero && self.precision.is_none(), out);
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) {
        let is_upper = self.letter.is_ascii_uppercase();
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            let name = match (magnitude.is_nan(), is_upper) {
                (true, false) => "nan",
                (true, true) => "NAN",
                (false, false) => "inf",
                (false, true) => "INF",
            };
            return self.assemble(sign, name, false, out);
        }
        let precision = self.precision.unwrap_or(6);
        let mut prefix = sign.to_string();
        let digits = match self.letter.to_ascii_lowercase() {
            b'f' => fixed(magnitude, precision, self.alternate),
            b'e' => exponential(magnitude, precision, self.alternate),
            b'g' => general(magnitude, precision.max(1), self.alternate),
            _ => {
                prefix.push_str("0x");
                hexadecimal(magnitude, self.precision, self.alternate)
            }
        };
        if is_upper {
            let (prefix, digits) = (prefix.to_uppercase(), digits.to_uppercase());
            self.assemble(&prefix, &digits, self.zero, out);
        } else {
            self.assemble(&prefix, &digits, self.zero, out);
        }
    }
}

fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let mut text = format!("{value:.precision$}");
    if alternate && precision == 0 {
        text.push('.');
    }
    text
}

fn exponential(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.abs())
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    let is_fixed = exponent >= -4 && exponent < precision as i32;
    let text = if is_fixed {
        let places = (precision as i32 - 1 - exponent).max(0) as usize;
        fixed(value, places, alternate)
    } else {
        exponential(value, precision - 1, alternate)
    };
    if alternate {
        return text;
    }
    let (mantissa, tail) = match text.split_once('e') {
        Some((mantissa, tail)) => (mantissa, format!("e{tail}")),
        None => (text.as_str(), String::new()),
    };
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    format!("{mantissa}{tail}")
}

fn hexadecimal(value: f64, precision: Option<usize>, alternate: bool) -> String {
    let bits = value.to_bits();
    let mut fraction = bits & ((1 << 52) - 1);
    let mut exponent = (bits >> 52 & 0x7FF) as i64 - 1023;
    let mut lead = 1u64;
    if value == 0.0 {
        (lead, exponent) = (0, 0);
    } else if exponent == -1023 {
        (lead, exponent) = (0, -1022);
    }
    let mut digits = 13;
    if let Some(precision) = precision.filter(|&precision| precision < 13) {
        let drop = (13 - precision as u32) * 4;
        let whole = lead << 52 | fraction;
        let half = 1u64 << (drop - 1);
        let mut kept = whole >> drop;
        let rest = whole & ((1 << drop) - 1);
        if rest > half || (rest == half && kept & 1 == 1) {
            kept += 1;
        }
        digits = precision;
        lead = kept >> (precision * 4);
        fraction = kept & ((1u64 << (precision * 4)) - 1);
    }
    let mut text = if digits == 0 {
        String::new()
    } else {
        format!("{fraction:0digits$x}")
    };
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(precision) => {
            while text.len() < precision {
                text.push('0');
            }
        }
    }
    let point = if text.is_empty() && !alternate {
        ""
    } else {
        "."
    };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{lead}{point}{text}p{sign}{}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same through C's printf.
    fn expected(format: &str, bits: u64) -> Vec<u8> {
        let mut buffer = vec![0u8; 8192];
        let format_c = std::ffi::CString::new(format).unwrap();
        let is_float = format.ends_with(|c: char| "fFeEgGaA".contains(c));
        // SAFETY: the buffer is as long as said, the argument is what the conversion reads.
        let length = unsafe {
            let (to, size) = (buffer.as_mut_ptr().cast(), buffer.len());
            if is_float {
                libc::snprintf(to, size, format_c.as_ptr(), f64::from_bits(bits))
            } else {
                libc::snprintf(to, size, format_c.as_ptr(), bits)
            }
        };
        buffer.truncate(length as usize);
        buffer
    }

    fn ours(format: &str, bits: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces(format.as_bytes()) {
            match piece {
                FormatPart::Text(text) => out.extend_from_slice(text),
                FormatPart::Conversion(conversion) => conversion.number(bits, &mut out),
            }
        }
        out
    }

    #[test]
    fn numbers_print_as_c_prints_them() {
        let integers = [
            0,
            1,
            42,
            u64::MAX,
            1 << 31,
            1 << 63,
            0x7FFF_FFFF,
            0x1234_5678_9ABC,
        ];
        let floats = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            123456789.0,
            1e-5,
            1e-4,
            9.9999995e5,
            1e100,
            1e-310,
            999999.5,
            0.5,
            2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            std::f64::consts::PI,
        ];
        let flags = ["", "-", "0", "+", " ", "#", "#0", "-+", "+0"];
        let widths = ["", "1", "12", "30", ".0", ".3", "12.4", "20.15"];
        for flag in flags {
            for width in widths {
                for letter in [
                    "d", "i", "u", "x", "X", "o", "hd", "hu", "lld", "llu", "llx", "ld",
                ] {
                    let format = format!("<%{flag}{width}{letter}");
                    for bits in integers {
                        assert_eq!(
                            ours(&format, bits),
                            expected(&format, bits),
                            "{format} {bits}"
                        );
                    }
                }
                for letter in ["f", "F", "e", "E", "g", "G", "a", "A"] {
                    let format = format!("<%{flag}{width}{letter}");
                    for value in floats {
                        // glibc loses the zeros of %#g where rounding adds a digit.
                        if flag.contains('#') && "gG".contains(letter) && value > 999_999.0 {
                            continue;
                        }
                        let bits = value.to_bits();
                        let (ours, expected) = (ours(&format, bits), expected(&format, bits));
                        let shown = String::from_utf8_lossy(&ours);
                        assert_eq!(
                            shown,
                            String::from_utf8_lossy(&expected),
                            "{format} {value}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn percent_and_unknown_conversions_are_text() {
        assert_eq!(ours("100%% %q", 0), b"100% %q");
        assert_eq!(ours("50%", 0), b"50%");
    }
}
