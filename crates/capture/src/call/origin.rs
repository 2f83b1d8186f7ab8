//! Where calls come from: what a back end knows of the processes that made them.

use super::loaded::Objects;
use cuda::capture::Plan;
use event::{Backend, Name};

/// A function of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: Name,
    pub library: Option<String>,
}

/// The processes of a back end, as program images: an exec begins a new one.
pub trait Origin {
    /// How times of one image's calls become the host's.
    type Times: Clone;

    /// The back end's name.
    fn name(&self) -> &'static str;
    /// What it has attached so far.
    fn backend(&self) -> Backend;
    /// Something is not known yet: look again.
    fn refresh(&mut self);
    /// The image that process had at a moment of its own clock.
    fn image_at(&self, pid: u32, time: u64) -> Option<usize>;
    fn times(&self, image: Option<usize>) -> Self::Times;
    /// A time of an image's as CLOCK_MONOTONIC.
    fn to_host(&self, times: &Self::Times, time: u64) -> u64;
    /// A function by its number.
    fn function(&self, image: usize, id: u32) -> Option<Named>;
    /// The process that an image was forked from.
    fn parent(&self, image: usize) -> Option<u32>;
    /// What its addresses mean, if that is known.
    fn objects(&self, image: usize) -> Option<&Objects>;
    /// What is captured of a function's calls.
    fn plan(&self, name: &str, major: Option<u32>) -> Plan {
        cuda::capture::plan(name, major)
    }
}
