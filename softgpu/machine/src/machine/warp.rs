//! The state of one warp: groups of lanes, call frames, local memory.

use super::registers::Bits;
use super::trouble::{Outcome, Trouble};
use crate::alu::{Lanes, WARP};
use crate::fault::FaultKind;
use crate::program::code::{Function, Reg};

/// Bytes of registers a warp's frames may hold: recursion beyond it is a stack overflow.
const MAX_FRAME_BYTES: usize = 8 << 20;
/// Bytes of local memory a thread may have, as on hardware.
const MAX_LOCAL: u32 = 512 << 10;
const MAX_DEPTH: u32 = 16 << 10;

/// The entry function's frame has no parent.
pub const NO_FRAME: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a `.sync` operation, for lanes that have not come yet.
    Members(u32),
    /// At `bar.warp.sync`: may be met from another place in the code.
    WarpBarrier(u32),
    /// At a barrier of the block; `dst` gets the result of `bar.red`.
    Barrier {
        id: u8,
        dst: Reg,
        line: u32,
    },
    /// At `barrier.cluster.wait`.
    Cluster,
}

/// Lanes that are at the same place.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    pub pc: u32,
    pub frame: u32,
    pub mask: u32,
    pub state: State,
    /// When it last ran, in instructions of this warp.
    pub last: u64,
}

pub struct Frame {
    pub function: usize,
    pub parent: u32,
    pub return_pc: u32,
    /// Lanes in this call or in calls made from it.
    pub lanes: u32,
    pub depth: u32,
    /// Where the frame begins in each lane's local memory, and where it ends.
    pub base: u32,
    pub top: u32,
    pub registers: Vec<Lanes>,
}

/// Local memory of 32 threads.
#[derive(Default)]
pub struct Local {
    data: Vec<u128>,
    stride: usize,
}

impl Local {
    fn grow(&mut self, bytes: usize) {
        if bytes <= self.stride {
            return;
        }
        let stride = bytes.next_power_of_two().max(64);
        let mut data = vec![0u128; stride / 16 * WARP];
        for lane in 0..WARP {
            let (from, to) = (lane * self.stride / 16, lane * stride / 16);
            let count = self.stride / 16;
            data[to..to + count].copy_from_slice(&self.data[from..from + count]);
        }
        self.data = data;
        self.stride = stride;
    }

    /// A lane's byte at `offset`, if `size` bytes are there.
    #[inline]
    pub fn pointer(&mut self, lane: usize, offset: u64, size: u64) -> Option<*mut u8> {
        let end = offset.checked_add(size)?;
        if end > self.stride as u64 || lane >= WARP {
            return None;
        }
        let at = lane * self.stride + offset as usize;
        // SAFETY: lane * stride + offset + size is within the vector.
        Some(unsafe { self.data.as_mut_ptr().cast::<u8>().add(at) })
    }
}

pub struct Warp {
    /// Index in the block.
    pub index: u32,
    /// Lanes that have not exited.
    pub live: u32,
    pub groups: Vec<Group>,
    pub frames: Vec<Frame>,
    free: Vec<u32>,
    frame_bytes: usize,
    pub local: Local,
    /// Instructions executed.
    pub clock: u64,
    /// When a group last had its turn out of order, or ran alone.
    pub fair_at: u64,
    /// A group polled since then.
    pub has_polled: bool,
    /// Phase of the cluster barrier this warp arrived in.
    pub cluster_phase: u64,
}

impl Warp {
    pub fn new(index: u32) -> Warp {
        Warp {
            index,
            live: 0,
            groups: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            frame_bytes: 0,
            local: Local::default(),
            clock: 0,
            fair_at: 0,
            has_polled: false,
            cluster_phase: 0,
        }
    }

    /// Puts `lanes` at the start of the entry function.
    pub fn start(&mut self, lanes: u32, function: usize, code: &Function) {
        self.live = lanes;
        self.clock = 0;
        self.fair_at = 0;
        self.has_polled = false;
        self.cluster_phase = 0;
        self.groups.clear();
        self.groups.push(Group {
            pc: 0,
            frame: 0,
            mask: lanes,
            state: State::Ready,
            last: 0,
        });
        self.free.clear();
        self.frames.truncate(1);
        let mut registers = match self.frames.pop() {
            Some(frame) => frame.registers,
            None => Vec::new(),
        };
        registers.clear();
        registers.resize(code.registers as usize, [0; WARP]);
        self.frame_bytes = registers.len() * size_of::<Lanes>();
        self.local.grow(code.local_size as usize);
        self.frames.push(Frame {
            function,
            parent: NO_FRAME,
            return_pc: 0,
            lanes,
            depth: 0,
            base: 0,
            top: code.local_size,
            registers,
        });
    }

    /// A frame for a call of `function` by `lanes` in `parent`.
    pub fn enter(
        &mut self,
        parent: u32,
        return_pc: u32,
        lanes: u32,
        function: usize,
        code: &Function,
    ) -> Outcome<u32> {
        let (depth, base) = {
            let parent = &self.frames[parent as usize];
            (parent.depth + 1, parent.top)
        };
        let top = base + code.local_size;
        let bytes = code.registers as usize * size_of::<Lanes>();
        if depth > MAX_DEPTH || top > MAX_LOCAL || self.frame_bytes + bytes > MAX_FRAME_BYTES {
            let lane = Bits(lanes).next();
            let text = format!("{depth} calls deep, {top} bytes of local memory");
            return Err(Trouble::new(FaultKind::StackOverflow, lane, text));
        }
        self.frame_bytes += bytes;
        self.local.grow(top as usize);
        let (index, mut registers) = match self.free.pop() {
            Some(index) => {
                let registers = std::mem::take(&mut self.frames[index as usize].registers);
                (index as usize, registers)
            }
            None => (self.frames.len(), Vec::new()),
        };
        registers.resize(code.registers as usize, [0; WARP]);
        let frame = Frame {
            function,
            parent,
            return_pc,
            lanes,
            depth,
            base,
            top,
            registers,
        };
        if index == self.frames.len() {
            self.frames.push(frame);
        } else {
            self.frames[index] = frame;
        }
        Ok(index as u32)
    }

    /// Takes lanes out of one frame.
    pub fn leave(&mut self, frame: u32, lanes: u32) {
        let left = &mut self.frames[frame as usize];
        left.lanes &= !lanes;
        if left.lanes == 0 && left.parent != NO_FRAME {
            self.frame_bytes -= left.registers.len() * size_of::<Lanes>();
            self.free.push(frame);
        }
    }

    /// Ends lanes that are in `frame`.
    pub fn exit(&mut self, frame: u32, lanes: u32) {
        self.live &= !lanes;
        let mut frame = frame;
        while frame != NO_FRAME {
            let parent = self.frames[frame as usize].parent;
            self.leave(frame, lanes);
            frame = parent;
        }
    }

    /// More local memory at the end of a frame; None if a thread has no more.
    pub fn extend(&mut self, frame: u32, size: u64, align: u32) -> Option<u32> {
        if size > u64::from(MAX_LOCAL) {
            return None;
        }
        let top = u64::from(self.frames[frame as usize].top);
        let start = top.next_multiple_of(u64::from(align.max(16)));
        let end = (start + size).next_multiple_of(16);
        if end > u64::from(MAX_LOCAL) {
            return None;
        }
        self.local.grow(end as usize);
        self.frames[frame as usize].top = end as u32;
        Some(start as u32)
    }

    /// Whether some group could run now.
    pub fn is_runnable(&self) -> bool {
        self.groups.iter().any(|group| self.is_ready(group))
    }

    pub fn is_ready(&self, group: &Group) -> bool {
        match group.state {
            State::Ready => true,
            State::Members(members) => members & self.live & !group.mask == 0,
            State::WarpBarrier(members) => members & self.live & !self.at_barrier(members) == 0,
            State::Barrier { .. } | State::Cluster => false,
        }
    }

    /// Lanes that wait at `bar.warp.sync` with this mask.
    fn at_barrier(&self, members: u32) -> u32 {
        self.groups
            .iter()
            .filter(|group| group.state == State::WarpBarrier(members))
            .fold(0, |mask, group| mask | group.mask)
    }
}
