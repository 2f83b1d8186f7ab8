//! Which run and rank a process is, in which container, and which GPUs its host has: what keeps traces of one job apart
//! when they are put together.

use event::{Gpu, Identity};
use std::{fs, path::Path};

/// Where each launcher says it, the most specific first. A rank counts only beside a size, since `RANK` alone may mean anything.
const LAUNCHERS: [Launcher; 5] = [
    Launcher {
        rank: "RANK",
        local_rank: "LOCAL_RANK",
        world_size: "WORLD_SIZE",
        run: &["TORCHELASTIC_RUN_ID"],
    },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        world_size: "OMPI_COMM_WORLD_SIZE",
        run: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Launcher {
        rank: "MV2_COMM_WORLD_RANK",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        world_size: "MV2_COMM_WORLD_SIZE",
        run: &[],
    },
    Launcher {
        rank: "PMI_RANK",
        local_rank: "MPI_LOCALRANKID",
        world_size: "PMI_SIZE",
        run: &["PMI_JOBID"],
    },
    Launcher {
        rank: "SLURM_PROCID",
        local_rank: "SLURM_LOCALID",
        world_size: "SLURM_NTASKS",
        run: &[],
    },
];

/// Set by a user or a batch system for the whole job.
const RUNS: [&str; 4] = ["CUTRACE_RUN", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];

/// torchrun's id when nobody gave it one.
const NO_RUN: &str = "none";

/// Longer names of runs are cut.
const LONGEST_RUN: usize = 64;

struct Launcher {
    rank: &'static str,
    local_rank: &'static str,
    world_size: &'static str,
    run: &'static [&'static str],
}

/// The identity of what this process starts.
pub fn of_this_process() -> Identity {
    Identity {
        container: container("self"),
        pid_namespace: pid_namespace(),
        ..of_variables(|name| std::env::var(name).ok())
    }
}

/// The identity of a process that runs already.
pub fn of_running(pid: u32) -> Identity {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variable = |name: &str| {
        let mut lines = environment.split(|byte| *byte == 0);
        let value = lines.find_map(|line| {
            let rest = line.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=")
        })?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    Identity {
        container: container(&pid.to_string()),
        // Numbers in the trace are those that this process sees.
        pid_namespace: pid_namespace(),
        ..of_variables(variable)
    }
}

/// What a launcher's variables say.
pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Identity {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let mut identity = Identity {
        visible_devices: variable("CUDA_VISIBLE_DEVICES"),
        ..Identity::default()
    };
    let launcher = LAUNCHERS.iter().find(|launcher| {
        let size = number(launcher.world_size);
        number(launcher.rank)
            .zip(size)
            .is_some_and(|(rank, size)| rank < size)
    });
    let own_run = |launcher: &Launcher| launcher.run.iter().find_map(|name| variable(name));
    let run = (launcher.and_then(own_run)).filter(|run| run != NO_RUN);
    let run = run.or_else(|| RUNS.iter().find_map(|name| variable(name)));
    let Some(launcher) = launcher else {
        identity.run = run.map(|run| tidy(&run));
        return identity;
    };
    identity.rank = number(launcher.rank);
    identity.local_rank = number(launcher.local_rank);
    identity.world_size = number(launcher.world_size);
    // All ranks of a job meet at one address.
    let meeting = || {
        Some(format!(
            "{}-{}",
            variable("MASTER_ADDR")?,
            variable("MASTER_PORT")?
        ))
    };
    identity.run = run.or_else(meeting).map(|run| tidy(&run));
    identity
}

/// Becomes a folder's name.
fn tidy(run: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let name: String = (run.chars().take(LONGEST_RUN))
        .map(|sign| if plain(sign) { sign } else { '_' })
        .collect();
    name.trim_start_matches('.').to_owned()
}

/// The id in the name of a container's cgroup, or, where that cannot be seen from inside, of the files mounted into it.
fn container(process: &str) -> Option<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).ok();
    let in_cgroup = read("cgroup").and_then(|text| container_id(&text));
    in_cgroup.or_else(|| {
        let mounts = read("mountinfo")?;
        let of_containers =
            |line: &&str| line.contains("/containers/") || line.contains("/sandboxes/");
        mounts.lines().filter(of_containers).find_map(container_id)
    })
}

/// Docker, containerd, CRI-O and podman call containers by 64 hexadecimal digits.
fn container_id(text: &str) -> Option<String> {
    let words = text.split(|sign: char| !sign.is_ascii_hexdigit());
    let mut ids = words.filter(|word| word.len() == 64);
    ids.next().map(str::to_owned)
}

fn pid_namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The host's GPUs as the kernel driver lists them, by their places on the bus, as CUDA and NVML number them.
pub fn gpus() -> Vec<Gpu> {
    gpus_in(Path::new("/proc/driver/nvidia/gpus"))
}

fn gpus_in(folder: &Path) -> Vec<Gpu> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut places: Vec<_> = entries.map(|entry| entry.path()).collect();
    places.sort();
    let read = |place: &Path| fs::read_to_string(place.join("information")).ok();
    (0..)
        .zip(places.iter().filter_map(|place| read(place)))
        .map(|(index, text)| {
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key))?;
                Some(line.trim_start_matches(':').trim().to_owned())
            };
            Gpu {
                index,
                name: value("Model").unwrap_or_default(),
                uuid: value("GPU UUID").filter(|uuid| !uuid.contains('?')),
                ..Gpu::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Identity {
        of_variables(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_say_rank_size_and_run() {
        let torchrun = of(&[
            ("RANK", "3"),
            ("LOCAL_RANK", "1"),
            ("WORLD_SIZE", "8"),
            ("TORCHELASTIC_RUN_ID", "exp/7"),
        ]);
        assert_eq!(
            (torchrun.rank, torchrun.local_rank, torchrun.world_size),
            (Some(3), Some(1), Some(8))
        );
        assert_eq!(torchrun.run.as_deref(), Some("exp_7"));
        let unnamed = of(&[
            ("RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("TORCHELASTIC_RUN_ID", "none"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
        ]);
        assert_eq!(unnamed.run.as_deref(), Some("node1-29500"));
        let slurm = of(&[
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "16"),
            ("SLURM_JOB_ID", "991"),
            ("SLURM_LOCALID", "1"),
        ]);
        assert_eq!(
            (slurm.rank, slurm.local_rank, slurm.run.as_deref()),
            (Some(5), Some(1), Some("991"))
        );
        let mpirun = of(&[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("PMIX_NAMESPACE", "prterun-a@1"),
        ]);
        assert_eq!(
            (mpirun.rank, mpirun.run.as_deref()),
            (Some(1), Some("prterun-a_1"))
        );
    }

    #[test]
    fn a_rank_without_a_size_is_no_rank() {
        assert!(of(&[("RANK", "3")]).is_empty());
        assert!(of(&[("RANK", "9"), ("WORLD_SIZE", "8")]).is_empty());
        assert!(of(&[("RANK", "x"), ("WORLD_SIZE", "8")]).is_empty());
        assert_eq!(
            of(&[("CUDA_VISIBLE_DEVICES", "2,3")])
                .visible_devices
                .as_deref(),
            Some("2,3")
        );
    }

    #[test]
    fn containers_are_known_by_their_cgroups() {
        let id = "4f".repeat(32);
        let docker = format!("0::/system.slice/docker-{id}.scope\n");
        assert_eq!(container_id(&docker), Some(id.clone()));
        let pod = format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope\n");
        assert_eq!(container_id(&pod), Some(id));
        assert_eq!(container_id("0::/user.slice/user-0.slice\n"), None);
    }

    #[test]
    fn gpus_are_read_from_the_driver() {
        let folder = tempfile::tempdir().expect("a folder");
        for (place, uuid) in [("0000:5d:00.0", "GPU-b"), ("0000:19:00.0", "GPU-a")] {
            let gpu = folder.path().join(place);
            fs::create_dir(&gpu).expect("made");
            let text = format!(
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 36\nGPU UUID: \t {uuid}\nDevice Minor: \t 0\n"
            );
            fs::write(gpu.join("information"), text).expect("written");
        }
        let found = gpus_in(folder.path());
        let found: Vec<_> = found
            .iter()
            .map(|gpu| (gpu.index, gpu.name.as_str(), gpu.uuid.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                (0, "NVIDIA H200", Some("GPU-a")),
                (1, "NVIDIA H200", Some("GPU-b"))
            ]
        );
    }
}
