//! Names like one that was not found: one rule for verbs, categories, functions, kernels and files.

/// Letters that are compared: kernels' names may have thousands, and the time grows with the square.
const MOST_LETTERS: usize = 64;
/// Slips of the hand in one word.
const MOST_SLIPS: usize = 2;

/// How a name is like the wanted one, the likeliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Letters changed, missing, too many or swapped; at most two, and never most of the word.
    Misspelt(usize),
    /// One contains the other, with so many letters besides.
    Part(usize),
    /// Only so many changes lead from one to the other.
    Other(usize),
}

/// What there is, by how like the wanted name it is spelt; upper and lower case are one. Each comes with the
/// text to compare: a function without its version, a kernel without its parameters.
pub fn nearest<'a, T: Ord>(
    wanted: &str,
    names: impl IntoIterator<Item = (&'a str, T)>,
) -> Vec<(Likeness, T)> {
    let wanted = comparable(wanted);
    let mut ranked: Vec<(Likeness, T)> = (names.into_iter())
        .map(|(text, name)| (likeness(&wanted, &comparable(text)), name))
        .collect();
    ranked.sort();
    ranked.dedup();
    ranked
}

/// The one of these names that a word was most likely meant to be, if it is misspelt.
pub fn misspelt<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names = names.into_iter().map(|name| (name, name));
    match nearest(word, names).first()? {
        (Likeness::Misspelt(_), name) => Some(name),
        _ => None,
    }
}

fn comparable(text: &str) -> String {
    let letters = text.chars().take(MOST_LETTERS);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn likeness(wanted: &str, name: &str) -> Likeness {
    let length = wanted.chars().count();
    let slips = strsim::damerau_levenshtein(wanted, name);
    if slips <= MOST_SLIPS.min(length.saturating_sub(1) / 2) {
        return Likeness::Misspelt(slips);
    }
    let (short, long) = match length < name.chars().count() {
        true => (wanted, name),
        false => (name, wanted),
    };
    match !short.is_empty() && long.contains(short) {
        true => Likeness::Part(slips),
        false => Likeness::Other(slips),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn slips_lead_to_words() {
        let words = ["memory", "module", "driver", "sync"];
        for (word, meant) in [
            ("memroy", Some("memory")),
            ("Memory", Some("memory")),
            ("dirver", Some("driver")),
            ("snc", Some("sync")),
            ("mem", None),
            ("x", None),
            ("", None),
            ("bogus", None),
        ] {
            assert_eq!(misspelt(word, words), meant, "{word}");
        }
    }

    #[test]
    fn misspelt_comes_before_a_part_and_a_part_before_others() {
        let names = ["matmul", "reduce", "mat_mul_tiled", "scale"];
        let ranked = nearest("matmull", names.map(|name| (name, name)));
        assert_eq!(ranked[0], (Likeness::Misspelt(1), "matmul"));
        let ranked = nearest("MAT", names.map(|name| (name, name)));
        let order: Vec<&str> = ranked.iter().map(|(_, name)| *name).collect();
        assert_eq!(order, ["matmul", "mat_mul_tiled", "scale", "reduce"]);
        assert_eq!(ranked[1].0, Likeness::Part(10));
        assert!(matches!(ranked[2].0, Likeness::Other(_)));
    }

    #[test]
    fn long_names_cost_little() {
        let start = Instant::now();
        let long = "a".repeat(1 << 20);
        let names = (0..100).map(|n| (long.as_str(), n));
        assert_eq!(nearest(&long, names).len(), 100);
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}
