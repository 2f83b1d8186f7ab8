//! The ioctls of NVIDIA's driver in words: requests, controls, classes, statuses and structs by
//! driver version; handles followed from allocation to free; what the calls mean.
//!
//! A tracer does this for each ioctl on the driver's files:
//!
//! 1. [`argument_size`] bytes at the ioctl's argument are `before`;
//! 2. [`wanted`] says which memory the struct points to: read it, and ask once more;
//! 3. when the call has returned, read the same places again: `after`, `memory_after`;
//! 4. [`Handles::returned`] gives the words ([`Decoded`]) and what was done ([`Fact`]s).
//!
//! [`decode`] alone, or [`Handles::decode`] while the call is under way, needs only `before`.
//!
//! ```
//! use nvidia_ioctl::{DeviceFile, IoctlCall, Version, decode};
//!
//! let mut bytes = [0; 16];
//! bytes[8..12].copy_from_slice(&0x5c00_0013u32.to_le_bytes());
//! let call = IoctlCall {
//!     file: DeviceFile::Control,
//!     cmd: 0xc010_4629,
//!     version: "580.159.04".parse()?,
//!     before: &bytes,
//!     after: Some(&bytes),
//!     memory: &[],
//!     memory_after: &[],
//! };
//! assert_eq!(decode(&call).line(), "RM_FREE 0x5c000013 → ok");
//! # Ok::<(), nvidia_ioctl::NotAVersion>(())
//! ```
//!
//! The tables are generated from the open driver's headers by `crates/nvidia-ioctl/generate/run`.
//! Any bytes decode to something: what is cut short, too long or of an unknown version is said in
//! [`Decoded::doubt`] or left out.

mod call;
mod category;
mod class;
mod decode;
mod facts;
mod fields;
mod file;
mod follow;
mod handles;
mod layout;
mod status;
mod tables;
mod text;
mod version;

pub use call::{IoctlCall, MOST_BYTES, Memory, Range, argument_size, wanted};
pub use class::{ObjectKind, class_name};
pub use decode::{Decoded, Subject, decode, short_control};
pub use facts::Fact;
pub use file::{DeviceFile, Direction, Ioc};
pub use handles::{Handles, Object};
pub use status::NvStatus;
pub use text::shown;
pub use version::{NotAVersion, Version};

use tables::Table;

/// Requests, controls and classes that a version has: for those who list or count them.
pub fn known(kind: Known, version: Version) -> impl Iterator<Item = (u32, &'static str)> {
    let table: &'static Table = match kind {
        Known::Escapes => tables::escapes(),
        Known::Uvm => tables::uvm(),
        Known::Controls => tables::controls(),
        Known::Classes => tables::classes(),
    };
    let rows = table.rows().iter();
    rows.filter(move |row| table.holds(row, version))
        .map(|row| (row.number, row.name))
}

/// What there are tables of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Requests to nvidiactl and nvidiaN.
    Escapes,
    /// Requests to nvidia-uvm.
    Uvm,
    Controls,
    Classes,
}
