//! The views over a lake, written once and filled in for each engine.

use crate::{Entry, Lake};
use std::path::{Path, PathBuf};

const VIEWS: &str = include_str!("../sql/views.sql");
const DUCKDB_MACROS: &str = include_str!("../sql/macros.duckdb.sql");
const SPARK_MACROS: &str = include_str!("../sql/macros.spark.sql");

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    DuckDb,
    Spark,
}

/// The statements that make the views over these traces of a lake.
pub fn views(lake: &Lake, entries: &[Entry], dialect: Dialect) -> String {
    let root = lake.root();
    let files: Vec<PathBuf> = (entries.iter().flat_map(|entry| &entry.files))
        .map(|file| root.join(file))
        .collect();
    let lists: Vec<PathBuf> = (entries.iter())
        .map(|entry| lake.entry_path(&entry.name))
        .collect();
    let (events, runs, macros) = match dialect {
        Dialect::DuckDb => (
            format!(
                "read_parquet({}, hive_partitioning = true, hive_types = {{'run': varchar, 'host': varchar, 'rank': bigint}}, \
                 union_by_name = true)",
                list(&files)
            ),
            format!("read_json({}, union_by_name = true)", list(&lists)),
            DUCKDB_MACROS,
        ),
        Dialect::Spark => (
            "lake_events".to_owned(),
            "lake_runs".to_owned(),
            SPARK_MACROS,
        ),
    };
    let before = match dialect {
        Dialect::DuckDb => String::new(),
        Dialect::Spark => spark_sources(root, &files, &lists),
    };
    let views = (VIEWS.replace("{{events}}", &events)).replace("{{runs}}", &runs);
    format!("{before}{}\n{macros}", fill(&views, dialect))
}

/// Spark names files in the options of a table.
fn spark_sources(root: &Path, files: &[PathBuf], lists: &[PathBuf]) -> String {
    let paths = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        serde_json::to_string(&paths.collect::<Vec<_>>()).unwrap_or_default()
    };
    format!(
        "create or replace temporary view lake_events using parquet options (paths {}, basePath {});\n\
         create or replace temporary view lake_runs using json options (paths {});\n",
        quoted(&paths(files)),
        quoted(&root.display().to_string()),
        quoted(&paths(lists)),
    )
}

/// A list of files for DuckDB.
fn list(paths: &[PathBuf]) -> String {
    let paths = paths.iter().map(|path| quoted(&path.display().to_string()));
    format!("[{}]", paths.collect::<Vec<_>>().join(", "))
}

/// A text in SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Fills in what the engines say differently: `{{temporary}}`, `{{json COLUMN KEY}}`, `{{quantile VALUE SHARE}}`.
pub fn fill(sql: &str, dialect: Dialect) -> String {
    let mut filled = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, after)) = after.split_once("}}") else {
            break;
        };
        filled.push_str(before);
        filled.push_str(&one(inside, dialect));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn one(inside: &str, dialect: Dialect) -> String {
    let words: Vec<&str> = inside.split_whitespace().collect();
    match (words.as_slice(), dialect) {
        (["temporary"], Dialect::DuckDb) => "temp".into(),
        (["temporary"], Dialect::Spark) => "temporary".into(),
        (["json", column, key], Dialect::DuckDb) => {
            format!("json_extract_string({column}, '$.{key}')")
        }
        (["json", column, key], Dialect::Spark) => format!("get_json_object({column}, '$.{key}')"),
        (["quantile", value, share], Dialect::DuckDb) => format!("quantile_cont({value}, {share})"),
        (["quantile", value, share], Dialect::Spark) => format!("percentile({value}, {share})"),
        _ => format!("{{{{{inside}}}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_gets_its_own_words() {
        let sql = "select {{quantile k.duration_ns 0.5}}, {{json details bytes}}";
        assert_eq!(
            fill(sql, Dialect::DuckDb),
            "select quantile_cont(k.duration_ns, 0.5), json_extract_string(details, '$.bytes')"
        );
        assert_eq!(
            fill(sql, Dialect::Spark),
            "select percentile(k.duration_ns, 0.5), get_json_object(details, '$.bytes')"
        );
    }

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
}
