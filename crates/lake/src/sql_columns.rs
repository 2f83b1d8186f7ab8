//! The columns of a lake's tables, as engines need to know them that are not to look into every file.

use crate::dialect::Dialect;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Int,
    Float,
    Text,
    Bool,
    Texts,
    Ints,
}

use Holds::{Bool, Float, Int, Ints, Text, Texts};

impl Holds {
    pub(crate) fn sql(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Int, _) => "bigint",
            (Float, _) => "double",
            (Text, Dialect::DuckDb) => "varchar",
            (Text, Dialect::Spark) => "string",
            (Bool, _) => "boolean",
            (Texts, Dialect::DuckDb) => "varchar[]",
            (Texts, Dialect::Spark) => "array<string>",
            (Ints, Dialect::DuckDb) => "bigint[]",
            (Ints, Dialect::Spark) => "array<bigint>",
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
        ("context", Int),
        ("stream", Int),
        ("correlation", Int),
        ("duration_ns", Int),
        ("status", Int),
        ("result", Text),
        ("cmd", Int),
        ("decoded", Text),
        ("details", Text),
        ("outputs", Text),
        ("stack", Text),
        ("op", Text),
        ("size", Int),
        ("freed", Int),
        ("ptr", Int),
        ("space", Text),
        ("direction", Text),
        ("src", Int),
        ("dst", Int),
        ("kernel", Text),
        ("grid_x", Int),
        ("grid_y", Int),
        ("grid_z", Int),
        ("block_x", Int),
        ("block_y", Int),
        ("block_z", Int),
        ("shared", Int),
        ("count", Int),
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
        ("rows", Int),
        ("events", Int),
        ("lost", Int),
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
            ("rows", Int),
            ("spans", Int),
            ("total_ns", Int),
            ("min_ns", Int),
            ("max_ns", Int),
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
            ("offset", Int),
            ("module", Text),
            ("file", Text),
            ("line", Int),
            ("address", Int),
        ],
    },
    TableColumns {
        name: "steps",
        columns: &[
            ("recording", Text),
            ("step", Int),
            ("start_ns", Int),
            ("duration_ns", Int),
            ("operators", Int),
            ("gpu_operations", Int),
            ("gpu_ns", Int),
            ("copies", Int),
            ("copy_ns", Int),
            ("communication_ns", Int),
            ("data_ns", Int),
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
            ("cost_ns", Int),
            ("cost_bytes", Int),
            ("cost_per_step_ns", Int),
            ("from_ns", Int),
            ("to_ns", Int),
            ("op_ids", Ints),
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
