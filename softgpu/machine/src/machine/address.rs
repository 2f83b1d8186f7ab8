//! From device addresses to host pointers: windows, bounds, alignment.

use std::sync::Arc;

use super::execute::Executor;
use super::registers::{Bits, FULL, View};
use super::trouble::{Outcome, Trouble};
use crate::alu::{Lanes, WARP};
use crate::fault::FaultKind;
use crate::memory::{LOCAL_WINDOW, Memory, PARAM_WINDOW, Regions, SHARED_WINDOW, WINDOW_SIZE};
use crate::program::code::{Access, NONE, Space};

/// Shared addresses of another block of the cluster carry its rank + 1 above this bit.
pub const RANK_SHIFT: u32 = 24;

/// The regions a worker may touch, with the latest ones at hand.
pub struct RegionCache<'a> {
    memory: &'a Memory,
    regions: Arc<Regions>,
    generation: u64,
    recent: [(u64, u64); 4],
    next: usize,
}

impl<'a> RegionCache<'a> {
    pub fn new(memory: &'a Memory) -> RegionCache<'a> {
        let generation = memory.generation();
        RegionCache {
            memory,
            regions: memory.regions(),
            generation,
            recent: [(1, 0); 4],
            next: 0,
        }
    }

    /// Forgets what is no longer true.
    pub fn refresh(&mut self) {
        let generation = self.memory.generation();
        if generation != self.generation {
            self.generation = generation;
            self.regions = self.memory.regions();
            self.recent = [(1, 0); 4];
        }
    }

    /// Whether one region holds `size` bytes from `start`.
    #[inline]
    pub fn covers(&mut self, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else {
            return false;
        };
        self.recent
            .iter()
            .any(|region| start >= region.0 && end <= region.1)
            || self.look_up(start, end)
    }

    #[cold]
    fn look_up(&mut self, start: u64, end: u64) -> bool {
        let mut found = self.regions.find(start);
        if found.is_none() {
            self.refresh();
            found = self.regions.find(start);
        }
        match found {
            Some(region) => {
                self.recent[self.next] = region;
                self.next = (self.next + 1) % self.recent.len();
                end <= region.1
            }
            None => false,
        }
    }
}

/// What an access wants, for bounds and for messages.
#[derive(Clone, Copy)]
pub struct Want {
    pub size: u64,
    pub align: u64,
    pub verb: &'static str,
}

impl Want {
    pub fn new(size: u64, verb: &'static str) -> Want {
        Want {
            size,
            align: size,
            verb,
        }
    }
}

fn misaligned(lane: usize, address: u64, want: Want) -> Box<Trouble> {
    let text = format!("{} of {} bytes at {address:#x}", want.verb, want.size);
    Trouble::new(FaultKind::MisalignedAddress, Some(lane), text)
}

fn outside(lane: usize, address: u64, want: Want, space: &str) -> Box<Trouble> {
    let text = format!(
        "{} of {} bytes at {address:#x}, outside {space}",
        want.verb, want.size
    );
    Trouble::new(FaultKind::IllegalAddress, Some(lane), text)
}

impl Executor<'_, '_> {
    /// Host pointers of the active lanes.
    #[inline]
    pub fn pointers(
        &mut self,
        view: View,
        access: &Access,
        active: u32,
        want: Want,
    ) -> Outcome<Lanes> {
        match access.space {
            Space::Frame => return self.frame_pointers(access.offset, active, want),
            Space::Param if access.base == NONE => {
                let first = Bits(active).next().unwrap_or(0);
                let pointer = self.param_pointer(first, access.offset as u64, want)?;
                return Ok([pointer; WARP]);
            }
            _ => {}
        }
        let base = view.get(access.base);
        let mut address = [0; WARP];
        if access.narrow && access.space != Space::Generic {
            for (to, from) in address.iter_mut().zip(base) {
                *to = u64::from((*from as u32).wrapping_add(access.offset as u32));
            }
        } else {
            for (to, from) in address.iter_mut().zip(base) {
                *to = from.wrapping_add(access.offset as u64);
            }
        }
        self.resolve(access.space, &mut address, active, want)?;
        Ok(address)
    }

    /// Turns addresses in a space into host pointers, in place.
    fn resolve(&mut self, space: Space, address: &mut Lanes, active: u32, want: Want) -> Outcome {
        // Inactive lanes repeat an active one, so that whole-warp tests need no masks.
        if active != FULL {
            let first = address[active.trailing_zeros() as usize % WARP];
            for (lane, value) in address.iter_mut().enumerate() {
                if active >> lane & 1 == 0 {
                    *value = first;
                }
            }
        }
        let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
        for &value in address.iter() {
            low = low.min(value);
            high = high.max(value);
            bits |= value;
        }
        if bits & (want.align - 1) != 0 {
            let lane = Bits(active).find(|&lane| address[lane] & (want.align - 1) != 0);
            let lane = lane.unwrap_or(0);
            return Err(misaligned(lane, address[lane], want));
        }
        let span = (high - low).saturating_add(want.size);
        let space = match space {
            Space::Generic => match window_of(low) {
                Some(space) if window_of(high) == Some(space) => {
                    let start = window_start(space);
                    if start != 0 {
                        address.iter_mut().for_each(|value| *value -= start);
                        low -= start;
                        high -= start;
                    }
                    space
                }
                _ => return self.resolve_mixed(address, active, want),
            },
            space => space,
        };
        match space {
            Space::Global => {
                if self.core.regions.covers(low, span) {
                    return Ok(());
                }
                for lane in Bits(active) {
                    if !self.core.regions.covers(address[lane], want.size) {
                        return Err(outside(lane, address[lane], want, "any allocation"));
                    }
                }
                Ok(())
            }
            Space::Shared => {
                let shared = &self.block.shared;
                if high.saturating_add(want.size) <= shared.size() {
                    let start = shared.start();
                    address.iter_mut().for_each(|value| *value += start);
                    return Ok(());
                }
                for lane in Bits(active) {
                    address[lane] = self.shared_pointer(lane, address[lane], want)?;
                }
                Ok(())
            }
            Space::Local | Space::Frame => {
                for lane in Bits(active) {
                    address[lane] = self.local_pointer(lane, address[lane], want)?;
                }
                Ok(())
            }
            Space::Param | Space::Generic => {
                for lane in Bits(active) {
                    address[lane] = self.param_pointer(lane, address[lane], want)?;
                }
                Ok(())
            }
        }
    }

    /// Generic addresses of several spaces in one access.
    #[cold]
    fn resolve_mixed(&mut self, address: &mut Lanes, active: u32, want: Want) -> Outcome {
        for lane in Bits(active) {
            address[lane] = self.pointer(lane, address[lane], want)?;
        }
        Ok(())
    }

    /// Host pointer of one generic address.
    pub fn pointer(&mut self, lane: usize, address: u64, want: Want) -> Outcome<u64> {
        if address & (want.align - 1) != 0 {
            return Err(misaligned(lane, address, want));
        }
        match window_of(address) {
            Some(Space::Global) => {
                if self.core.regions.covers(address, want.size) {
                    Ok(address)
                } else {
                    Err(outside(lane, address, want, "any allocation"))
                }
            }
            Some(Space::Shared) => self.shared_pointer(lane, address - SHARED_WINDOW, want),
            Some(Space::Local) => self.local_pointer(lane, address - LOCAL_WINDOW, want),
            Some(Space::Param) => self.param_pointer(lane, address - PARAM_WINDOW, want),
            _ => Err(outside(lane, address, want, "any allocation")),
        }
    }

    fn shared_pointer(&mut self, lane: usize, address: u64, want: Want) -> Outcome<u64> {
        let rank = address >> RANK_SHIFT;
        let (shared, offset) = if rank == 0 {
            (&self.block.shared, address)
        } else {
            let peer = self.block.peers.get(rank as usize - 1);
            (
                peer.ok_or_else(|| outside(lane, address, want, "shared memory"))?,
                address & ((1 << RANK_SHIFT) - 1),
            )
        };
        if offset.saturating_add(want.size) > shared.size() {
            return Err(outside(lane, address, want, "shared memory"));
        }
        Ok(shared.start() + offset)
    }

    fn local_pointer(&mut self, lane: usize, address: u64, want: Want) -> Outcome<u64> {
        match self.warp.local.pointer(lane, address, want.size) {
            Some(pointer) => Ok(pointer as u64),
            None => Err(outside(lane, address, want, "local memory")),
        }
    }

    fn param_pointer(&mut self, lane: usize, offset: u64, want: Want) -> Outcome<u64> {
        let params = &self.core.params;
        match offset.checked_add(want.size) {
            Some(end) if end <= params.size() && want.verb == "load" => {
                if offset & (want.align - 1) != 0 {
                    return Err(misaligned(lane, offset, want));
                }
                Ok(params.start() + offset)
            }
            _ => Err(outside(lane, offset, want, "the kernel's parameters")),
        }
    }

    /// The same offset in every lane's frame.
    fn frame_pointers(&mut self, offset: i64, active: u32, want: Want) -> Outcome<Lanes> {
        let base = self.warp.frames[self.frame as usize].base;
        let address = u64::from(base).wrapping_add_signed(offset);
        let first = Bits(active).next().unwrap_or(0);
        if address & (want.align - 1) != 0 {
            return Err(misaligned(first, address, want));
        }
        let mut pointers = [0; WARP];
        for (lane, pointer) in pointers.iter_mut().enumerate() {
            *pointer = self.local_pointer(lane, address, want)?;
        }
        Ok(pointers)
    }
}

/// The space a generic address is in; None for no space at all.
pub fn window_of(address: u64) -> Option<Space> {
    let within = |start: u64| (start..start + WINDOW_SIZE).contains(&address);
    if address < SHARED_WINDOW {
        Some(Space::Global)
    } else if within(SHARED_WINDOW) {
        Some(Space::Shared)
    } else if within(LOCAL_WINDOW) {
        Some(Space::Local)
    } else if within(PARAM_WINDOW) {
        Some(Space::Param)
    } else {
        None
    }
}

fn window_start(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        _ => 0,
    }
}
