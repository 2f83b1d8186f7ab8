//! One line of JSONL or one row of Arrow, before it is known to make sense. Both readers fill
//! in the same fields, so that they cannot differ in what they make of them.

use event::{Arg, Name, Stack};
use std::borrow::Cow;

/// A text of a line: borrowed from it, or shared with other rows.
#[derive(Debug, Clone)]
pub enum Word<'a> {
    Text(Cow<'a, str>),
    Shared(&'a Name),
}

impl AsRef<str> for Word<'_> {
    fn as_ref(&self) -> &str {
        match self {
            Word::Text(text) => text,
            Word::Shared(name) => name,
        }
    }
}

/// Names and units are those of docs/TRACE-FORMAT.md; times are nanoseconds.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    pub event_id: Option<u64>,
    /// Since the trace's start.
    pub ts: Option<i64>,
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    pub kind: Option<Word<'a>>,
    pub layer: Option<Word<'a>>,
    pub name: Option<Word<'a>>,
    pub category: Option<Word<'a>>,
    pub phase: Option<Word<'a>>,
    pub op_id: Option<u64>,
    pub depth: Option<u32>,
    pub parent: Option<u64>,
    pub cpu: Option<u32>,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    pub correlation: Option<u64>,
    pub duration: Option<u64>,
    pub status: Option<i64>,
    pub result: Option<Word<'a>>,
    pub cmd: Option<u64>,
    pub decoded: Option<Vec<Arg>>,
    pub details: Option<Vec<Arg>>,
    /// Where they are apart from the arguments.
    pub outputs: Option<Vec<Arg>>,
    /// The end of a span that has what its beginning says; `ts` is when it began.
    pub complete: bool,
    pub stack: Option<Stack>,
    pub op: Option<Word<'a>>,
    pub size: Option<u64>,
    pub freed: Option<u64>,
    pub ptr: Option<u64>,
    pub space: Option<Word<'a>>,
    pub direction: Option<Word<'a>>,
    pub src: Option<u64>,
    pub dst: Option<u64>,
    pub kernel: Option<Word<'a>>,
    pub grid: Option<[u32; 3]>,
    pub block: Option<[u32; 3]>,
    pub shared: Option<u64>,
    pub count: Option<u64>,
    pub source: Option<Word<'a>>,
    pub call: Option<Word<'a>>,
}

/// What a line of that `type` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Meta,
    Summary,
    Memory,
    Transfer,
    Launch,
    Lost,
    Event(event::Kind),
}

impl Fields<'_> {
    pub fn class(&self) -> Result<Class, Cow<'static, str>> {
        let Some(kind) = &self.kind else {
            return Err("no \"type\"".into());
        };
        Ok(match kind.as_ref() {
            "meta" => Class::Meta,
            "summary" => Class::Summary,
            "memory" => Class::Memory,
            "transfer" => Class::Transfer,
            "lost" => Class::Lost,
            "kernel" if self.op.as_ref().is_some_and(|op| op.as_ref() == "launch") => Class::Launch,
            // What traces before 0.2 called them.
            "kernel" => Class::Event(event::Kind::KernelFunction),
            other => match other.parse() {
                Ok(kind) => Class::Event(kind),
                Err(_) => return Err("an unknown \"type\": skipped".into()),
            },
        })
    }
}
