//! Request numbers, classes and controls that later calls use, as of driver 580.

pub const RM_ALLOC: u32 = 0xc030_462b;
pub const RM_ALLOC_MEMORY: u32 = 0xc038_4627;
pub const RM_CONTROL: u32 = 0xc020_462a;
pub const RM_FREE: u32 = 0xc010_4629;

pub const UVM_CREATE_RANGE_GROUP: u32 = 23;
pub const UVM_DESTROY_RANGE_GROUP: u32 = 24;
pub const UVM_SET_RANGE_GROUP: u32 = 31;
pub const UVM_MAP_EXTERNAL_ALLOCATION: u32 = 33;
pub const UVM_FREE: u32 = 34;
pub const UVM_UNSET_PREFERRED_LOCATION: u32 = 43;
pub const UVM_ENABLE_READ_DUPLICATION: u32 = 44;
pub const UVM_DISABLE_READ_DUPLICATION: u32 = 45;
pub const UVM_UNSET_ACCESSED_BY: u32 = 47;
pub const UVM_MIGRATE: u32 = 51;
pub const UVM_VALIDATE_VA_RANGE: u32 = 72;
pub const UVM_CREATE_EXTERNAL_RANGE: u32 = 73;

/// Device memory.
pub const MEMORY_LOCAL_USER: u32 = 0x40;
/// Host memory the program already has.
pub const MEMORY_OS_DESCRIPTOR: u32 = 0x71;

pub const GPU_GET_NAME_STRING: u32 = 0x2080_0110;
pub const FB_GET_INFO_V2: u32 = 0x2080_1303;
pub const P2P_REGISTER_VIDMEM: u32 = 0x503c_0104;
pub const P2P_UNREGISTER_VIDMEM: u32 = 0x503c_0105;
