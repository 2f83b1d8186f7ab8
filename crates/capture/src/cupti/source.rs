//! GPU times, as two sources: a library that the driver loads collects them, by CUPTI or by events.

use super::{CuptiError, CuptiReport, Recording, Session};
use crate::{
    attach::{self, AttachError},
    library,
    notes::counted,
    preload::PRELOAD,
    source::{
        About, Auto, Finding, Joining, Library, Observations, Obstacle, OtherTools, Outcome,
        Outlet, Part, Provides, RunOptions, Running, Source, SourceError, SourceRef, Unavailable,
        words,
    },
};
use cuda::mps;
use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub struct Cupti;
pub struct Events;

pub static CUPTI: Cupti = Cupti;
pub static EVENTS: Events = Events;

static ABOUT_CUPTI: About = About {
    name: "cupti",
    help: "when work ran on the GPU",
    shows: "when work ran on the GPU, and which call started it",
    document: Some("docs/GPU-TIMES.md"),
    needs: "libcupti; falls back to the less exact `events` without it",
    provides: Provides {
        gpu_times: true,
        waits: true,
        ..Provides::NOTHING
    },
    carries: &[Library::GpuTimes],
    other_tools: Some(OtherTools {
        words: &["nsys", "nsight", "nsight-systems", "nvprof", "activity"],
        method: "preload,cupti",
        what: "CUDA calls, and when work ran on the GPU",
    }),
    ..About::EMPTY
};

static ABOUT_EVENTS: About = About {
    name: "events",
    help: "the same without CUPTI, from CUDA events around the work; less exact",
    shows: "when work ran on the GPU, from CUDA events around it; `cupti` falls back to this when it has to",
    document: Some("docs/GPU-TIMES.md"),
    needs: "preload as well",
    provides: Provides {
        gpu_times: true,
        ..Provides::NOTHING
    },
    carries: &[Library::GpuTimes],
    ..About::EMPTY
};

impl From<CuptiError> for SourceError {
    fn from(cause: CuptiError) -> Self {
        SourceError::of(cause)
    }
}

impl Source for Cupti {
    fn about(&self) -> &'static About {
        &ABOUT_CUPTI
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.can_be_entered()
    }

    fn auto(&self, run: &RunOptions) -> Auto {
        // What it costs cannot be measured from outside: under a budget it must be asked for.
        match run.is_command() && run.budget.is_none() {
            true => Auto::Beside,
            false => Auto::No,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        vec![
            Finding::new(Part::Driver, "CUPTI", installed()),
            Finding::new(Part::Driver, "without MPS", alone()),
        ]
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        collect(run, joining, false)
    }
}

impl Source for Events {
    fn about(&self) -> &'static About {
        &ABOUT_EVENTS
    }

    fn available(&self, run: &RunOptions) -> Result<(), Unavailable> {
        run.can_be_entered()
    }

    fn left_out_of_all(&self, _run: &RunOptions) -> Option<String> {
        Some("cupti falls back to it when it has to".into())
    }

    fn clash(&self, list: &[SourceRef]) -> Option<String> {
        if list.contains(&(&CUPTI as SourceRef)) {
            let words = "--method: cupti already falls back to events; name only one of them";
            return Some(words.into());
        }
        (!list.contains(&(&PRELOAD as SourceRef))).then(|| {
            "--method=events needs the injected library: use --method preload,events".into()
        })
    }

    fn start(
        &self,
        run: &RunOptions,
        joining: Joining<'_>,
    ) -> Result<Box<dyn Running>, SourceError> {
        collect(run, joining, true)
    }
}

/// Whether programs of this user get the GPU through the Multi-Process Service.
fn alone() -> Result<String, Obstacle> {
    let folder = env::var_os(mps::FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    let folder = folder.unwrap_or_else(|| mps::USUAL_FOLDER.into());
    // The kernel's list of local sockets: a folder may outlive its daemon, a socket does not.
    let sockets = fs::read("/proc/net/unix").unwrap_or_default();
    let served = sockets.split(|byte| *byte == b'\n').any(|line| {
        let path = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        mps::is_in(folder.as_bytes(), path)
    });
    match served {
        false => Ok("no MPS control daemon is running for this user".to_owned()),
        true => Err(Obstacle::new(format!(
            "an MPS control daemon is running ({}): programs run {}",
            folder.display(),
            mps::CLIENT
        ))),
    }
}

/// The libcupti that programs without one of their own would get, and its version.
fn installed() -> Result<String, Obstacle> {
    let installed = library::installed(Some("uprobe:libcupti.so*:*"), &[]);
    let toolkits = ["extras/CUPTI/lib64", "lib64"].map(|folder| {
        Path::new("/usr/local/cuda")
            .join(folder)
            .join("libcupti.so")
    });
    let found = (installed.into_iter())
        .chain(toolkits)
        .find_map(|path| Some((fs::canonicalize(&path).ok()?, path)));
    let Some((file, path)) = found else {
        let words = "no libcupti.so on the loader's path or in /usr/local/cuda; if the program does not bring its own, \
                     GPU times come from CUDA events";
        return Err(Obstacle::new(words));
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.trim_start_matches("libcupti.so").trim_matches('.');
    let path = path.display();
    Ok(format!("{path}, version {version}: GPU times"))
}

fn collect(
    run: &RunOptions,
    joining: Joining<'_>,
    by_events: bool,
) -> Result<Box<dyn Running>, SourceError> {
    // The calls that cause the work, as others see them.
    let calls = joining.calls.cloned().unwrap_or_default();
    let session = Session::create_near(calls, run.near.as_deref())?;
    joining.gates.add_times(session.folder());
    let library = run.carried.path(Library::GpuTimes)?;
    if run.pid().is_some() {
        let entering = Entering {
            library: library.clone(),
            wanted: lines(run, session.folder(), by_events),
            process: None,
        };
        return Ok(Box::new(Collecting {
            environment: Vec::new(),
            hindrance: None,
            entering: Some(entering),
            recording: session.start(joining.outlet, joining.deadline.clone())?,
        }));
    }
    let existing = env::var_os("CUDA_INJECTION64_PATH");
    let mut environment = session.environment(library, existing.as_deref());
    if let Some(environment) = &mut environment {
        if by_events {
            environment.push(("CUTRACE_GPU_TIMES_BY".into(), "events".into()));
        }
        if run.waits {
            environment.push(("CUTRACE_GPU_TIMES_WAITS".into(), "1".into()));
        }
        // Only who wants details is shown it.
        if run.verbose {
            environment.push(("CUTRACE_GPU_TIMES_OVERHEAD".into(), "1".into()));
        }
        if follows_graph_nodes(run) {
            environment.push(("CUTRACE_GPU_TIMES_GRAPH_NODES".into(), "1".into()));
        }
    }
    let hindrance = environment.is_none().then(|| {
        let theirs = existing.unwrap_or_default();
        format!(
            "no GPU times: CUDA_INJECTION64_PATH names another tool's library, {}, and the driver loads only one: \
             unset it to get GPU times",
            theirs.display()
        )
    });
    Ok(Box::new(Collecting {
        environment: environment.unwrap_or_default(),
        hindrance,
        entering: None,
        recording: session.start(joining.outlet, joining.deadline.clone())?,
    }))
}

struct Collecting {
    environment: Vec<(OsString, OsString)>,
    /// Why nothing will be collected.
    hindrance: Option<String>,
    /// Of a process that runs already.
    entering: Option<Entering>,
    recording: Recording<Outlet>,
}

struct Entering {
    library: PathBuf,
    /// For the library, as lines.
    wanted: Vec<u8>,
    /// The process that it has been loaded into.
    process: Option<u32>,
}

/// On a GPU only if asked for: there it has not been tried.
fn follows_graph_nodes(run: &RunOptions) -> bool {
    run.graph_nodes || run.simulate
}

/// What a library that comes into a running process is to know, which otherwise is in its environment.
fn lines(run: &RunOptions, session: &Path, by_events: bool) -> Vec<u8> {
    let mut text = session.as_os_str().as_bytes().to_vec();
    let words = [
        (by_events, "events"),
        (run.waits, "waits"),
        (run.verbose, "overhead"),
        (follows_graph_nodes(run), "graph nodes"),
    ];
    for (_, word) in words.iter().filter(|(is_wanted, _)| *is_wanted) {
        text.push(b'\n');
        text.extend(word.as_bytes());
    }
    text
}

impl Running for Collecting {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>, SourceError> {
        Ok(std::mem::take(&mut self.environment))
    }

    /// A process without GPU times is traced all the same.
    fn attach(&mut self, pid: u32) -> Result<(), SourceError> {
        if let Some(entering) = &mut self.entering {
            let begin = "cutrace_gpu_times_attach";
            match attach::call(pid, &entering.library, begin, &entering.wanted) {
                Ok(()) => entering.process = Some(pid),
                Err(why) => self.hindrance = Some(format!("no GPU times: {why}")),
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Option<Outcome> {
        if let Some(entering) = self.entering.take()
            && let Some(pid) = entering.process
        {
            let end = "cutrace_gpu_times_detach";
            match attach::call(pid, &entering.library, end, b"") {
                Ok(()) | Err(AttachError::Ended { .. } | AttachError::Gone { .. }) => {}
                Err(why) => self.hindrance = Some(format!("GPU times could not be ended: {why}")),
            }
        }
        let (outlet, report) = self.recording.finish();
        let mut details = details(&report);
        let mut notes = words::lines(&report.notes, &mut details);
        notes.extend(self.hindrance);
        Some(Outcome {
            observed: Observations {
                notes,
                details,
                clocks: report.clocks,
                unwritten: report.unwritten,
                failure: report.failure,
                ..Observations::default()
            },
            ..Outcome::new(outlet)
        })
    }
}

fn details(report: &CuptiReport) -> String {
    let mut text = String::new();
    for (pid, about) in &report.processes {
        let about = about.as_deref().unwrap_or("none");
        let _ = writeln!(text, "cutrace: process {pid}: GPU times: {about}");
    }
    let counts = &report.counts;
    if !report.clocks.is_empty() {
        let graphs = match counts.graphs {
            0 => String::new(),
            graphs => format!(", {}", counted(graphs, "graph", "graphs")),
        };
        let waits = match counts.waits {
            0 => String::new(),
            waits => format!(", {}", counted(waits, "wait for it", "waits for it")),
        };
        let linked = match counts.unlinked {
            0 => "all linked to their calls".to_owned(),
            unlinked => format!("{unlinked} not linked to a call"),
        };
        let _ = writeln!(
            text,
            "cutrace: on the GPU: {}, {}, {}{graphs}{waits}, {linked}",
            counted(counts.kernels, "kernel", "kernels"),
            counted(counts.copies, "copy", "copies"),
            counted(counts.fills, "memset", "memsets"),
        );
    }
    for (what, (times, took)) in &report.own_cost {
        let took = *took as f64 / 1e6;
        let _ = writeln!(
            text,
            "cutrace: overhead in the driver and CUPTI: {what}: {took:.3} ms, {}",
            counted(*times, "time", "times")
        );
    }
    for clock in &report.clocks {
        let _ = writeln!(
            text,
            "cutrace: GPU times from {} are accurate to {} ns",
            clock.source, clock.error_ns
        );
    }
    text
}
