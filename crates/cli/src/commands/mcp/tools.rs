//! The tools: what each takes, and what it answers.

use crate::{
    arguments::Part,
    commands::{diff, fleet, query, report},
};
use anyhow::{Context, Result, bail};
use lake::{Bounds, Dialect, DuckDb, Lake};
use render::{Style, units};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const BOUNDS: Bounds = Bounds {
    rows: 200,
    bytes: 1 << 20,
    time: Duration::from_secs(60),
};
/// Rows of a query, at most.
const MOST_ROWS: u64 = 1000;
/// Traces that are listed.
const LISTED: usize = 100;

/// A folder for what must be converted; gone when the server ends.
pub struct Workspace {
    folder: PathBuf,
    uses: AtomicU64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListTraces {
    folder: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportOf {
    section: String,
    #[serde(default)]
    traces: Vec<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryOf {
    sql: String,
    #[serde(default)]
    over: Vec<PathBuf>,
    rows: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompareOf {
    before: PathBuf,
    after: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetOf {
    lake: PathBuf,
    base: Option<String>,
    new: Option<String>,
}

fn object(properties: Value, required: &[&str]) -> JsonObject {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}

/// All tools, as clients list them.
pub fn all() -> Vec<Tool> {
    let named: Vec<String> = (lake::named_queries().iter())
        .map(|query| format!("@{} ({})", query.name, query.about()))
        .collect();
    let traces = json!({
        "type": "array", "items": {"type": "string"},
        "description": "trace files; none: the newest in traces/",
    });
    let text = |about: &str| json!({"type": "string", "description": about});
    let tools = [
        (
            "list_traces",
            "List the traces in a folder, newest first, and the runs of a lake.".to_owned(),
            object(
                json!({"folder": text("a folder of traces or a lake; by default traces/")}),
                &[],
            ),
        ),
        (
            "report",
            "One section of the report of a trace, as text. 'findings' says what is worth changing; 'summary' is the place to start."
                .to_owned(),
            object(
                json!({"section": {"type": "string", "enum": Part::names()}, "traces": traces}),
                &["section"],
            ),
        ),
        (
            "query",
            format!(
                "Ask traces or a lake with one SQL select (DuckDB), or a named query. Views: events, calls, kernels, copies, allocs, ioctls, \
                 ranges, samples, busy, runs, names, stacks, steps, findings; times are in nanoseconds; information_schema.columns lists \
                 their columns. Named queries: {}. Answers JSON.",
                named.join("; ")
            ),
            object(
                json!({
                    "sql": text("a select, or the name of a named query, such as @top"),
                    "over": {
                        "type": "array", "items": {"type": "string"},
                        "description": "traces, or one lake; none: the newest trace in traces/",
                    },
                    "rows": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "description": "rows at most; 200 by default"},
                }),
                &["sql"],
            ),
        ),
        (
            "compare",
            "What changed from one trace to another: functions, kernels, GPU use, with significance.".to_owned(),
            object(
                json!({"before": text("the trace to compare with"), "after": text("the trace that may have changed")}),
                &["before", "after"],
            ),
        ),
        (
            "fleet_report",
            "Regressions, bad hosts and idle GPUs of a lake's newest run beside the run before it.".to_owned(),
            object(
                json!({
                    "lake": text("the lake's folder"),
                    "base": text("the run to compare with"),
                    "new": text("the run to look at"),
                }),
                &["lake"],
            ),
        ),
    ];
    let tool = |(name, about, schema): (&'static str, String, JsonObject)| {
        let hints = ToolAnnotations::new()
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(false);
        let mut tool = Tool::new(name, about, schema);
        tool.annotations = Some(hints);
        tool
    };
    tools.into_iter().map(tool).collect()
}

pub fn is_known(name: &str) -> bool {
    all().iter().any(|tool| tool.name == name)
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).context("wrong arguments")
}

/// The server uses no network: an assistant does not decide which hosts are asked.
fn refuse_addresses<'a>(values: impl Iterator<Item = &'a Value>) -> Result<()> {
    for value in values {
        match value {
            Value::Array(values) => refuse_addresses(values.iter())?,
            Value::String(text) if lake::Address::is_one(Path::new(text)) => {
                bail!("{text}: cutrace mcp reads files of this machine only; name a file or folder")
            }
            _ => {}
        }
    }
    Ok(())
}

impl Workspace {
    pub fn new() -> Self {
        let name = format!("cutrace-mcp-{}", std::process::id());
        Workspace {
            folder: env::temp_dir().join(name),
            uses: AtomicU64::new(0),
        }
    }

    /// What a tool answers.
    pub fn call(&self, name: &str, arguments: JsonObject) -> Result<String> {
        let style = Style {
            width: 140,
            ..Style::default()
        };
        refuse_addresses(arguments.values())?;
        match name {
            "list_traces" => {
                let asked: ListTraces = read(arguments)?;
                listed(&asked.folder.unwrap_or_else(|| "traces".into()))
            }
            "report" => {
                let asked: ReportOf = read(arguments)?;
                let part = section(&asked.section)?;
                report::text(part, asked.traces, &style)
            }
            "query" => self.query(read(arguments)?),
            "compare" => {
                let asked: CompareOf = read(arguments)?;
                diff::text(asked.before, asked.after, &style)
            }
            "fleet_report" => {
                let asked: FleetOf = read(arguments)?;
                let found = fleet::found(&asked.lake, asked.base.as_deref(), asked.new.as_deref())?;
                Ok(render::tables::fleet(&found.fleet, &style))
            }
            other => bail!("there is no tool '{other}'"),
        }
    }

    fn query(&self, asked: QueryOf) -> Result<String> {
        let engine = DuckDb::find()?;
        let mut queries = lake::named(&asked.sql, Dialect::DuckDb)?;
        let sql = match (queries.pop(), queries.len()) {
            (Some(sql), 0) => sql,
            _ => bail!("one query at a time"),
        };
        let bounds = Bounds {
            rows: asked.rows.unwrap_or(BOUNDS.rows).clamp(1, MOST_ROWS),
            ..BOUNDS
        };
        let (lake, entries) = query::asked(asked.over, Some(&self.folder))?;
        self.uses.fetch_add(1, Ordering::Relaxed);
        let views = lake::views(&lake, &entries, Dialect::DuckDb);
        let answer = engine.ask(&views, lake.root(), &sql, &bounds)?;
        Ok(match answer.trim() {
            "" => "[]".to_owned(),
            answer => answer.to_owned(),
        })
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.uses.load(Ordering::Relaxed) > 0 {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn section(name: &str) -> Result<Part> {
    let known = || Part::names().join(", ");
    Part::named(name)
        .with_context(|| format!("there is no section '{name}'; there are {}", known()))
}

fn listed(folder: &Path) -> Result<String> {
    if Lake::is_one(folder) {
        let entries = Lake::open(folder)?.entries()?;
        let mut text = format!("{}: a lake of {} traces\n", folder.display(), entries.len());
        for entry in entries.iter().rev().take(LISTED) {
            text.push_str(&format!(
                "run {}  host {}  rank {}  {} events, {} lost  {}\n",
                entry.run, entry.host, entry.rank, entry.events, entry.lost, entry.command
            ));
        }
        return Ok(text);
    }
    let read = fs::read_dir(folder);
    let read = read.with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in read.flatten() {
        let path = entry.path();
        let kind = match trace::Format::of(&path).is_some_and(trace::Format::is_trace) {
            true => "trace",
            false if Lake::is_one(&path) => "lake",
            false if path.join(trace::ranks::MANIFEST).exists() => "run",
            false => continue,
        };
        if let Ok(data) = entry.metadata() {
            found.push((data.modified().ok(), kind, path, data.len()));
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    let mut text = String::new();
    for (_, kind, path, bytes) in found.iter().take(LISTED) {
        let size = match *kind {
            "trace" => units::bytes(*bytes),
            _ => String::new(),
        };
        text.push_str(&format!("{kind} {} {size}\n", path.display()));
    }
    if found.len() > LISTED {
        text.push_str(&format!("and {} more\n", found.len() - LISTED));
    }
    match text.is_empty() {
        true => bail!("{} has no traces", folder.display()),
        false => Ok(text),
    }
}
