//! What a word was most likely meant to be.

/// The one of these names that a word was most likely meant to be, if any.
pub fn alike<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Two slips, but never most of a word.
    let most = 2.min(word.chars().count().saturating_sub(1) / 2);
    names
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(slips, _)| *slips <= most)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn two_slips_and_never_most_of_a_word() {
        let names = || ["memory", "driver", "top"].into_iter();
        assert_eq!(alike("memroy", names()), Some("memory"));
        assert_eq!(alike("dri", names()), None);
        assert_eq!(alike("tip", names()), Some("top"));
        assert_eq!(alike("x", names()), None);
    }
}
