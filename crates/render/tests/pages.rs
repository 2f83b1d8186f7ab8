//! The HTML report in a real browser: pages made here, looked at by `tests/web`.

#[path = "pages/story.rs"]
mod story;

use event::{Meta, Record, Summary};
use render::{Html, Output};
use std::{fs, path::PathBuf};

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/pages");
    fs::create_dir_all(&folder).expect("target/ can be written");
    folder
}

fn page(meta: &Meta, records: &[Record], summary: Option<&Summary>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut html = Html::new(&mut out, meta);
    for record in records {
        html.record(record).expect("a record");
    }
    html.finish(summary).expect("a page");
    drop(html);
    out
}

#[test]
fn pages() {
    let records = story::inference(40);
    let summary = story::summary(&records);
    let html = page(&story::meta(), &records, Some(&summary));
    fs::write(folder().join("inference.html"), &html).expect("a page");
}
