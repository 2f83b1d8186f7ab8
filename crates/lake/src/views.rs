//! The views over a lake, written once and filled in for each engine.
//!
//! Engines get the files that belong, by name: what a crash has left in a lake's folders is no part of it.

use crate::{
    Entry, Error, Lake, Result, Table,
    dialect::{Dialect, fill},
    sql_columns::{EVENTS, RUNS, SIDE, TableColumns},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

const VIEWS: &str = include_str!("../sql/views.sql");
const DUCKDB_MACROS: &str = include_str!("../sql/macros.duckdb.sql");
const SPARK_MACROS: &str = include_str!("../sql/macros.spark.sql");

/// Columns that lakes of some versions lack, as Parquet has them.
const OPTIONAL: &str = "select cast(null as varchar) as recording, cast(null as uinteger) as stack_id, \
                        cast(null as varchar) as stack where false";

/// The statements that make the views over these traces of a lake.
pub fn views(lake: &Lake, entries: &[Entry], dialect: Dialect) -> String {
    let root = lake.root();
    let mut sql = String::new();
    let files: BTreeSet<PathBuf> = (entries.iter())
        .flat_map(|entry| entry.files.iter().cloned())
        .collect();
    sql.push_str(&table(&EVENTS, root, &files, dialect));
    for columns in &SIDE {
        let files = side_files(entries, columns.name);
        sql.push_str(&table(columns, root, &files, dialect));
    }
    let runs = side_files(entries, RUNS.name);
    match (entries.iter()).all(|entry| entry.tables.contains_key(&Table::Runs)) {
        true => sql.push_str(&table(&RUNS, root, &runs, dialect)),
        // Of a lake without the table, or of one that has it for some recordings only.
        false => sql.push_str(&runs_in_place(entries, dialect)),
    }
    let macros = match dialect {
        Dialect::DuckDb => DUCKDB_MACROS,
        Dialect::Spark => SPARK_MACROS,
    };
    format!("{sql}{}\n{macros}", fill(VIEWS, dialect))
}

/// Whether every file that belongs is there. An engine that gets its files by a pattern leaves out in silence what is not.
pub fn files_are_there(lake: &Lake, entries: &[Entry]) -> Result<()> {
    let files = (entries.iter()).flat_map(|entry| entry.files.iter().chain(entry.tables.values()));
    let gone = (files.map(|file| lake.root().join(file))).find(|file| !file.is_file());
    gone.map_or(Ok(()), |file| Err(Error::FileGone(file)))
}

/// The files of a side table, relative to the lake: those of recordings that have it. After a compaction several
/// recordings share one.
fn side_files(entries: &[Entry], table: &str) -> BTreeSet<PathBuf> {
    let table = Table::ALL.into_iter().find(|known| known.as_str() == table);
    let of = |entry: &Entry| entry.tables.get(&table?).cloned();
    entries.iter().filter_map(of).collect()
}

/// Makes the view `lake_NAME` of a table's files.
fn table(
    columns: &TableColumns,
    root: &Path,
    files: &BTreeSet<PathBuf>,
    dialect: Dialect,
) -> String {
    let name = columns.name;
    if files.is_empty() {
        let temporary = fill("{{temporary}}", dialect);
        let empty = columns.empty(dialect);
        return format!("create or replace {temporary} view lake_{name} as {empty};\n");
    }
    match dialect {
        Dialect::DuckDb => {
            let files: Vec<String> = (files.iter())
                .map(|file| dialect.quoted(&root.join(file).display().to_string()))
                .collect();
            let read = format!(
                "read_parquet([{}], hive_partitioning = true, union_by_name = true, \
                 hive_types = {{'run': varchar, 'host': varchar, 'rank': bigint}})",
                files.join(", ")
            );
            let optional = match name == EVENTS.name {
                true => format!(" union all by name {OPTIONAL}"),
                false => String::new(),
            };
            format!("create or replace temp view lake_{name} as select * from {read}{optional};\n")
        }
        Dialect::Spark => {
            // One path with braces: the options of a view have room for one.
            let inside: Vec<String> = (files.iter())
                .map(|file| escaped(&relative(root, file)))
                .collect();
            let base = relative(root, Path::new(""));
            let base = base.trim_end_matches('/');
            let path = format!("{}/{{{}}}", escaped(base), inside.join(","));
            let (path, base) = (dialect.quoted(&path), dialect.quoted(base));
            format!(
                "create or replace temporary view lake_{name} ({}) using parquet options (path {path}, basePath {base});\n",
                columns.declared(dialect),
            )
        }
    }
}

/// The lake's own folder for an empty path, and a file's place in it for others.
fn relative(root: &Path, file: &Path) -> String {
    if file.as_os_str().is_empty() {
        let whole = std::path::absolute(root);
        return whole.as_deref().unwrap_or(root).display().to_string();
    }
    file.display().to_string()
}

/// What Hadoop's patterns read as signs of their own.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for sign in path.chars() {
        if "{}[]*?,\\^".contains(sign) {
            text.push('\\');
        }
        text.push(sign);
    }
    text
}

/// The recordings as the statement itself: for lakes that have no such table.
fn runs_in_place(entries: &[Entry], dialect: Dialect) -> String {
    let text = |text: &str| dialect.quoted(text);
    let optional = |value: Option<&String>| value.map_or("null".into(), |value| text(value));
    let number = |value: Option<i64>| value.map_or("null".into(), |value| value.to_string());
    let list = |values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| text(value)).collect();
        match dialect {
            Dialect::DuckDb => format!("[{}]", values.join(", ")),
            Dialect::Spark => format!("array({})", values.join(", ")),
        }
    };
    let rows: Vec<String> = (entries.iter())
        .map(|entry| {
            let values = [
                text(&entry.name),
                number(entry.world_size.map(i64::from)),
                entry.start_ns.to_string(),
                entry.end_ns.to_string(),
                entry.rows.to_string(),
                entry.events.to_string(),
                entry.lost.to_string(),
                number(entry.exit.map(i64::from)),
                text(&entry.command),
                optional(entry.boot_id.as_ref()),
                optional(entry.container.as_ref()),
                optional(entry.driver.as_ref()),
                list(&entry.gpu_names),
                list(&entry.gpu_uuids),
                entry.simulated.to_string(),
                text(&entry.cutrace),
                entry.added_ns.to_string(),
                text(&entry.run),
                text(&entry.host),
                entry.rank.to_string(),
            ];
            // Of types that do not depend on the values.
            let values = RUNS.all().zip(values).map(|((name, holds), value)| {
                format!("cast({value} as {}) as {name}", holds.sql(dialect))
            });
            format!("select {}", values.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let rows = match rows.is_empty() {
        true => RUNS.empty(dialect),
        false => rows.join("\nunion all "),
    };
    let temporary = fill("{{temporary}}", dialect);
    format!("create or replace {temporary} view lake_runs as {rows};\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_to_fill_in() {
        for dialect in [Dialect::DuckDb, Dialect::Spark] {
            let sql = views(&Lake::at("it's"), &[], dialect);
            assert!(!sql.contains("{{"), "{sql}");
            for query in crate::named_queries() {
                assert!(!fill(query.sql, dialect).contains("{{"), "{}", query.name);
            }
        }
    }

    #[test]
    fn names_of_folders_are_no_patterns() {
        let files = [PathBuf::from("run=a/host=b/rank=0/x.parquet")].into();
        let sql = table(&RUNS, Path::new("/data/[1],it's"), &files, Dialect::Spark);
        assert!(
            sql.contains(r"path '/data/\\[1\\]\\,it\'s/{run=a/host=b/rank=0/x.parquet}', basePath '/data/[1],it\'s'"),
            "{sql}"
        );
    }
}
