//! The arguments of `cutrace lake` and `cutrace query`.

use clap::{Args, Subcommand};
use std::{ffi::OsString, path::PathBuf};

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
}

/// A question in SQL.
pub struct Query {
    /// None: the engine's own prompt.
    pub sql: Option<String>,
    /// Traces, or one lake; none: the newest trace.
    pub over: Vec<PathBuf>,
    /// Passed on to DuckDB: `-json`.
    pub options: Vec<OsString>,
    /// Only print the statements that make the views.
    pub views: bool,
    /// Only list the named queries.
    pub list: bool,
}

#[derive(Subcommand)]
pub enum LakeLine {
    /// Add traces to a lake; one that is in it already is left as it is
    #[command(arg_required_else_help = true)]
    Add {
        /// The lake's folder
        #[arg(value_name = "DIR")]
        lake: PathBuf,
        /// Traces, or folders of a run's ranks
        #[arg(value_name = "TRACE", required = true)]
        traces: Vec<PathBuf>,
    },
    /// List the traces of a lake
    #[command(arg_required_else_help = true)]
    List {
        /// The lake's folder
        #[arg(value_name = "DIR")]
        lake: PathBuf,
    },
    /// Check that every file of a lake is there and whole
    #[command(arg_required_else_help = true)]
    Check {
        /// The lake's folder
        #[arg(value_name = "DIR")]
        lake: PathBuf,
        /// Also read every row: finds damage inside of files
        #[arg(long)]
        rows: bool,
    },
    /// Put small files of one run, host and rank together
    #[command(arg_required_else_help = true)]
    Compact {
        /// The lake's folder
        #[arg(value_name = "DIR")]
        lake: PathBuf,
        /// Remove the old files at once; by default they stay for an hour, for queries that are running
        #[arg(long)]
        now: bool,
    },
    /// Remove traces that ended long ago, or those of some runs
    #[command(arg_required_else_help = true)]
    Expire {
        /// The lake's folder
        #[arg(value_name = "DIR")]
        lake: PathBuf,
        /// Remove what ended more than this many days ago
        #[arg(long, value_name = "DAYS", required_unless_present = "runs")]
        days: Option<u32>,
        /// Remove runs whose names match; with --days, those of them that are old
        #[arg(long, value_name = "GLOB")]
        runs: Option<String>,
    },
}

impl LakeLine {
    pub fn options(self) -> Lake {
        match self {
            LakeLine::Add { lake, traces } => Lake::Add { lake, traces },
            LakeLine::List { lake } => Lake::List { lake },
            LakeLine::Check { lake, rows } => Lake::Check { lake, rows },
            LakeLine::Compact { lake, now } => Lake::Compact { lake, now },
            LakeLine::Expire { lake, days, runs } => Lake::Expire { lake, days, runs },
        }
    }
}

#[derive(Args)]
pub struct QueryLine {
    /// SQL, or a named query such as @top; without it, DuckDB's prompt
    #[arg(value_name = "SQL")]
    sql: Option<String>,
    /// Traces to ask, or a lake; by default the newest trace in traces/
    #[arg(value_name = "TRACE|LAKE")]
    over: Vec<PathBuf>,
    /// Print as: table, json, csv, markdown, line, box
    #[arg(long = "print", value_name = "FORMAT", value_parser = ["table", "json", "csv", "markdown", "line", "box"])]
    format: Option<String>,
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
        if let Some(path) = sql.take_if(|sql| PathBuf::from(&*sql).exists()) {
            over.insert(0, path.into());
        }
        Query {
            sql,
            over,
            options: (self.format.iter())
                .map(|format| OsString::from(format!("-{format}")))
                .collect(),
            views: self.views,
            list: self.list,
        }
    }
}
