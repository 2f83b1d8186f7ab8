//! Maps of programs in GPU kernels, as `cutrace gpu … --pin FOLDER` leaves them: for programs of the host
//! that want to read them, also while kernels run.
//!
//! A folder has an index (`maps`, a line for each map of each context) and a file for each map. Maps in memory
//! of the host are there while the program runs, and change as its kernels do; all maps are there when it has
//! ended.
//!
//! ```no_run
//! let folder = gpu_maps::Folder::open("pins")?;
//! let counts = folder.map("call_count")?;
//! println!("{} calls so far", counts.sum(0));
//! # Ok::<(), gpu_maps::PinnedError>(())
//! ```

mod index;
mod map;

pub use index::{Folder, INDEX, Spec, write_index};
pub use map::{Entry, Map};

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum PinnedError {
    #[error("cannot read {}: {why}", path.display())]
    Read { path: PathBuf, why: std::io::Error },
    #[error("{}: not an index of cutrace maps", .0.display())]
    NoIndex(PathBuf),
    #[error("line {line} of {} cannot be read", path.display())]
    Line { path: PathBuf, line: usize },
    #[error("no map {name} is pinned; pinned maps: {}", .there.join(", "))]
    NoMap { name: String, there: Vec<String> },
    #[error("{} is shorter than its map", .0.display())]
    Short(PathBuf),
}
