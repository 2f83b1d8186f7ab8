//! `--redact`: what of a run does not go into its trace.
//!
//! Left out: the command's arguments and the program's folder, the host's name and boot, GPUs' serial
//! numbers, every text that the program passed (file names, NVTX messages, printed lines), folders in
//! stacks. Kept: names of functions, kernels and libraries, numbers, times, addresses, and the names that
//! CUDA's and the driver's headers have for values.

use event::{Arg, ByStack, Event, Frame, Kind, Meta, Name, Record, Stack, Summary, Value};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::LazyLock,
};

/// What stands for text that is left out.
const REDACTED: &str = "[redacted]";

/// Texts that come from headers, not from the program.
static CONSTANTS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let members = cuda::enumerations().flat_map(|names| names.members);
    members.map(|member| member.name).collect()
});

#[derive(Default)]
pub struct Redaction {
    /// What ranges are called instead: the same name is the same range.
    ranges: HashMap<Name, Name>,
    stacks: ByStack<Stack>,
}

impl Redaction {
    pub fn meta(meta: &mut Meta) {
        command(&mut meta.command);
        meta.host.name = String::new();
        meta.host.boot_id = None;
        meta.identity.run = None;
        meta.identity.container = None;
        // Devices may be chosen by their serial numbers.
        let numbers = |list: &String| {
            list.chars()
                .all(|sign| sign.is_ascii_digit() || sign == ',')
        };
        meta.identity.visible_devices = meta.identity.visible_devices.take().filter(numbers);
        for gpu in &mut meta.gpus {
            gpu.uuid = None;
        }
    }

    pub fn summary(&self, summary: &mut Summary) {
        for process in &mut summary.processes {
            command(&mut process.command);
        }
        // `uprobe:/home/ada/libx.so:f`: its folders.
        for aggregate in &mut summary.aggregates {
            if let Some((way, rest)) = aggregate.key.split_once(":/") {
                aggregate.key = format!("{way}:{}", last_part(rest));
            }
        }
    }

    /// What could not be hooked is listed with its path.
    pub fn missing(lines: &mut [String]) {
        for line in lines {
            let words = line.split(' ').map(|word| match word.starts_with('/') {
                true => last_part(word),
                false => word,
            });
            *line = words.collect::<Vec<_>>().join(" ");
        }
    }

    pub fn record(&mut self, record: &Record) -> Record {
        let mut record = record.clone();
        match &mut record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => {
                if let Some(name) = self.ranges.get(&meaning.name) {
                    meaning.name = name.clone();
                }
            }
            Record::Lost(_) => {}
        }
        record
    }

    fn event(&mut self, event: &mut Event) {
        if is_named_by_program(event) {
            let next = self.ranges.len() + 1;
            let name = self.ranges.entry(event.name.clone());
            event.name = name
                .or_insert_with(|| format!("range {next}").into())
                .clone();
        }
        // What the framework calls its own is no text of the program.
        if event.kind != Kind::Operator {
            all(&mut event.args);
        }
        all(&mut event.outputs);
        if let Some(ioctl) = &mut event.ioctl {
            all(&mut ioctl.decoded);
        }
        if !event.stack.is_empty() {
            event.stack = self.stacks.get_or_insert(&event.stack, stack).clone();
        }
    }
}

/// A stack without its folders.
fn stack(stack: &Stack) -> Stack {
    let mut stack = stack.clone();
    for Frame { module, file, .. } in stack.frames_mut() {
        for path in [module, file].into_iter().flatten() {
            *path = last_part(path).into();
        }
    }
    stack
}

/// Ranges, and of a framework's operators those that the program names itself.
fn is_named_by_program(event: &Event) -> bool {
    let user = cuda::operators::scope::NAMES[usize::from(cuda::operators::scope::USER)];
    let is_user = || event.arg("scope").and_then(Value::as_str) == Some(user);
    event.kind.is_around_calls() && (event.kind != Kind::Operator || is_user())
}

/// The program without its folder, and whether there was more.
fn command(words: &mut Vec<String>) {
    let more = words.len() > 1;
    words.truncate(1);
    for program in words.iter_mut() {
        // One that was written over by the program itself may hold anything.
        *program = match program.contains(char::is_whitespace) {
            true => REDACTED.to_owned(),
            false => last_part(program).to_owned(),
        };
    }
    if more {
        words.push(REDACTED.into());
    }
}

fn all(args: &mut [Arg]) {
    for arg in args {
        value(&mut arg.value);
    }
}

fn value(one: &mut Value) {
    match one {
        Value::Str(text) if !is_constant(text) => *text = REDACTED.into(),
        Value::List(list) => list.iter_mut().for_each(value),
        Value::Map(fields) => all(fields),
        _ => {}
    }
}

/// Names of values, OR-ed ones too: `CU_EVENT_DEFAULT`, `A | B`, `NV_ESC_RM_ALLOC`.
fn is_constant(text: &str) -> bool {
    let of_driver = |name: &str| {
        (name.starts_with("NV") || name.starts_with("UVM_"))
            && name.contains('_')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    text.split('|').map(str::trim).all(|name| {
        CONSTANTS.contains(name)
            || of_driver(name)
            || ["/dev/nvidiactl", "/dev/nvidia-uvm"].contains(&name)
            || name
                .strip_prefix("0x")
                .is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
    })
}

fn last_part(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Layer, ProcessName};

    #[test]
    fn texts_go_and_constants_stay() {
        let mut event = Event::new(1, Layer::Driver, Category::Module, "cuModuleLoad", 5);
        event.args = vec![
            Arg::new("fname", "/home/ada/secret.cubin"),
            Arg::new("flags", "CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING"),
            Arg::new("many", Value::List(vec!["hunter2".into(), 7u64.into()])),
            Arg::new("deep", Value::Map(vec![Arg::new("password", "hunter2")])),
        ];
        event.stack = [Frame {
            file: Some("/home/ada/train.py".into()),
            module: Some("/home/ada/lib/libx.so".into()),
            ..Frame::default()
        }]
        .into();
        let mut redaction = Redaction::default();
        let shown = format!("{:?}", redaction.record(&event.into()));
        assert!(
            !shown.contains("ada") && !shown.contains("hunter2"),
            "{shown}"
        );
        for kept in [
            "CU_EVENT_DISABLE_TIMING",
            "train.py",
            "libx.so",
            "Uint(7)",
            "cuModuleLoad",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }

    #[test]
    fn ranges_keep_their_number_and_lose_their_name() {
        let mut redaction = Redaction::default();
        let mut name = |name: &str| {
            let mut event = Event::new(1, Layer::Library, Category::Other, name, 5);
            event.kind = Kind::Range;
            match redaction.record(&event.into()) {
                Record::Event(event) => event.name.to_string(),
                _ => String::new(),
            }
        };
        assert_eq!(
            [name("patient 7"), name("b"), name("patient 7")],
            ["range 1", "range 2", "range 1"]
        );
    }

    #[test]
    fn the_head_says_no_more_than_the_programs_name() {
        let mut meta = Meta {
            command: ["/home/ada/app", "--password", "hunter2"]
                .map(Into::into)
                .to_vec(),
            ..Meta::default()
        };
        meta.host.name = "vault".into();
        Redaction::meta(&mut meta);
        assert_eq!(meta.command, ["app", REDACTED]);
        assert_eq!(meta.host.name, "");
        let processes = vec![
            ProcessName {
                name: "app".into(),
                command: ["/home/ada/app", "--password", "hunter2"]
                    .map(Into::into)
                    .to_vec(),
                ..ProcessName::default()
            },
            ProcessName {
                name: "serve".into(),
                command: vec!["serve: hunter2".into()],
                ..ProcessName::default()
            },
        ];
        let mut summary = Summary {
            processes,
            ..Summary::default()
        };
        Redaction::default().summary(&mut summary);
        let shown = format!("{summary:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("ada"),
            "{shown}"
        );
        assert_eq!(summary.processes[0].command, ["app", REDACTED]);
    }
}
