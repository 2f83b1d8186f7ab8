//! The definitions of the command line as people read them: verbs in groups, examples behind each verb's options.

use super::{
    Line,
    pages::{GROUPS, Page},
};
use clap::CommandFactory;
use std::fmt::Write as _;

/// All verbs and options, for parsing, completions and the manual.
pub fn definitions() -> clap::Command {
    let line = with_page(Line::command(), "");
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{}{{after-help}}",
        verbs_in_groups(&line)
    );
    line.help_template(template)
}

/// The help of a verb, and of those below it, ends with examples.
fn with_page(verb: clap::Command, name: &str) -> clap::Command {
    let verb = match Page::of(name) {
        Some(page) => verb.after_help(page.help()),
        None => verb,
    };
    verb.mut_subcommands(|inner| {
        let name = format!("{name} {}", inner.get_name());
        with_page(inner, name.trim_start())
    })
}

/// `git help` lists verbs by what one wants to do.
fn verbs_in_groups(line: &clap::Command) -> String {
    let (header, literal) = {
        let styles = line.get_styles();
        (*styles.get_header(), *styles.get_literal())
    };
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for name in verbs {
            let about = line.find_subcommand(name).and_then(|verb| verb.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<11}{literal:#}  {about}");
        }
    }
    let more =
        "'cutrace VERB --help' says more about a verb, 'cutrace man VERB' opens its manual page.";
    let _ = write!(text, "\n{more}");
    text
}

#[cfg(test)]
mod tests {
    use super::{super::pages::*, *};
    use clap::Parser;
    use std::{
        collections::{BTreeMap, BTreeSet},
        ffi::OsString,
    };

    /// All verbs that people see, with their names.
    fn verbs() -> Vec<(String, clap::Command)> {
        fn add(verb: &clap::Command, name: &str, all: &mut Vec<(String, clap::Command)>) {
            all.push((name.to_owned(), verb.clone()));
            for inner in verb.get_subcommands().filter(|inner| !inner.is_hide_set()) {
                let name = format!("{name} {}", inner.get_name());
                add(inner, name.trim_start(), all);
            }
        }
        let mut all = Vec::new();
        add(&definitions(), "", &mut all);
        all
    }

    #[test]
    fn every_verb_has_a_page_with_examples() {
        let verbs: BTreeSet<String> = verbs().into_iter().map(|(name, _)| name).collect();
        let pages: BTreeSet<String> = PAGES.iter().map(|page| page.verb.to_owned()).collect();
        assert_eq!(verbs, pages);
        for page in PAGES {
            assert!(!page.examples.is_empty(), "{}: no example", page.verb);
            assert!(!page.see.is_empty(), "{}: nothing to see", page.verb);
            for verb in page.see {
                assert!(verbs.contains(*verb), "{}: see {verb}", page.verb);
                assert_ne!(*verb, page.verb);
            }
            for line in page.help().lines().filter(|line| line.starts_with(' ')) {
                assert!(line.chars().count() <= 100, "too wide: {line}");
            }
        }
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, verbs)| *verbs)
            .copied()
            .collect();
        grouped.sort_unstable();
        let all = verbs();
        let mut top: Vec<&str> = (all.iter().map(|(name, _)| name.as_str()))
            .filter(|name| !name.is_empty() && !name.contains(' '))
            .collect();
        top.sort_unstable();
        assert_eq!(grouped, top);
    }

    /// Words as a shell would split them, up to the first pipe or redirection.
    fn words(line: &str) -> Vec<OsString> {
        let line = line.replace("$(pgrep -n python)", "4242");
        let mut words = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                '|' | '>' if !quoted => break,
                letter => words.last_mut().expect("never empty").push(letter),
            }
        }
        words.retain(|word| !word.is_empty() && word != "sudo");
        words.into_iter().map(OsString::from).collect()
    }

    #[test]
    fn examples_can_be_typed() {
        for Example(line, says) in PAGES.iter().flat_map(|page| page.examples) {
            assert!(!says.is_empty() && !says.ends_with('.'), "{line}: {says}");
            let line = line.rsplit("| cutrace").next().unwrap_or(line);
            let line = match line.contains("cutrace") {
                true => line.to_owned(),
                false => format!("cutrace{line}"),
            };
            if let Err(why) = Line::try_parse_from(super::super::with_verb(words(&line))) {
                panic!("{line}: {why}");
            }
        }
    }

    /// Options that take different things in different verbs and mean the same.
    const SEVERAL_HELPS: [&str; 3] = ["output", "help", "fail-on"];

    #[test]
    fn an_option_means_the_same_in_every_verb() {
        let mut helps: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut longs: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
        for (_, mut verb) in verbs() {
            verb.build();
            for option in verb.get_arguments().filter(|it| !it.is_positional()) {
                let Some(long) = option.get_long() else {
                    panic!("{:?} has no long name", option.get_id());
                };
                let help = option.get_help().map(ToString::to_string);
                helps.entry(long.to_owned()).or_default().extend(help);
                if let Some(short) = option.get_short() {
                    longs.entry(short).or_default().insert(long.to_owned());
                }
            }
        }
        assert!(helps.len() > 30 && longs.len() > 5);
        for (option, helps) in helps {
            let several = SEVERAL_HELPS.contains(&&*option);
            assert!(several || helps.len() <= 1, "--{option}: {helps:#?}");
        }
        for (short, longs) in longs {
            assert_eq!(longs.len(), 1, "-{short}: {longs:?}");
        }
    }
}
