//! Traces of a job's ranks: a folder for the run, a trace for each rank, and a list of who wrote into it.
//!
//! Ranks start at different times, on different hosts with the same file system, and know nothing of each other but
//! the run's name. Each takes the first folder of that name in which its own trace is not there yet; so a
//! second run of the same name gets the next folder, whichever rank comes first.

use event::Identity;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The list of ranks, a JSON object a line.
pub const MANIFEST: &str = "ranks.jsonl";

/// Folders of one name that are tried.
const MOST_RUNS: u32 = 10_000;

/// What a rank says about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RankEntry {
    /// Its trace, without the extension: that may still change.
    pub trace: String,
    pub host: String,
    #[serde(flatten)]
    pub identity: Identity,
}

/// The name of a rank's trace, without its extension.
fn stem(rank: u32) -> String {
    format!("rank_{rank:05}")
}

/// Where the trace of this rank goes, under `folder`. None: it is no rank of a job.
pub fn unused_path(folder: &Path, identity: &Identity) -> Option<PathBuf> {
    let rank = identity.rank.filter(|_| identity.world_size > Some(1))?;
    let run = identity.run.as_deref().unwrap_or("job");
    (1..MOST_RUNS).find_map(|number| {
        let name = match number {
            1 => format!("run_{run}"),
            _ => format!("run_{run}_{number}"),
        };
        let path = folder.join(name).join(stem(rank));
        let taken = ["jsonl", "arrows"].map(|format| path.with_extension(format).exists());
        (taken == [false, false]).then(|| path.with_extension("jsonl"))
    })
}

/// `-o t.arrows` is one name for all ranks: each writes its own, `t.rank_00003.arrows`.
pub fn own_name(path: &Path, identity: &Identity) -> Option<PathBuf> {
    let rank = identity.rank.filter(|_| identity.world_size > Some(1))?;
    let (name, extension) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
    // Somebody has thought of it.
    if name.contains(&rank.to_string()) {
        return None;
    }
    Some(path.with_file_name(format!("{name}.{}.{extension}", stem(rank))))
}

/// Adds a rank to its run's list.
pub fn enlist(trace: &Path, identity: &Identity, host: &str) -> io::Result<()> {
    let name = trace.file_stem().unwrap_or_default().to_string_lossy();
    let entry = RankEntry {
        trace: name.into_owned(),
        host: host.to_owned(),
        identity: identity.clone(),
    };
    let mut line = serde_json::to_vec(&entry)?;
    line.push(b'\n');
    // In one piece, so that lines of several ranks do not mix.
    let mut options = File::options();
    let mut file = options
        .append(true)
        .create(true)
        .open(trace.with_file_name(MANIFEST))?;
    file.write_all(&line)
}

/// What the list of a folder says; lines that are none are passed over.
pub fn enlisted(folder: &Path) -> Vec<RankEntry> {
    let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
    let entries = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32) -> Identity {
        Identity {
            run: Some("exp".into()),
            rank: Some(rank),
            world_size: Some(2),
            ..Identity::default()
        }
    }

    #[test]
    fn ranks_of_a_run_share_a_folder_and_runs_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |identity: &Identity| unused_path(folder.path(), identity).expect("a path");
        let first = [path(&rank(0)), path(&rank(1))];
        assert_eq!(first[0].parent(), first[1].parent());
        assert!(first[1].ends_with("run_exp/rank_00001.jsonl"), "{first:?}");
        fs::create_dir(first[0].parent().expect("a folder")).expect("made");
        for (trace, number) in first.iter().zip(0..) {
            fs::write(trace, "").expect("written");
            enlist(trace, &rank(number), "node1").expect("enlisted");
        }
        // One of them has become Arrow meanwhile.
        fs::rename(&first[0], first[0].with_extension("arrows")).expect("renamed");
        assert!(path(&rank(0)).ends_with("run_exp_2/rank_00000.jsonl"));
        let listed = enlisted(first[0].parent().expect("a folder"));
        let listed: Vec<_> = listed
            .iter()
            .map(|entry| (entry.trace.as_str(), entry.identity.rank))
            .collect();
        assert_eq!(listed, [("rank_00000", Some(0)), ("rank_00001", Some(1))]);
    }

    #[test]
    fn a_name_for_all_ranks_becomes_one_for_each() {
        let named = |path: &str, identity: &Identity| own_name(Path::new(path), identity);
        assert_eq!(
            named("t/x.arrows", &rank(1)),
            Some("t/x.rank_00001.arrows".into())
        );
        assert_eq!(named("x1.arrows", &rank(1)), None);
        assert_eq!(named("x.arrows", &Identity::default()), None);
        let alone = Identity {
            world_size: Some(1),
            ..rank(0)
        };
        assert_eq!(named("x.arrows", &alone), None);
        assert_eq!(unused_path(Path::new("traces"), &alone), None);
    }
}
