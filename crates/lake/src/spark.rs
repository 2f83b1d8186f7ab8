//! A Spark cluster: its program `spark-sql`, and running it over our views.

use crate::{
    Dialect, Error, Result,
    program::{Script, found, is_program, python_package},
};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
};

/// The name of the column that a statement without rows has.
const RESPONSE: &[u8] = b"Response code\n";

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SparkFormat {
    /// As spark-sql prints them: a line of names, then values between tabs.
    Table,
    /// An object a line.
    Json,
    Csv,
}

/// Spark's command-line program for SQL, and the cluster that it asks.
#[derive(Debug, Clone)]
pub struct Spark {
    program: PathBuf,
    /// Where the program belongs to, if that must be said.
    home: Option<PathBuf>,
    master: String,
}

impl Spark {
    /// In $SPARK_HOME, on the PATH, or in the Python package pyspark. `master` is the cluster: `spark://host:7077`.
    pub fn find(master: &str) -> Result<Self> {
        let in_home = |home: PathBuf| {
            let program = home.join("bin/spark-sql");
            is_program(&program).then_some((program, Some(home)))
        };
        let named = env::var_os("SPARK_HOME").filter(|named| !named.is_empty());
        let place = match named.map(PathBuf::from) {
            Some(home) => {
                let found = in_home(home.clone());
                found.ok_or_else(|| Error::NotSpark(home))?
            }
            // The script of the package looks for its own folder.
            None => (python_package("pyspark").and_then(in_home))
                .or_else(|| found("spark-sql").map(|program| (program, None)))
                .ok_or(Error::NoSpark)?,
        };
        let (program, home) = place;
        Ok(Spark {
            program,
            home,
            master: master.to_owned(),
        })
    }

    /// Runs queries over the views, one after the other; with none, spark-sql's own prompt. `settings` are Spark's:
    /// `spark.executor.memory=2g`.
    pub fn run(
        &self,
        views: &str,
        queries: &[String],
        format: SparkFormat,
        settings: &[String],
    ) -> Result<ExitStatus> {
        let mut text = views.to_owned();
        for query in queries {
            text.push_str(&printed(query, format));
            text.push_str(";\n");
        }
        let script = Script::write(&text).map_err(Error::write(env::temp_dir()))?;
        let mut command = Command::new(&self.program);
        if let Some(home) = &self.home {
            command.env("SPARK_HOME", home);
        }
        let warehouse = script.folder().join("warehouse");
        command.args(["--master", &self.master, "--name", "cutrace query"]);
        let header = format == SparkFormat::Table && !queries.is_empty();
        for setting in [
            "spark.sql.catalogImplementation=in-memory".to_owned(),
            format!("spark.sql.warehouse.dir={}", warehouse.display()),
            format!("spark.sql.cli.print.header={header}"),
            "spark.log.level=ERROR".to_owned(),
            "spark.ui.showConsoleProgress=false".to_owned(),
        ]
        .iter()
        .chain(settings)
        {
            command.args(["--conf", setting]);
        }
        match queries.is_empty() {
            true => command.arg("-i").arg(script.path()),
            false => command.arg("-f").arg(script.path()).stdin(Stdio::null()),
        };
        let failed = |source| Error::Start {
            path: self.program.clone(),
            source,
        };
        if !header {
            return command.status().map_err(failed);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
        if let Some(out) = child.stdout.take() {
            // Whoever has read enough ends it: spark-sql sees its output closed.
            let _ = without_responses(BufReader::new(out), &mut io::stdout().lock());
        }
        child.wait().map_err(failed)
    }
}

/// Passes lines on, but for those that spark-sql prints for statements that make views.
fn without_responses(mut from: impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    let mut is_head = true;
    while from.read_until(b'\n', &mut line)? > 0 {
        is_head &= line == RESPONSE;
        if !is_head {
            to.write_all(&line)?;
        }
        line.clear();
    }
    to.flush()
}

/// The query, printed in this way.
fn printed(query: &str, format: SparkFormat) -> String {
    let query = query.trim_end().trim_end_matches(';');
    match format {
        SparkFormat::Table => query.to_owned(),
        SparkFormat::Json => format!(
            "select to_json(struct(*), map({}, {})) from (\n{query}\n)",
            Dialect::Spark.quoted("ignoreNullFields"),
            Dialect::Spark.quoted("false")
        ),
        SparkFormat::Csv => format!("select to_csv(struct(*)) from (\n{query}\n)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_views_are_left_out() {
        let mut shown = Vec::new();
        let said = b"Response code\nResponse code\nname\tn\nResponse code\n";
        without_responses(&said[..], &mut shown).expect("written");
        assert_eq!(shown, b"name\tn\nResponse code\n");
    }

    #[test]
    fn a_comment_at_the_end_of_a_query_ends_there() {
        let sql = printed("select 1 -- one;\n", SparkFormat::Json);
        assert!(sql.ends_with("from (\nselect 1 -- one\n)"), "{sql}");
    }
}
