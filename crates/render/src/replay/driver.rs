//! A request to NVIDIA's driver in words, from the `decoded` map that docs/IOCTLS.md describes:
//! `RM_CONTROL ch:0x5c00001c(HOPPER_CHANNEL_GPFIFO_A) GPFIFO_SCHEDULE {…} → NV_OK`.

use super::text::{argument, arrow, value};
use crate::{Style, html::label::without_class, printable};
use event::{Arg, Value};

/// Writes the request, if the map is of one that was decoded beyond its number and name.
pub fn request(line: &mut String, decoded: &[Arg], style: &Style) -> bool {
    let find = |name: &str| {
        let arg = decoded.iter().find(|arg| &*arg.name == name);
        arg.map(|arg| &arg.value)
    };
    let further = ["control", "class", "object", "args", "results", "status"];
    let Some(name) = find("name").and_then(Value::as_str) else {
        return false;
    };
    if !further.iter().any(|name| find(name).is_some()) {
        return false;
    }
    line.push_str(&printable(name.strip_prefix("NV_ESC_").unwrap_or(name)));
    for name in ["class", "object", "control"] {
        match find(name) {
            Some(Value::Str(text)) => {
                line.push(' ');
                line.push_str(&printable(without_class(text)));
            }
            Some(other) => {
                line.push(' ');
                value(line, other, style);
            }
            None => {}
        }
    }
    fields(line, find("args"), style);
    let (status, results) = (find("status").and_then(Value::as_str), find("results"));
    if status.is_some() || results.is_some() {
        line.push(' ');
        line.push_str(arrow(style).trim());
    }
    if let Some(status) = status {
        line.push(' ');
        line.push_str(&printable(status));
    }
    fields(line, results, style);
    true
}

fn fields(line: &mut String, map: Option<&Value>, style: &Style) {
    let Some(Value::Map(args)) = map else { return };
    let mut separator = " {";
    for arg in args {
        line.push_str(separator);
        separator = ", ";
        argument(line, arg, "=", style);
    }
    if !args.is_empty() {
        line.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_in_words() {
        let style = Style::default();
        let mut line = String::new();
        let control = [
            Arg::new("nr", 42u64),
            Arg::new("name", "NV_ESC_RM_CONTROL"),
            Arg::new("control", "NVA06C_CTRL_CMD_SET_TIMESLICE"),
            Arg::new("object", "tsg:0x5c000015(KEPLER_CHANNEL_GROUP_A)"),
            Arg::new("args", Value::Map(vec![Arg::new("timesliceUs", 2048u64)])),
            Arg::new("status", "NV_OK"),
        ];
        assert!(request(&mut line, &control, &style));
        assert_eq!(
            line,
            "RM_CONTROL tsg:0x5c000015(KEPLER_CHANNEL_GROUP_A) SET_TIMESLICE {timesliceUs=2048} → NV_OK"
        );
        assert!(
            !request(&mut line, &control[..2], &style),
            "nothing more is known"
        );
        assert!(!request(&mut line, &[], &style));
    }
}
