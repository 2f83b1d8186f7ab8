//! Which calls a user asks for with `-e`: the grammar and its meaning, for the tracer and for injected code alike.
//! What a function's name says about its calls is known to `cuda::select::candidate`.

use crate::{Category, Layer, glob::matches_glob};

/// A text of items with commas between them: `memory,cuLaunch*,!query`.
///
/// An item is a category, a layer, or a [glob](matches_glob) over the function's name with or without its version;
/// `!` in front excludes. Blanks around items and empty items are passed over. A call is wanted if an item means
/// it, or none but exclusions are given, and no exclusion means it: the order of items has no meaning.
///
/// `tests/selections.txt` lists what follows from that; every user of it passes that table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection<T>(T);

/// One part of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Without the `!`.
    pub text: &'a str,
    pub excludes: bool,
}

/// What is known of a call that may be asked for. Names come from symbol tables, which may hold any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub name: &'a [u8],
    /// The name as programmers write it: without a version's suffix.
    pub family: &'a [u8],
    pub category: Category,
    pub layer: Layer,
}

impl<T: AsRef<str>> Selection<T> {
    pub const fn new(text: T) -> Self {
        Selection(text)
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        self.0.as_ref()
    }

    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let items = self.text().split(',').map(str::trim);
        (items.filter(|item| !item.is_empty())).map(|item| match item.strip_prefix('!') {
            Some(text) => Item {
                text,
                excludes: true,
            },
            None => Item {
                text: item,
                excludes: false,
            },
        })
    }

    /// Nothing asked for is everything.
    pub fn is_empty(&self) -> bool {
        self.items().next().is_none()
    }

    /// Only what is named, rather than everything but some.
    pub fn is_positive(&self) -> bool {
        self.items().any(|item| !item.excludes)
    }

    pub fn wants(&self, call: &Candidate<'_>) -> bool {
        let meant =
            |excludes| (self.items()).any(|item| item.excludes == excludes && item.means(call));
        (!self.is_positive() || meant(false)) && !meant(true)
    }
}

impl Item<'_> {
    /// Whether it names this call, to ask for it or to exclude it.
    pub fn means(&self, call: &Candidate<'_>) -> bool {
        let item = self.text.as_bytes();
        self.text == call.category.as_str()
            || self.text == call.layer.as_str()
            || matches_glob(item, call.name)
            || matches_glob(item, call.family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_trimmed_and_may_be_empty() {
        let selection = Selection::new(" memory, ,!cuCtx* ,! query,");
        let items: Vec<(&str, bool)> = (selection.items())
            .map(|item| (item.text, item.excludes))
            .collect();
        let expected = [("memory", false), ("cuCtx*", true), (" query", true)];
        assert_eq!(items, expected);
        assert!(selection.is_positive() && !Selection::new("!query").is_positive());
        assert!(Selection::new(" , ").is_empty() && !selection.is_empty());
    }

    #[test]
    fn names_need_not_be_text() {
        let call = Candidate {
            name: b"odd\xff_v2",
            family: b"odd\xff",
            category: Category::Other,
            layer: Layer::Library,
        };
        for (spec, wanted) in [
            ("odd*", true),
            ("*?", true),
            ("!odd?", false),
            ("even", false),
        ] {
            assert_eq!(Selection::new(spec).wants(&call), wanted, "{spec}");
        }
    }
}
