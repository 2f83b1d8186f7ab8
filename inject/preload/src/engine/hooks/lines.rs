//! Lines that tell the tracer what was hooked, and what was not.

use super::Hooks;
use super::work::Work;
use crate::engine::code::Writer;
use crate::engine::redirect::{How, Redirect};
use crate::engine::report;
use crate::objects::Object;
use alloc::vec::Vec;

impl Hooks {
    /// Said before the first call can be recorded.
    pub(super) fn announce(
        &self,
        object: &Object,
        library: usize,
        exported: usize,
        work: &Work,
        writer: Option<&Writer>,
    ) {
        let slots = |redirect: &Redirect| matches!(redirect.how, How::Slot(_));
        let mut methods = Vec::new();
        methods.extend(
            writer
                .filter(|_| !work.patches.is_empty())
                .map(Writer::method),
        );
        methods.extend(work.redirects.iter().any(slots).then_some("slots"));
        let by_symbols = work.redirects.iter().any(|redirect| !slots(redirect));
        methods.extend(by_symbols.then_some("symbols"));
        let mut lines = Vec::new();
        push_line(
            &mut lines,
            &[
                "library ",
                &dec(library),
                " hooked=",
                &dec(work.hooked),
                " exported=",
                &dec(exported),
                " method=",
                &methods.join("+"),
                " path=",
            ],
            &path_of(object),
        );
        lines.extend(&work.lines);
        report::say(&lines);
    }
}

/// Something about one object.
pub(super) fn say_about(what: &str, path: &[u8]) {
    let mut lines = Vec::new();
    push_line(&mut lines, &["about ", what, " "], path);
    report::say(&lines);
}

pub(super) fn path_of(object: &Object) -> Vec<u8> {
    let path = object.path();
    if path.is_empty() {
        b"[program]".to_vec()
    } else {
        path.to_vec()
    }
}

pub(super) fn refuse_all(
    lines: &mut Vec<u8>,
    index: usize,
    exported: usize,
    object: &Object,
    why: &str,
) {
    let counts = [
        "library ",
        &dec(index),
        " hooked=0 exported=",
        &dec(exported),
        " method=none path=",
    ];
    push_line(lines, &counts, &path_of(object));
    push_line(lines, &["about not-hooked ", why, ": "], &path_of(object));
}

pub(super) fn skip(lines: &mut Vec<u8>, library: usize, name: &[u8], why: &str) {
    push_line(lines, &["skipped ", &dec(library), " "], name);
    lines.pop();
    push_line(lines, &[" ", why], b"");
}

pub(super) fn push_line(lines: &mut Vec<u8>, words: &[&str], last: &[u8]) {
    for word in words {
        lines.extend(word.as_bytes());
    }
    lines.extend(
        last.iter()
            .map(|byte| if *byte == b'\n' { b'?' } else { *byte }),
    );
    lines.push(b'\n');
}

pub(super) fn dec(number: usize) -> alloc::string::String {
    alloc::format!("{number}")
}
