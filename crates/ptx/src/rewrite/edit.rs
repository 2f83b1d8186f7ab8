//! Insertions and replacements in a text, made all at once.

#[derive(Debug, Default)]
pub struct Edits {
    /// (from, to, instead); from = to inserts.
    all: Vec<(usize, usize, String)>,
}

impl Edits {
    pub fn insert(&mut self, at: u32, text: String) {
        self.replace(at, at, text);
    }

    pub fn replace(&mut self, from: u32, to: u32, text: String) {
        self.all.push((from as usize, to as usize, text));
    }

    /// Insertions at one place come in the order they were made; what would cut into another edit is
    /// left out, which no pass does.
    pub fn apply(mut self, source: &str) -> String {
        self.all.sort_by_key(|(from, to, _)| (*from, *to));
        let added: usize = self.all.iter().map(|(_, _, text)| text.len()).sum();
        let mut text = String::with_capacity(source.len() + added);
        let mut at = 0;
        for (from, to, instead) in &self.all {
            let Some(before) = source.get(at..*from) else {
                continue;
            };
            text.push_str(before);
            text.push_str(instead);
            at = *to;
        }
        text.push_str(source.get(at..).unwrap_or(""));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_keep_the_rest() {
        let mut edits = Edits::default();
        edits.replace(4, 7, "two".into());
        edits.insert(0, "<".into());
        edits.insert(0, ">".into());
        edits.insert(9, "!".into());
        assert_eq!(edits.apply("one 222 3"), "<>one two 3!");
    }
}
