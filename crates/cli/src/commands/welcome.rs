//! `cutrace` alone: the three commands one needs, and the newest trace.

use super::{input::newest, style::stderr_style};
use crate::say;
use anyhow::Result;
use capture::trace_file::{self, destination::FOLDER};
use render::{Paint, Style, printable};
use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};
use trace::Parts;

pub fn run() -> Result<ExitCode> {
    let text = text(Path::new(FOLDER), SystemTime::now(), &stderr_style());
    say::painted(&text);
    // Nothing was done.
    Ok(ExitCode::from(crate::BAD_INPUT))
}

fn text(folder: &Path, now: SystemTime, style: &Style) -> String {
    let mut text = String::from(
        "cutrace records what a CUDA program does, from API calls down to GPU threads.\n\n",
    );
    commands(
        &[
            ("cutrace ./app", "record a program"),
            ("cutrace report", "say what the newest trace shows"),
            ("cutrace view", "open it in the browser"),
        ],
        style,
        &mut text,
    );
    text.push('\n');
    match newest(folder) {
        Some(path) => {
            let _ = writeln!(text, "{}", about(&path, now, style));
        }
        None => {
            let folder = folder.display();
            let _ = writeln!(
                text,
                "There is no trace in {folder}/ yet. Without a GPU at hand, 'cutrace demo' records a small program on softgpu."
            );
        }
    }
    text.push_str(
        "'cutrace --help' lists all commands, 'cutrace doctor' says what can be recorded here.\n",
    );
    text
}

fn commands(list: &[(&str, &str)], style: &Style, text: &mut String) {
    let width = list.iter().map(|(command, _)| command.len()).max();
    let width = width.unwrap_or(0);
    for (command, does) in list {
        let command = style.paint(Paint::Heading, &format!("{command:<width$}"));
        let _ = writeln!(text, "  {command}   {does}");
    }
}

/// What a trace is of, and when it was made.
fn about(path: &Path, now: SystemTime, style: &Style) -> String {
    let file = path.metadata().ok().filter(std::fs::Metadata::is_file);
    let size = file.as_ref().map(|file| trace_file::size(file.len()));
    let changed = file.as_ref().and_then(|file| file.modified().ok());
    let age = changed.and_then(|changed| now.duration_since(changed).ok());
    let mut details: Vec<String> = age.map(ago).into_iter().chain(size).collect();
    // A pipe would make this wait.
    if file.is_some() {
        match trace::open_with(path, Parts::NONE) {
            Ok(reader) => {
                let command = printable(&reader.meta().command.join(" "));
                details.extend((!command.is_empty()).then(|| cut(command, style)));
            }
            Err(_) => details.push("which cannot be read".into()),
        }
    }
    let name = style.paint(Paint::Heading, &printable(&path.display().to_string()));
    format!("Newest trace: {name}\n  {}\n", details.join(", "))
}

/// In a line.
fn cut(command: String, style: &Style) -> String {
    let most = style.width.saturating_sub(30).max(20);
    match command.chars().count() > most {
        true => {
            let begin: String = command.chars().take(most).collect();
            format!("{begin}{}", style.ellipsis())
        }
        false => command,
    }
}

/// `5 minutes ago`
fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (count, unit) = match seconds {
        0..60 => return "a moment ago".into(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn plain() -> Style {
        Style {
            color: false,
            width: 80,
            ..Style::default()
        }
    }

    #[test]
    fn the_newest_trace_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let without = text(folder.path(), SystemTime::now(), &plain());
        assert!(without.contains("There is no trace in "), "{without}");
        let head =
            r#"{"type":"meta","version":1,"command":["./app","--fast","\u001b[2J"],"start_ns":1}"#;
        let path = folder.path().join("trace_20261117_101010.jsonl");
        fs::write(&path, format!("{head}\n")).expect("written");
        let later = SystemTime::now() + Duration::from_secs(301);
        let with = text(folder.path(), later, &plain());
        let wanted = format!(
            "Newest trace: {}\n  5 minutes ago, {} bytes, ./app --fast ?[2J\n",
            path.display(),
            head.len() + 1
        );
        assert!(with.contains(&wanted), "{with}");
        fs::write(&path, "no trace").expect("written");
        let broken = text(folder.path(), later, &plain());
        assert!(broken.contains(", which cannot be read\n"), "{broken}");
    }

    #[test]
    fn ages_are_in_words() {
        for (seconds, words) in [
            (3, "a moment ago"),
            (60, "1 minute ago"),
            (7_200, "2 hours ago"),
            (86_400 * 40, "40 days ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), words);
        }
    }
}
