//! Requests for memory: device, host and managed. Small device allocations share blocks of 2 MiB,
//! so most of them ask nothing of the driver, as on hardware.

use std::collections::HashMap;

use super::numbers::*;
use super::player::{Mapping, Player};
use super::sequences::{CONTROL_FD, DEVICE, GPU_FD, THIRD_PARTY_P2P, UVM_FD};
use super::steps::{Request, Slot, Word, client, fd, handle, long, uuid, word};

/// What device memory is made of: libcuda asks for multiples of this.
pub const GRANULARITY: u64 = 2 << 20;
/// Allocations share a block in units of this.
const SMALL_UNIT: u64 = 512;
/// UVM's name for the processor that is the CPU.
const CPU_UUID: [u32; 4] = [0x4e0f_5ea6, 0xa27b_d4d7, 0x2c41_4750, 0x7377_2a14];

/// An allocation of device memory.
#[derive(Debug, Default)]
pub struct MemHandle(Memory);

#[derive(Debug, Default)]
enum Memory {
    /// Made while the stand-in files could not be.
    #[default]
    Nothing,
    Whole(Block),
    /// Part of the shared block with this number.
    Part {
        block: u64,
        size: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Block {
    object: u32,
    address: u64,
    length: u64,
}

#[derive(Debug)]
struct SharedBlock {
    block: Block,
    used: u64,
}

#[derive(Default)]
pub struct Allocations {
    shared: HashMap<u64, SharedBlock>,
    next_shared: u64,
    /// By address.
    host: HashMap<u64, Block>,
    managed: HashMap<u64, Managed>,
}

struct Managed {
    size: u64,
    _reservation: Option<Mapping>,
}

impl Allocations {
    pub fn device(&mut self, player: &mut Player, address: u64, size: u64) -> MemHandle {
        if size >= GRANULARITY {
            return MemHandle(Memory::Whole(allocate(player, address, round_up(size))));
        }
        let small = size.max(1).next_multiple_of(SMALL_UNIT);
        let room = self
            .shared
            .iter_mut()
            .find(|(_, shared)| shared.used + small <= GRANULARITY);
        let number = match room {
            Some((&number, shared)) => {
                shared.used += small;
                number
            }
            None => {
                let block = allocate(player, address - address % GRANULARITY, GRANULARITY);
                self.next_shared += 1;
                self.shared
                    .insert(self.next_shared, SharedBlock { block, used: small });
                self.next_shared
            }
        };
        MemHandle(Memory::Part {
            block: number,
            size: small,
        })
    }

    pub fn free_device(&mut self, player: &mut Player, memory: MemHandle) {
        match memory.0 {
            Memory::Nothing => {}
            Memory::Whole(block) => free(player, block),
            Memory::Part { block, size } => {
                let Some(shared) = self.shared.get_mut(&block) else {
                    return;
                };
                shared.used = shared.used.saturating_sub(size);
                if shared.used == 0
                    && let Some(shared) = self.shared.remove(&block)
                {
                    free(player, shared.block);
                }
            }
        }
    }

    /// Host memory that the device may use: `length` bytes at `address`.
    pub fn host(&mut self, player: &mut Player, address: u64, length: u64) {
        let object = player.take_handle();
        player.ask_session(&Request {
            fd: GPU_FD,
            number: RM_ALLOC_MEMORY,
            size: 56,
            words: &[
                client(0, 1),
                handle(4, DEVICE),
                word(8, object),
                word(12, MEMORY_OS_DESCRIPTOR),
                // Cached, snooped host pages, mapped nowhere yet: as recorded.
                word(16, 0x4000_1010),
                long(24, address),
                long(32, length.saturating_sub(1)),
                word(48, u32::MAX),
            ],
            parameters_size: 0,
            parameters: &[],
        });
        map_range(player, address, length, object);
        self.host.insert(
            address,
            Block {
                object,
                address,
                length,
            },
        );
    }

    pub fn free_host(&mut self, player: &mut Player, address: u64) {
        if let Some(block) = self.host.remove(&address) {
            uvm(player, UVM_FREE, 24, &range(block.address, block.length));
            free_object(player, block.object);
        }
    }

    pub fn managed(&mut self, player: &mut Player, address: u64, size: u64) {
        let length = round_up(size);
        // libcuda maps the range itself; here the program's memory is there already, and the
        // mapping of the file only reserves as much, with the address as offset.
        let offset = address - address % 4096;
        let reservation = usize::try_from(length)
            .ok()
            .and_then(|length| player.map(UVM_FD, length, offset).ok());
        uvm(player, UVM_VALIDATE_VA_RANGE, 24, &range(address, length));
        uvm(
            player,
            UVM_DISABLE_READ_DUPLICATION,
            24,
            &range(address, length),
        );
        self.managed.insert(
            address,
            Managed {
                size,
                _reservation: reservation,
            },
        );
    }

    pub fn free_managed(&mut self, player: &mut Player, address: u64) {
        let Some(managed) = self.managed.remove(&address) else {
            return;
        };
        let [base, length] = range(address, managed.size);
        let cpu: [Word; 4] = std::array::from_fn(|at| word(16 + 4 * at, CPU_UUID[at]));
        uvm(
            player,
            UVM_SET_RANGE_GROUP,
            32,
            &[long(8, address), long(16, managed.size)],
        );
        uvm(player, UVM_DISABLE_READ_DUPLICATION, 24, &[base, length]);
        uvm(player, UVM_UNSET_ACCESSED_BY, 40, &[base, length, uuid(16)]);
        uvm(
            player,
            UVM_UNSET_ACCESSED_BY,
            40,
            &[base, length, cpu[0], cpu[1], cpu[2], cpu[3]],
        );
        uvm(player, UVM_UNSET_PREFERRED_LOCATION, 24, &[base, length]);
    }
}

pub fn prefetch(player: &mut Player, address: u64, size: u64) {
    let [base, length] = range(address, size);
    uvm(
        player,
        UVM_MIGRATE,
        80,
        &[base, length, uuid(16), word(32, 1), word(48, 1)],
    );
}

pub fn advise_read_mostly(player: &mut Player, address: u64, size: u64) {
    uvm(
        player,
        UVM_ENABLE_READ_DUPLICATION,
        24,
        &range(address, size),
    );
}

pub fn create_range_group(player: &mut Player) -> u64 {
    let group = player.take_group();
    uvm(player, UVM_CREATE_RANGE_GROUP, 16, &[long(0, group)]);
    group
}

pub fn destroy_range_group(player: &mut Player, group: u64) {
    uvm(player, UVM_DESTROY_RANGE_GROUP, 16, &[long(0, group)]);
}

pub fn round_up(size: u64) -> u64 {
    size.max(1)
        .checked_next_multiple_of(GRANULARITY)
        .unwrap_or(u64::MAX)
}

fn allocate(player: &mut Player, address: u64, length: u64) -> Block {
    let object = player.take_handle();
    player.ask_session(&Request {
        fd: CONTROL_FD,
        number: RM_ALLOC,
        size: 48,
        words: &[
            client(0, 1),
            handle(4, DEVICE),
            word(8, object),
            word(12, MEMORY_LOCAL_USER),
        ],
        parameters_size: 128,
        parameters: &[
            client(0, 1),
            // Flags and attributes as recorded: in video memory, pages of 2 MiB.
            word(8, 0x1_c101),
            word(24, 0x1180_0000),
            word(28, 0x10_0005),
            word(32, 0x6),
            long(64, length),
            long(72, GRANULARITY),
            long(88, length - 1),
        ],
    });
    let registration = [word(0, object), long(8, address), long(16, length)];
    control(
        player,
        THIRD_PARTY_P2P,
        P2P_REGISTER_VIDMEM,
        32,
        &registration,
    );
    map_range(player, address, length, object);
    Block {
        object,
        address,
        length,
    }
}

fn free(player: &mut Player, block: Block) {
    control(
        player,
        THIRD_PARTY_P2P,
        P2P_UNREGISTER_VIDMEM,
        4,
        &[word(0, block.object)],
    );
    uvm(player, UVM_FREE, 24, &range(block.address, block.length));
    free_object(player, block.object);
}

fn free_object(player: &mut Player, object: u32) {
    player.ask_session(&Request {
        fd: CONTROL_FD,
        number: RM_FREE,
        size: 16,
        words: &[client(0, 1), handle(4, DEVICE), word(8, object)],
        parameters_size: 0,
        parameters: &[],
    });
    player.release_handle(object);
}

/// Makes the GPU see `object` at `address`.
fn map_range(player: &mut Player, address: u64, length: u64, object: u32) {
    let [base, size] = range(address, length);
    uvm(player, UVM_CREATE_EXTERNAL_RANGE, 24, &[base, size]);
    // One GPU in the list of those that map it, then the object by descriptor, client and handle.
    let (file, client) = (fd(9248, CONTROL_FD), client(9252, 1));
    let words = [
        base,
        size,
        uuid(24),
        word(40, 1),
        word(9240, 1),
        file,
        client,
        word(9256, object),
    ];
    uvm(player, UVM_MAP_EXTERNAL_ALLOCATION, 9264, &words);
}

/// The first sixteen bytes of most UVM requests.
fn range(address: u64, length: u64) -> [Word; 2] {
    [long(0, address), long(8, length)]
}

fn uvm(player: &mut Player, number: u32, size: usize, words: &[Word]) {
    player.ask_session(&Request {
        fd: UVM_FD,
        number,
        size,
        words,
        parameters_size: 0,
        parameters: &[],
    });
}

/// RM_CONTROL on an object of the session.
pub fn control(player: &mut Player, on: Slot, command: u32, size: u32, parameters: &[Word]) {
    player.ask_session(&Request {
        fd: CONTROL_FD,
        number: RM_CONTROL,
        size: 32,
        words: &[
            client(0, 1),
            handle(4, on),
            word(8, command),
            word(24, size),
        ],
        parameters_size: size as usize,
        parameters,
    });
}
