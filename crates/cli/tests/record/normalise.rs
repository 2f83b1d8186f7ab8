//! A trace as text that is the same on every run: times are left out, addresses are named.

use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

/// What is told of.
#[derive(Clone, Copy)]
pub struct View {
    /// Every call, indented by those it was made in; otherwise what the program itself called, and
    /// what that meant.
    pub nested: bool,
    /// A last word about a call's details, by its name.
    pub edit: fn(&str, &mut Value),
}

/// What the program itself called, with everything there is about it.
pub const OWN: View = View {
    nested: false,
    edit: |_, _| {},
};

/// A line for each call, thread by thread: the first one's, then the others', in the order of their
/// text. Addresses and handles that CUDA gave out are numbered until they are given back, others
/// (the program's own memory) are not told apart. Arguments and outputs stand together, for which
/// of a call's two lines a text is in depends on how long the call took. Equal lines are told once,
/// with their count.
pub fn normalised(lines: &[Value], view: View) -> String {
    let mut threads: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for line in lines {
        // When the GPU gets to what it was given varies, and so do samples of it (they are of no
        // thread); both are checked elsewhere.
        let tid = line["tid"].as_u64();
        if let Some(tid) = tid.filter(|&tid| tid != 0 && line["type"] != "gpu") {
            threads.entry(tid).or_default().push(line);
        }
    }
    let mut tids = lines.iter().filter_map(|line| line["tid"].as_u64());
    let first = tids.find(|&tid| tid != 0);
    let mut main = Addresses::default();
    let mut text = String::new();
    if let Some(lines) = first.and_then(|first| threads.remove(&first)) {
        text = thread(&lines, &mut main, view);
    }
    let mut others: Vec<String> = threads
        .values()
        .map(|lines| {
            let mut own = Addresses {
                known: main.ever.clone(),
                ..Addresses::default()
            };
            thread(lines, &mut own, view)
        })
        .collect();
    others.sort();
    for alike in others.chunk_by(|one, other| one == other) {
        let _ = write!(
            text,
            "--- threads like this: {} ---\n{}",
            alike.len(),
            alike[0]
        );
    }
    text
}

fn thread(lines: &[&Value], given: &mut Addresses, view: View) -> String {
    let mut begun: HashMap<u64, (usize, Value)> = HashMap::new();
    // In the order of beginnings, though a call is told of when it has ended.
    let mut all: Vec<(usize, String)> = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let id = line["op_id"].as_u64().unwrap_or_default();
        match line["type"].as_str().expect("a type") {
            "userspace" if line["depth"] != 0 && !view.nested => {}
            "userspace" if line["phase"] == "B" => {
                begun.insert(id, (place, (*line).clone()));
            }
            "userspace" => {
                let (place, begin) = begun.remove(&id).expect("an end has a beginning");
                let depth = line["depth"].as_u64().expect("a depth") as usize;
                let text = call(&begin, line, given, view);
                all.push((place, format!("{:width$}{text}", "", width = 2 * depth)));
            }
            "memory" | "transfer" | "kernel" | "lost" if !view.nested => {
                all.push((place, meaning(line, given)));
            }
            "range" | "process_range" if line["phase"] != "E" && !view.nested => {
                let text = format!("{} {} {}", line["type"], line["name"], line["details"]);
                all.push((place, text));
            }
            _ => {}
        }
    }
    for (place, begin) in begun.into_values() {
        all.push((place, format!("{} never returned", begin["name"])));
    }
    all.sort_by_key(|(place, _)| *place);
    let mut text = String::new();
    for alike in all.chunk_by(|one, other| one.1 == other.1) {
        let _ = match (&alike[0].1, alike.len()) {
            (line, 1) => writeln!(text, "{line}"),
            (line, count) => writeln!(text, "{line} (× {count})"),
        };
    }
    text
}

fn call(begin: &Value, end: &Value, given: &mut Addresses, view: View) -> String {
    let name = end["name"].as_str().expect("a name");
    let mut details = begin["details"].clone();
    given.show(&mut details, false);
    let mut outputs = end["details"].clone();
    given.show(&mut outputs, true);
    merge(&mut details, outputs);
    (view.edit)(name, &mut details);
    if PARTS.iter().any(|word| name.contains(word)) {
        given.part(&begin["details"], &end["details"]);
    }
    let mut place = [end["device"].clone(), end["stream"].clone()];
    place.iter_mut().for_each(|value| given.show(value, false));
    let [device, stream] = place;
    let result = end["result"].as_str().unwrap_or("-");
    let gives_back = [
        "Free",
        "Destroy",
        "Unload",
        "Release",
        "Unregister",
        "Unmap",
    ];
    if gives_back.iter().any(|word| name.contains(word)) && end["status"] == 0 {
        given.forget(&begin["details"]);
    }
    format!("{name} {details} = {result} [device {device}, stream {stream}]")
}

fn meaning(line: &Value, given: &mut Addresses) -> String {
    let mut line = line.clone();
    let members = line.as_object_mut().expect("an object");
    let volatile = [
        "event_id",
        "ts",
        "pid",
        "tid",
        "op_id",
        "duration_us",
        "context",
    ];
    for name in volatile {
        members.remove(name);
    }
    // Launches have one name; what differs is the function that was called.
    if let Some(call) = members.remove("call") {
        members.insert("name".into(), call);
    }
    given.show(&mut line, false);
    format!("    {line}")
}

/// Calls that hand out what goes with the thing it was asked of.
const PARTS: [&str; 4] = ["GetGlobal", "GetFunction", "GetKernel", "GetManaged"];

fn merge(details: &mut Value, more: Value) {
    match (details, more) {
        (Value::Object(details), Value::Object(more)) => details.extend(more),
        (details @ Value::Null, more) => *details = more,
        _ => {}
    }
}

#[derive(Default)]
struct Addresses {
    /// Names of those that are in use.
    known: HashMap<String, String>,
    /// Names of all there were: lines that tell of a free come after it.
    ever: HashMap<String, String>,
    /// What goes when another goes.
    parts: HashMap<String, Vec<Value>>,
    count: usize,
}

impl Addresses {
    fn part(&mut self, of: &Value, part: &Value) {
        for whole in of.as_object().into_iter().flat_map(|of| of.values()) {
            if let Some(whole) = whole.as_str().filter(|text| self.known.contains_key(*text)) {
                let parts = self.parts.entry(whole.to_owned()).or_default();
                parts.push(part.clone());
            }
        }
    }

    fn show(&mut self, value: &mut Value, output: bool) {
        match value {
            // One digit: null, or a default stream.
            Value::String(text) if text.starts_with("0x") && text.len() > 3 => {
                if output && !self.known.contains_key(text) {
                    self.count += 1;
                    let name = format!("address {}", self.count);
                    self.known.insert(text.clone(), name.clone());
                    self.ever.insert(text.clone(), name);
                }
                let name = self.known.get(text).or_else(|| self.ever.get(text));
                *text = name.cloned().unwrap_or_else(|| "its own".into());
            }
            Value::String(text) if text.contains("_INTERNAL_") => *text = without_hashes(text),
            // Times that events measured.
            Value::Number(number) if number.is_f64() => *value = "a fraction".into(),
            Value::Array(list) => list.iter_mut().for_each(|value| self.show(value, output)),
            Value::Object(members) => {
                let mut values: Vec<_> = members.iter_mut().collect();
                values.sort_by(|one, other| one.0.cmp(other.0));
                for (_, value) in values {
                    self.show(value, output);
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.known.remove(text);
                for part in self.parts.remove(text).unwrap_or_default() {
                    self.forget(&part);
                }
            }
            Value::Object(members) => members.values().for_each(|value| self.forget(value)),
            _ => {}
        }
    }
}

/// nvcc puts hashes of the source's path into the names of what only one file sees.
fn without_hashes(name: &str) -> String {
    let mut without = name.to_owned();
    for before in ["_INTERNAL_", "_cu_"] {
        let Some(at) = name.find(before).map(|at| at + before.len()) else {
            continue;
        };
        if let Some(hash) = name.get(at..at + 8)
            && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
        {
            without = without.replace(hash, "HASH");
        }
    }
    without
}
