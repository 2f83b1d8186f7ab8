//! `--method`: by which sources a program is watched. Which there are, and what they are called, is capture's to say.

use capture::source::{Methods, SOURCES};

/// The option's help: the names.
pub fn help() -> String {
    let names = SOURCES.names().join(", ");
    format!("How to watch: auto, all, or a list of {names}")
}

/// The same with a few words on each, and what has to be known of some of them.
pub fn long_help() -> String {
    let sources = || SOURCES.by_method().map(|source| source.about());
    let words: Vec<String> = sources()
        .map(|about| format!("{}: {}", about.name, about.help))
        .collect();
    let mut paragraphs = vec![help(), format!("{}.", words.join("; "))];
    paragraphs.extend(sources().filter_map(|about| about.caution.map(str::to_owned)));
    paragraphs.join("\n\n")
}

/// `auto`, `all`, or a list.
pub fn methods(text: &str) -> Result<Methods, String> {
    match text {
        "auto" => return Ok(Methods::Auto),
        "all" => return Ok(Methods::All),
        _ => {}
    }
    let mut these = Vec::new();
    for word in text.split(',') {
        these.push(SOURCES.named(word).ok_or_else(|| unknown(word))?);
    }
    Ok(Methods::These(SOURCES.in_order(&these)))
}

/// Why a word is no method, and the nearest one.
fn unknown(word: &str) -> String {
    let names = SOURCES.names();
    if ["auto", "all"].contains(&word) {
        return format!("{word} cannot be combined with other methods");
    }
    let named = word.to_ascii_lowercase();
    if let Some(tools) = SOURCES.meant_by(&named) {
        let (method, what) = (tools.method, tools.what);
        return format!("cutrace's equivalent of {word} is --method={method} ({what})");
    }
    let all = names.join(", ");
    match names::misspelt(&named, names.into_iter().chain(["auto", "all"])) {
        Some(meant) => {
            format!("unknown method '{word}', did you mean {meant}? (choose from {all})")
        }
        None => {
            format!("unknown method '{word}' (choose from {all}); auto and all cannot be combined")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_any_order() {
        assert_eq!(methods("auto"), Ok(Methods::Auto));
        assert_eq!(methods("all"), Ok(Methods::All));
        let named = |name| SOURCES.named(name).expect("a source");
        let both = Ok(Methods::These(vec![named("preload"), named("syscall")]));
        assert_eq!(methods("syscall,preload"), both);
        assert_eq!(methods("preload,syscall,preload"), both);
        for wrong in ["", "strace", "preload,", "all,preload", "Preload"] {
            assert!(methods(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_tools_are_led_to_ours() {
        for (word, meant) in [
            ("bcc", "--method=ebpf "),
            ("strace", "--method=syscall "),
            ("preload,bpftrace", "--method=ebpf "),
            ("LTRACE", "--method=preload "),
            ("nsys", "--method=preload,cupti "),
            ("prelaod", "did you mean preload?"),
            ("all,preload", "cannot be combined"),
            ("nonsense", "choose from preload, syscall"),
        ] {
            let why = methods(word).expect_err(word);
            assert!(why.contains(meant), "{word}: {why}");
        }
        // What is advised exists.
        for tools in SOURCES
            .all()
            .filter_map(|it| it.about().other_tools.as_ref())
        {
            assert!(methods(tools.method).is_ok(), "{}", tools.method);
        }
    }
}
