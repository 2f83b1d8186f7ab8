//! Memory that the program, the device and the tracer see: a file of the session's folder.

use crate::driver;
use crate::error::MemoryError;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Mapped as long as the process lives: device code may write to it at any time.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    /// As the device sees it.
    pub device: u64,
    pub start: usize,
}

/// For every context; and at an address of the device.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

impl Shared {
    /// In the current context.
    pub fn create(
        path: &Path,
        bytes: usize,
        initial: Option<&[u8]>,
    ) -> Result<Shared, MemoryError> {
        let bytes = bytes.next_multiple_of(4096);
        let file = (File::options().read(true).write(true).create_new(true))
            .mode(0o600)
            .open(path)
            .map_err(|why| MemoryError::File {
                path: path.to_owned(),
                why,
            })?;
        // SAFETY: plain system calls on a file of ours.
        let at = unsafe {
            // Room now: running out of it later would be a signal.
            if libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) != 0 {
                let _ = std::fs::remove_file(path);
                return Err(MemoryError::NoRoom {
                    path: path.to_owned(),
                    why: io::Error::last_os_error(),
                });
            }
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(MemoryError::CannotMap {
                path: path.to_owned(),
                why: io::Error::last_os_error(),
            });
        }
        if let Some(initial) = initial {
            let part = initial.len().min(bytes);
            // SAFETY: that long, and nobody else's yet.
            unsafe { std::ptr::copy_nonoverlapping(initial.as_ptr(), at.cast(), part) };
        }
        Shared::of(at as usize, bytes)
    }

    /// Memory of nobody else's, locked by the driver.
    pub fn private(bytes: usize) -> Result<Shared, MemoryError> {
        // SAFETY: a mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(MemoryError::NoMemory(io::Error::last_os_error()));
        }
        Shared::of(at as usize, bytes).inspect_err(|_| {
            // SAFETY: nobody knows of it.
            unsafe { libc::munmap(at, bytes) };
        })
    }

    /// Of memory that is mapped already, for good.
    pub fn of(start: usize, bytes: usize) -> Result<Shared, MemoryError> {
        let device = register(start as *mut c_void, bytes.next_multiple_of(4096))?;
        Ok(Shared { device, start })
    }
}

/// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: by another context.
const REGISTERED: i32 = 712;

fn register(at: *mut c_void, bytes: usize) -> Result<u64, MemoryError> {
    let mut device = 0;
    // SAFETY: the memory stays mapped for good.
    let result = unsafe {
        match driver::cuMemHostRegister_v2(at, bytes, PORTABLE_AND_MAPPED) {
            driver::SUCCESS | REGISTERED => {
                driver::cuMemHostGetDevicePointer_v2(&mut device, at, 0)
            }
            error => error,
        }
    };
    match result {
        driver::SUCCESS => Ok(device),
        error => Err(MemoryError::OutOfReach(error)),
    }
}
