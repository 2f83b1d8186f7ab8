//! Making the page: the index first, if there is none, so that the timeline can be looked at; then the report, which is kept in
//! the index for the next time.

use super::{
    board::Board,
    indexed::{self, Indexed},
};
use crate::{
    commands::{
        export::html_parts,
        input::{Input, Progress},
    },
    say::say,
};
use anyhow::{Result, bail};
use event::Summary;
use render::{Html, HtmlPage, Output, PAGE_SIZE, write_early, write_pages};
use std::{
    fs,
    io::{self, Sink},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a page that can ask for more carries itself, at most.
const SERVED_SIZE: u64 = 2_000_000;
/// And at least, however small the trace.
const LEAST_SIZE: u64 = 500_000;
/// A trace is so many times larger than what is kept of its page.
const TIMES: u64 = 40;

/// Makes everything, and says on the board how far it is.
pub fn prepare(paths: Vec<PathBuf>, merge: bool, board: &Board) -> Result<()> {
    if merge || paths.len() == 1 && !is_file(&paths[0]) {
        return put_together(paths, board);
    }
    match &*paths {
        [one] => one_page(one, board),
        [before, after] => two_pages(before, after, board),
        _ => bail!("view compares two traces; to see more of them in one timeline add --merge"),
    }
}

/// Whether it can be read again, here and there.
fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// Several traces as one, or one that can be read only once: the page is all there is.
fn put_together(paths: Vec<PathBuf>, board: &Board) -> Result<()> {
    let input = Input::open(paths, html_parts())?;
    let mut page = Vec::new();
    let mut html = Html::new(&mut page, input.meta());
    input.show(&mut html)?;
    drop(html);
    board.ready(page, Arc::default(), None);
    Ok(())
}

fn one_page(path: &Path, board: &Board) -> Result<()> {
    let made_now;
    let found = match indexed::load(path) {
        Some(found) => {
            made_now = false;
            Some(found)
        }
        None => {
            made_now = true;
            indexed::make(path, board)?
        }
    };
    let size = fs::metadata(path).map_or(0, |found| found.len());
    let Some(found) = found else {
        // No detail on demand: the page carries what it can.
        let page = report(path, PAGE_SIZE, made_now, board)?;
        return finish(&page, Arc::default(), board);
    };
    let traces = Arc::new(vec![found.indexed]);
    if let Some(page) = HtmlPage::from_bytes(&found.report, version::BUILD) {
        return finish(&page, traces, board);
    }
    let mut early = Vec::new();
    let detail = &traces[0].detail;
    let known = detail.early(&found.meta, found.summary.as_ref())?;
    write_early(&mut early, Some(&known))?;
    drop(known);
    board.early(early, Arc::clone(&traces));
    let size = (size / TIMES).clamp(LEAST_SIZE, SERVED_SIZE);
    let page = report(path, size, made_now, board)?;
    traces[0].keep(path, page.to_bytes(version::BUILD)?);
    finish(&page, traces, board)
}

fn finish(page: &HtmlPage, traces: Arc<Vec<Indexed>>, board: &Board) -> Result<()> {
    let mut whole = Vec::new();
    write_pages(&mut whole, std::slice::from_ref(page), None, traces.len())?;
    let report = (!traces.is_empty()).then(|| page.to_json());
    board.ready(whole, traces, report);
    Ok(())
}

/// Two traces above each other, and what changed from one to the other.
fn two_pages(before: &Path, after: &Path, board: &Board) -> Result<()> {
    let mut pages = Vec::new();
    let mut traces = Vec::new();
    for path in [before, after] {
        let loaded = indexed::load(path);
        let made_now = loaded.is_none();
        let found = match loaded {
            Some(found) => Some(found),
            None => indexed::make(path, board)?,
        };
        pages.push(report(path, PAGE_SIZE, made_now, board)?);
        traces.extend(found.map(|found| found.indexed));
    }
    let diff = match (&pages[0].report, &pages[1].report) {
        (Some(before), Some(after)) => {
            Some(serde_json::to_value(analyse::diff::diff(before, after))?)
        }
        _ => None,
    };
    // A page asks about both or about neither.
    if traces.len() < 2 {
        traces.clear();
    }
    let mut page = Vec::new();
    write_pages(&mut page, &pages, diff.as_ref(), traces.len())?;
    board.ready(page, Arc::new(traces), None);
    Ok(())
}

/// Reads a trace for its report. `again`: it was read before, and warned of.
fn report(path: &Path, size: u64, again: bool, board: &Board) -> Result<HtmlPage> {
    let mut reader = trace::open_with(path, html_parts())?.ahead();
    let mut html: Html<Sink> = Html::new(io::sink(), reader.meta()).with_size(size);
    let mut progress = Progress::new(false);
    while let Some(records) = reader.next_batch()? {
        for record in records {
            html.record(record)?;
        }
        let count = records.len();
        board.read(reader.share());
        progress.add(count, || reader.share());
    }
    drop(progress);
    let warnings = reader.warnings().as_slice().iter();
    for warning in warnings.filter(|_| !again) {
        say!("cutrace: warning: {}: {warning}", path.display());
    }
    let summary: Option<Summary> = reader.summary().cloned();
    drop(reader);
    Ok(html.page(summary.as_ref())?)
}
