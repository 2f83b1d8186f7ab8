//! Special registers, and questions about addresses.

use super::address::{RANK_SHIFT, window_of};
use super::execute::Executor;
use super::schedule::thread_index;
use super::seats::PLACES;
use crate::alu::{Lanes, WARP};
use crate::memory::SHARED_WINDOW;
use crate::program::code::{Space, Special, Window};

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid for writing.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn axis_of(size: [u32; 3], axis: u8) -> u64 {
    u64::from(size.get(usize::from(axis)).copied().unwrap_or(0))
}

impl Executor<'_, '_> {
    pub fn special(&mut self, which: Special) -> Lanes {
        let launch = self.core.launch;
        let by_lane = |value: fn(u32) -> u32| -> Lanes {
            std::array::from_fn(|lane| u64::from(value(lane as u32)))
        };
        let cluster = launch.cluster.map(|n| n.max(1));
        let index = self.block.index;
        let seat = self.block.seat.as_ref();
        let scalar = match which {
            Special::Tid(axis) => return self.thread_indices(axis),
            Special::Laneid => return by_lane(|lane| lane),
            Special::LanemaskEq => return by_lane(|lane| 1 << lane),
            Special::LanemaskLt => return by_lane(|lane| (1 << lane) - 1),
            Special::LanemaskLe => return by_lane(|lane| (1 << lane) | ((1 << lane) - 1)),
            Special::LanemaskGe => return by_lane(|lane| !((1 << lane) - 1)),
            Special::LanemaskGt => return by_lane(|lane| !((1 << lane) | ((1 << lane) - 1))),
            Special::Ntid(axis) => axis_of(launch.block, axis),
            Special::Ctaid(axis) => axis_of(index, axis),
            Special::Nctaid(axis) => axis_of(launch.grid, axis),
            Special::Warpid => seat.map_or(0, |seat| u64::from(seat.place(self.warp.index))),
            Special::Nwarpid => u64::from(PLACES),
            Special::Smid => seat.map_or(0, |seat| u64::from(seat.multiprocessor)),
            Special::Nsmid => u64::from(self.core.env.seats.multiprocessors()),
            Special::Gridid => launch.grid_id,
            Special::Clock => nanoseconds(libc::CLOCK_MONOTONIC) & 0xFFFF_FFFF,
            Special::ClockHi => nanoseconds(libc::CLOCK_MONOTONIC) >> 32,
            Special::Clock64 => nanoseconds(libc::CLOCK_MONOTONIC),
            Special::Globaltimer => nanoseconds(libc::CLOCK_REALTIME),
            Special::GlobaltimerLo => nanoseconds(libc::CLOCK_REALTIME) & 0xFFFF_FFFF,
            Special::GlobaltimerHi => nanoseconds(libc::CLOCK_REALTIME) >> 32,
            Special::DynamicShared => launch.dynamic_shared as u64,
            Special::TotalShared => self.block.shared.size(),
            Special::Clusterid(axis) => axis_of(index, axis) / axis_of(cluster, axis).max(1),
            Special::Nclusterid(axis) => axis_of(launch.grid, axis) / axis_of(cluster, axis).max(1),
            Special::ClusterCtaid(axis) => axis_of(index, axis) % axis_of(cluster, axis).max(1),
            Special::ClusterNctaid(axis) => axis_of(cluster, axis),
            Special::ClusterCtarank => u64::from(self.block.cluster_rank),
            Special::ClusterNctarank => cluster.iter().map(|&n| u64::from(n)).product(),
            Special::IsExplicitCluster => u64::from(cluster != [1; 3]),
            Special::WorkspaceHi => self.core.workspace >> 32,
            Special::WorkspaceLo => self.core.workspace & 0xFFFF_FFFF,
            Special::ReservedShared | Special::Zero => 0,
        };
        [scalar; WARP]
    }

    fn thread_indices(&self, axis: u8) -> Lanes {
        let block = self.core.launch.block;
        let first = self.warp.index * WARP as u32;
        std::array::from_fn(|lane| axis_of(thread_index(first + lane as u32, block), axis))
    }

    pub fn is_space(&self, addresses: &Lanes, window: Window) -> Lanes {
        let loaded = self.core.launch.loaded;
        addresses.map(|address| {
            let space = window_of(address);
            u64::from(match window {
                Window::Global => space == Some(Space::Global) && !loaded.is_const(address),
                Window::Const => space == Some(Space::Global) && loaded.is_const(address),
                Window::Shared => space == Some(Space::Shared),
                Window::Local => space == Some(Space::Local),
                Window::Param => space == Some(Space::Param),
            })
        })
    }

    pub fn map_shared(&self, addresses: &Lanes, ranks: &Lanes, generic: bool) -> Lanes {
        let start = if generic { SHARED_WINDOW } else { 0 };
        std::array::from_fn(|lane| {
            let offset = addresses[lane].wrapping_sub(start) & ((1 << RANK_SHIFT) - 1);
            let rank = (ranks[lane] & 0xFF) + 1;
            start + (rank << RANK_SHIFT) + offset
        })
    }

    pub fn cluster_rank(&self, addresses: &Lanes, generic: bool) -> Lanes {
        let start = if generic { SHARED_WINDOW } else { 0 };
        addresses.map(
            |address| match (address.wrapping_sub(start) & 0xFFFF_FFFF) >> RANK_SHIFT {
                0 => u64::from(self.block.cluster_rank),
                rank => rank - 1,
            },
        )
    }
}
