//! A process's conversation with the driver, as libcuda holds it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::memory::{self, Allocations, MemHandle};
use super::numbers::{FB_GET_INFO_V2, GPU_GET_NAME_STRING};
use super::player::{Names, Player};
use super::sequences::{CONTEXT, DESTROY, FIRST_CONTEXT, INIT, SUBDEVICE};
use super::steps::{Word, word};

/// What a context holds of the driver: handles, descriptors, mappings.
#[derive(Default)]
pub struct ContextHandles(Option<Names>);

/// What a stream holds of the driver.
#[derive(Debug, Default)]
pub struct StreamHandle(Option<u64>);

/// Never fails towards its caller: where the stand-in files cannot be made, nothing is asked.
/// Nothing happens either in a forked child, whose parent holds the conversation.
#[derive(Default)]
pub struct Session {
    state: Mutex<State>,
    /// The process that started it; read without the lock, which a fork may have left held.
    owner: AtomicU32,
}

#[derive(Default)]
enum State {
    #[default]
    NotStarted,
    Running(Box<Running>),
    Off,
}

struct Running {
    player: Player,
    allocations: Allocations,
    contexts_made: u64,
    next_address: u64,
}

/// Where device memory is said to lie when the caller does not say.
const FIRST_ADDRESS: u64 = 0x7000_0000_0000;

impl Session {
    /// Costs nothing: files and requests come with [`Session::init`].
    pub const fn start() -> Self {
        Self {
            state: Mutex::new(State::NotStarted),
            owner: AtomicU32::new(0),
        }
    }

    /// cuInit.
    pub fn init(&self) {
        self.with(|_| ());
    }

    /// cuDeviceGetName, with the name it returns.
    pub fn device_name(&self, name: &str) {
        self.with(|running| {
            let text: Vec<Word> = name
                .as_bytes()
                .chunks(4)
                .take(32)
                .enumerate()
                .map(|(at, bytes)| {
                    let value = bytes
                        .iter()
                        .rev()
                        .fold(0, |value, byte| value << 8 | u32::from(*byte));
                    word(4 + 4 * at, value)
                })
                .collect();
            memory::control(
                &mut running.player,
                SUBDEVICE,
                GPU_GET_NAME_STRING,
                132,
                &text,
            );
        });
    }

    /// cuMemGetInfo, with the bytes it returns.
    pub fn mem_info(&self, free: u64, total: u64) {
        self.with(|running| {
            let kib = |bytes: u64| u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
            // Three questions: free heap, total heap, and one more that was answered with zero.
            let questions = [
                word(0, 3),
                word(4, 0x16),
                word(8, kib(free)),
                word(12, 9),
                word(16, kib(total)),
                word(20, 0x10),
            ];
            memory::control(
                &mut running.player,
                SUBDEVICE,
                FB_GET_INFO_V2,
                1028,
                &questions,
            );
        });
    }

    /// cuCtxCreate, or the first retain of a primary context.
    pub fn context_create(&self) -> ContextHandles {
        let names = self.with(|running| {
            if running.contexts_made == 0 {
                let _ = running.player.play_session(FIRST_CONTEXT);
            }
            running.contexts_made += 1;
            let mut names = Names::of_context();
            // Out of descriptors or address space: the context lives on without the rest.
            let _ = running.player.play(CONTEXT, &mut names);
            names
        });
        ContextHandles(names)
    }

    /// cuCtxDestroy, or the last release of a primary context.
    pub fn context_destroy(&self, context: ContextHandles) {
        if let Some(mut names) = context.0 {
            self.with(|running| running.player.play(DESTROY, &mut names).ok());
        }
    }

    /// cuMemAlloc. Small allocations share blocks, and then ask nothing.
    pub fn mem_alloc(&self, size: u64) -> MemHandle {
        self.with(|running| {
            let address = running.next_address;
            running.next_address = address.saturating_add(memory::round_up(size));
            running
                .allocations
                .device(&mut running.player, address, size)
        })
        .unwrap_or_default()
    }

    /// cuMemAlloc, when the address is known that it returns.
    pub fn mem_alloc_at(&self, address: u64, size: u64) -> MemHandle {
        self.with(|running| {
            running
                .allocations
                .device(&mut running.player, address, size)
        })
        .unwrap_or_default()
    }

    /// cuMemFree.
    pub fn mem_free(&self, memory: MemHandle) {
        self.with(|running| running.allocations.free_device(&mut running.player, memory));
    }

    /// cuMemAllocHost, cuMemHostAlloc.
    pub fn host_alloc(&self, address: u64, size: u64) {
        self.with(|running| {
            running
                .allocations
                .host(&mut running.player, address, memory::round_up(size))
        });
    }

    /// cuMemFreeHost.
    pub fn host_free(&self, address: u64) {
        self.with(|running| running.allocations.free_host(&mut running.player, address));
    }

    /// cuMemHostRegister: the memory stays the program's, so it is taken as it is.
    pub fn host_register(&self, address: u64, size: u64) {
        self.with(|running| running.allocations.host(&mut running.player, address, size));
    }

    /// cuMemHostUnregister.
    pub fn host_unregister(&self, address: u64) {
        self.host_free(address);
    }

    /// cuMemAllocManaged.
    pub fn managed_alloc(&self, address: u64, size: u64) {
        self.with(|running| {
            running
                .allocations
                .managed(&mut running.player, address, size)
        });
    }

    /// cuMemFree of managed memory.
    pub fn managed_free(&self, address: u64) {
        self.with(|running| {
            running
                .allocations
                .free_managed(&mut running.player, address)
        });
    }

    /// cuMemPrefetchAsync.
    pub fn managed_prefetch(&self, address: u64, size: u64) {
        self.with(|running| memory::prefetch(&mut running.player, address, size));
    }

    /// cuMemAdvise with CU_MEM_ADVISE_SET_READ_MOSTLY.
    pub fn managed_read_mostly(&self, address: u64, size: u64) {
        self.with(|running| memory::advise_read_mostly(&mut running.player, address, size));
    }

    /// cuStreamCreate.
    pub fn stream_create(&self) -> StreamHandle {
        StreamHandle(self.with(|running| memory::create_range_group(&mut running.player)))
    }

    /// cuStreamDestroy.
    pub fn stream_destroy(&self, stream: StreamHandle) {
        if let Some(group) = stream.0 {
            self.with(|running| memory::destroy_range_group(&mut running.player, group));
        }
    }

    /// Does something with the running conversation, starting it where need be.
    fn with<T>(&self, act: impl FnOnce(&mut Running) -> T) -> Option<T> {
        let this = std::process::id();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 && owner != this {
            return None;
        }
        let mut state: MutexGuard<'_, State> =
            self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::NotStarted) {
            self.owner.store(this, Ordering::Relaxed);
            *state = match Running::start() {
                Ok(running) => State::Running(Box::new(running)),
                Err(_) => State::Off,
            };
        }
        match &mut *state {
            State::Running(running) => Some(act(running)),
            State::NotStarted | State::Off => None,
        }
    }
}

impl Running {
    fn start() -> std::io::Result<Self> {
        let mut player = Player::new()?;
        player.play_session(INIT)?;
        Ok(Self {
            player,
            allocations: Allocations::default(),
            contexts_made: 0,
            next_address: FIRST_ADDRESS,
        })
    }
}
