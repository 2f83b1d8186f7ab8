//! Names that are no C++: words joined by `_`, as libraries and compilers of kernels make them.

use crate::rules::{TYPES, WORDS};

/// Longer names lose their middle.
const LONGEST: usize = 120;

pub fn plain(name: &str) -> String {
    for rule in WORDS {
        if let Some(rest) = name.strip_prefix(rule.prefix) {
            let mut kept: Vec<&str> = Vec::new();
            for word in rest.split('_') {
                let word = once(word.strip_prefix(rule.stripped).unwrap_or(word));
                let dropped = rule.dropped.iter().any(|dropped| word.starts_with(dropped));
                // Types that are the same for all matrices are said once.
                let again = is_type(word) && kept.contains(&word);
                if !dropped && !again && !word.is_empty() {
                    kept.push(word);
                }
            }
            if !kept.is_empty() {
                return bounded(&format!("{}{}", rule.shown, kept.join("_")));
            }
        }
    }
    bounded(name)
}

/// `f32f32` is f32.
fn once(word: &str) -> &str {
    match word.split_at_checked(word.len() / 2) {
        Some((half, other)) if half == other && is_type(half) => half,
        _ => word,
    }
}

fn is_type(word: &str) -> bool {
    TYPES.iter().any(|(_, shown)| *shown == word)
}

/// The beginning and the end: numbers that tell names apart come last.
pub fn bounded(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let characters: Vec<char> = name.chars().take(crate::demangle::LONGEST).collect();
    if characters.len() <= LONGEST {
        return characters.into_iter().collect();
    }
    let tail = LONGEST / 3;
    let mut text: String = characters[..LONGEST - tail - 1].iter().collect();
    text.push('…');
    text.extend(&characters[characters.len() - tail..]);
    text
}
