//! Memory pools: all take from the same memory; a pool keeps settings and names.

use std::{
    ffi::c_void,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::memory::allocate_async;
use crate::{
    abi::Location,
    allocation::MemoryKind,
    device::Device,
    entry::{api, put, stream_api, take},
    handle::{Kind, Registry},
    result::{Answer, INVALID_VALUE, NOT_SUPPORTED},
    state::driver,
};

/// CUmemPool_attribute 1 to 4: three switches for reuse, and the release threshold.
struct Pool {
    settings: Mutex<[u64; 4]>,
}

impl Pool {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            settings: Mutex::new([1, 1, 1, 0]),
        })
    }
}

static POOLS: Registry<Pool> = Registry::new(Kind::Pool);
static DEFAULT: AtomicU64 = AtomicU64::new(0);
static CURRENT: AtomicU64 = AtomicU64::new(0);
static MAKING: Mutex<()> = Mutex::new(());

const DEVICE_LOCATION: u32 = 1;

fn default_pool() -> u64 {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if DEFAULT.load(Ordering::Acquire) == 0 {
        let handle = POOLS.fresh();
        POOLS.insert(handle, Pool::new());
        DEFAULT.store(handle, Ordering::Release);
        CURRENT.store(handle, Ordering::Release);
    }
    DEFAULT.load(Ordering::Acquire)
}

fn current_pool() -> u64 {
    default_pool();
    CURRENT.load(Ordering::Acquire)
}

fn find(handle: u64) -> Answer<Arc<Pool>> {
    default_pool();
    POOLS.get(handle).ok_or(INVALID_VALUE)
}

/// Pools of pinned memory on the device are the only ones.
fn check_place(location: Location, kind: u32) -> Answer {
    const PINNED: u32 = 1;
    if kind != PINNED {
        return Err(INVALID_VALUE);
    }
    if location.kind != DEVICE_LOCATION {
        return Err(NOT_SUPPORTED);
    }
    Device::check(location.id)
}

api! {
    fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: i32) {
        Device::check(device)?;
        put(pool, default_pool())
    }

    fn cuDeviceGetMemPool(pool: *mut u64, device: i32) {
        Device::check(device)?;
        put(pool, current_pool())
    }

    fn cuDeviceSetMemPool(device: i32, pool: u64) {
        Device::check(device)?;
        find(pool)?;
        CURRENT.store(pool, Ordering::Release);
        Ok(())
    }

    fn cuMemPoolCreate(pool: *mut u64, properties: *const [u32; 22]) {
        // CUmemPoolProps: kind, handle types, location kind, location id, …
        let [kind, handles, location, device, ..] = take(properties)?;
        if pool.is_null() || kind != 1 {
            return Err(INVALID_VALUE);
        }
        if handles != 0 || location != DEVICE_LOCATION {
            return Err(NOT_SUPPORTED);
        }
        Device::check(device as i32)?;
        let handle = POOLS.fresh();
        POOLS.insert(handle, Pool::new());
        put(pool, handle)
    }

    fn cuMemPoolDestroy(pool: u64) {
        find(pool)?;
        if pool == default_pool() {
            return Err(INVALID_VALUE);
        }
        POOLS.remove(pool);
        let _ = CURRENT.compare_exchange(
            pool,
            default_pool(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(())
    }

    fn cuMemGetDefaultMemPool(pool: *mut u64, location: *const Location, kind: u32) {
        check_place(take(location)?, kind)?;
        put(pool, default_pool())
    }

    fn cuMemGetMemPool(pool: *mut u64, location: *const Location, kind: u32) {
        check_place(take(location)?, kind)?;
        put(pool, current_pool())
    }

    fn cuMemSetMemPool(location: *const Location, kind: u32, pool: u64) {
        check_place(take(location)?, kind)?;
        find(pool)?;
        CURRENT.store(pool, Ordering::Release);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: u64, _keep: usize) {
        find(pool).map(|_| ())
    }

    fn cuMemPoolSetAttribute(pool: u64, attribute: u32, value: *mut c_void) {
        let pool = find(pool)?;
        let mut settings = pool.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match attribute {
            1..=3 => settings[attribute as usize - 1] = u64::from(take(value.cast::<u32>())? != 0),
            4 => settings[3] = take(value.cast::<u64>())?,
            // High-water marks can only be reset.
            6 | 8 if take(value.cast::<u64>())? == 0 => {}
            _ => return Err(INVALID_VALUE),
        }
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut c_void) {
        let pool = find(pool)?;
        let settings = *pool.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let used = driver().allocations.total_of(MemoryKind::Pooled);
        match attribute {
            1..=3 => put(value.cast::<u32>(), settings[attribute as usize - 1] as u32),
            4 => put(value.cast::<u64>(), settings[3]),
            5..=8 => put(value.cast::<u64>(), used),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuMemPoolGetAccess(flags: *mut u32, pool: u64, location: *const Location) {
        const READ_WRITE: u32 = 3;
        find(pool)?;
        let location = take(location)?;
        let own = location == Location { kind: DEVICE_LOCATION, id: 0 };
        put(flags, if own { READ_WRITE } else { 0 })
    }

    /// There is one device, which always has access to its own memory.
    fn cuMemPoolSetAccess(pool: u64, map: *const [u32; 3], count: usize) {
        const READ_WRITE: u32 = 3;
        find(pool)?;
        for i in 0..count {
            if take(map.wrapping_add(i))? != [DEVICE_LOCATION, 0, READ_WRITE] {
                return Err(INVALID_VALUE);
            }
        }
        Ok(())
    }
}

stream_api! {
    fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(null;
        address: *mut u64,
        bytes: usize,
        pool: u64,
        stream: u64,
    ) {
        find(pool)?;
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        put(address, allocate_async(null, bytes, stream)?)
    }
}
