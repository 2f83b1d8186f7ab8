//! `cutrace man`: one manual page with all verbs, from the definitions of the command line.

use crate::arguments;
use clap_mangen::Man;
use std::io::{self, Write};

/// Usage is told by hand: a command may stand without a verb.
const SYNOPSIS: &str = "\
.SH SYNOPSIS
\\fBcutrace\\fR [record] [OPTIONS] [\\-\\-] CMD\\.\\.\\.
.br
\\fBcutrace\\fR VERB \\.\\.\\.
";

const END: &str = "\
.SH ENVIRONMENT
.TP
NO_COLOR
where it is set and not empty, nothing is coloured
.TP
COLUMNS
columns to fill; by default those of the terminal, and tables in pipes and files are not cut
.SH FILES
.TP
traces/trace_<time>.jsonl, .arrows
where traces go that are given no other name (Arrow past 256 MB); the newest of them is read where none is named
";

/// The whole page, in roff.
pub fn page() -> io::Result<Vec<u8>> {
    let mut line = arguments::definitions();
    line.build();
    let mut page = Vec::new();
    let whole = Man::new(line.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    page.write_all(SYNOPSIS.as_bytes())?;
    whole.render_description_section(&mut page)?;
    examples(&whole, &mut page)?;
    verbs(&mut line, &mut page)?;
    page.write_all(END.as_bytes())?;
    Ok(page)
}

fn verbs(parent: &mut clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    for verb in parent.get_subcommands_mut() {
        if verb.is_hide_set() || verb.get_name() == "help" {
            continue;
        }
        let name = verb.get_bin_name().unwrap_or(verb.get_name()).to_owned();
        writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
        let usage = verb.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
        writeln!(page, "\\fB{}\\fR", usage.replace('\n', "\n.br\n"))?;
        let mut body = Vec::new();
        let man = Man::new(verb.clone());
        man.render_description_section(&mut body)?;
        man.render_options_section(&mut body)?;
        examples(&man, &mut body)?;
        // Sections of a page of its own are parts of a section here.
        let body = String::from_utf8_lossy(&body).replace(".SH ", ".SS ");
        page.write_all(body.as_bytes())?;
        verbs(verb, page)?;
    }
    Ok(())
}

/// What stands behind a verb's help, line by line as it is written.
fn examples(man: &Man, page: &mut Vec<u8>) -> io::Result<()> {
    let mut text = Vec::new();
    man.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let Some((_, lines)) = text.split_once(".SH EXTRA\n") else {
        return Ok(());
    };
    let lines = lines.trim_end();
    let headless = ["Examples:\n", "Example:\n"]
        .iter()
        .find_map(|head| lines.strip_prefix(head));
    write!(
        page,
        ".SH EXAMPLES\n.nf\n{}\n.fi\n",
        headless.unwrap_or(lines)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_options_on_the_page() {
        let page = String::from_utf8(page().expect("written")).expect("UTF-8");
        for words in [
            ".SH \"CUTRACE RECORD\"",
            "\\-\\-min\\-duration",
            ".SH \"CUTRACE GPU SCHED\"",
            ".SH \"CUTRACE HOOKS CHECK\"",
            "\\-\\-fail\\-on",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("GPU LAUNCH"), "what is hidden stays so");
    }
}
