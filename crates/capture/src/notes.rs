//! Things a user should know that come once for each library or process: several of one topic are one line.

pub use event::counted;

/// What is said of one, with `{}` for it, and of several, with `{}` for how many they are.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    pub one: &'static str,
    pub many: &'static str,
}

/// Kept of a topic, and of all that has none.
const MOST: usize = 4096;
const MOST_PLAIN: usize = 64;

#[derive(Debug, Default, Clone)]
pub struct Notes {
    all: Vec<Note>,
}

#[derive(Debug, Clone)]
enum Note {
    Plain(String),
    About(&'static Topic, Vec<String>),
}

impl Notes {
    /// Something that is said once.
    pub fn say(&mut self, words: impl Into<String>) {
        let words = words.into();
        let plain = self.all.iter().filter_map(|note| match note {
            Note::Plain(plain) => Some(plain),
            Note::About(..) => None,
        });
        if plain.clone().count() < MOST_PLAIN && !plain.clone().any(|known| *known == words) {
            self.all.push(Note::Plain(words));
        }
    }

    /// The same may be said of others.
    pub fn about(&mut self, topic: &'static Topic, subject: impl Into<String>) {
        let subject = subject.into();
        let known = self.all.iter_mut().find_map(|note| match note {
            Note::About(known, subjects) if *known == topic => Some(subjects),
            _ => None,
        });
        match known {
            Some(subjects) if subjects.len() >= MOST || subjects.contains(&subject) => {}
            Some(subjects) => subjects.push(subject),
            None => self.all.push(Note::About(topic, vec![subject])),
        }
    }

    /// Appends the notes of another.
    pub fn extend(&mut self, others: Notes) {
        for note in others.all {
            match note {
                Note::Plain(words) => self.say(words),
                Note::About(topic, subjects) => subjects
                    .into_iter()
                    .for_each(|subject| self.about(topic, subject)),
            }
        }
    }

    /// In the order in which they came, a line for each topic.
    pub fn lines(&self) -> Vec<String> {
        let line = |note: &Note| match note {
            Note::Plain(words) => words.clone(),
            Note::About(topic, subjects) => match &**subjects {
                [subject] => topic.one.replace("{}", subject),
                many => format!(
                    "{} (-v lists them)",
                    topic.many.replace("{}", &many.len().to_string())
                ),
            },
        };
        self.all.iter().map(line).collect()
    }

    /// For `-v`: each of those that one line stands for.
    pub fn details(&self) -> Vec<String> {
        let of = |note: &Note| match note {
            Note::About(topic, subjects) if subjects.len() > 1 => (subjects.iter())
                .map(|subject| topic.one.replace("{}", subject))
                .collect(),
            _ => Vec::new(),
        };
        self.all.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COLD: Topic = Topic {
        one: "{} is cold",
        many: "{} of them are cold",
    };
    static WET: Topic = Topic {
        one: "{} is wet",
        many: "{} of them are wet",
    };

    #[test]
    fn several_of_a_kind_are_one_line() {
        let mut notes = Notes::default();
        for subject in ["a", "b", "a"] {
            notes.about(&COLD, subject);
            notes.say("well");
        }
        notes.about(&WET, "c");
        let lines = ["2 of them are cold (-v lists them)", "well", "c is wet"];
        assert_eq!(notes.lines(), lines);
        assert_eq!(notes.details(), ["a is cold", "b is cold"]);
    }
}
