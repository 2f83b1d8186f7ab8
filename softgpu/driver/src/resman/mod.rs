//! What libcuda asks of the kernel driver ("resource manager"), asked for real: open, mmap and
//! ioctl system calls on stand-in device files, in the order and with the structs of a real libcuda
//! 580 on an H200, so that whatever watches system calls has something true to watch.
//!
//! The stand-ins are plain files and answer ENOTTY. softgpu plays the driver's part as well: every
//! struct holds the driver's reply (status, handles, versions) before the call, so a tracer that
//! reads it at the call's end sees a complete transaction. The GPU's name, UUID and PCI identity
//! are softgpu's own.
//!
//! [`Session`] is what `driver` calls. Start-up, context creation and destruction are recorded
//! [`sequences`] (see `recording/`), played by [`player`]; memory is in [`memory`]. Launches,
//! copies, events and module loading are not here: on hardware they make no system call either.

mod device_files;
mod memory;
mod numbers;
mod player;
#[rustfmt::skip]
mod sequences;
mod session;
mod steps;

pub use device_files::FOLDER_VARIABLE;
pub use memory::MemHandle;
pub use player::UUID;
pub use session::{ContextHandles, Session, StreamHandle};
