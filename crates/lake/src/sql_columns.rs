//! The columns of a lake's tables, as engines need to know them that are not to look into every file.

use crate::dialect::Dialect;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Int,
    /// Spark cannot read these as bigint where Parquet has them in a dictionary.
    Unsigned,
    Float,
    Text,
    Bool,
    Texts,
    UnsignedList,
}

use Holds::{Bool, Float, Int, Text, Texts, Unsigned, UnsignedList};

impl Holds {
    pub(crate) fn sql(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Int, _) => "bigint",
            (Unsigned, Dialect::DuckDb) => "ubigint",
            (Unsigned, Dialect::Spark) => "decimal(20, 0)",
            (Float, _) => "double",
            (Text, Dialect::DuckDb) => "varchar",
            (Text, Dialect::Spark) => "string",
            (Bool, _) => "boolean",
            (Texts, Dialect::DuckDb) => "varchar[]",
            (Texts, Dialect::Spark) => "array<string>",
            (UnsignedList, Dialect::DuckDb) => "ubigint[]",
            (UnsignedList, Dialect::Spark) => "array<decimal(20, 0)>",
        }
    }
}

/// A table, and its columns besides `run`, `host` and `rank`, which are its folders.
pub(crate) struct TableColumns {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Holds)],
}

/// The folders' own columns.
pub(crate) const FOLDERS: [(&str, Holds); 3] = [("run", Text), ("host", Text), ("rank", Int)];

/// One row a span or an instant.
pub(crate) const EVENTS: TableColumns = TableColumns {
    name: "events",
    columns: &[
        ("start_ns", Int),
        ("pid", Int),
        ("tid", Int),
        ("type", Text),
        ("layer", Text),
        ("name", Text),
        ("category", Text),
        ("phase", Text),
        ("op_id", Int),
        ("depth", Int),
        ("parent", Int),
        ("cpu", Int),
        ("device", Int),
        ("context", Unsigned),
        ("stream", Unsigned),
        ("correlation", Int),
        ("duration_ns", Int),
        ("status", Int),
        ("result", Text),
        ("cmd", Unsigned),
        ("decoded", Text),
        ("details", Text),
        ("outputs", Text),
        ("stack", Text),
        ("op", Text),
        ("size", Unsigned),
        ("freed", Unsigned),
        ("ptr", Unsigned),
        ("space", Text),
        ("direction", Text),
        ("src", Unsigned),
        ("dst", Unsigned),
        ("kernel", Text),
        ("grid_x", Int),
        ("grid_y", Int),
        ("grid_z", Int),
        ("block_x", Int),
        ("block_y", Int),
        ("block_z", Int),
        ("shared", Unsigned),
        ("count", Unsigned),
        ("source", Text),
        ("call", Text),
        ("recording", Text),
        ("stack_id", Int),
    ],
};

/// One row a recording.
pub(crate) const RUNS: TableColumns = TableColumns {
    name: "runs",
    columns: &[
        ("recording", Text),
        ("world_size", Int),
        ("start_ns", Int),
        ("end_ns", Int),
        ("rows", Unsigned),
        ("events", Unsigned),
        ("lost", Unsigned),
        ("exit", Int),
        ("command", Text),
        ("boot_id", Text),
        ("container", Text),
        ("driver", Text),
        ("gpu_names", Texts),
        ("gpu_uuids", Texts),
        ("simulated", Bool),
        ("cutrace", Text),
        ("added_ns", Int),
    ],
};

/// What a lake has beside its events, if it was written by a cutrace that knows of it.
pub(crate) const SIDE: [TableColumns; 4] = [
    TableColumns {
        name: "names",
        columns: &[
            ("recording", Text),
            ("type", Text),
            ("layer", Text),
            ("category", Text),
            ("name", Text),
            ("rows", Unsigned),
            ("spans", Unsigned),
            ("total_ns", Unsigned),
            ("min_ns", Unsigned),
            ("max_ns", Unsigned),
            ("first_ns", Int),
            ("last_ns", Int),
        ],
    },
    TableColumns {
        name: "stacks",
        columns: &[
            ("recording", Text),
            ("stack_id", Int),
            ("level", Int),
            ("kind", Text),
            ("symbol", Text),
            ("offset", Unsigned),
            ("module", Text),
            ("file", Text),
            ("line", Int),
            ("address", Unsigned),
        ],
    },
    TableColumns {
        name: "steps",
        columns: &[
            ("recording", Text),
            ("step", Unsigned),
            ("start_ns", Int),
            ("duration_ns", Int),
            ("operators", Unsigned),
            ("gpu_operations", Unsigned),
            ("gpu_ns", Unsigned),
            ("copies", Unsigned),
            ("copy_ns", Unsigned),
            ("communication_ns", Unsigned),
            ("data_ns", Unsigned),
            ("mark", Text),
        ],
    },
    TableColumns {
        name: "findings",
        columns: &[
            ("recording", Text),
            ("id", Text),
            ("severity", Text),
            ("title", Text),
            ("detail", Text),
            ("advice", Text),
            ("confidence", Text),
            ("share", Float),
            ("cost_ns", Unsigned),
            ("cost_bytes", Unsigned),
            ("cost_per_step_ns", Unsigned),
            ("from_ns", Int),
            ("to_ns", Int),
            ("op_ids", UnsignedList),
            ("numbers", Text),
        ],
    },
];

impl TableColumns {
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, Holds)> {
        self.columns.iter().copied().chain(FOLDERS)
    }

    /// The columns of a table that no file has: a select without rows.
    pub(crate) fn empty(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = (self.all())
            .map(|(name, holds)| format!("cast(null as {}) as {name}", holds.sql(dialect)))
            .collect();
        format!("select {} where 1 = 0", columns.join(", "))
    }

    /// As in `create view NAME (…)`.
    pub(crate) fn declared(&self, dialect: Dialect) -> String {
        let columns: Vec<String> = (self.all())
            .map(|(name, holds)| format!("{name} {}", holds.sql(dialect)))
            .collect();
        columns.join(", ")
    }
}
