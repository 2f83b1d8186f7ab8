//! How text to standard output is to look: the terminal's colours, width and letters.

use crate::arguments::{Color, Look};
use render::Style;
use std::{env, io::IsTerminal};

pub fn style(look: &Look) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let color = match look.color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org: set and not empty.
        Color::Auto => terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    Style {
        color,
        width: look.width.map_or_else(|| columns(terminal), usize::from),
        unicode: !look.ascii && locale_is_unicode(),
    }
}

/// The terminal's columns; what is piped is for people and files of no known width.
fn columns(terminal: bool) -> usize {
    const USUAL: usize = 80;
    let named = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || {
        // SAFETY: the kernel fills the structure or says that it did not.
        let mut size: libc::winsize = unsafe { std::mem::zeroed() };
        let known = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
        (known && size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    let known = if terminal { asked() } else { None };
    known.or(named).unwrap_or(USUAL).max(20)
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
