//! The text of a line: arguments, results, durations, meanings.

use crate::{Paint, Style, printable, units};
use event::{Arg, Event, Layer, MemoryOp, Value, What};
use std::fmt::Write;

/// Texts among arguments are cut behind so many characters.
const LONGEST_TEXT: usize = 64;
/// Values of a list that are shown.
const LONGEST_LIST: usize = 8;

/// Milliseconds since the start, six decimals as in trace files.
pub fn milliseconds(at: u64, start: u64) -> String {
    let ns = i128::from(at) - i128::from(start);
    let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
    let text = format!("{sign}{}.{:06}", ns / 1_000_000, ns % 1_000_000);
    format!("{text:>13}")
}

/// The place of GPU work: `gpu0 #7`.
pub fn stream(event: &Event) -> String {
    let device = event.device.unwrap_or(0);
    match event.stream {
        None => format!("gpu{device}"),
        Some(stream) if stream < 10_000 => format!("gpu{device} #{stream}"),
        Some(stream) => format!("gpu{device} {:06x}", stream & 0xff_ffff),
    }
}

/// A whole call: `name(args) = result <duration>`.
pub fn call(line: &mut String, event: &Event, style: &Style) {
    head(line, event, true, style);
    result(line, event, style);
}

/// A call that others follow inside of: `name(args) {`.
pub fn open(line: &mut String, event: &Event, style: &Style) {
    head(line, event, false, style);
    line.push_str(" {");
}

/// Its end: `} name = result <duration>`.
pub fn close(line: &mut String, event: &Event, style: &Style) {
    line.push_str("} ");
    line.push_str(&style.paint(Paint::Name, &name(event, style)));
    let mut separator = "(";
    for output in &event.outputs {
        line.push_str(separator);
        separator = ", ";
        argument(line, output, arrow(style), style);
    }
    if !event.outputs.is_empty() {
        line.push(')');
    }
    result(line, event, style);
}

/// A call that never ended.
pub fn unfinished(line: &mut String, event: &Event, opened: bool, style: &Style) {
    if opened {
        line.push_str("} ");
        line.push_str(&style.paint(Paint::Name, &name(event, style)));
    } else {
        head(line, event, false, style);
    }
    line.push_str(" = ? ");
    line.push_str(&style.paint(Paint::Warning, "<unfinished>"));
}

/// A call's name; a kernel's is long, and shown short.
fn name(event: &Event, style: &Style) -> String {
    if event.layer == Layer::Gpu {
        printable(&style.kernel(&event.name))
    } else {
        printable(&event.name)
    }
}

fn head(line: &mut String, event: &Event, outputs: bool, style: &Style) {
    line.push_str(&style.paint(Paint::Name, &name(event, style)));
    // Only calls have brackets; GPU work is named after its kernel, which may have its own.
    let nothing = event.args.is_empty() && event.outputs.is_empty() && event.ioctl.is_none();
    if nothing && matches!(event.layer, Layer::Gpu | Layer::Os | Layer::Device) {
        return;
    }
    line.push('(');
    let mut separator = "";
    for arg in &event.args {
        line.push_str(separator);
        separator = ", ";
        argument(line, arg, "=", style);
    }
    if let Some(ioctl) = &event.ioctl {
        line.push_str(separator);
        separator = ", ";
        decoded(line, ioctl, style);
    }
    if outputs {
        for output in &event.outputs {
            line.push_str(separator);
            separator = ", ";
            argument(line, output, arrow(style), style);
        }
    }
    line.push(')');
}

/// `NV_ESC_RM_ALLOC {size=48, …}`, or the command word where nothing more is known. Requests that
/// were decoded further are told in words.
pub(super) fn decoded(line: &mut String, ioctl: &event::Ioctl, style: &Style) {
    if super::driver::request(line, &ioctl.decoded, style) {
        return;
    }
    let is_name = |arg: &&Arg| &*arg.name == "name";
    let name = ioctl.decoded.iter().find(is_name);
    match name.and_then(|arg| arg.value.as_str()) {
        Some(name) => line.push_str(&printable(name)),
        None => {
            let _ = write!(line, "{:#x}", ioctl.cmd);
        }
    }
    let mut separator = " {";
    for arg in ioctl.decoded.iter().filter(|arg| !is_name(arg)) {
        line.push_str(separator);
        separator = ", ";
        argument(line, arg, "=", style);
    }
    if separator == ", " {
        line.push('}');
    }
}

pub(super) fn argument(line: &mut String, arg: &Arg, sign: &str, style: &Style) {
    line.push_str(&printable(&arg.name));
    line.push_str(sign);
    value(line, &arg.value, style);
}

// Readers bound the nesting of values.
pub(super) fn value(line: &mut String, value_of: &Value, style: &Style) {
    // Writing to a String cannot fail.
    let _ = match value_of {
        Value::Null => write!(line, "NULL"),
        Value::Bool(flag) => write!(line, "{flag}"),
        Value::Int(number) => write!(line, "{number}"),
        Value::Uint(number) => write!(line, "{number}"),
        Value::Float(number) => write!(line, "{number:?}"),
        Value::Pointer(0) => write!(line, "NULL"),
        Value::Pointer(address) => write!(line, "{address:#x}"),
        Value::Str(text) => {
            // Names of constants read better as they are.
            let bare = is_word(text);
            let quote = if bare { "" } else { "\"" };
            let mut shown: String = printable(text).chars().take(LONGEST_TEXT).collect();
            if shown.len() < text.len() && text.chars().count() > LONGEST_TEXT {
                shown.push_str(style.ellipsis());
            }
            write!(line, "{quote}{shown}{quote}")
        }
        Value::List(list) => {
            line.push('[');
            for (place, item) in list.iter().enumerate() {
                if place > 0 {
                    line.push_str(", ");
                }
                if place == LONGEST_LIST {
                    line.push_str(style.ellipsis());
                    break;
                }
                value(line, item, style);
            }
            line.push(']');
            Ok(())
        }
        Value::Map(args) => {
            line.push('{');
            for (place, arg) in args.iter().enumerate() {
                if place > 0 {
                    line.push_str(", ");
                }
                argument(line, arg, "=", style);
            }
            line.push('}');
            Ok(())
        }
    };
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_TEXT && { text.bytes() }
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'|')
}

fn result(line: &mut String, event: &Event, style: &Style) {
    status(line, event, style);
    if let Some(duration) = event.duration() {
        let text = format!("<{}>", units::time(duration, style));
        line.push(' ');
        line.push_str(&style.paint(Paint::Faint, &text));
    }
}

/// ` = CUDA_SUCCESS`
pub(super) fn status(line: &mut String, event: &Event, style: &Style) {
    if let Some(status) = &event.status {
        let text = match &status.name {
            Some(name) => printable(name),
            None => status.code.to_string(),
        };
        line.push_str(" = ");
        if status.code == 0 {
            line.push_str(&text);
        } else {
            line.push_str(&style.paint(Paint::Alarm, &text));
        }
    }
}

/// ` → 3.81 MiB H2D 9.30 GB/s`
pub fn meaning(line: &mut String, what: &What, style: &Style) {
    line.push_str(if style.unicode { " → " } else { " -> " });
    let text = match what {
        What::Memory(memory) => {
            let size = memory.size.map(units::bytes);
            let space = memory.space.map(|space| format!(" {space}"));
            let space = space.unwrap_or_default();
            match (memory.op, size) {
                (MemoryOp::Alloc, size) => {
                    format!("{}{space} at {:#x}", size.unwrap_or_default(), memory.ptr)
                }
                (MemoryOp::Free, Some(size)) => format!("{size}{space} freed"),
                (MemoryOp::Free, None) => format!("{:#x}{space} freed", memory.ptr),
            }
        }
        What::Transfer(transfer) => {
            let size = units::bytes(transfer.size);
            let rate = transfer.duration.filter(|&duration| duration > 0);
            let rate = rate.map(|duration| units::bandwidth(transfer.size, duration));
            let rate = rate.map_or(String::new(), |rate| format!(" {rate}"));
            format!("{size} {}{rate}", transfer.direction)
        }
        What::Launch(launch) => {
            let shared = match launch.shared {
                0 => String::new(),
                bytes => format!(", {}", units::bytes(bytes)),
            };
            format!(
                "{} <<<{}, {}{shared}>>>",
                printable(&style.kernel(&launch.kernel)),
                sizes(launch.grid),
                sizes(launch.block)
            )
        }
    };
    line.push_str(&style.paint(Paint::Good, &text));
}

/// `64`, or `8x8` and `8x8x2` where there are more dimensions.
fn sizes([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

pub(super) fn arrow(style: &Style) -> &'static str {
    if style.unicode { "→" } else { "->" }
}
