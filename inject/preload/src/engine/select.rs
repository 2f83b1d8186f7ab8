//! Which functions are hooked: the session's options, and names that are known.

use super::window::Window;
use crate::sys::File;
use alloc::{borrow::ToOwned, string::String, vec::Vec};
pub use cuda::select::is_cuda_name;
use cuda::select::{candidate, is_library, returns_twice};
use event::{Selection, matches_glob};

const MOST_BYTES: usize = 64 << 10;

/// What the tracer wrote into the session's `options`.
#[derive(Debug)]
pub struct Options {
    /// (library, functions), both globs.
    libraries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The value of `-e`.
    filter: Selection<String>,
    /// Whose callers' stacks are wanted; None: nobody's.
    stacks: Option<Selection<String>>,
    /// None: as many as there is room for.
    pub ring_slots: Option<u32>,
    /// `spare`: rings for threads that begin after the program has given up system calls.
    pub spare_rings: Option<usize>,
    /// `memory touch`: as on kernels that cannot give memory to a mapping when asked.
    pub touches: bool,
    /// `clock host`: do not trust the processor's counter.
    pub host_clock: bool,
    pub method: Method,
    /// All of it, to tell one selection from another.
    text: Vec<u8>,
    /// `operators`: those of PyTorch are wanted.
    pub operators: bool,
    /// `operators shapes`: with the sizes of their inputs.
    pub shapes: bool,
    /// `intact`: functions whose code is not changed, because another tracer puts uprobes there.
    intact: Vec<Vec<u8>>,
    /// `window`: what calls are recorded for, if the program is to know it.
    pub window: Option<Window>,
}

/// `method slots`, `method symbols`: which way of hooking to take; unsaid, the best that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Patch,
    Slots,
    Symbols,
}

impl Options {
    pub fn read(session: &[u8]) -> Options {
        let mut path = session.to_vec();
        path.extend(b"/options\0");
        let mut text = Vec::new();
        if let Some(file) = File::open(&path, libc::O_RDONLY, 0) {
            text.resize(MOST_BYTES, 0);
            let read = file.read(&mut text);
            text.truncate(read);
        }
        Options::parse(&text)
    }

    pub fn is_same(&self, other: &Options) -> bool {
        self.text == other.text
    }

    /// Lines that are not understood are passed over: an older library serves a newer tracer.
    pub fn parse(text: &[u8]) -> Options {
        let mut options = Options {
            libraries: Vec::new(),
            filter: Selection::default(),
            stacks: None,
            ring_slots: None,
            spare_rings: None,
            touches: false,
            host_clock: false,
            method: Method::Patch,
            operators: false,
            shapes: false,
            intact: Vec::new(),
            window: None,
            text: text.to_vec(),
        };
        for line in text.split(|byte| *byte == b'\n') {
            let mut words = line.splitn(2, |byte| *byte == b' ');
            let (key, value) = (words.next().unwrap_or(b""), words.next().unwrap_or(b""));
            match key {
                b"lib" => {
                    let mut halves = value.splitn(2, |byte| *byte == b':');
                    if let (Some(library), Some(functions)) = (halves.next(), halves.next()) {
                        options
                            .libraries
                            .push((library.to_vec(), functions.to_vec()));
                    }
                }
                b"clock" => options.host_clock = value == b"host",
                b"memory" => options.touches = value == b"touch",
                b"spare" => {
                    let number = core::str::from_utf8(value).ok();
                    options.spare_rings = number.and_then(|text| text.trim().parse().ok());
                }
                b"method" => {
                    options.method = match value {
                        b"slots" => Method::Slots,
                        b"symbols" => Method::Symbols,
                        _ => Method::Patch,
                    }
                }
                b"operators" => {
                    options.operators = true;
                    options.shapes = value == b"shapes";
                }
                b"intact" => options.intact.push(value.to_vec()),
                b"window" if value == b"profiler" => options.window = Some(Window::Profiler),
                b"window" => {
                    let name = value.strip_prefix(b"range=");
                    options.window = name.map(|name| Window::Range(name.to_vec()));
                }
                b"filter" => options.filter = selection(value).unwrap_or_default(),
                b"stack" => options.stacks = selection(value),
                b"ring" => {
                    let number = core::str::from_utf8(value).ok();
                    options.ring_slots = number.and_then(|text| text.trim().parse().ok());
                }
                _ => {}
            }
        }
        options
    }

    /// Whether functions of this library beyond CUDA's are wanted.
    pub fn names_library(&self, path: &[u8]) -> bool {
        self.libraries
            .iter()
            .any(|(library, _)| is_library(library, path))
    }

    /// Whether a function is one that can be asked for at all: CUDA's, or of a named library.
    pub fn considers(&self, path: &[u8], name: &[u8]) -> bool {
        if is_cuda_name(name) {
            return true;
        }
        let named = |(library, functions): &(Vec<u8>, Vec<u8>)| {
            is_library(library, path) && matches_glob(functions, name)
        };
        self.libraries.iter().any(named) && !returns_twice(name)
    }

    /// Whether its code stays as it is: it is hooked by what points to it, or not at all.
    pub fn leaves_intact(&self, name: &[u8]) -> bool {
        self.intact.iter().any(|one| one == name)
    }

    /// Whether any stacks are wanted.
    pub fn has_stacks(&self) -> bool {
        self.stacks.is_some()
    }

    /// Whether its calls are to be recorded with their stacks.
    pub fn wants_stack(&self, name: &[u8]) -> bool {
        (self.stacks.as_ref()).is_some_and(|stacks| wants(stacks, name))
    }

    /// Whether calls that make the program wait are recorded with the lines of Python that they come from.
    pub fn has_lines(&self) -> bool {
        self.operators
    }

    /// Whether this is such a call.
    pub fn wants_line(&self, name: &[u8]) -> bool {
        self.has_lines() && waits(name)
    }

    /// Whether its calls are to be recorded.
    pub fn wants(&self, name: &[u8]) -> bool {
        wants(&self.filter, name)
    }
}

/// Functions that end contexts: code that keeps something in a context has to know when it goes.
pub fn ends_context(name: &[u8]) -> bool {
    let rest = name.strip_suffix(b"_v2").unwrap_or(name);
    let ends: [&[u8]; 3] = [
        b"cuCtxDestroy",
        b"cuDevicePrimaryCtxRelease",
        b"cuDevicePrimaryCtxReset",
    ];
    ends.contains(&rest)
}

/// `cudaStreamSynchronize`, `cuCtxSynchronize`, … These take microseconds, and there are few.
fn waits(name: &[u8]) -> bool {
    const WORD: &[u8] = b"Synchronize";
    is_cuda_name(name) && name.windows(WORD.len()).any(|part| part == WORD)
}

fn selection(value: &[u8]) -> Option<Selection<String>> {
    let text = core::str::from_utf8(value).ok()?;
    Some(Selection::new(text.to_owned()))
}

fn wants(selection: &Selection<String>, name: &[u8]) -> bool {
    // Most sessions ask for everything, and a library has thousands of names.
    selection.is_empty() || selection.wants(&candidate(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_mean_what_the_table_says() {
        let table = include_str!("../../../../crates/event/tests/selections.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let options = Options::parse(alloc::format!("filter {}\n", cells[0]).as_bytes());
            assert_eq!(
                options.wants(cells[1].as_bytes()),
                cells[2] == "yes",
                "{line}"
            );
        }
    }

    #[test]
    fn functions_stay_intact_by_name() {
        let options = Options::parse(b"intact cudaMalloc\nintact cudaFree\n");
        assert!(options.leaves_intact(b"cudaFree") && options.leaves_intact(b"cudaMalloc"));
        assert!(!options.leaves_intact(b"cudaMallocHost"));
    }

    #[test]
    fn windows_are_ranges_or_the_profilers() {
        let window = |text: &[u8]| Options::parse(text).window;
        assert_eq!(window(b"window profiler\n"), Some(Window::Profiler));
        let range = Window::Range(b"a step".to_vec());
        assert_eq!(window(b"window range=a step\n"), Some(range));
        assert_eq!(window(b"window 1..2\n"), None);
    }

    #[test]
    fn stacks_are_asked_for() {
        let wants = |text: &[u8], name: &[u8]| Options::parse(text).wants_stack(name);
        assert!(!Options::parse(b"filter memory\n").has_stacks());
        assert!(wants(b"stack\n", b"cuInit") && wants(b"stack \n", b"ncclInit"));
        assert!(wants(b"stack memory,!cuMemFree*\n", b"cuMemAlloc_v2"));
        assert!(!wants(b"stack memory,!cuMemFree*\n", b"cuMemFree_v2"));
    }

    #[test]
    fn lines_are_for_calls_that_wait() {
        let operators = Options::parse(b"operators\n");
        assert!(operators.wants_line(b"cudaStreamSynchronize"));
        assert!(operators.wants_line(b"cuCtxSynchronize_v2"));
        assert!(!operators.wants_line(b"cudaEventQuery"));
        assert!(!operators.wants_line(b"myStreamSynchronize"));
        assert!(!Options::parse(b"filter *\n").wants_line(b"cuCtxSynchronize"));
    }

    #[test]
    fn libraries_are_named_without_their_version() {
        let options = Options::parse(b"lib libnccl.so:nccl*\nring 512\nnonsense\nlib broken\n");
        assert!(options.names_library(b"/usr/lib/libnccl.so.2"));
        assert!(options.names_library(b"libnccl.so") && !options.names_library(b"/x/libnccl-x.so"));
        assert!(options.considers(b"/l/libnccl.so.2", b"ncclAllReduce"));
        assert!(!options.considers(b"/l/libnccl.so.2", b"pncclAllReduce"));
        assert!(!options.considers(b"/l/libother.so", b"ncclAllReduce"));
        assert_eq!(options.ring_slots, Some(512));
        let all = Options::parse(b"lib libc.so:*");
        assert!(
            !all.considers(b"/l/libc.so.6", b"setjmp") && all.considers(b"/l/libc.so.6", b"puts")
        );
    }
}
