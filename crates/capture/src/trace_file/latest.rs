//! `traces/latest`: a link that always leads to the newest trace of its folder. It is a convenience: nothing
//! that goes wrong with it concerns the run.

use std::{fs, io, os::unix::fs::symlink, path::Path};

/// What the link is called.
pub const LATEST: &str = "latest";

/// Whether a trace of this name is one of those that are looked for in `traces/`.
pub fn belongs(path: &Path, named: bool) -> bool {
    let folder = path
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let usual = fs::canonicalize(super::destination::FOLDER).ok();
    path.file_name().is_some_and(|name| name != LATEST)
        && (!named || folder.is_some() && folder == usual)
}

/// Lets the link of its folder lead to this trace. A user's own file or folder of that name stays.
pub fn lead_to(trace: &Path) {
    // A folder that cannot be written to, or a file system without links, has none.
    let _ = try_to(trace);
}

fn try_to(trace: &Path) -> io::Result<()> {
    let Some(name) = trace.file_name() else {
        return Ok(());
    };
    let link = trace.with_file_name(LATEST);
    if fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink()) {
        return Ok(());
    }
    // In one step: whoever reads it meanwhile finds the one or the other.
    let aside = trace.with_file_name(format!(".{LATEST}.{}", std::process::id()));
    let _ = fs::remove_file(&aside);
    symlink(name, &aside)?;
    fs::rename(&aside, &link).inspect_err(|_| drop(fs::remove_file(&aside)))
}

/// A trace is gone: the link must not lead nowhere.
pub fn forget(trace: &Path, other: Option<&Path>) {
    let link = trace.with_file_name(LATEST);
    let led =
        fs::read_link(&link).is_ok_and(|target| Some(target.as_os_str()) == trace.file_name());
    match (led, other) {
        (false, _) => {}
        (true, Some(other)) => lead_to(other),
        (true, None) => drop(fs::remove_file(&link)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn leads_to(folder: &Path) -> Option<PathBuf> {
        fs::read_link(folder.join(LATEST)).ok()
    }

    #[test]
    fn the_link_is_relative_and_follows_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["a.jsonl", "b.jsonl", "b.arrows"] {
            lead_to(&at(name));
            assert_eq!(leads_to(folder.path()), Some(name.into()));
        }
        forget(&at("a.jsonl"), None);
        assert_eq!(leads_to(folder.path()), Some("b.arrows".into()));
        forget(&at("b.arrows"), Some(&at("a.jsonl")));
        assert_eq!(leads_to(folder.path()), Some("a.jsonl".into()));
        forget(&at("a.jsonl"), None);
        assert_eq!(leads_to(folder.path()), None);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    }

    #[test]
    fn what_is_somebody_elses_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(LATEST), "mine").expect("written");
        lead_to(&folder.path().join("a.jsonl"));
        assert_eq!(
            fs::read_to_string(folder.path().join(LATEST)).expect("there"),
            "mine"
        );
        // There is no such folder.
        lead_to(&folder.path().join("no/a.jsonl"));
    }

    #[test]
    fn many_at_once_leave_one_link() {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let trace = folder.path().join(format!("{number}.jsonl"));
                scope.spawn(move || (0..50).for_each(|_| lead_to(&trace)));
            }
        });
        // Threads share a process id, so some attempts give way to others; the link is whole.
        let led = leads_to(folder.path()).expect("a link");
        assert_eq!(led.extension(), Some("jsonl".as_ref()));
    }
}
