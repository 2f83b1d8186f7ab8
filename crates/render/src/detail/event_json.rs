//! Everything known of one event, as JSON for the page's details.

use super::{Detail, Span, json};
use crate::{Style, html::label::label, replay};
use event::{Arg, Event, Extent, Frame, Kind, Layer, Name, Value, What};
use serde_json::{Map, Value as Json, json};

/// Arguments of an event at most.
const MOST_ARGUMENTS: usize = 256;
/// Bytes of a value at most.
const LONGEST_VALUE: usize = 64 << 10;
/// Frames of a stack at most.
const MOST_FRAMES: usize = 256;

/// What was found about an event.
#[derive(Default)]
pub struct EventFacts<'a> {
    /// Where it is on the timeline.
    pub row: Option<(u32, u32)>,
    pub meaning: Option<&'a What>,
    /// What is around it, or around the call of GPU work; outermost first.
    pub parents: Vec<Around>,
    pub caused: Vec<Relative>,
    pub caused_more: bool,
    /// The call that GPU work comes from.
    pub caused_by: Option<Relative>,
}

/// A span that another is inside of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    pub id: u64,
    pub name: Name,
    pub kind: Kind,
}

/// An event that has to do with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    pub id: u64,
    pub name: String,
    pub label: String,
    pub start: u64,
    pub duration: u64,
    pub lane: u32,
    pub layer: u8,
}

impl Relative {
    pub fn of(span: &Span, (name, label): (&str, &str)) -> Self {
        Relative {
            id: span.id,
            name: name.to_owned(),
            label: label.to_owned(),
            start: span.start,
            duration: span.duration,
            lane: span.lane,
            layer: span.layer,
        }
    }

    /// An event whose records are at hand.
    pub fn of_event(detail: &Detail, event: &Event, lane: u32) -> Self {
        Relative {
            id: event.id,
            name: event.name.to_string(),
            label: shown(detail, event),
            start: event.start.saturating_sub(detail.origin),
            duration: event.duration().unwrap_or(0),
            lane,
            layer: event.layer as u8,
        }
    }

    fn json(&self) -> Json {
        json!({
            "id": json::value(self.id), "name": self.name, "label": self.label,
            "start_ns": json::value(self.start), "duration_ns": json::value(self.duration),
            "lane": self.lane, "layer": Layer::ALL[usize::from(self.layer).min(Layer::ALL.len() - 1)].as_str(),
        })
    }
}

pub fn event_json(detail: &Detail, event: &Event, facts: &EventFacts<'_>) -> String {
    let start = event.start.saturating_sub(detail.origin);
    let arguments = (event.args.iter().map(|arg| (arg, false)))
        .chain(event.outputs.iter().map(|arg| (arg, true)))
        .take(MOST_ARGUMENTS)
        .map(|(arg, out)| json!({"name": &*arg.name, "value": bounded(&arg.value), "out": out}));
    let handle = |value: Option<u64>| value.map(|value| format!("{value:#x}"));
    let mut object = json!({
        "id": json::value(event.id),
        "name": &*event.name,
        "label": shown(detail, event),
        "layer": event.layer.as_str(),
        "category": event.category.as_str(),
        "type": event.kind.as_str(),
        "start_ns": json::value(start),
        "duration_ns": event.duration().map(json::value),
        "open": event.extent == Extent::Open,
        "pid": event.pid,
        "tid": event.tid,
        "cpu": event.cpu,
        "device": event.device,
        "context": handle(event.context),
        "stream": handle(event.stream),
        "lane": facts.row.map(|row| row.0),
        "depth": facts.row.map(|row| row.1),
        "correlation": event.correlation.map(json::value),
        "status": event.status.as_ref().map(|status| json!({"code": status.code, "name": status.name.as_deref()})),
        "arguments": arguments.collect::<Vec<_>>(),
        "stack": event.stack.iter().take(MOST_FRAMES).map(frame).collect::<Vec<_>>(),
        "parents": facts.parents.iter().map(|it| json!({"id": json::value(it.id), "name": &*it.name, "type": it.kind.as_str()})).collect::<Vec<_>>(),
        "operator": operator(event, &facts.parents),
        "caused": facts.caused.iter().map(Relative::json).collect::<Vec<_>>(),
        "meaning": meaning(event, start, facts),
        "ioctl": ioctl(event),
    });
    if facts.caused_more {
        object["caused_more"] = true.into();
    }
    if let Some(call) = &facts.caused_by {
        object["caused_by"] = call.json();
    }
    object.to_string()
}

/// The framework's operator that an event belongs to, or else the innermost range around it. Work of a graph belongs to the
/// operator that was captured, not to what launched the graph.
fn operator<'a>(event: &'a Event, parents: &'a [Around]) -> Option<&'a str> {
    if let Some(Value::Map(origin)) = event.arg("origin") {
        let known = origin.iter().find(|arg| &*arg.name == "operator");
        return known.and_then(|arg| arg.value.as_str());
    }
    let innermost = |kind: Kind| parents.iter().rev().find(|around| around.kind == kind);
    let found = innermost(Kind::Operator).or_else(|| innermost(Kind::Range));
    found.map(|around| &*around.name)
}

/// What an event's bar shows.
fn shown(detail: &Detail, event: &Event) -> String {
    match label(event) {
        Some(label) if event.layer != Layer::Gpu => label.to_string(),
        _ => match detail.texts.find(&event.name) {
            Some(name) => detail.shown(name, name).to_string(),
            None => event.name.to_string(),
        },
    }
}

/// A value as in trace files, unless it is too long.
fn bounded(value: &Value) -> Json {
    let json = value_json(value);
    let text = json.to_string();
    if text.len() <= LONGEST_VALUE {
        return json;
    }
    let end = (0..=LONGEST_VALUE)
        .rev()
        .find(|&end| text.is_char_boundary(end));
    format!("{}…", &text[..end.unwrap_or(0)]).into()
}

// Readers bound the nesting of values.
fn value_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => json::value(*number),
        Value::Float(number) => serde_json::Number::from_f64(*number)
            .map_or_else(|| format!("{number}").into(), Json::Number),
        Value::Pointer(address) => format!("{address:#x}").into(),
        Value::Str(text) => (&**text).into(),
        Value::List(list) => list.iter().map(value_json).collect(),
        Value::Map(args) => {
            let pairs = args
                .iter()
                .map(|arg| (arg.name.to_string(), value_json(&arg.value)));
            Json::Object(pairs.collect())
        }
    }
}

fn frame(frame: &Frame) -> Json {
    json!({
        "symbol": frame.symbol.as_deref(),
        "offset": frame.offset,
        "module": frame.module.as_deref(),
        "file": frame.file.as_deref(),
        "line": frame.line,
        "address": format!("{:#x}", frame.address),
        "kind": frame.kind.as_str(),
    })
}

fn ioctl(event: &Event) -> Option<Json> {
    let ioctl = event.ioctl.as_ref()?;
    let find = |name: &str| {
        let arg = ioctl.decoded.iter().find(|arg| &*arg.name == name);
        arg.map(|arg| &arg.value)
    };
    let field = |arg: &Arg| json!({"name": &*arg.name, "value": bounded(&arg.value)});
    let part = |name: &str, out: bool| {
        let args = match find(name) {
            Some(Value::Map(args)) => &args[..],
            _ => &[],
        };
        let named =
            |arg: &Arg| json!({"name": &*arg.name, "value": bounded(&arg.value), "out": out});
        args.iter().map(named).collect::<Vec<_>>()
    };
    // What the driver changed comes after what it was given.
    let mut fields = part("args", false);
    fields.extend(part("results", true));
    fields.truncate(MOST_ARGUMENTS);
    Some(json!({
        "name": label(event).as_deref(),
        "command": format!("{:#x}", ioctl.cmd),
        "result": find("status").and_then(Value::as_str),
        "words": replay::request_words(ioctl, &Style::default()),
        "fields": fields,
        "decoded": ioctl.decoded.iter().take(MOST_ARGUMENTS).map(field).collect::<Vec<_>>(),
    }))
}

/// GPU work that was timed, with the call that it comes from.
fn meaning(event: &Event, start: u64, facts: &EventFacts<'_>) -> Json {
    match facts.meaning {
        Some(What::Launch(launch)) => {
            let work = facts
                .caused
                .iter()
                .find(|work| work.layer == Layer::Gpu as u8);
            json!({
                "kind": "launch",
                "kernel": &*launch.kernel,
                "short": analyse::short_name(&launch.kernel),
                "grid": launch.grid, "block": launch.block,
                "shared": json::value(launch.shared),
                "threads": json::value(launch.threads()),
                "queue_delay_ns": work.map(|work| json::value(work.start.saturating_sub(start))),
            })
        }
        Some(What::Transfer(transfer)) => json!({
            "kind": "transfer",
            "direction": transfer.direction.as_str(),
            "size": json::value(transfer.size),
            "src": transfer.src.map(|ptr| format!("{ptr:#x}")),
            "dst": transfer.dst.map(|ptr| format!("{ptr:#x}")),
            "bandwidth": transfer.duration.and_then(|duration| bandwidth(transfer.size, duration)),
            "pinned": null,
        }),
        Some(What::Memory(memory)) => json!({
            "kind": "memory",
            "op": memory.op.as_str(),
            "size": memory.size.map(json::value),
            "ptr": format!("{:#x}", memory.ptr),
            "space": memory.space.map(|space| space.as_str()),
        }),
        None if event.layer == Layer::Gpu
            && matches!(event.kind, Kind::Gpu | Kind::GpuComplete) =>
        {
            let mut work = work_of(event);
            if let Some(call) = &facts.caused_by {
                let delay = start.saturating_sub(call.start);
                work.insert("queue_delay_ns".into(), json::value(delay));
            }
            Json::Object(work)
        }
        None => Json::Null,
    }
}

/// Bytes per second.
fn bandwidth(size: u64, duration_ns: u64) -> Option<Json> {
    let rate = u128::from(size) * 1_000_000_000 / u128::from(duration_ns).max(1);
    (duration_ns > 0).then(|| json::value(u64::try_from(rate).unwrap_or(u64::MAX)))
}

/// What the trace says of a piece of GPU work, by the names of docs/VIEW-API.md.
fn work_of(event: &Event) -> Map<String, Json> {
    let mut work = Map::new();
    work.insert("kind".into(), "work".into());
    let names = [
        ("grid", "grid"),
        ("block", "block"),
        ("registers", "registers"),
        ("static_shared", "shared_static"),
        ("dynamic_shared", "shared_dynamic"),
        ("local", "local_memory"),
        ("graph", "graph"),
        ("node", "node"),
        ("bytes", "size"),
        ("from", "from"),
        ("to", "to"),
    ];
    for (name, shown) in names {
        if let Some(value) = event.arg(name) {
            work.insert(shown.into(), bounded(value));
        }
    }
    if let Some(direction) = event.name.strip_prefix("memcpy ") {
        work.insert("direction".into(), direction.into());
        let ends = ["from", "to"].map(|name| event.arg(name).and_then(Value::as_str));
        if ends.contains(&Some("pinned")) || ends.contains(&Some("pageable")) {
            work.insert("pinned".into(), ends.contains(&Some("pinned")).into());
        }
    }
    let size = event.arg("bytes").and_then(Value::as_u64);
    if let Some(rate) = size
        .zip(event.duration())
        .and_then(|(size, duration)| bandwidth(size, duration))
    {
        work.insert("bandwidth".into(), rate);
    }
    work
}
