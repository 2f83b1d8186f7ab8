//! What sources need to know of a run. The reader of the command line fills this in, once.

use super::{Library, SourceError, SourceRef, Unavailable};
use crate::{
    attach,
    ebpf::ProcessFilter,
    gpu_probe::Probes,
    hooks::Hook,
    launch::{self, Command, OtherUser},
    live::WindowOptions,
};
use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Command {
        program: OsString,
        arguments: Vec<OsString>,
    },
    /// One that runs already.
    Process(u32),
    /// Every process.
    Machine,
}

impl Default for Subject {
    fn default() -> Self {
        Subject::Command {
            program: OsString::new(),
            arguments: Vec::new(),
        }
    }
}

/// Which sources are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Methods {
    /// What nobody has to ask for: preload, and where they are found cupti, uvm and nvml.
    #[default]
    Auto,
    /// Everything that works here.
    All,
    /// These; it is an error if one cannot be had.
    These(Vec<SourceRef>),
}

/// softgpu's libraries, for programs that are to run on it.
#[derive(Debug, Clone)]
pub struct Softgpu {
    pub folder: PathBuf,
    /// The one that serves runtimes linked into programs.
    pub redirect: &'static str,
}

/// Where the libraries are that the binary carries.
#[derive(Debug, Clone, Default)]
pub struct Carried(Vec<(Library, PathBuf)>);

impl Carried {
    pub fn add(&mut self, library: Library, path: PathBuf) {
        self.0.push((library, path));
    }

    /// It is there if a source that was taken says that it carries it.
    pub fn path(&self, library: Library) -> Result<&PathBuf, SourceError> {
        let mut found = self.0.iter().filter(|(known, _)| *known == library);
        let missing =
            || SourceError::in_words(format!("the library {library:?} has not been unpacked"));
        found.next().map(|(_, path)| path).ok_or_else(missing)
    }
}

/// A run, as its sources see it.
#[derive(Default)]
pub struct RunOptions {
    pub subject: Subject,
    /// Of all processes only some.
    pub whose: ProcessFilter,
    /// Who the command runs as, if not as we do.
    pub user: Option<OtherUser>,
    pub methods: Methods,
    /// Categories, layers and function globs.
    pub filter: Option<String>,
    /// Calls that come with their stacks, likewise.
    pub stacks: Option<String>,
    /// Library globs, each with a glob over its functions.
    pub libraries: Vec<(String, String)>,
    /// The driver's functions: groups of them, or all if none is named.
    pub driver_groups: Option<Vec<String>>,
    /// Hooks besides the driver's.
    pub hooks: Vec<Hook>,
    /// One of so many API calls is recorded; 0 is all, as 1.
    pub sample: u32,
    /// Record when the host waited for the GPU (needs CUPTI).
    pub waits: bool,
    /// Have CUPTI say which call made each node of a graph, child graphs' nodes included.
    pub graph_nodes: bool,
    /// Record which module PyTorch's operators belong to.
    pub modules: bool,
    /// With the shapes of their inputs.
    pub shapes: bool,
    pub min_duration: Duration,
    /// How long to watch.
    pub duration: Option<Duration>,
    /// Only a part of the run is recorded.
    pub window: Option<WindowOptions>,
    /// What recording may cost, as a share of the busiest thread's time.
    pub budget: Option<f64>,
    /// Steps are counted as the run goes on, by launches.
    pub counts_steps: bool,
    /// On softgpu.
    pub simulate: bool,
    pub softgpu: Option<Softgpu>,
    /// The details are shown.
    pub verbose: bool,
    /// Where to try last to keep files, besides the usual places: where the trace goes.
    pub near: Option<PathBuf>,
    /// Programs inside kernels.
    pub probes: Option<Arc<Probes>>,
    pub carried: Carried,
    /// Takes lines that cannot wait for the end, if anybody reads them.
    pub say: Option<fn(&str)>,
}

impl RunOptions {
    /// The process that runs already.
    pub fn pid(&self) -> Option<u32> {
        match self.subject {
            Subject::Process(pid) => Some(pid),
            _ => None,
        }
    }

    pub fn is_everyone(&self) -> bool {
        self.subject == Subject::Machine
    }

    pub fn is_command(&self) -> bool {
        matches!(self.subject, Subject::Command { .. })
    }

    /// The command to start; none is empty.
    pub fn command(&self) -> Command {
        let (program, args) = match &self.subject {
            Subject::Command { program, arguments } => (program.clone(), arguments.clone()),
            _ => Default::default(),
        };
        Command {
            program,
            args,
            environment: Vec::new(),
        }
    }

    /// The command's words; none if there is none.
    pub fn words(&self) -> Vec<String> {
        let launch::Command { program, args, .. } = self.command();
        let words = std::iter::once(program).chain(args);
        let words = words.skip_while(|word| word.is_empty());
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// A library comes into a program when it starts, or by ptrace when it runs already (docs/ATTACH.md).
    pub fn can_be_entered(&self) -> Result<(), Unavailable> {
        match self.pid() {
            Some(pid) => attach::check(pid).map_err(Unavailable::because),
            None => self.is_not_the_machine(),
        }
    }

    /// For sources that watch processes one by one.
    pub fn is_not_the_machine(&self) -> Result<(), Unavailable> {
        match self.is_everyone() {
            true => Err(Unavailable::because(
                "it traces commands and processes, not the whole machine",
            )),
            false => Ok(()),
        }
    }

    /// For sources whose events have no user.
    pub fn tells_nobody_apart(&self) -> Result<(), Unavailable> {
        match self.whose.is_anybodys() {
            true => Ok(()),
            false => Err(Unavailable::because(
                "it cannot tell users and cgroups apart (--uid, --cgroup)",
            )),
        }
    }

    /// One of so many API calls is recorded.
    pub fn one_of(&self) -> u32 {
        self.sample.max(1)
    }
}
