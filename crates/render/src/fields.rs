//! What GPU programs send, as a person reads it: values in words, fields by name.

use event::{Arg, Value};

/// Fields by name; those for the three directions of a grid are one.
pub fn grouped_fields(fields: &[Arg]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut rest = fields;
    while let [field, after @ ..] = rest {
        if let ([x, y, z], Some(base)) =
            (rest.get(..3).unwrap_or(&[]), field.name.strip_suffix("_x"))
            && *y.name == *format!("{base}_y")
            && *z.name == *format!("{base}_z")
        {
            let value = format!(
                "({},{},{})",
                words(&x.value),
                words(&y.value),
                words(&z.value)
            );
            all.push((base.to_owned(), value));
            rest = &rest[3..];
        } else {
            all.push((field.name.to_string(), words(&field.value)));
            rest = after;
        }
    }
    all
}

/// A value in words.
pub fn words(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Str(text) => text.to_string(),
        Value::List(list) => {
            let parts: Vec<String> = list.iter().map(words).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Map(fields) => {
            let parts: Vec<String> = (grouped_fields(fields).iter())
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{{{}}}", parts.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_directions_are_one_field() {
        let fields = [
            Arg::new("ts", 7u64),
            Arg::new("block_x", 1u64),
            Arg::new("block_y", 2u64),
            Arg::new("block_z", 3u64),
            Arg::new("thread_x", 4u64),
        ];
        let pairs = [("ts", "7"), ("block", "(1,2,3)"), ("thread_x", "4")];
        assert_eq!(
            grouped_fields(&fields),
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
