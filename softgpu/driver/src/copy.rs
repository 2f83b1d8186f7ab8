//! Copies and fills: checked when they are issued, done when their turn comes.

use std::sync::Arc;

use super::{
    abi::Memcpy3d,
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
};

const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// One side of a copy: rows of `pitch` bytes, slices of `slice` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub start: u64,
    pub pitch: u64,
    pub slice: u64,
}

/// What a program says about one side of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemorySpace {
    Host,
    Device,
    /// To be told from the address.
    Unified,
}

#[derive(Clone)]
pub struct Copy {
    pub from: Side,
    pub to: Side,
    /// Bytes a row, rows a slice, slices.
    pub extent: [u64; 3],
    /// The source's bytes, when they had to be taken at once.
    staged: Option<Arc<[u8]>>,
    /// The structure a graph node was made from.
    pub described: Memcpy3d,
    pub from_device: bool,
    pub to_device: bool,
    /// A side is host memory the device cannot reach by itself: the host waits for the copy.
    pub pageable: bool,
}

impl Copy {
    /// A copy of `bytes` bytes in one run.
    pub fn line(
        to: u64,
        to_place: MemorySpace,
        from: u64,
        from_place: MemorySpace,
        bytes: u64,
    ) -> Answer<Self> {
        let of = |place| match place {
            MemorySpace::Host => HOST,
            MemorySpace::Device => DEVICE,
            MemorySpace::Unified => UNIFIED,
        };
        let described = Memcpy3d {
            src_type: of(from_place),
            src_host: from as usize,
            src_device: from,
            dst_type: of(to_place),
            dst_host: to as usize,
            dst_device: to,
            width: bytes as usize,
            height: 1,
            depth: 1,
            ..Memcpy3d::default()
        };
        Self::rows(&described)
    }

    /// A copy as CUDA_MEMCPY3D describes it.
    pub fn rows(described: &Memcpy3d) -> Answer<Self> {
        let d = described;
        let extent = [d.width as u64, d.height as u64, d.depth as u64];
        let (from, from_place) = side(
            (d.src_type, d.src_host, d.src_device),
            [d.src_x, d.src_y, d.src_z],
            [d.src_pitch, d.src_height],
            extent,
        )?;
        let (to, to_place) = side(
            (d.dst_type, d.dst_host, d.dst_device),
            [d.dst_x, d.dst_y, d.dst_z],
            [d.dst_pitch, d.dst_height],
            extent,
        )?;
        let empty = extent.contains(&0);
        let (from_device, from_pageable) = check(from, from_place, extent, empty)?;
        let (to_device, to_pageable) = check(to, to_place, extent, empty)?;
        Ok(Self {
            from,
            to,
            extent,
            staged: None,
            described: *described,
            from_device,
            to_device,
            pageable: from_pageable || to_pageable,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    pub fn bytes(&self) -> u64 {
        self.extent.iter().product()
    }

    /// Takes the source's bytes now, so that the program may reuse its buffer at once.
    pub fn stage(&mut self) {
        let [width, height, depth] = self.extent;
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        for z in 0..depth {
            for y in 0..height {
                let row = self.from.start + z * self.from.slice + y * self.from.pitch;
                bytes.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(row as *const u8, width as usize)
                });
            }
        }
        let staged: Arc<[u8]> = bytes.into();
        self.from = Side {
            start: staged.as_ptr() as u64,
            pitch: width,
            slice: width * height,
        };
        self.staged = Some(staged);
    }

    pub fn run(&self) {
        let [width, height, depth] = self.extent;
        for z in 0..depth {
            for y in 0..height {
                let from = self.from.start + z * self.from.slice + y * self.from.pitch;
                let to = self.to.start + z * self.to.slice + y * self.to.pitch;
                unsafe {
                    std::ptr::copy(from as *const u8, to as *mut u8, width as usize);
                }
            }
        }
    }
}

/// Where a side of the description begins, and whose memory it is.
fn side(
    (kind, host, device): (u32, usize, u64),
    [x, y, z]: [usize; 3],
    [pitch, height]: [usize; 2],
    extent: [u64; 3],
) -> Answer<(Side, MemorySpace)> {
    let (base, place) = match kind {
        HOST => (host as u64, MemorySpace::Host),
        DEVICE => (device, MemorySpace::Device),
        UNIFIED => (device, MemorySpace::Unified),
        ARRAY => return Err(NOT_SUPPORTED),
        _ => return Err(INVALID_VALUE),
    };
    let (x, y, z) = (x as u64, y as u64, z as u64);
    let pitch = match pitch as u64 {
        0 => x + extent[0],
        pitch if pitch < x.saturating_add(extent[0]) && extent[1] * extent[2] > 1 => {
            return Err(INVALID_VALUE);
        }
        pitch => pitch,
    };
    let height = match height as u64 {
        0 => y + extent[1],
        height => height,
    };
    let slice = pitch.checked_mul(height).ok_or(INVALID_VALUE)?;
    let start = z
        .checked_mul(slice)
        .and_then(|o| o.checked_add(y.checked_mul(pitch)?))
        .and_then(|o| o.checked_add(x))
        .and_then(|o| o.checked_add(base))
        .ok_or(INVALID_VALUE)?;
    Ok((
        Side {
            start,
            pitch,
            slice,
        },
        place,
    ))
}

/// Checks a side against the allocations: (is device memory, is pageable host memory).
fn check(side: Side, place: MemorySpace, extent: [u64; 3], empty: bool) -> Answer<(bool, bool)> {
    if empty {
        return Ok((place == MemorySpace::Device, false));
    }
    let bytes = (extent[2] - 1)
        .checked_mul(side.slice)
        .and_then(|o| o.checked_add((extent[1] - 1).checked_mul(side.pitch)?))
        .and_then(|o| o.checked_add(extent[0]))
        .ok_or(INVALID_VALUE)?;
    if side.start == 0 || side.start.checked_add(bytes).is_none() {
        return Err(INVALID_VALUE);
    }
    let allocations = &driver().allocations;
    match allocations.covering(side.start, bytes) {
        Some(allocation) => Ok((!allocation.is_host(), false)),
        None if place == MemorySpace::Device => Err(INVALID_VALUE),
        // Part of an allocation and more: it cannot be the program's own memory.
        None if allocations.find(side.start).is_some() => Err(INVALID_VALUE),
        None if allocations.is_device_address(side.start) => Err(INVALID_VALUE),
        None => Ok((false, true)),
    }
}

/// Rows of one repeated element.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub start: u64,
    pub pitch: u64,
    pub value: u32,
    pub element: u32,
    /// Elements a row, and rows.
    pub width: u64,
    pub height: u64,
    /// Host memory: the caller waits.
    pub is_host: bool,
}

impl Fill {
    pub fn new(
        start: u64,
        pitch: u64,
        value: u32,
        element: u32,
        width: u64,
        height: u64,
    ) -> Answer<Self> {
        let size = u64::from(element);
        if !matches!(element, 1 | 2 | 4) || !start.is_multiple_of(size) {
            return Err(INVALID_VALUE);
        }
        let row = width.checked_mul(size).ok_or(INVALID_VALUE)?;
        if height > 1 && (pitch < row || !pitch.is_multiple_of(size)) {
            return Err(INVALID_VALUE);
        }
        let mut fill = Self {
            start,
            pitch,
            value,
            element,
            width,
            height,
            is_host: false,
        };
        if width != 0 && height != 0 {
            let bytes = (height - 1)
                .checked_mul(pitch)
                .and_then(|o| o.checked_add(row))
                .ok_or(INVALID_VALUE)?;
            let allocation = driver()
                .allocations
                .covering(start, bytes)
                .ok_or(INVALID_VALUE)?;
            fill.is_host = allocation.is_host();
        }
        Ok(fill)
    }

    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }

    pub fn run(&self) {
        for y in 0..self.height {
            let row = self.start + y * self.pitch;
            let width = self.width as usize;
            unsafe {
                match self.element {
                    1 => std::ptr::write_bytes(row as *mut u8, self.value as u8, width),
                    2 => std::slice::from_raw_parts_mut(row as *mut u16, width)
                        .fill(self.value as u16),
                    _ => std::slice::from_raw_parts_mut(row as *mut u32, width).fill(self.value),
                }
            }
        }
    }
}
