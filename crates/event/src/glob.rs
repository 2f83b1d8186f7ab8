//! The one matcher of globs: functions, libraries, kernels, tracepoints, paths' parts. Injected code uses it,
//! too, so it allocates nothing.

/// Whether the whole of a text matches a glob.
///
/// `*` is any run of bytes, also none; `?` is any one byte; every other byte is itself. Case counts. There is no
/// escape and there are no sets: `[` and `\` are themselves, for demangled names have them (`operator[]`).
///
/// Only the last star is ever tried again, so the time is at most the product of the two lengths, whatever
/// the glob: those of hooks files and command lines meet names that traced programs chose.
pub fn matches_glob(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // The last star, and the place in the text that it was tried up to.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((last, tried)) = star else {
                    return false;
                };
                star = Some((last, tried + 1));
                (at, place) = (last + 1, tried + 1);
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn matches(glob: &str, text: &str) -> bool {
        matches_glob(glob.as_bytes(), text.as_bytes())
    }

    #[test]
    fn stars_marks_and_plain_bytes() {
        for (glob, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "ab", true),
            ("?", "", false),
            ("cuMem*", "cuMemAlloc_v2", true),
            ("cumem*", "cuMemAlloc_v2", false),
            ("*Async*", "cuMemcpyAsync", true),
            ("cu?nit", "cuInit", true),
            ("cu?nit?", "cuInit", false),
            ("*ab*ab", "xabxabxab", true),
            ("*ab*abc", "xabxabxab", false),
            ("cuInit", "cuInitialise", false),
            ("operator[]*", "operator[](int)", true),
            ("[A-Z]*", "A", false),
            ("a\\*", "a\\b", true),
            // A character of two bytes is two.
            ("??", "é", true),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    /// What a matcher that tries every star again needs longer for than anybody waits.
    #[test]
    fn hostile_globs_end() {
        let start = Instant::now();
        let text = "a".repeat(10_000);
        for glob in [
            "*a*a*a*a*b".to_owned(),
            "a*".repeat(100) + "b",
            "*".repeat(5_000) + "b",
        ] {
            assert!(!matches(&glob, &text), "{glob}");
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    /// The meaning, word for word, and exponential.
    fn plainly(glob: &[u8], text: &[u8]) -> bool {
        match (glob.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| plainly(rest, &text[skip..])),
            (Some((b'?', rest)), Some((_, after))) => plainly(rest, after),
            (Some((want, rest)), Some((byte, after))) => want == byte && plainly(rest, after),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn as_plainly_read(glob in "[ab*?]{0,8}", text in "[ab?*]{0,10}") {
            prop_assert_eq!(matches(&glob, &text), plainly(glob.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn a_glob_made_from_a_text_matches_it(text in "[a-z]{0,12}", holes in prop::collection::vec((0usize..12, any::<bool>()), 0..4)) {
            let mut glob = text.clone().into_bytes();
            for (at, star) in holes {
                if let Some(byte) = glob.get_mut(at) {
                    *byte = if star { b'*' } else { b'?' };
                }
            }
            prop_assert!(matches_glob(&glob, text.as_bytes()));
        }
    }
}
