//! The arguments of `cutrace lake` and `cutrace query`.

use super::{look::Look, shared::JsonLine, usage};
use clap::{Args, Subcommand};
use lake::{Address, SparkFormat};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// What to do with a lake.
pub enum Lake {
    Add {
        lake: PathBuf,
        traces: Vec<PathBuf>,
    },
    Check {
        lake: PathBuf,
        /// Read every row.
        rows: bool,
    },
    Compact {
        lake: PathBuf,
        /// Remove the old files without waiting for readers.
        now: bool,
    },
    Expire {
        lake: PathBuf,
        days: Option<u32>,
        runs: Option<String>,
    },
    List {
        lake: PathBuf,
    },
    Report(Box<FleetReport>),
}

/// What to say of a lake's runs.
pub struct FleetReport {
    pub lake: PathBuf,
    /// None: the run before the new one.
    pub base: Option<String>,
    /// None: the newest.
    pub new: Option<String>,
    pub fail_on: Vec<String>,
    pub html: Option<PathBuf>,
    pub json: bool,
    pub look: Look,
}

/// A question in SQL.
pub struct Query {
    /// None: the engine's own prompt.
    pub sql: Option<String>,
    /// Traces, or one lake; none: the newest trace.
    pub over: Vec<PathBuf>,
    pub engine: Engine,
    /// Only print the statements that make the views.
    pub views: bool,
    /// Only list the named queries.
    pub list: bool,
}

/// Who answers.
pub enum Engine {
    /// `options` are DuckDB's own: `-json`.
    DuckDb { options: Vec<OsString> },
    /// `settings` are Spark's: `spark.executor.memory=2g`.
    Spark {
        master: String,
        format: SparkFormat,
        settings: Vec<String>,
    },
}

#[derive(Subcommand)]
pub enum LakeLine {
    /// Add traces to a lake; one that is in it already is left as it is
    #[command(arg_required_else_help = true)]
    Add {
        /// The lake's folder, or its address: s3://BUCKET/FOLDER
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Traces, or folders of a run's ranks
        #[arg(value_name = "TRACE", required = true)]
        traces: Vec<PathBuf>,
    },
    /// List the traces of a lake
    #[command(arg_required_else_help = true)]
    List {
        /// The lake's folder, or its address: s3://BUCKET/FOLDER
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
    },
    /// Check that every file of a lake is there and whole
    #[command(arg_required_else_help = true)]
    Check {
        /// The lake's folder, or its address: s3://BUCKET/FOLDER
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Also read every row: finds damage inside of files
        #[arg(long)]
        rows: bool,
    },
    /// Put small files of one run, host and rank together
    #[command(arg_required_else_help = true)]
    Compact {
        /// The lake's folder, or its address: s3://BUCKET/FOLDER
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Remove the old files at once; by default they stay for an hour, for queries that are running
        #[arg(long)]
        now: bool,
    },
    /// Remove traces that ended long ago, or those of some runs
    #[command(arg_required_else_help = true)]
    Expire {
        /// The lake's folder, or its address: s3://BUCKET/FOLDER
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Remove what ended more than this many days ago
        #[arg(long, value_name = "DAYS", required_unless_present = "runs")]
        days: Option<u32>,
        /// Remove runs whose names match; with --days, those of them that are old
        #[arg(long, value_name = "GLOB")]
        runs: Option<String>,
    },
    /// Compare two runs of a lake: regressions, bad hosts, idle GPUs
    ///
    /// DuckDB counts; the statistics are those of cutrace diff.
    #[command(arg_required_else_help = true)]
    Report(FleetReportLine),
}

#[derive(Args)]
pub struct FleetReportLine {
    /// The lake's folder, or its address: s3://BUCKET/FOLDER
    #[arg(value_name = "LAKE")]
    lake: PathBuf,
    /// The run to compare with; by default the one before the new run
    #[arg(long, value_name = "RUN")]
    base: Option<String>,
    /// The run to look at; by default the newest
    #[arg(long, value_name = "RUN")]
    new: Option<String>,
    /// Exit with 1 if this holds: 'slower.count>0', 'bad_hosts.count>0', 'idle_gpus.count>0', 'total>+5%' (repeatable)
    #[arg(long, value_name = "CONDITION")]
    fail_on: Vec<String>,
    /// Also write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    json: JsonLine,
    #[command(flatten)]
    look: Look,
}

impl LakeLine {
    pub fn options(self) -> Lake {
        match self {
            LakeLine::Add { lake, traces } => Lake::Add { lake, traces },
            LakeLine::List { lake } => Lake::List { lake },
            LakeLine::Check { lake, rows } => Lake::Check { lake, rows },
            LakeLine::Compact { lake, now } => Lake::Compact { lake, now },
            LakeLine::Expire { lake, days, runs } => Lake::Expire { lake, days, runs },
            LakeLine::Report(line) => Lake::Report(Box::new(FleetReport {
                lake: line.lake,
                base: line.base,
                new: line.new,
                fail_on: line.fail_on,
                html: line.html,
                json: line.json.json,
                look: line.look,
            })),
        }
    }
}

#[derive(Args)]
pub struct QueryLine {
    /// SQL, or named queries such as @top; without it, the engine's prompt
    #[arg(value_name = "SQL")]
    sql: Option<String>,
    /// Traces to ask, or a lake; by default the newest trace in traces/
    #[arg(value_name = "TRACE|LAKE")]
    over: Vec<PathBuf>,
    /// Print as: table, json, csv, or DuckDB's markdown, line, box
    #[arg(long = "print", value_name = "FORMAT", value_parser = ["table", "json", "csv", "markdown", "line", "box"])]
    format: Option<String>,
    /// Ask a Spark cluster instead of DuckDB: spark://host:7077
    #[arg(long, value_name = "URL")]
    spark: Option<String>,
    /// With --spark: a setting of Spark's, such as spark.executor.memory=4g (repeatable)
    #[arg(long, value_name = "NAME=VALUE", requires = "spark")]
    conf: Vec<String>,
    /// Print the statements that make the views, and stop: for an engine of your own
    #[arg(long)]
    views: bool,
    /// List the named queries
    #[arg(long = "named")]
    list: bool,
}

impl QueryLine {
    pub fn options(self) -> Query {
        let mut over = self.over;
        let mut sql = self.sql;
        // `cutrace query TRACE` and `cutrace query --views LAKE`: a file or folder is no SQL.
        let is_place = |text: &str| Path::new(text).exists() || is_address(text);
        if let Some(path) = sql.take_if(|sql| is_place(sql.as_str())) {
            over.insert(0, path.into());
        }
        let engine = match self.spark {
            None => Engine::DuckDb {
                options: (self.format.iter())
                    .map(|format| OsString::from(format!("-{format}")))
                    .collect(),
            },
            Some(master) => Engine::Spark {
                master,
                format: match self.format.as_deref() {
                    None | Some("table") => SparkFormat::Table,
                    Some("json") => SparkFormat::Json,
                    Some("csv") => SparkFormat::Csv,
                    Some(other) => usage(&format!(
                        "Spark prints table, json or csv; --print={other} is DuckDB's"
                    )),
                },
                settings: self.conf,
            },
        };
        Query {
            sql,
            over,
            engine,
            views: self.views,
            list: self.list,
        }
    }
}

/// Whether this is the address of a lake: SQL has blanks in it.
fn is_address(text: &str) -> bool {
    !text.contains(char::is_whitespace) && Address::is_one(Path::new(text))
}
