//! A decoded call as one line, and as the `decoded` map of a trace.

use std::fmt::{self, Write};

use event::{Arg, Value};

use super::decode::{Decoded, Subject};
use super::file::DeviceFile;

impl Decoded {
    /// `RM_CONTROL ch:0x5c000013(HOPPER_CHANNEL_GPFIFO_A) GPFIFO_GET_WORK_SUBMIT_TOKEN → ok`.
    pub fn line(&self) -> String {
        self.text(false)
    }

    /// The same with arguments and what came back.
    pub fn line_with_details(&self) -> String {
        self.text(true)
    }

    /// The name without what all have in front; the number where there is none.
    pub fn short_name(&self) -> String {
        match self.name {
            Some(name) => name.strip_prefix("NV_ESC_").unwrap_or(name).to_owned(),
            None => format!("ioctl {:#x}", self.cmd),
        }
    }

    fn text(&self, details: bool) -> String {
        let mut line = self.short_name();
        // Writing to a String cannot fail.
        if let Some(class @ Subject::Class { .. }) = self.subject {
            let _ = write!(line, " {}", class.short());
        }
        if let Some(object) = &self.object {
            let _ = write!(line, " {}", Shown(object));
        }
        if let Some(control @ Subject::Control { .. }) = self.subject {
            let _ = write!(line, " {}", control.short());
        }
        if details {
            block(&mut line, &self.said());
        }
        if let Some(status) = self.status {
            let _ = write!(line, " → {status}");
        }
        if details && !self.results.is_empty() {
            if self.status.is_none() {
                line.push_str(" →");
            }
            block(&mut line, &self.results);
        }
        line
    }

    /// The arguments that the line does not say in front already.
    fn said(&self) -> Vec<Arg> {
        let said = ["hClient", "hRoot", "hObject", "hObjectOld", "paramsSize"];
        let rest = self.args.iter().filter(|arg| {
            self.object.is_none()
                || !(said.contains(&&*arg.name) || Some(&arg.value) == self.object.as_ref())
        });
        rest.cloned().collect()
    }

    /// What a trace's `decoded` holds: the number's parts, the name, the subject, the arguments,
    /// the driver's answer. UVM's numbers have no parts.
    pub fn map(&self, file: DeviceFile) -> Vec<Arg> {
        let mut map = Vec::new();
        if !file.is_uvm() {
            map.push(Arg::new("dir", self.ioc.direction.as_str()));
            map.push(Arg::new("type", self.ioc.kind_text()));
            map.push(Arg::new("nr", u64::from(self.ioc.number)));
            map.push(Arg::new("size", u64::from(self.ioc.size)));
        }
        map.extend(self.name.map(|name| Arg::new("name", name)));
        if self.wrapped {
            map.push(Arg::new("wrapped", true));
        }
        match self.subject {
            Some(control @ Subject::Control { id, group, .. }) => {
                let name = match (control.name(), group) {
                    (Some(name), _) => Value::from(name),
                    (None, Some(_)) => Value::from(control.short()),
                    (None, None) => Value::Pointer(id.into()),
                };
                map.push(Arg::new("control", name));
            }
            Some(class @ Subject::Class { id, .. }) => {
                let name = class.name().map_or(Value::Pointer(id.into()), Value::from);
                map.push(Arg::new("class", name));
            }
            None => {}
        }
        map.extend(self.object.clone().map(|object| Arg::new("object", object)));
        if !self.args.is_empty() {
            map.push(Arg::new("args", Value::Map(self.args.clone())));
        }
        if !self.results.is_empty() {
            map.push(Arg::new("results", Value::Map(self.results.clone())));
        }
        if let Some(status) = self.status {
            let name = status
                .name()
                .map_or_else(|| Value::Uint(status.0.into()), Value::from);
            map.push(Arg::new("status", name));
        }
        map.extend(self.doubt.clone().map(|doubt| Arg::new("doubt", doubt)));
        map
    }
}

fn block(line: &mut String, args: &[Arg]) {
    let mut separator = " {";
    for arg in args {
        let _ = write!(
            line,
            "{separator}{}={}",
            Plain(&arg.name),
            Shown(&arg.value)
        );
        separator = ", ";
    }
    if !args.is_empty() {
        line.push('}');
    }
}

/// A value on one line, safe for a terminal.
pub fn shown(value: &Value) -> impl fmt::Display + '_ {
    Shown(value)
}

pub(super) struct Shown<'a>(pub &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Uint(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Pointer(number) => write!(f, "{number:#x}"),
            Value::Str(text) => write!(f, "{}", Plain(text)),
            // Values made here are as deep as the structs of the tables.
            Value::List(list) => {
                f.write_char('[')?;
                for (at, value) in list.iter().enumerate() {
                    let separator = if at == 0 { "" } else { ", " };
                    write!(f, "{separator}{}", Shown(value))?;
                }
                f.write_char(']')
            }
            Value::Map(args) => {
                f.write_char('{')?;
                for (at, arg) in args.iter().enumerate() {
                    let separator = if at == 0 { "" } else { ", " };
                    write!(f, "{separator}{}={}", Plain(&arg.name), Shown(&arg.value))?;
                }
                f.write_char('}')
            }
        }
    }
}

/// Text from the program: a terminal must not obey it.
struct Plain<'a>(&'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            if letter.is_control() {
                write!(f, "{}", letter.escape_default())?;
            } else {
                f.write_char(letter)?;
            }
        }
        Ok(())
    }
}
