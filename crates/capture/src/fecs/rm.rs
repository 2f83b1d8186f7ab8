//! As much of the driver's resource manager as it takes to have an event buffer: objects, controls
//! and memory of our own, by ioctls on its files.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const CONTROL_FILE: &str = "/dev/nvidiactl";
const MOST_GPUS: u32 = 32;

// Numbers of ioctls (`_IOWR('F', number, struct)`).
const RM_CONTROL: u32 = 0x2a;
const RM_ALLOC: u32 = 0x2b;
const RM_MAP_MEMORY: u32 = 0x4e;
const REGISTER_FD: u32 = 201;

// Classes.
const ROOT_CLIENT: u32 = 0x41;
const DEVICE: u32 = 0x80;
const SUBDEVICE: u32 = 0x2080;
const MEMORY_SYSTEM: u32 = 0x3e;

// Controls.
const GET_ATTACHED_IDS: u32 = 0x201;
const GET_ID_INFO: u32 = 0x205;
const TIMER_GET_TIME: u32 = 0x2080_0403;

/// In system memory, and not for us to write.
const LOCATION_PCI: u32 = 1 << 25;
const USER_READ_ONLY: u32 = 1 << 22;
/// Any owner but none.
const OWNER: u32 = 0x6375_7472;
const READ_ONLY: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum RmError {
    #[error("{what}: {source}")]
    Io {
        what: &'static str,
        source: io::Error,
    },
    #[error("{what}: the driver says NV_STATUS {status:#x}")]
    Status { what: &'static str, status: u32 },
}

/// Our client of the resource manager. Everything of it goes when its file is closed.
pub struct Client {
    control: File,
    /// Kept open: the GPUs are attached through them.
    _gpus: Vec<File>,
    root: u32,
    next: AtomicU32,
}

/// A GPU of the client.
#[derive(Debug, Clone, Copy)]
pub struct Gpu {
    /// As NVML counts.
    pub index: u32,
    device: u32,
    pub subdevice: u32,
}

/// Memory of the driver's, mapped to be read.
pub struct Mapped {
    at: NonNull<u8>,
    bytes: usize,
    _file: File,
}

// SAFETY: read-only memory of this process.
unsafe impl Send for Mapped {}

impl Client {
    pub fn open() -> Result<Client, RmError> {
        let open = |path: &str| File::options().read(true).write(true).open(path);
        let control = open(CONTROL_FILE).map_err(|source| RmError::Io {
            what: CONTROL_FILE,
            source,
        })?;
        let mut gpus = Vec::new();
        for number in 0..MOST_GPUS {
            let path = format!("/dev/nvidia{number}");
            if !fs::exists(&path).unwrap_or(false) {
                continue;
            }
            let Ok(gpu) = open(&path) else {
                continue;
            };
            let mut fd = control.as_raw_fd().to_le_bytes();
            request(&gpu, REGISTER_FD, &mut fd, "registering the GPU's file")?;
            gpus.push(gpu);
        }
        let mut client = Client {
            control,
            _gpus: gpus,
            root: 0,
            next: AtomicU32::new(0xcaf0_0001),
        };
        client.root = client.allocate_as(0, 0, 0, ROOT_CLIENT, &mut [], "a client")?;
        Ok(client)
    }

    /// The GPUs, in the order of their places on the bus.
    pub fn gpus(&self) -> Result<Vec<Gpu>, RmError> {
        let mut ids = [0xffu8; 4 * 32];
        let what = "listing attached GPUs";
        self.control(self.root, GET_ATTACHED_IDS, &mut ids, what)?;
        let ids = ids.chunks(4).map(|id| word(id, 0));
        let mut ids: Vec<u32> = ids.filter(|id| *id != u32::MAX).collect();
        ids.sort_unstable();
        let mut gpus = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            let mut info = [0; 32];
            info[..4].copy_from_slice(&id.to_le_bytes());
            self.control(self.root, GET_ID_INFO, &mut info, "a GPU's number")?;
            let mut params = [0; 56];
            params[..4].copy_from_slice(&info[8..12]);
            params[4..8].copy_from_slice(&self.root.to_le_bytes());
            let device = self.allocate(self.root, DEVICE, &mut params, "a device")?;
            let mut params: [u8; 4] = [info[12], info[13], info[14], info[15]];
            let subdevice = self.allocate(device, SUBDEVICE, &mut params, "a subdevice")?;
            gpus.push(Gpu {
                index: index as u32,
                device,
                subdevice,
            });
        }
        Ok(gpus)
    }

    /// An object below another; its handle.
    pub fn allocate(
        &self,
        parent: u32,
        class: u32,
        params: &mut [u8],
        what: &'static str,
    ) -> Result<u32, RmError> {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.allocate_as(self.root, parent, handle, class, params, what)
    }

    fn allocate_as(
        &self,
        root: u32,
        parent: u32,
        handle: u32,
        class: u32,
        params: &mut [u8],
        what: &'static str,
    ) -> Result<u32, RmError> {
        let mut call = [0u8; 48];
        for (place, value) in [root, parent, handle, class].into_iter().enumerate() {
            call[4 * place..4 * place + 4].copy_from_slice(&value.to_le_bytes());
        }
        if !params.is_empty() {
            call[16..24].copy_from_slice(&(params.as_mut_ptr() as u64).to_le_bytes());
            call[32..36].copy_from_slice(&(params.len() as u32).to_le_bytes());
        }
        request(&self.control, RM_ALLOC, &mut call, what)?;
        answered(word(&call, 40), what)?;
        Ok(word(&call, 8))
    }

    pub fn control(
        &self,
        object: u32,
        command: u32,
        params: &mut [u8],
        what: &'static str,
    ) -> Result<(), RmError> {
        let mut call = [0u8; 32];
        for (place, value) in [self.root, object, command].into_iter().enumerate() {
            call[4 * place..4 * place + 4].copy_from_slice(&value.to_le_bytes());
        }
        call[16..24].copy_from_slice(&(params.as_mut_ptr() as u64).to_le_bytes());
        call[24..28].copy_from_slice(&(params.len() as u32).to_le_bytes());
        request(&self.control, RM_CONTROL, &mut call, what)?;
        answered(word(&call, 28), what)
    }

    pub fn root(&self) -> u32 {
        self.root
    }

    /// Memory that the driver writes and we read; its handle, and where it is.
    pub fn memory(&self, gpu: Gpu, bytes: usize) -> Result<(u32, Mapped), RmError> {
        let what = "allocating memory for an event buffer";
        let mut params = [0u8; 128];
        params[..4].copy_from_slice(&OWNER.to_le_bytes());
        params[24..28].copy_from_slice(&LOCATION_PCI.to_le_bytes());
        params[28..32].copy_from_slice(&USER_READ_ONLY.to_le_bytes());
        params[64..72].copy_from_slice(&(bytes as u64).to_le_bytes());
        let memory = self.allocate(gpu.device, MEMORY_SYSTEM, &mut params, what)?;
        let file = File::options().read(true).write(true).open(CONTROL_FILE);
        let file = file.map_err(|source| RmError::Io { what, source })?;
        let mut call = [0u8; 56];
        for (place, value) in [self.root, gpu.device, memory].into_iter().enumerate() {
            call[4 * place..4 * place + 4].copy_from_slice(&value.to_le_bytes());
        }
        call[24..32].copy_from_slice(&(bytes as u64).to_le_bytes());
        call[44..48].copy_from_slice(&READ_ONLY.to_le_bytes());
        call[48..52].copy_from_slice(&file.as_raw_fd().to_le_bytes());
        request(&self.control, RM_MAP_MEMORY, &mut call, what)?;
        answered(word(&call, 40), what)?;
        let bytes = bytes.next_multiple_of(4096);
        // SAFETY: a fresh mapping of what the driver has just prepared for this file.
        let at = unsafe {
            let flags = libc::MAP_SHARED;
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        let at = NonNull::new(at.cast()).filter(|_| at != libc::MAP_FAILED);
        let Some(at) = at else {
            let source = io::Error::last_os_error();
            return Err(RmError::Io { what, source });
        };
        let mapped = Mapped {
            at,
            bytes,
            _file: file,
        };
        Ok((memory, mapped))
    }

    /// The GPU's clock, in nanoseconds.
    pub fn gpu_time(&self, gpu: Gpu) -> Result<u64, RmError> {
        let mut time = [0; 8];
        self.control(
            gpu.subdevice,
            TIMER_GET_TIME,
            &mut time,
            "reading the GPU's time",
        )?;
        Ok(u64::from_le_bytes(time))
    }
}

impl Mapped {
    pub fn word(&self, place: usize) -> u32 {
        assert!(place + 4 <= self.bytes);
        // SAFETY: inside, aligned; an atomic may be shared with the driver.
        let word = unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(place).cast()) };
        word.load(Ordering::Acquire)
    }

    pub fn long(&self, place: usize) -> u64 {
        assert!(place + 8 <= self.bytes);
        // SAFETY: as above.
        let long = unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(place).cast()) };
        long.load(Ordering::Acquire)
    }

    pub fn copy(&self, place: usize, to: &mut [u8]) {
        assert!(place + to.len() <= self.bytes);
        // SAFETY: inside; the driver has published what is read.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at.as_ptr().add(place), to.as_mut_ptr(), to.len());
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

fn word(bytes: &[u8], place: usize) -> u32 {
    let bytes = bytes
        .get(place..place + 4)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

fn request(file: &File, number: u32, params: &mut [u8], what: &'static str) -> Result<(), RmError> {
    const READ_WRITE: u32 = 3 << 30;
    let command = READ_WRITE | (params.len() as u32) << 16 | u32::from(b'F') << 8 | number;
    // SAFETY: the driver reads and writes as many bytes as the command says.
    if unsafe { libc::ioctl(file.as_raw_fd(), command as _, params.as_mut_ptr()) } < 0 {
        let source = io::Error::last_os_error();
        return Err(RmError::Io { what, source });
    }
    Ok(())
}

fn answered(status: u32, what: &'static str) -> Result<(), RmError> {
    match status {
        0 => Ok(()),
        status => Err(RmError::Status { what, status }),
    }
}
