//! The signs of the timeline, and their colours.

use crate::Style;
use event::Category;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Init,
    Memory,
    Transfer,
    Kernel,
    Sync,
    Other,
    Idle,
}

/// In the order of the legend; the first that took most wins.
pub const SIGNS: [Sign; 6] = [
    Sign::Init,
    Sign::Memory,
    Sign::Transfer,
    Sign::Kernel,
    Sign::Sync,
    Sign::Other,
];

impl Sign {
    pub const fn of(category: Category) -> Self {
        match category {
            Category::Init | Category::Context | Category::Module => Sign::Init,
            Category::Memory => Sign::Memory,
            Category::Transfer => Sign::Transfer,
            Category::Kernel | Category::Graph => Sign::Kernel,
            Category::Sync => Sign::Sync,
            Category::Stream | Category::Event | Category::Query | Category::Other => Sign::Other,
        }
    }

    pub const fn character(self, unicode: bool) -> char {
        match (self, unicode) {
            (Sign::Init, true) => '▓',
            (Sign::Memory, true) => '█',
            (Sign::Transfer, true) => '▒',
            (Sign::Kernel, true) => '●',
            (Sign::Sync, true) => '░',
            (Sign::Other, true) => '·',
            (Sign::Init, false) => '%',
            (Sign::Memory, false) => '#',
            (Sign::Transfer, false) => '=',
            (Sign::Kernel, false) => 'o',
            (Sign::Sync, false) => ':',
            (Sign::Other, false) => '.',
            (Sign::Idle, _) => ' ',
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Sign::Init => "init",
            Sign::Memory => "memory",
            Sign::Transfer => "transfer",
            Sign::Kernel => "kernel",
            Sign::Sync => "sync",
            Sign::Other => "other or little",
            Sign::Idle => "nothing",
        }
    }

    /// The colours of the HTML report, as far as a terminal has them.
    const fn code(self) -> &'static str {
        match self {
            Sign::Init => "35",
            Sign::Memory => "34",
            Sign::Transfer => "33",
            Sign::Kernel => "32",
            Sign::Sync => "31",
            Sign::Other | Sign::Idle => "2",
        }
    }

    fn paint(self, text: &str, style: Style) -> String {
        if style.color && self != Sign::Idle {
            format!("\x1b[{}m{text}\x1b[0m", self.code())
        } else {
            text.to_owned()
        }
    }
}

/// The signs of a row as text; neighbours that are alike are painted together.
pub fn text(signs: &[Sign], style: Style) -> String {
    signs
        .chunk_by(|a, b| a == b)
        .map(|run| {
            let characters: String = { run.iter() }
                .map(|sign| sign.character(style.unicode))
                .collect();
            run[0].paint(&characters, style)
        })
        .collect()
}

/// What the signs mean, in as many lines as the width asks for.
pub fn legend(width: usize, style: Style) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for sign in SIGNS {
        let item = format!("{} {}", sign.character(style.unicode), sign.name());
        let length = item.chars().count();
        if used > 0 && used + 2 + length > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push_str("  ");
                used += 2;
            }
            let sign_text = sign.character(style.unicode).to_string();
            line.push_str(&sign.paint(&sign_text, style));
            line.push(' ');
            line.push_str(sign.name());
            used += length;
        }
    }
    lines
}
