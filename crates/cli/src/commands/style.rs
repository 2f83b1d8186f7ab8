//! How text is to look: the terminal's colours, width and letters.

use crate::arguments::{Color, Look};
use render::Style;
use std::{
    env,
    io::{self, IsTerminal},
    os::fd::{AsRawFd, RawFd},
};

/// For standard output, as asked for.
pub fn style(look: &Look) -> Style {
    let found = style_on(&io::stdout());
    Style {
        color: match look.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => found.color,
        },
        width: look.width.map_or(found.width, usize::from),
        cut: look.width.is_some() || found.cut,
        unicode: !look.ascii && found.unicode,
        full_names: look.names.full_names,
    }
}

/// For a screen, which is on the terminal wherever standard output goes.
pub fn style_on_terminal(look: &Look) -> Style {
    Style {
        color: look.color != Color::Never && (look.color == Color::Always || may_have_colours()),
        ..style(look)
    }
}

/// https://no-color.org: set and not empty.
fn may_have_colours() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// For cutrace's own words about a run.
pub fn stdout_style() -> Style {
    style_on(&io::stdout())
}

pub fn stderr_style() -> Style {
    style_on(&io::stderr())
}

fn style_on(stream: &(impl IsTerminal + AsRawFd)) -> Style {
    let terminal = stream.is_terminal();
    let columns = columns(terminal.then(|| stream.as_raw_fd()));
    Style {
        color: terminal && may_have_colours(),
        width: columns.unwrap_or(USUAL),
        cut: terminal || columns.is_some(),
        unicode: locale_is_unicode(),
        full_names: false,
    }
}

/// What pictures and paragraphs fill where nothing is known of the place they are shown in.
const USUAL: usize = 80;

/// The terminal's columns, or those that `COLUMNS` says: what goes into a pipe or a file has none.
fn columns(terminal: Option<RawFd>) -> Option<usize> {
    let named = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = |terminal| {
        // SAFETY: the kernel fills the structure or says that it did not.
        let mut size: libc::winsize = unsafe { std::mem::zeroed() };
        let known = unsafe { libc::ioctl(terminal, libc::TIOCGWINSZ, &mut size) } == 0;
        (known && size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    let known = terminal.and_then(asked);
    known.or(named).map(|columns: usize| columns.max(20))
}

fn locale_is_unicode() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    // Without any locale, as in containers, terminals still show UTF-8 nowadays.
    set.is_none_or(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8")
            || value.contains("utf8")
            || value.starts_with("c") && value.len() == 1
    })
}
