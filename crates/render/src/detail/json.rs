//! Numbers and texts of answers as JSON.

use std::fmt::Write;

/// The first number that JavaScript does not know exactly.
const EXACT: u64 = 1 << 53;

/// A number; as a text if it is too large for a page's numbers.
pub fn number(out: &mut String, value: u64) {
    let quote = if value < EXACT { "" } else { "\"" };
    // Writing to a String cannot fail.
    let _ = write!(out, "{quote}{value}{quote}");
}

pub fn value(number: u64) -> serde_json::Value {
    if number < EXACT {
        number.into()
    } else {
        number.to_string().into()
    }
}

pub fn text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// `,"name":[…]`
pub fn column<T>(out: &mut String, name: &str, items: &[T], put: impl Fn(&mut String, &T)) {
    let _ = write!(out, ",\"{name}\":[");
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        put(out, item);
    }
    out.push(']');
}
