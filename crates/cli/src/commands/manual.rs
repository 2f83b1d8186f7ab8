//! `cutrace man`: a manual page for each verb, from the definitions of the command line.

use super::print;
use crate::{
    arguments::{self, Example, GROUPS, Manual, Page},
    say::say,
};
use anyhow::{Context, Result, bail};
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, italic, roman},
};
use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

pub fn run(options: Manual) -> Result<ExitCode> {
    match options {
        Manual::Print { verb } => show(&page(&name(&verb)?)?),
        Manual::Write { folder } => write(&folder),
    }
}

/// `gpu run`, `gpu-run` and `cutrace-gpu-run` are one verb.
fn name(words: &[String]) -> Result<String> {
    let words = words.join(" ").replace('-', " ");
    let name = words.strip_prefix("cutrace").unwrap_or(&words).trim();
    if Page::of(name).is_none() {
        let verbs: Vec<&str> = pages().map(|page| page.verb).collect();
        let advice = match names::misspelt(name, verbs) {
            Some(verb) => format!("did you mean cutrace man {verb}?"),
            None => "cutrace --help lists them".to_owned(),
        };
        bail!("there is no verb '{name}': {advice}");
    }
    Ok(name.to_owned())
}

fn pages() -> impl Iterator<Item = &'static Page> {
    arguments::PAGES.iter()
}

/// People get it through `man`, as from git; others get the source.
fn show(page: &[u8]) -> Result<ExitCode> {
    if io::stdout().is_terminal() {
        let man = Command::new("man")
            .args(["-l", "-"])
            .stdin(Stdio::piped())
            .spawn();
        if let Ok(mut man) = man {
            if let Some(mut input) = man.stdin.take() {
                // Whoever leaves it early has read enough.
                let _ = input.write_all(page);
            }
            if man.wait().is_ok_and(|status| status.success()) {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    print(page)
}

fn write(folder: &Path) -> Result<ExitCode> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut count = 0;
    for verb in pages().map(|page| page.verb) {
        let file = folder.join(format!("{}.1", file_name(verb)));
        fs::write(&file, page(verb)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        count += 1;
    }
    say!(
        "cutrace: {count} manual pages written to {}",
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// `cutrace-gpu-run`
fn file_name(verb: &str) -> String {
    let mut words = vec!["cutrace"];
    words.extend(verb.split(' ').filter(|word| !word.is_empty()));
    words.join("-")
}

/// The page of a verb, in roff.
fn page(name: &str) -> Result<Vec<u8>> {
    let mut line = arguments::definitions();
    line.build();
    let mut verb = &mut line;
    for word in name.split(' ').filter(|word| !word.is_empty()) {
        verb = verb
            .find_subcommand_mut(word)
            .context("a page without a verb")?;
    }
    let Some(page) = Page::of(name) else {
        bail!("a verb without a page: {name}");
    };
    let synopsis = synopsis(verb);
    let man = Man::new(verb.clone())
        .title(file_name(name).to_uppercase())
        // An empty one would be left out, and the next words be taken for it.
        .date(version::DATE)
        .source(format!("cutrace {}", version::VERSION))
        .manual("cutrace manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    match name {
        "" => Man::new(verb.clone().about(NAME)).render_name_section(&mut text)?,
        _ => man.render_name_section(&mut text)?,
    }
    text.extend(synopsis);
    man.render_description_section(&mut text)?;
    match name {
        "" => text.extend(verbs_in_groups(verb)),
        _ if verb.has_subcommands() => text.extend(verbs_below(verb, name)),
        _ => {}
    }
    if !name.is_empty() {
        man.render_options_section(&mut text)?;
    }
    text.extend(end(page));
    Ok(text)
}

fn synopsis(verb: &mut clap::Command) -> Vec<u8> {
    let usage = verb.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (place, line) in usage.lines().map(str::trim).enumerate() {
        if place > 0 {
            roff.control("br", []);
        }
        let is_verb = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
        let verbs: Vec<&str> = line.split(' ').take_while(is_verb).collect();
        let rest: Vec<&str> = line.split(' ').skip(verbs.len()).collect();
        roff.text([bold(verbs.join(" ")), roman(format!(" {}", rest.join(" ")))]);
    }
    roff.to_roff().into_bytes()
}

/// cutrace(1) is where people look for a verb.
fn verbs_in_groups(line: &clap::Command) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("SH", ["VERBS"]);
    for (title, verbs) in GROUPS {
        roff.control("SS", [title]);
        for name in verbs {
            list(&mut roff, name, line.find_subcommand(name));
        }
    }
    roff.to_roff().into_bytes()
}

fn verbs_below(verb: &clap::Command, name: &str) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("SH", ["VERBS"]);
    for inner in verb.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            list(
                &mut roff,
                &format!("{name} {}", inner.get_name()),
                Some(inner),
            );
        }
    }
    roff.to_roff().into_bytes()
}

fn list(roff: &mut Roff, name: &str, verb: Option<&clap::Command>) {
    let about = verb.and_then(|verb| verb.get_about());
    roff.control("TP", []);
    roff.text([bold(file_name(name)), roman("(1)")]);
    roff.text([roman(about.map(ToString::to_string).unwrap_or_default())]);
}

fn end(page: &Page) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(page.exit.words())]);
    if page.verb.is_empty() {
        for (title, items) in [("ENVIRONMENT", &ENVIRONMENT[..]), ("FILES", &FILES)] {
            roff.control("SH", [title]);
            for (name, about) in items {
                roff.control("TP", []);
                roff.text([italic(*name)]);
                roff.text([roman(*about)]);
            }
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    for Example(line, says) in page.examples {
        roff.control("TP", []);
        roff.text([bold(*line)]);
        roff.text([roman(*says)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let own = (!page.verb.is_empty()).then_some("");
    let mut names: Vec<Inline> = Vec::new();
    for verb in own.iter().chain(page.see) {
        if !names.is_empty() {
            names.push(roman(", "));
        }
        names.extend([bold(file_name(verb)), roman("(1)")]);
    }
    roff.text(names);
    roff.to_roff().into_bytes()
}

/// cutrace(1) in one line, as apropos(1) lists it.
const NAME: &str = "record what a CUDA program does, from API calls down to GPU threads";

const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "NO_COLOR",
        "If it is set and not empty, nothing is coloured.",
    ),
    (
        "COLUMNS",
        "How many columns to fill. By default those of the terminal; tables in pipes and files are not cut.",
    ),
];

const FILES: [(&str, &str); 2] = [
    (
        "traces/trace_<time>.jsonl",
        "Where a trace goes that is given no other name. Past 256 MB it continues as Arrow, in a file that ends in .arrows.",
    ),
    (
        "traces/latest",
        "A link to the newest trace, which verbs read if none is named.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(verb: &str) -> String {
        String::from_utf8(page(verb).expect("written")).expect("UTF-8")
    }

    #[test]
    fn every_verb_has_a_page_with_its_options() {
        for page in pages() {
            let text = text(page.verb);
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "\"EXIT STATUS\"",
                "EXAMPLES",
                "\"SEE ALSO\"",
            ] {
                let times = text.matches(&format!(".SH {section}\n")).count();
                assert_eq!(times, 1, "{} {section}: {text}", page.verb);
            }
        }
        assert!(text("record").contains("\\-\\-min\\-duration"));
        assert!(text("diff").contains("\\-\\-fail\\-on"));
        assert!(
            text("gpu run").starts_with(".ie") || text("gpu run").contains("CUTRACE\\-GPU\\-RUN")
        );
        let gpu = text("gpu");
        assert!(gpu.contains("cutrace\\-gpu\\-sched"), "{gpu}");
        assert!(!gpu.contains("launch"), "what is hidden stays so: {gpu}");
    }

    #[test]
    fn cutrace_1_lists_the_verbs() {
        let text = text("");
        assert!(text.contains(&format!("\ncutrace \\- {NAME}\n")), "{text}");
        for page in pages().filter(|page| !page.verb.is_empty() && !page.verb.contains(' ')) {
            let name = file_name(page.verb).replace('-', "\\-");
            assert!(text.contains(&name), "{name}: {text}");
        }
    }

    #[test]
    fn a_verb_is_found_however_it_is_written() {
        let found = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            name(&words).map_err(|why| why.to_string())
        };
        for words in [&["gpu", "run"][..], &["gpu-run"], &["cutrace-gpu-run"]] {
            assert_eq!(found(words), Ok("gpu run".into()));
        }
        assert_eq!(found(&[]), Ok(String::new()));
        let why = found(&["recrod"]).expect_err("no verb");
        assert!(why.contains("did you mean cutrace man record?"), "{why}");
    }
}
