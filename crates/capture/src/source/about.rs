//! What a source says of itself, for people: `--method`, `doctor`, the manual and README's table have their words
//! from here.

use std::fmt;

/// What a source is.
#[derive(Debug)]
pub struct About {
    /// On the command line and in traces.
    pub name: &'static str,
    /// What to type for it, where that is not `--method NAME`, as README has it.
    pub typed: Option<&'static str>,
    /// What it is, in one line.
    pub help: &'static str,
    /// What it shows, and the document that says more.
    pub shows: &'static str,
    pub document: Option<&'static str>,
    pub needs: &'static str,
    /// What has to be known of it before it is used: a paragraph of `--method`'s help.
    pub caution: Option<&'static str>,
    /// Whether `--method` takes its name.
    pub by_method: bool,
    pub provides: Provides,
    /// Libraries that have to lie ready for it.
    pub carries: &'static [Library],
    pub other_tools: Option<OtherTools>,
}

impl About {
    /// For those who fill in the rest.
    pub const EMPTY: About = About {
        name: "",
        typed: None,
        help: "",
        shows: "",
        document: None,
        needs: "nothing",
        caution: None,
        by_method: true,
        provides: Provides::NOTHING,
        carries: &[],
        other_tools: None,
    };
}

/// What others can build on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provides {
    /// Calls of CUDA's functions.
    pub calls: bool,
    /// The program's requests to the kernel driver.
    pub requests: bool,
    /// When work ran on the GPU, linked to the calls that another source records.
    pub gpu_times: bool,
    /// When the host waited for the GPU (`--waits`).
    pub waits: bool,
    /// PyTorch's operators, as the library in the program sees them.
    pub operators: bool,
}

impl Provides {
    pub const NOTHING: Provides = Provides {
        calls: false,
        requests: false,
        gpu_times: false,
        waits: false,
        operators: false,
    };
}

/// A library that the binary carries and unpacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    Preload,
    GpuTimes,
    GpuProbes,
}

/// Words that people know from other tools, and what to type here.
#[derive(Debug)]
pub struct OtherTools {
    pub words: &'static [&'static str],
    /// For `--method`.
    pub method: &'static str,
    pub what: &'static str,
}

/// Whether a source is taken where nobody asks for anything particular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto {
    No,
    /// One of these is taken: the available one with the highest number.
    Main(u8),
    /// Beside that one, where it is available.
    Beside,
}

/// Why a source cannot watch a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unavailable {
    pub why: String,
    /// What to do about it, if something can be done.
    pub advice: Option<String>,
}

impl Unavailable {
    pub fn because(why: impl fmt::Display) -> Self {
        Unavailable {
            why: why.to_string(),
            advice: None,
        }
    }

    pub fn advising(self, advice: impl Into<String>) -> Self {
        Unavailable {
            advice: Some(advice.into()),
            ..self
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        match &self.advice {
            Some(advice) => write!(f, ": {advice}"),
            None => Ok(()),
        }
    }
}

/// The part of `doctor`'s answer that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Driver,
    WithoutRoot,
    Ebpf,
    Kernel,
}

/// Why something does not work on this machine, and what to type about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Obstacle(String);

impl Obstacle {
    pub fn new(words: impl Into<String>) -> Self {
        Obstacle(words.into())
    }

    pub fn from_error(why: impl std::error::Error) -> Self {
        Obstacle(why.to_string())
    }
}

/// A line of `doctor`: one thing, and words about how it works, or why it does not.
#[derive(Debug)]
pub struct Finding {
    pub part: Part,
    pub name: &'static str,
    pub found: Result<String, Obstacle>,
}

impl Finding {
    pub fn new(part: Part, name: &'static str, found: Result<String, Obstacle>) -> Self {
        Finding { part, name, found }
    }
}
