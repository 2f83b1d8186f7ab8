//! Virtual memory management: address ranges, memory without addresses, and mappings between them.
//!
//! Memory is an anonymous file, so that it can be mapped at several places and handed to another
//! process as a descriptor.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    context::Context,
    result::{Answer, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY},
    state::driver,
};

/// Sizes and addresses are multiples of this, as on hardware.
pub const GRANULARITY: u64 = 2 << 20;
pub const READ_WRITE: u32 = 3;

/// Memory made by cuMemCreate.
pub struct Physical {
    pub handle: u64,
    pub size: u64,
    /// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or none.
    pub handle_types: u32,
    file: OwnedFd,
    /// The program's references; mappings keep the memory by themselves.
    references: AtomicU64,
}

static COMMITTED: AtomicU64 = AtomicU64::new(0);

/// Bytes of device memory in use here.
pub fn committed() -> u64 {
    COMMITTED.load(Ordering::Relaxed)
}

impl Drop for Physical {
    fn drop(&mut self) {
        COMMITTED.fetch_sub(self.size, Ordering::Relaxed);
    }
}

impl Physical {
    pub fn create(size: u64, handle_types: u32) -> Answer<Arc<Self>> {
        if size == 0 || !size.is_multiple_of(GRANULARITY) {
            return Err(INVALID_VALUE);
        }
        if size > driver().allocations.free_and_total().0 {
            return Err(OUT_OF_MEMORY);
        }
        let file = unsafe { libc::memfd_create(c"softgpu".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(OUT_OF_MEMORY);
        }
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        if unsafe { libc::ftruncate(file.as_raw_fd(), size as libc::off_t) } != 0 {
            return Err(OUT_OF_MEMORY);
        }
        Ok(Self::register(file, size, handle_types))
    }

    /// Takes over what another process exported.
    pub fn import(descriptor: i32) -> Answer<Arc<Self>> {
        let file = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if file < 0 {
            return Err(INVALID_VALUE);
        }
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let mut about = std::mem::MaybeUninit::<libc::stat>::zeroed();
        let known = unsafe { libc::fstat(file.as_raw_fd(), about.as_mut_ptr()) } == 0;
        let size = unsafe { about.assume_init() }.st_size as u64;
        if !known || size == 0 || !size.is_multiple_of(GRANULARITY) {
            return Err(INVALID_VALUE);
        }
        Ok(Self::register(file, size, 1))
    }

    fn register(file: OwnedFd, size: u64, handle_types: u32) -> Arc<Self> {
        COMMITTED.fetch_add(size, Ordering::Relaxed);
        let handle = driver().physical.fresh();
        let physical = Arc::new(Self {
            handle,
            size,
            handle_types,
            file,
            references: AtomicU64::new(1),
        });
        driver().physical.insert(handle, physical.clone());
        physical
    }

    /// A descriptor for another process.
    pub fn export(&self) -> Answer<i32> {
        if self.handle_types != 1 {
            return Err(INVALID_VALUE);
        }
        let copy = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if copy < 0 {
            Err(OUT_OF_MEMORY)
        } else {
            Ok(copy)
        }
    }

    pub fn retain(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    pub fn release(&self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            driver().physical.remove(self.handle);
        }
    }
}

struct Mapping {
    size: u64,
    physical: Arc<Physical>,
    accessible: bool,
}

#[derive(Default)]
struct Ranges {
    reserved: BTreeMap<u64, u64>,
    mapped: BTreeMap<u64, Mapping>,
}

/// All reserved ranges and what is mapped in them.
#[derive(Default)]
pub struct VirtualMemory(Mutex<Ranges>);

impl VirtualMemory {
    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn reserve(&self, size: u64, alignment: u64) -> Answer<u64> {
        let align = alignment.max(GRANULARITY);
        if size == 0 || !size.is_multiple_of(GRANULARITY) || !align.is_power_of_two() {
            return Err(INVALID_VALUE);
        }
        let room = size.checked_add(align).ok_or(INVALID_VALUE)?;
        let raw = place(0, room, None).ok_or(OUT_OF_MEMORY)?;
        let start = raw.next_multiple_of(align);
        unsafe {
            // What alignment left over at both ends.
            if start > raw {
                libc::munmap(raw as *mut _, (start - raw) as usize);
            }
            libc::munmap(
                (start + size) as *mut _,
                (raw + room - start - size) as usize,
            );
        }
        self.ranges().reserved.insert(start, size);
        Ok(start)
    }

    pub fn free(&self, start: u64, size: u64) -> Answer {
        let mut ranges = self.ranges();
        if ranges.reserved.get(&start) != Some(&size)
            || ranges.mapped.range(start..start + size).next().is_some()
        {
            return Err(INVALID_VALUE);
        }
        ranges.reserved.remove(&start);
        unsafe { libc::munmap(start as *mut _, size as usize) };
        Ok(())
    }

    pub fn map(&self, start: u64, size: u64, offset: u64, physical: Arc<Physical>) -> Answer {
        let mut ranges = self.ranges();
        let end = start.checked_add(size).ok_or(INVALID_VALUE)?;
        let inside = ranges.reserved.range(..=start).next_back();
        let inside = inside.is_some_and(|(base, length)| end <= base + length);
        let before = ranges.mapped.range(..end).next_back();
        let taken = before.is_some_and(|(at, mapping)| at + mapping.size > start);
        let aligned = start.is_multiple_of(GRANULARITY) && size.is_multiple_of(GRANULARITY);
        if !inside || taken || !aligned || size == 0 || offset != 0 || size > physical.size {
            return Err(INVALID_VALUE);
        }
        place(start, size, Some(&physical.file)).ok_or(OUT_OF_MEMORY)?;
        let mapping = Mapping {
            size,
            physical,
            accessible: false,
        };
        ranges.mapped.insert(start, mapping);
        Ok(())
    }

    /// Takes away all mappings inside a range, which may cut none of them in two.
    pub fn unmap(&self, start: u64, size: u64) -> Answer {
        let mut ranges = self.ranges();
        let end = start.checked_add(size).ok_or(INVALID_VALUE)?;
        let inside = ranges.reserved.range(..=start).next_back();
        let inside = inside.is_some_and(|(base, length)| end <= base + length);
        let touched = ranges.mapped.range(..end).rev();
        let touched: Vec<(u64, u64)> = touched
            .map(|(at, mapping)| (*at, at + mapping.size))
            .take_while(|mapping| mapping.1 > start)
            .collect();
        if !inside || size == 0 || touched.iter().any(|m| m.0 < start || m.1 > end) {
            return Err(INVALID_VALUE);
        }
        let starts: Vec<u64> = touched.iter().map(|mapping| mapping.0).collect();
        for at in starts {
            if let Some(mapping) = ranges.mapped.remove(&at) {
                driver().allocations.conceal(at);
                place(at, mapping.size, None).ok_or(OUT_OF_MEMORY)?;
            }
        }
        Ok(())
    }

    /// Lets kernels and copies use a range of mappings, or not.
    pub fn set_access(&self, context: &Context, start: u64, size: u64, access: u32) -> Answer {
        let mut ranges = self.ranges();
        for at in whole(&ranges, start, size)? {
            let Some(mapping) = ranges.mapped.get_mut(&at) else {
                continue;
            };
            let accessible = access != 0;
            if accessible == mapping.accessible {
                continue;
            }
            mapping.accessible = accessible;
            let protection = match accessible {
                true => libc::PROT_READ | libc::PROT_WRITE,
                false => libc::PROT_NONE,
            };
            if !accessible {
                driver().allocations.conceal(at);
            }
            unsafe { libc::mprotect(at as *mut _, mapping.size as usize, protection) };
            if accessible {
                driver().allocations.expose(context, at, mapping.size);
            }
        }
        Ok(())
    }

    /// (memory, is accessible) at an address.
    pub fn at(&self, address: u64) -> Answer<(Arc<Physical>, bool)> {
        let ranges = self.ranges();
        match ranges.mapped.range(..=address).next_back() {
            Some((start, mapping)) if address < start + mapping.size => {
                Ok((mapping.physical.clone(), mapping.accessible))
            }
            _ => Err(INVALID_VALUE),
        }
    }
}

/// Starts of the mappings that make up exactly this range.
fn whole(ranges: &Ranges, start: u64, size: u64) -> Answer<Vec<u64>> {
    let end = start.checked_add(size).ok_or(INVALID_VALUE)?;
    let mut next = start;
    let mut starts = Vec::new();
    while next < end {
        let mapping = ranges.mapped.get(&next).ok_or(INVALID_VALUE)?;
        starts.push(next);
        next += mapping.size;
    }
    if next == end && size > 0 {
        Ok(starts)
    } else {
        Err(INVALID_VALUE)
    }
}

/// Maps a file, or nothing, without access; at `start` unless that is 0.
fn place(start: u64, size: u64, file: Option<&OwnedFd>) -> Option<u64> {
    let fixed = if start == 0 { 0 } else { libc::MAP_FIXED };
    let (kind, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
        ),
    };
    let size = usize::try_from(size).ok()?;
    let flags = kind | fixed;
    let at = unsafe { libc::mmap(start as *mut _, size, libc::PROT_NONE, flags, descriptor, 0) };
    (at != libc::MAP_FAILED).then_some(at as u64)
}

/// Checks the first words of CUmemAllocationProp: pinned memory of the one device.
pub fn check_properties(properties: [u32; 8]) -> Answer<u32> {
    let [kind, handle_types, location, device, ..] = properties;
    if kind != 1 || !matches!(location, 1..=4) {
        return Err(INVALID_VALUE);
    }
    if location != 1 || handle_types > 1 {
        return Err(NOT_SUPPORTED);
    }
    if device != 0 {
        return Err(INVALID_DEVICE);
    }
    Ok(handle_types)
}
