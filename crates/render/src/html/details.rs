//! What is known of one event beyond its place on the timeline: arguments, result, stack, meaning. A JSON text
//! for each, made when the span is kept and read by `web/event.js` on demand.

use super::flame::function;
use crate::fields::words;
use ahash::RandomState;
use event::{Arg, ByStack, Event, Frame, Kind, Name, Stack, Value, What};
use serde::Serialize;
use std::collections::HashMap;

/// Characters of one value.
const MAX_VALUE: usize = 240;
/// Arguments of a call, fields of a struct.
const MAX_FIELDS: usize = 96;
/// Structs inside structs.
const MAX_NESTING: usize = 6;
/// Bytes of all texts in memory: beyond it spans are kept without details.
const MAX_BYTES: usize = 48 << 20;
/// Frames of a stack.
const MAX_FRAMES: usize = 64;
/// Stacks, and frames of all stacks.
const MAX_STACKS: usize = 20_000;

/// A name and a value.
type Field = (String, String);

/// As short as it can be: there are tens of thousands of them.
#[derive(Serialize)]
struct Text<'a> {
    /// The event's own name, where it is shown under another.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<&'a str>,
    /// The type of its line, by its place in `Kind::ALL`: a search for a word is no search for types.
    t: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    a: Vec<Field>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    o: Vec<Field>,
    /// The result's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<Request>,
    /// The stack's place among the page's stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<u32>,
    /// The processor, and the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    u: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<String>,
}

/// A decoded ioctl.
#[derive(Serialize)]
struct Request {
    c: String,
    /// What was decoded besides the struct: name, class, control, object.
    d: Vec<Field>,
    /// The struct's fields, and those that the driver changed.
    a: Vec<Field>,
    o: Vec<Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<String>,
}

#[derive(Default)]
pub struct Details {
    bytes: usize,
    pub stacks: Stacks,
}

impl Details {
    /// Of all texts together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is known of an event; empty where it is nothing, or where there is no room. `pinned` ones are few, and have theirs.
    pub fn of(&mut self, event: &Event, shown: &str, pinned: bool) -> String {
        if self.bytes > MAX_BYTES && !pinned {
            return String::new();
        }
        let text = Text {
            n: (*event.name != *shown).then_some(&event.name),
            t: Kind::ALL
                .iter()
                .position(|&kind| kind == event.kind)
                .unwrap_or(0),
            a: fields(&event.args),
            o: fields(&event.outputs),
            r: (event.status.as_ref()).and_then(|status| status.name.as_deref()),
            i: event.ioctl.as_ref().map(|ioctl| request(ioctl)),
            s: self.stacks.index(&event.stack),
            u: event.cpu,
            c: event.context.map(|context| format!("{context:#x}")),
        };
        let text = serde_json::to_string(&text).unwrap_or_default();
        self.bytes += text.len();
        text
    }

    /// A span with these details is no longer kept.
    pub fn forget(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Adds what the call meant.
    pub fn mean(&mut self, text: &mut String, what: &What) {
        if !text.ends_with('}') {
            return;
        }
        let three = |sizes: [u32; 3]| words(&Value::from(sizes.map(u64::from).to_vec()));
        let address = |value: Option<u64>| value.map(|value| format!("{value:#x}"));
        let meaning = match what {
            What::Launch(launch) => serde_json::json!({
                "grid": three(launch.grid), "block": three(launch.block), "shared": launch.shared,
            }),
            What::Transfer(transfer) => serde_json::json!({
                "src": address(transfer.src), "dst": address(transfer.dst),
            }),
            What::Memory(memory) => serde_json::json!({
                "ptr": address(Some(memory.ptr)), "space": memory.space.map(|space| space.as_str()),
            }),
        };
        let before = text.len();
        text.pop();
        text.push_str(",\"m\":");
        text.push_str(&meaning.to_string());
        text.push('}');
        self.bytes += text.len() - before;
    }
}

fn request(ioctl: &event::Ioctl) -> Request {
    let find = |name: &str| ioctl.decoded.iter().find(|arg| &*arg.name == name);
    let part = |name: &str| match find(name).map(|arg| &arg.value) {
        Some(Value::Map(args)) => fields(args),
        _ => Vec::new(),
    };
    let told = [
        "name", "class", "control", "object", "wrapped", "doubt", "facts",
    ];
    Request {
        c: format!("{:#x}", ioctl.cmd),
        d: (told.iter().filter_map(|name| find(name)))
            .map(|arg| (arg.name.to_string(), short(words(&arg.value))))
            .collect(),
        a: part("args"),
        o: part("results"),
        r: find("status").map(|arg| short(words(&arg.value))),
    }
}

/// Arguments by name; those inside of structs behind the struct's name and a point.
fn fields(args: &[Arg]) -> Vec<Field> {
    let mut list = Vec::new();
    flatten(&mut list, "", args, 0);
    list
}

fn flatten(list: &mut Vec<Field>, prefix: &str, args: &[Arg], nesting: usize) {
    for arg in args {
        if list.len() >= MAX_FIELDS {
            return;
        }
        let name = match prefix {
            "" => short(arg.name.to_string()),
            prefix => short(format!("{prefix}.{}", arg.name)),
        };
        match &arg.value {
            Value::Map(inner) if nesting < MAX_NESTING => flatten(list, &name, inner, nesting + 1),
            Value::Map(_) => list.push((name, "{…}".into())),
            Value::List(values) if values.len() > MAX_FIELDS => {
                let first = Value::List(values[..MAX_FIELDS].to_vec());
                list.push((name, short(words(&first))));
            }
            value => list.push((name, short(words(value)))),
        }
    }
}

fn short(mut text: String) -> String {
    if text.len() > MAX_VALUE {
        let mut end = MAX_VALUE;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Stacks, each once, of frames, each once.
#[derive(Default)]
pub struct Stacks {
    frames: HashMap<String, u32, RandomState>,
    known: HashMap<Vec<u32>, u32, RandomState>,
    shared: ByStack<Option<u32>>,
    pub frame_list: Vec<String>,
    /// The function of each frame, as the flame graph calls it.
    pub functions: Vec<Name>,
    pub list: Vec<Vec<u32>>,
}

impl Stacks {
    pub fn index(&mut self, stack: &Stack) -> Option<u32> {
        if stack.is_empty() {
            return None;
        }
        if let Some(&index) = self.shared.get(stack) {
            return index;
        }
        let index = self.index_of(stack);
        *self.shared.get_or_insert(stack, |_| index)
    }

    fn index_of(&mut self, stack: &[Frame]) -> Option<u32> {
        if self.frame_list.len() >= MAX_STACKS {
            return None;
        }
        let frames: Vec<u32> = (stack.iter().take(MAX_FRAMES))
            .map(|frame| self.frame(frame))
            .collect();
        if let Some(&index) = self.known.get(&frames) {
            return Some(index);
        }
        if self.list.len() >= MAX_STACKS {
            return None;
        }
        let index = self.list.len() as u32;
        self.list.push(frames.clone());
        self.known.insert(frames, index);
        Some(index)
    }

    fn frame(&mut self, frame: &Frame) -> u32 {
        let text = frame_text(frame);
        if let Some(&index) = self.frames.get(&text) {
            return index;
        }
        let index = self.frame_list.len() as u32;
        self.frame_list.push(text.clone());
        self.functions
            .push(short(function(frame).to_string()).into());
        self.frames.insert(text, index);
        index
    }
}

/// `forward (model.cpp:17)`, `cublasSgemm_v2+0x40 in libcublas.so.12`, `0x7f32…`.
fn frame_text(frame: &Frame) -> String {
    let base = |path: &Name| path.rsplit('/').next().unwrap_or("").to_owned();
    let mut text = match &frame.symbol {
        Some(symbol) => symbol.to_string(),
        None => format!("{:#x}", frame.address),
    };
    match (&frame.file, frame.line, &frame.module) {
        (Some(file), Some(line), _) => text.push_str(&format!(" ({}:{line})", base(file))),
        (Some(file), None, _) => text.push_str(&format!(" ({})", base(file))),
        (None, _, Some(module)) => text.push_str(&format!(" in {}", base(module))),
        (None, _, None) => {}
    }
    short(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Ioctl, Launch, Layer};

    fn parsed(text: &str) -> serde_json::Value {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn arguments_results_and_meaning_are_told_by_name() {
        let mut details = Details::default();
        let mut event = Event::new(1, Layer::Driver, Category::Kernel, "cuLaunchKernel", 0);
        event.args = vec![Arg::new("hStream", Value::Pointer(7))];
        event.outputs = vec![Arg::new("out", "x\"y")];
        event.stack = [Frame {
            symbol: Some("main".into()),
            file: Some("/src/a.cu".into()),
            line: Some(3),
            ..Frame::default()
        }]
        .into();
        let mut text = details.of(&event, "cuLaunchKernel", false);
        let launch = Launch {
            kernel: "k".into(),
            grid: [4, 1, 1],
            block: [64, 1, 1],
            shared: 16,
        };
        details.mean(&mut text, &What::Launch(launch));
        let read = parsed(&text);
        assert_eq!(read["a"], serde_json::json!([["hStream", "0x7"]]));
        assert_eq!(read["o"], serde_json::json!([["out", "x\"y"]]));
        assert_eq!(read["m"]["grid"], "[4, 1, 1]");
        assert_eq!(read["s"], 0);
        assert_eq!(details.stacks.frame_list, ["main (a.cu:3)"]);
    }

    #[test]
    fn an_ioctl_has_its_struct() {
        let mut details = Details::default();
        let mut event = Event::new(1, Layer::Syscall, Category::Other, "ioctl", 0);
        let inner = Value::Map(vec![Arg::new("hClass", 7u64)]);
        let args = Value::Map(vec![Arg::new("hRoot", 1u64), Arg::new("params", inner)]);
        event.ioctl = Some(Box::new(Ioctl {
            cmd: 0xc030_462b,
            decoded: vec![
                Arg::new("name", "NV_ESC_RM_ALLOC"),
                Arg::new("args", args),
                Arg::new("status", "NV_OK"),
            ],
        }));
        let read = parsed(&details.of(&event, "RM_ALLOC", false));
        assert_eq!(read["n"], "ioctl");
        assert_eq!(
            read["i"]["a"],
            serde_json::json!([["hRoot", "1"], ["params.hClass", "7"]])
        );
        assert_eq!(read["i"]["r"], "NV_OK");
    }

    #[test]
    fn hostile_events_cost_little() {
        let mut details = Details::default();
        let mut event = Event::new(1, Layer::Driver, Category::Other, "f", 0);
        let mut deep = Value::from("é".repeat(10_000));
        for _ in 0..100 {
            deep = Value::Map(vec![Arg::new("x".repeat(5_000), deep)]);
        }
        event.args = vec![Arg::new("deep", deep); 5_000];
        event.args[0] = Arg::new("list", vec![7u64; 1_000_000]);
        event.stack = vec![Frame::default(); 10_000].into();
        let text = details.of(&event, "f", false);
        assert!(text.len() < 64 << 10, "{}", text.len());
        assert_eq!(details.stacks.list[0].len(), MAX_FRAMES);
    }
}
