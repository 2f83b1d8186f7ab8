//! What probes have in one context: memory of their maps, rings, a clock, and a stream for our own
//! copies that waits for nobody's work.

use crate::clock::Clock;
use crate::driver::{self, NOT_READY, SUCCESS};
use crate::error::MemoryError;
use crate::host_maps;
use crate::shared::Shared;
use ptx::device::{
    CAPACITY_AT, Descriptor, Layout, Map, Orders, PARTS_AT, State, log_map, map_kind,
};
use std::ffi::{CString, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

pub struct Context {
    pub handle: usize,
    /// In names of files: handles come again.
    pub number: usize,
    pub stream: usize,
    pub maps: Vec<Placed>,
    pub log: Placed,
    pub clock: Option<Clock>,
    descriptors: Vec<u8>,
    state: State,
    /// What is copied out goes here first; `None`: straight to where it is wanted.
    staging: Option<Shared>,
}

/// A map's memory.
pub struct Placed {
    pub layout: Layout,
    /// 0: none.
    pub device: u64,
    pub host: Option<Shared>,
}

/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
const MULTIPROCESSORS: u32 = 16;
/// CU_STREAM_NON_BLOCKING
const NON_BLOCKING: u32 = 1;
/// Copied at a time, if the driver has locked so much memory for it.
const STAGING: usize = 4 << 20;

impl Context {
    /// Of the current context, `handle`.
    pub fn create(
        orders: &Orders,
        folder: &Path,
        handle: usize,
        number: usize,
        say: &mut impl FnMut(&str, &str),
    ) -> Result<Context, MemoryError> {
        let mut device = 0;
        let mut stream = 0;
        // SAFETY: both write one word.
        unsafe {
            driver::cuCtxGetDevice(&mut device);
            check(
                driver::cuStreamCreate(&mut stream, NON_BLOCKING),
                "a stream",
            )?;
        }
        let multiprocessors = driver::device_attribute(MULTIPROCESSORS, device).max(1) as u64;
        let file =
            |index: String| folder.join(format!("shared.{}.{number}.{index}", std::process::id()));
        let mut maps = Vec::new();
        let mut descriptors = Vec::new();
        for (index, map) in orders.maps.iter().enumerate() {
            let layout = (map.layout(orders, multiprocessors))
                .ok_or_else(|| MemoryError::TooLarge(map.name.clone()))?;
            let placed = match of_host(folder, map, index, layout) {
                Ok(Some(placed)) => Ok(placed),
                Ok(None) => place(map, layout, stream, &file(index.to_string())),
                Err(why) => Err(why),
            };
            let placed = placed.map_err(|why| MemoryError::OfMap {
                map: map.name.clone(),
                why: Box::new(why),
            })?;
            descriptors.extend(placed.descriptor(map).bytes());
            maps.push(placed);
        }
        let printk = log_map();
        let layout = printk
            .layout(&Orders::default(), multiprocessors)
            .ok_or(MemoryError::NoRoomForPrintk)?;
        let log = place(&printk, layout, stream, &file("log".into()))?;
        let word = Shared::create(&file("clock".into()), 4096, None)?;
        let clock = Clock::create(word);
        let pair = clock.as_ref().and_then(|clock| clock.read(stream));
        let mut name = [0; 128];
        // SAFETY: as long as said, with its NUL.
        let name = unsafe {
            driver::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device);
            std::ffi::CStr::from_ptr(name.as_ptr())
                .to_string_lossy()
                .into_owned()
        };
        say(
            "context",
            &format!("{number} device={device} multiprocessors={multiprocessors} name={name}"),
        );
        if let Some(pair) = pair {
            say(
                "clock",
                &format!("{number} {} {} {}", pair.source, pair.host, pair.margin),
            );
        }
        let state = State {
            clock_offset: pair.map_or(0, |pair| pair.host.wrapping_sub(pair.source) as i64),
            process: u64::from(std::process::id()) << 32 | u64::from(std::process::id()),
            log: log.descriptor(&printk),
        };
        Ok(Context {
            handle,
            number,
            stream,
            maps,
            log,
            clock,
            descriptors,
            state,
            staging: Shared::private(STAGING).ok(),
        })
    }

    /// Tells a module in this context where its maps are; false if it has none of ours.
    pub fn bind(&self, find: impl Fn(&str) -> Option<(u64, usize)>) -> Result<bool, MemoryError> {
        let (state, maps) = (find(ptx::device::STATE), find(ptx::device::MAPS));
        if state.is_none() && maps.is_none() {
            return Ok(false);
        }
        let copy = |to: u64, from: &[u8], room: usize| {
            let bytes = from.len().min(room);
            // SAFETY: the driver says how much room there is.
            unsafe {
                check(
                    driver::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, self.stream),
                    "a copy",
                )
            }
        };
        if let Some((state, room)) = state {
            copy(state, &self.state.bytes(), room)?;
        }
        if let Some((maps, room)) = maps {
            copy(maps, &self.descriptors, room)?;
        }
        // SAFETY: a stream of ours.
        unsafe { check(driver::cuStreamSynchronize(self.stream), "a copy") }?;
        Ok(true)
    }
}

impl Placed {
    fn descriptor(&self, map: &Map) -> Descriptor {
        let host = self.host.map_or(0, |host| host.device);
        map.descriptor(&self.layout, self.device, host)
    }
}

/// A map that the host's kernel has too.
fn of_host(
    folder: &Path,
    map: &Map,
    index: usize,
    layout: Layout,
) -> Result<Option<Placed>, MemoryError> {
    if map.kind != map_kind::SHARED_ARRAY {
        return Ok(None);
    }
    // As the kernel counts them: whole pages.
    let bytes = layout.stride as usize * map.max_entries as usize;
    let Some(start) = host_maps::mapped(folder, index, bytes)? else {
        return Ok(None);
    };
    Ok(Some(Placed {
        layout,
        device: 0,
        host: Some(Shared::of(start, bytes)?),
    }))
}

fn place(map: &Map, layout: Layout, stream: usize, file: &Path) -> Result<Placed, MemoryError> {
    let mut device = 0;
    let bytes = layout.device_bytes as usize;
    if bytes > 0 {
        // SAFETY: what is allocated is cleared and filled before anybody knows of it.
        unsafe {
            check(driver::cuMemAlloc_v2(&mut device, bytes), "device memory")?;
            check(
                driver::cuMemsetD8Async(device, 0, bytes, stream),
                "clearing",
            )?;
            if let Some(initial) = &map.initial {
                let part = initial.len().min(bytes);
                check(
                    driver::cuMemcpyHtoDAsync_v2(device, initial.as_ptr().cast(), part, stream),
                    "a copy",
                )?;
            }
            check(driver::cuStreamSynchronize(stream), "a copy")?;
        }
    }
    let host = match layout.host_bytes as usize {
        0 => None,
        bytes if map.kind == map_kind::RING => {
            let mut head = [0; CAPACITY_AT + 8];
            head[PARTS_AT..][..8].copy_from_slice(&layout.parts.to_le_bytes());
            head[CAPACITY_AT..].copy_from_slice(&layout.capacity.to_le_bytes());
            Some(Shared::create(file, bytes, Some(&head))?)
        }
        bytes => Some(Shared::create(file, bytes, map.initial.as_deref())?),
    };
    Ok(Placed {
        layout,
        device,
        host,
    })
}

fn check(result: i32, what: &'static str) -> Result<(), MemoryError> {
    match result {
        SUCCESS => Ok(()),
        error => Err(MemoryError::Driver { what, error }),
    }
}

/// A module's variable, by the driver.
pub fn module_variable(module: usize) -> impl Fn(&str) -> Option<(u64, usize)> {
    move |name| {
        let name = CString::new(name).ok()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the driver checks the module.
        let result = unsafe {
            driver::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr())
        };
        (result == SUCCESS).then_some((address, bytes))
    }
}

/// A library's variable in the current context.
pub fn library_variable(library: usize) -> impl Fn(&str) -> Option<(u64, usize)> {
    move |name| {
        let name = CString::new(name).ok()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the driver checks the library.
        let result =
            unsafe { driver::cuLibraryGetGlobal(&mut address, &mut bytes, library, name.as_ptr()) };
        (result == SUCCESS).then_some((address, bytes))
    }
}

/// Copies device memory out, if that is done in time.
pub fn copy_out(context: &Context, from: u64, bytes: usize, patience: Duration) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    // Without memory there is no copy; the program is not to end for it.
    out.try_reserve_exact(bytes).ok()?;
    let began = Instant::now();
    let left = || patience.saturating_sub(began.elapsed());
    // A copy to memory that is not locked may wait for the device inside the driver, however long that takes.
    let Some(staging) = context.staging else {
        out.resize(bytes, 0);
        // SAFETY: the buffer is that long; if the copy is not done in time it is left to the copy for good.
        let copied = unsafe { copy(context, out.as_mut_ptr().cast(), from, bytes, left()) };
        return match copied {
            Copied::Whole => Some(out),
            Copied::Refused => None,
            Copied::Late => {
                std::mem::forget(out);
                None
            }
        };
    };
    // SAFETY: the memory is that long and locked for good; it is read when the copy is done.
    unsafe {
        // A copy that was late may still be under way.
        is_done(context, left()).filter(|done| *done)?;
        for at in (0..bytes).step_by(STAGING) {
            let part = STAGING.min(bytes - at);
            let to = staging.start as *mut c_void;
            match copy(context, to, from + at as u64, part, left()) {
                Copied::Whole => out.extend_from_slice(std::slice::from_raw_parts(
                    staging.start as *const u8,
                    part,
                )),
                Copied::Refused | Copied::Late => return None,
            }
        }
    }
    Some(out)
}

enum Copied {
    Whole,
    Refused,
    /// Still under way.
    Late,
}

/// # Safety
/// `to` has that many bytes, as long as the copy is under way.
unsafe fn copy(
    context: &Context,
    to: *mut c_void,
    from: u64,
    bytes: usize,
    patience: Duration,
) -> Copied {
    // SAFETY: by contract.
    if unsafe { driver::cuMemcpyDtoHAsync_v2(to, from, bytes, context.stream) } != SUCCESS {
        return Copied::Refused;
    }
    match is_done(context, patience) {
        Some(true) => Copied::Whole,
        Some(false) => Copied::Late,
        None => Copied::Refused,
    }
}

/// Whether our own stream has nothing left to do, now or in a moment; `None`: the device has failed.
fn is_done(context: &Context, patience: Duration) -> Option<bool> {
    let began = Instant::now();
    loop {
        // SAFETY: a stream of ours.
        match unsafe { driver::cuStreamQuery(context.stream) } {
            SUCCESS => return Some(true),
            NOT_READY if began.elapsed() < patience => {
                std::thread::sleep(Duration::from_micros(200));
            }
            NOT_READY => return Some(false),
            _ => return None,
        }
    }
}
