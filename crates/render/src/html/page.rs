//! The page itself: the files of `web/` in one, with the data in between and a policy that
//! forbids everything but the page's own style and script.

use super::encode::inert;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};
use std::{
    borrow::Cow,
    io::{self, Write},
};

const STYLE: &str = concat!(
    include_str!("../../../../web/style.css"),
    include_str!("../../../../web/timeline.css"),
    include_str!("../../../../web/narrow.css"),
    include_str!("../../../../web/print.css"),
);

const BODY: &str = include_str!("../../../../web/body.html");

/// In this order: each file may use what the ones before it define.
const SCRIPTS: &[&str] = &[
    include_str!("../../../../web/format.js"),
    include_str!("../../../../web/dom.js"),
    include_str!("../../../../web/data.js"),
    include_str!("../../../../web/palette.js"),
    include_str!("../../../../web/place.js"),
    include_str!("../../../../web/scale.js"),
    include_str!("../../../../web/lanes.js"),
    include_str!("../../../../web/spans.js"),
    include_str!("../../../../web/bars.js"),
    include_str!("../../../../web/timeline-draw.js"),
    include_str!("../../../../web/timeline.js"),
    include_str!("../../../../web/timeline-touch.js"),
    include_str!("../../../../web/timeline-input.js"),
    include_str!("../../../../web/overview.js"),
    include_str!("../../../../web/event.js"),
    include_str!("../../../../web/server.js"),
    include_str!("../../../../web/finer.js"),
    include_str!("../../../../web/occupancy.js"),
    include_str!("../../../../web/flame.js"),
    include_str!("../../../../web/stretch.js"),
    include_str!("../../../../web/range.js"),
    include_str!("../../../../web/details.js"),
    include_str!("../../../../web/tables.js"),
    include_str!("../../../../web/launches.js"),
    include_str!("../../../../web/operators.js"),
    include_str!("../../../../web/steps.js"),
    include_str!("../../../../web/tabs.js"),
    include_str!("../../../../web/charts.js"),
    include_str!("../../../../web/environment.js"),
    include_str!("../../../../web/words.js"),
    include_str!("../../../../web/headline.js"),
    include_str!("../../../../web/findings.js"),
    include_str!("../../../../web/memory.js"),
    include_str!("../../../../web/idle.js"),
    include_str!("../../../../web/samples.js"),
    include_str!("../../../../web/phases.js"),
    include_str!("../../../../web/search.js"),
    include_str!("../../../../web/compare.js"),
    include_str!("../../../../web/keys.js"),
    include_str!("../../../../web/early.js"),
    include_str!("../../../../web/main.js"),
];

/// Bytes of a page without any trace.
pub fn fixed_size() -> usize {
    let scripts = SCRIPTS.iter().map(|script| script.len()).sum::<usize>();
    STYLE.len() + BODY.len() + scripts + 2_000
}

/// Data in the page, for its script.
pub struct Part<'a> {
    id: String,
    kind: &'static str,
    text: Cow<'a, str>,
}

impl<'a> Part<'a> {
    /// `json` is JSON.
    pub fn json(id: impl Into<String>, json: &str) -> Self {
        Part {
            id: id.into(),
            kind: "application/json",
            text: inert(json).into(),
        }
    }

    /// Packed: nothing but base64.
    pub fn packed(id: impl Into<String>, text: &'a str) -> Self {
        Part {
            id: id.into(),
            kind: "text/plain",
            text: text.into(),
        }
    }
}

/// Writes the page with these data. A page that is `served` may ask where it comes from.
pub fn write(out: &mut impl Write, parts: &[Part<'_>], served: bool) -> io::Result<()> {
    let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.concat());
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src '{}'; style-src '{}'; {}base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"cutrace {}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>cutrace report</title>\n<style>",
        hash(&script),
        hash(STYLE),
        if served { "connect-src 'self'; " } else { "" },
        env!("CARGO_PKG_VERSION"),
    )?;
    out.write_all(STYLE.as_bytes())?;
    out.write_all(b"</style>\n</head>\n<body>\n")?;
    out.write_all(BODY.as_bytes())?;
    for Part { id, kind, text } in parts {
        writeln!(out, "<script type=\"{kind}\" id=\"{id}\">{text}</script>")?;
    }
    out.write_all(b"<script>")?;
    out.write_all(script.as_bytes())?;
    out.write_all(b"</script>\n</body>\n</html>\n")
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}
