//! Everything a person reads is plain English. A short list of words that once made it hard to read must not come back: in
//! messages, on the page, in the documents, in `--help`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What not to write, and what to write instead. Whole words, in any case.
const DIALECT: &[(&str, &str)] = &[
    (
        "told",
        "say, report, record; 'told apart' is 'distinguished'",
    ),
    ("to be had", "available"),
    ("stand alone", "cannot be combined"),
    ("stands alone", "cannot be combined"),
    ("must stand", "expected"),
    ("stands here", "is here"),
    ("is meant", "name it: 'TRACE defaults to …', 'expected …'"),
    ("are meant", "name them"),
    ("CUPTI's word", "needs CUPTI"),
    ("goes unseen", "is not recorded"),
    ("go unseen", "are not recorded"),
    ("by the machine", "measured on …"),
    ("leave away", "drop"),
    ("left away", "dropped"),
    ("of the two away", "drop one of them"),
    ("lies", "is"),
    ("lay", "was"),
    ("at all events", "in any case"),
    ("whoever", "name the person or program"),
    ("somebody", "name the program: 'another tracer'"),
    ("reckoned", "estimated"),
    ("for ever", "forever"),
    ("in the midst", "in the middle"),
    ("makes no sense", "is invalid"),
    ("held against", "compared with"),
    ("as ever", "still"),
    ("he", "a program is 'it', a user is 'you'"),
    ("him", "a program is 'it', a user is 'you'"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Words of the list in a text, each with the line it is in and what to write instead.
fn found_in(text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let mut found = Vec::new();
    // A sentence may break inside of what is looked for.
    let flat: String = text
        .chars()
        .map(|letter| match letter {
            '\n' => ' ',
            '’' => '\'',
            letter => letter.to_ascii_lowercase(),
        })
        .collect();
    for (word, instead) in DIALECT {
        let wanted = word.to_ascii_lowercase();
        for (at, _) in flat.match_indices(&wanted) {
            let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
            let before = flat[..at].chars().next_back();
            let after = flat[at + wanted.len()..].chars().next();
            if !before.is_some_and(is_letter) && !after.is_some_and(is_letter) {
                let line = text[..nearest(text, at)].matches('\n').count();
                found.push((line, *word, *instead));
            }
        }
    }
    found
}

/// The two texts differ in length where a quote was replaced: the line is close enough.
fn nearest(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Files below a folder whose name ends like this, without what tests, tables and builds leave there.
fn files(folder: &Path, ending: &str, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            // What comes from NVIDIA's headers keeps NVIDIA's words.
            if !matches!(&*name, "tests" | "target" | "generated" | "snapshots") {
                files(&path, ending, all);
            }
        } else if name.ends_with(ending) && !name.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// A source file's string literals outside of its tests, with their lines.
fn literals(source: &str) -> Vec<(usize, String)> {
    let letters: Vec<char> = source.chars().collect();
    let (mut all, mut at, mut line) = (Vec::new(), 0, 1);
    // Depth of braces, and the depth at which a module of tests began.
    let (mut depth, mut tests) = (0usize, None);
    let starts = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(offset, letter)| letters.get(at + offset) == Some(&letter))
    };
    let mut marked = false;
    while let Some(&letter) = letters.get(at) {
        let (mut end, mut literal) = (at + 1, None);
        match letter {
            '/' if starts(at, "//") => {
                end = (at..letters.len())
                    .find(|&end| letters[end] == '\n')
                    .unwrap_or(letters.len());
            }
            '/' if starts(at, "/*") => {
                end = (at + 2..letters.len())
                    .find(|&end| starts(end, "*/"))
                    .map_or(letters.len(), |end| end + 2);
            }
            '#' if starts(at, "#[cfg(test)]") => marked = true,
            '{' => {
                depth += 1;
                if marked && tests.is_none() {
                    tests = Some(depth);
                }
                marked = false;
            }
            '}' => {
                if tests == Some(depth) {
                    tests = None;
                }
                depth = depth.saturating_sub(1);
            }
            ';' => marked = false,
            // A character, not a lifetime.
            '\'' if letters.get(at + 1) == Some(&'\\') => {
                end = (at + 3..letters.len())
                    .find(|&end| letters[end] == '\'')
                    .map_or(letters.len(), |end| end + 1);
            }
            '\'' if letters.get(at + 2) == Some(&'\'') => end = at + 3,
            'r' if at > 0 && !letters[at - 1].is_alphanumeric() && letters[at - 1] != '_' => {
                let hashes = (at + 1..).take_while(|&at| letters.get(at) == Some(&'#'));
                let hashes = hashes.count();
                if letters.get(at + 1 + hashes) == Some(&'"') {
                    let close: String = std::iter::once('"')
                        .chain(std::iter::repeat_n('#', hashes))
                        .collect();
                    let first = at + hashes + 2;
                    let last = (first..letters.len()).find(|&end| starts(end, &close));
                    let last = last.unwrap_or(letters.len());
                    literal = Some(letters[first..last].iter().collect::<String>());
                    end = (last + close.len()).min(letters.len());
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(&letter) = letters.get(end).filter(|letter| **letter != '"') {
                    if letter == '\\' && letters.get(end + 1) == Some(&'\n') {
                        // The rest of the text is on the next line.
                        end += 2;
                        while letters.get(end).is_some_and(|letter| *letter == ' ') {
                            end += 1;
                        }
                    } else if letter == '\\' {
                        // `\n` is no letter of the word behind it.
                        text.push(' ');
                        end += 2;
                    } else {
                        text.push(letter);
                        end += 1;
                    }
                }
                end += 1;
                literal = Some(text);
            }
            _ => {}
        }
        if let (Some(text), None) = (literal, tests) {
            all.push((line, text));
        }
        let end = end.min(letters.len());
        line += letters[at..end]
            .iter()
            .filter(|letter| **letter == '\n')
            .count();
        at = end;
    }
    all
}

/// One line for each word that was found, as editors jump to it.
fn complain(place: &str, first: usize, text: &str, all: &mut Vec<String>) {
    for (line, word, instead) in found_in(text) {
        let line = first + line;
        all.push(format!("{place}:{line}: '{word}': {instead}"));
    }
}

fn named(path: &Path) -> String {
    let root = root();
    path.strip_prefix(&root)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "write it plainly:\n{}", wrong.join("\n"));
}

/// The source files of every crate.
fn sources() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in ["crates", "inject", "softgpu"] {
        let folder = root().join(folder);
        for entry in fs::read_dir(folder).expect("a folder of crates").flatten() {
            files(&entry.path().join("src"), ".rs", &mut paths);
        }
    }
    assert!(paths.len() > 500, "{} files", paths.len());
    paths
}

#[test]
fn messages_are_plain() {
    let paths = sources();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in paths {
        let source = fs::read_to_string(&path).expect("source is text");
        for (line, text) in literals(&source) {
            count += 1;
            complain(&named(&path), line, &text, &mut wrong);
        }
    }
    assert!(count > 5000, "{count} literals");
    none(&wrong);
}

/// Module heads and the comments of public items. All other lines become empty, for the numbers.
fn public_docs(source: &str) -> String {
    let mut lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let mut is_public = false;
    for line in lines.iter_mut().rev() {
        // An item's comment and attributes are above it.
        if !line.starts_with("///") && !line.starts_with("#[") {
            is_public = line.starts_with("pub ");
        }
        if !(line.starts_with("//!") || is_public && line.starts_with("///")) {
            *line = "";
        }
    }
    lines.join("\n")
}

#[test]
fn doc_comments_are_plain() {
    let mut wrong = Vec::new();
    for path in sources() {
        // The binary has no items that others can use.
        if named(&path).starts_with("crates/cli/") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("source is text");
        complain(&named(&path), 1, &public_docs(&source), &mut wrong);
    }
    none(&wrong);
}

#[test]
fn the_page_is_plain() {
    let mut paths = vec![root().join("web/body.html")];
    files(&root().join("web"), ".js", &mut paths);
    assert!(paths.len() > 20, "{} files", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("it is text");
        // Comments are not on the page; their lines stay, for the numbers.
        let shown: Vec<&str> = (text.lines())
            .map(|line| {
                if line.trim_start().starts_with("//") {
                    ""
                } else {
                    line
                }
            })
            .collect();
        complain(&named(&path), 1, &shown.join("\n"), &mut wrong);
    }
    none(&wrong);
}

#[test]
fn documents_are_plain() {
    let mut paths: Vec<PathBuf> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ]
    .map(|name| root().join(name))
    .into();
    files(&root().join("docs"), ".md", &mut paths);
    assert!(paths.len() > 20, "{} documents", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("it is text");
        complain(&named(&path), 1, &text, &mut wrong);
    }
    none(&wrong);
}

/// The commands below one, as its `--help` lists them: lines of a name and a sentence, under any heading but these.
fn commands(help: &str) -> Vec<String> {
    let mut heading = "";
    let mut names = Vec::new();
    for line in help.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            heading = line;
        }
        let Some((name, about)) = line.trim_start().split_once("  ") else {
            continue;
        };
        let is_name = !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_lowercase());
        let is_listed = line.starts_with("  ") && !line.starts_with("   ");
        let is_other = matches!(heading, "" | "Examples:" | "Options:" | "Arguments:");
        if is_name && is_listed && !is_other && !about.is_empty() && name != "help" {
            names.push(name.to_owned());
        }
    }
    names
}

fn help(of: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cutrace"))
        .args(of)
        .arg("--help")
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{of:?}: {output:?}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

#[test]
fn help_is_plain() {
    let (mut wrong, mut waiting, mut seen) = (Vec::new(), vec![Vec::new()], 0);
    while let Some(of) = waiting.pop() {
        let text = help(&of);
        seen += 1;
        let place = format!("cutrace {} --help", of.join(" "));
        complain(&place, 1, &text, &mut wrong);
        for name in commands(&text) {
            let mut below = of.clone();
            below.push(name);
            waiting.push(below);
        }
    }
    assert!(seen > 15, "{seen} commands");
    none(&wrong);
}

#[test]
fn words_are_found_where_they_are_and_nowhere_else() {
    let source = "/// told\nfn f() { say(\"nothing is \\\n    told of it\"); let c = '\"'; g(r#\"it lies\"#); }\n\
                  #[cfg(test)]\nmod tests { fn t() { say(\"told\"); } }\nconst S: &str = \"he\\nlay\";\n";
    let texts: Vec<_> = literals(source);
    let lines: Vec<_> = texts.iter().map(|(line, text)| (*line, &**text)).collect();
    assert_eq!(
        lines,
        [(2, "nothing is told of it"), (3, "it lies"), (6, "he lay")]
    );
    let mut wrong = Vec::new();
    for (line, text) in texts {
        complain("f.rs", line, &text, &mut wrong);
    }
    assert_eq!(wrong.len(), 4, "{wrong:#?}");
    assert_eq!(
        found_in("relies on the layout; the shell, whatever").len(),
        0
    );
    assert_eq!(found_in("TRACE is\nmeant").len(), 1);
}
