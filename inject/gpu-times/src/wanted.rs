//! What the tracer wants: said by the environment of a program that it starts, by lines of text where it comes into one
//! that runs already.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    sync::{Mutex, PoisonError},
};

/// For the session that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The session's folder.
    pub session: OsString,
    /// By events, not by CUPTI.
    pub events: bool,
    /// When the host waited.
    pub waits: bool,
    /// What CUPTI takes for itself.
    pub overhead: bool,
    /// Which call made each node of a graph.
    pub graph_nodes: bool,
}

static WANTED: Mutex<Option<Wanted>> = Mutex::new(None);

impl Wanted {
    /// None: nobody traces this program.
    pub fn from_environment() -> Option<Wanted> {
        Some(Wanted {
            session: env::var_os("CUTRACE_GPU_TIMES")?,
            events: env::var_os("CUTRACE_GPU_TIMES_BY").is_some_and(|by| by == "events"),
            waits: env::var_os("CUTRACE_GPU_TIMES_WAITS").is_some(),
            overhead: env::var_os("CUTRACE_GPU_TIMES_OVERHEAD").is_some(),
            graph_nodes: env::var_os("CUTRACE_GPU_TIMES_GRAPH_NODES").is_some(),
        })
    }

    /// The folder, and a word on each line behind it.
    pub fn from_lines(text: &[u8]) -> Wanted {
        let mut lines = text.split(|byte| *byte == b'\n');
        let session = lines.next().unwrap_or_default().to_vec();
        let words: Vec<&[u8]> = lines.collect();
        Wanted {
            session: OsString::from_vec(session),
            events: words.contains(&&b"events"[..]),
            waits: words.contains(&&b"waits"[..]),
            overhead: words.contains(&&b"overhead"[..]),
            graph_nodes: words.contains(&&b"graph nodes"[..]),
        }
    }

    /// From now on, for all of this library.
    pub fn set(self) {
        *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }

    pub fn get() -> Wanted {
        let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.clone().unwrap_or_default()
    }
}

/// A variable, as the program found it when it began: the program may be changing its variables at this moment.
pub fn variable(name: &str) -> Option<OsString> {
    let all = fs::read("/proc/self/environ").ok()?;
    let mut pairs = all.split(|byte| *byte == 0);
    pairs.find_map(|pair| {
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_wanted() {
        let wanted = Wanted::from_lines(b"/dev/shm/x y\nwaits\nunknown\ngraph nodes");
        assert_eq!(wanted.session, "/dev/shm/x y");
        assert!(wanted.waits && wanted.graph_nodes && !wanted.events && !wanted.overhead);
        assert!(Wanted::from_lines(b"/x\nevents\noverhead").events);
        assert_eq!(Wanted::from_lines(b""), Wanted::default());
    }

    #[test]
    fn variables_are_those_of_the_beginning() {
        assert_eq!(variable("PATH"), env::var_os("PATH"));
        assert_eq!(variable("PAT"), None);
    }
}
