//! The head of a trace: what was run, where, and how it was watched.

use crate::{Identity, Name};
use alloc::{string::String, vec::Vec};

/// The version of trace files that this code writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// The first line of a trace.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Meta {
    pub version: u32,
    /// The version of cutrace that wrote it.
    pub cutrace: String,
    pub command: Vec<String>,
    pub pid: Option<u32>,
    /// CLOCK_MONOTONIC at the start, which is `ts` 0 in the file.
    pub start_ns: u64,
    /// The same moment in nanoseconds since 1970, to place traces of several machines together.
    pub start_unix_ns: Option<u64>,
    pub host: Host,
    /// Which run and rank this is, of a job with several.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Identity::is_empty"))]
    pub identity: Identity,
    /// The driver's version.
    pub driver: Option<String>,
    /// The CUDA version the driver offers.
    pub cuda: Option<String>,
    pub gpus: Vec<Gpu>,
    pub backends: Vec<Backend>,
    pub hooks: Hooks,
    pub clocks: Vec<ClockError>,
    /// In the head of a trace that was merged into another: added to each of its process and thread numbers there.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_zero"))]
    pub process_offset: u32,
    /// The heads of the traces this one was merged from.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub merged: Vec<Meta>,
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            version: VERSION,
            cutrace: String::new(),
            command: Vec::new(),
            pid: None,
            start_ns: 0,
            start_unix_ns: None,
            host: Host::default(),
            identity: Identity::default(),
            driver: None,
            cuda: None,
            gpus: Vec::new(),
            backends: Vec::new(),
            hooks: Hooks::default(),
            clocks: Vec::new(),
            process_offset: 0,
            merged: Vec::new(),
        }
    }
}

#[cfg(feature = "serde")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Host {
    pub name: String,
    pub os: String,
    pub kernel: String,
    pub arch: String,
    pub cpus: Option<u32>,
    /// Two traces of one boot share CLOCK_MONOTONIC.
    pub boot_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Gpu {
    pub index: u32,
    pub name: String,
    pub uuid: Option<String>,
    pub memory: Option<u64>,
    /// Set for softgpu: no report may take it for hardware.
    pub simulated: bool,
}

/// One way the program was watched, and what of it could be attached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Backend {
    pub name: String,
    pub hooks: Hooks,
    /// What could not be attached, and why.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Hooks {
    pub attached: u64,
    pub total: u64,
}

/// How well one source's clock was mapped to CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClockError {
    /// "tsc", "cupti", "globaltimer", …
    pub source: Name,
    /// No time of this source is wrong by more.
    pub error_ns: u64,
    #[cfg_attr(feature = "serde", serde(default))]
    pub pairs: u32,
}
