//! The ranks of a job, as torchrun, mpirun and srun start them: one folder, a trace each, and every command takes it.

mod common;

use common::{cutrace, program};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// What a launcher tells each rank.
struct Launcher {
    rank: &'static str,
    world_size: &'static str,
    /// For the whole job.
    job: &'static [(&'static str, &'static str)],
    /// The folder of the run.
    run: &'static str,
}

const LAUNCHERS: [Launcher; 3] = [
    Launcher {
        rank: "RANK",
        world_size: "WORLD_SIZE",
        job: &[
            ("TORCHELASTIC_RUN_ID", "none"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
        ],
        run: "run_node1-29500",
    },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        world_size: "OMPI_COMM_WORLD_SIZE",
        job: &[("PMIX_NAMESPACE", "prterun-node1-77@1")],
        run: "run_prterun-node1-77_1",
    },
    Launcher {
        rank: "SLURM_PROCID",
        world_size: "SLURM_NTASKS",
        job: &[("SLURM_JOB_ID", "991")],
        run: "run_991",
    },
];

impl Launcher {
    /// A command as it starts one, whatever started this test.
    fn prepare<'a>(&self, command: &'a mut Command, rank: u32, size: u32) -> &'a mut Command {
        for other in &LAUNCHERS {
            command.env_remove(other.rank).env_remove(other.world_size);
        }
        command.env_remove("CUTRACE_RUN");
        command
            .env(self.rank, rank.to_string())
            .env(self.world_size, size.to_string())
            .envs(self.job.iter().copied())
    }

    /// Records so many ranks at once in this folder; where their traces are.
    fn run(&self, here: &Path, program: &Path, size: u32) -> PathBuf {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let mut command = cutrace();
                command.args(["record", "--sim", "--"]).arg(program);
                self.prepare(&mut command, rank, size)
                    .current_dir(here)
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped());
                command.spawn().expect("cutrace runs")
            })
            .collect();
        for rank in ranks {
            let output = rank.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{output:?}");
        }
        here.join("traces").join(self.run)
    }
}

fn shown(here: &Path, words: &[&str]) -> Output {
    let output = cutrace().args(words).current_dir(here).output();
    let output = output.expect("cutrace runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    output
}

fn names(folder: &Path) -> BTreeSet<String> {
    let found = fs::read_dir(folder).expect("a folder").flatten();
    let names = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // A trace becomes Arrow when it is large.
    names
        .map(|name| name.replace(".arrows", ".jsonl"))
        .collect()
}

#[test]
fn ranks_of_each_launcher_share_a_folder_that_every_command_takes() {
    let Some(program) = program("vector_add") else {
        return;
    };
    for launcher in &LAUNCHERS {
        let place = tempfile::tempdir().expect("a folder");
        let here = place.path();
        let run = launcher.run(here, &program, 2);
        let wanted = ["rank_00000.jsonl", "rank_00001.jsonl", "ranks.jsonl"];
        assert_eq!(names(&run), wanted.map(String::from).into());
        let folder = run.to_str().expect("UTF-8");

        let text = shown(here, &["timeline", "--color", "never", folder]).stdout;
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("rank 0") && text.contains("rank 1"), "{text}");
        for words in [
            ["report", folder].as_slice(),
            &["report", "--json", folder],
            &["cat", folder],
            &["export", "-f", "chrome", "-o", "both.json", folder],
            &["export", "-o", "both.arrows", folder],
            &["lake", "add", "lake", folder],
        ] {
            let output = shown(here, words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("warning"), "{words:?}: {said}");
        }
        let chrome = fs::read_to_string(here.join("both.json")).expect("written");
        assert!(chrome.contains("rank 0") && chrome.contains("rank 1"));
        let listed = shown(here, &["lake", "list", "lake"]).stdout;
        assert_eq!(String::from_utf8_lossy(&listed).lines().count(), 2);
        // The newest run is the whole job.
        shown(here, &["report"]);

        fs::remove_file(run.join("rank_00001.jsonl")).expect("removed");
        let output = shown(here, &["report", folder]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("1 of 2 ranks have a trace here; missing: 1"),
            "{said}"
        );
    }
}

#[test]
fn a_second_run_of_the_same_name_has_a_folder_of_its_own() {
    let Some(program) = program("vector_add") else {
        return;
    };
    let place = tempfile::tempdir().expect("a folder");
    let launcher = &LAUNCHERS[0];
    launcher.run(place.path(), &program, 2);
    launcher.run(place.path(), &program, 2);
    let first = launcher.run.to_owned();
    let runs: BTreeSet<String> = names(&place.path().join("traces"));
    let runs = runs.into_iter().filter(|name| name.starts_with("run_"));
    assert_eq!(
        runs.collect::<Vec<_>>(),
        [first.clone(), format!("{first}_2")]
    );
}
