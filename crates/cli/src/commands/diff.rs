//! `cutrace diff`: what changed from one trace to another.

use super::{print, report::analysed, style::style};
use crate::arguments::Diff;
use analyse::diff::{Conditions, Outcome};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode};

/// A condition of `--fail-on` holds.
const HOLDS: u8 = 1;

#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    diff: &'a analyse::diff::Diff,
    conditions: &'a [Outcome],
}

pub fn run(options: Diff) -> Result<ExitCode> {
    // Read before the traces: a mistake in it should not take long to tell.
    let conditions = (options.fail_on.iter())
        .map(|text| text.parse::<Conditions>())
        .collect::<Result<Vec<_>, _>>()?;
    let before = analysed(vec![options.before])?;
    let after = analysed(vec![options.after])?;
    let mut outcomes = Vec::new();
    for condition in &conditions {
        outcomes.extend(condition.check(&before, &after).context("--fail-on")?);
    }
    let diff = analyse::diff::diff(&before, &after);
    let text = if options.json {
        let compared = Compared {
            diff: &diff,
            conditions: &outcomes,
        };
        serde_json::to_string_pretty(&compared)? + "\n"
    } else {
        let style = style(&options.look);
        render::tables::diff(&diff, &style) + &render::tables::outcomes(&outcomes, &style)
    };
    print(text.as_bytes())?;
    let holds = outcomes.iter().any(|outcome| outcome.holds);
    Ok(ExitCode::from(if holds { HOLDS } else { 0 }))
}

/// How one trace differs from another, as text.
pub fn text(before: PathBuf, after: PathBuf, style: &render::Style) -> Result<String> {
    let (before, after) = (analysed(vec![before])?, analysed(vec![after])?);
    Ok(render::tables::diff(
        &analyse::diff::diff(&before, &after),
        style,
    ))
}
