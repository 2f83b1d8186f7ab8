//! The one device: what it can do, as numbers.
//!
//! Limits that PTX code depends on are those of the recorded sm_90 hardware. What describes the
//! hardware itself (clocks, caches, buses), and every feature that is not implemented, is answered
//! honestly for a software device.

use std::ffi::CStr;

pub use crate::resman::UUID;

use super::{
    primary::Primary,
    result::{Answer, INVALID_DEVICE},
};

include!(concat!(env!("OUT_DIR"), "/recorded.rs"));

pub const NAME: &str = "softgpu (software CUDA device)";
pub const PCI_BUS_ID: &str = "0000:00:00.0";
pub const DRIVER_VERSION: i32 = 13000;
/// Compute capability 9.0.
pub const CAPABILITY: (i32, i32) = (9, 0);
/// (least, greatest) stream priority.
pub const PRIORITIES: (i32, i32) = (0, -5);

/// More multiprocessors, each a thread, would only be in each other's way.
const MOST_SMS: u32 = 1024;
/// Unless CUTRACE_SOFTGPU_MEM says otherwise, and the machine has twice as much.
const DEFAULT_MEMORY: u64 = 8 << 30;

// Per-SM limits of sm_90 that occupancy is computed from.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;
pub const MAX_THREADS_PER_SM: u32 = 2048;
pub const MAX_BLOCKS_PER_SM: u32 = 32;
pub const REGISTERS_PER_SM: u32 = 65536;
pub const SHARED_PER_SM: u64 = 233_472;
pub const SHARED_PER_BLOCK: u64 = 49_152;
pub const SHARED_PER_BLOCK_OPTIN: u64 = 232_448;
pub const SHARED_RESERVED_PER_BLOCK: u64 = 1024;
pub const MAX_CLUSTER: u32 = 8;

pub struct Device {
    /// One SM for each core, unless CUTRACE_SOFTGPU_SMS says otherwise; blocks run on so many threads.
    pub sm_count: u32,
    pub memory: u64,
    pub primary: Primary,
}

impl Device {
    pub fn detect() -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Self {
            sm_count: std::env::var("CUTRACE_SOFTGPU_SMS")
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or_else(cores)
                .clamp(1, MOST_SMS),
            memory: std::env::var("CUTRACE_SOFTGPU_MEM")
                .ok()
                .and_then(|text| parse_size(&text))
                .unwrap_or_else(default_memory),
            primary: Primary::default(),
        }
    }

    /// False where CUDA_VISIBLE_DEVICES leaves the device out.
    pub fn is_visible() -> bool {
        match std::env::var("CUDA_VISIBLE_DEVICES") {
            Ok(list) => first_names_this(&list),
            Err(_) => true,
        }
    }

    /// A CUdevice_attribute; None for numbers a real driver refuses.
    pub fn attribute(&self, number: u32) -> Option<i32> {
        let recorded = (*ATTRIBUTES.get(number as usize)?)?;
        Some(match number {
            16 => self.sm_count as i32,
            // Clock: %clock64 counts nanoseconds.
            13 => 1_000_000,
            // PCI, ECC, memory clock and bus, L2, access windows, RDMA: there is none.
            32..=34 | 36..=38 | 50 | 84 | 85 | 108 | 109 | 116..=118 | 139 | 140 => 0,
            // Textures, surfaces, arrays.
            21..=29 | 42..=49 | 52..=74 | 77 | 112 | 121 => 0,
            // Atomics are the host's own.
            86 => 1,
            // IPC, interop, compression, multicast, tensor maps, host pools.
            104 | 105 | 107 | 110 | 114 | 119 | 124 | 125 | 127..=129 | 141..=146 => 0,
            // Multi-device launches.
            96 => 0,
            _ => recorded,
        })
    }

    pub fn check(ordinal: i32) -> Answer {
        if ordinal == 0 {
            Ok(())
        } else {
            Err(INVALID_DEVICE)
        }
    }
}

fn default_memory() -> u64 {
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let installed = (pages.max(0) as u64).saturating_mul(page.max(0) as u64);
    // In steps of 256 MiB, and never less than one.
    let half = installed / 2 / (256 << 20) * (256 << 20);
    DEFAULT_MEMORY.min(half.max(256 << 20))
}

/// "512M", "8G", "1073741824".
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|size| *size > 0)
}

/// Whether a list of ordinals and UUIDs begins with this device; it ends at the first bad entry.
fn first_names_this(list: &str) -> bool {
    let first = list.split(',').next().unwrap_or_default().trim();
    let uuid: String = UUID.iter().map(|byte| format!("{byte:02x}")).collect();
    match first.strip_prefix("GPU-") {
        Some(digits) => {
            let digits = digits.replace('-', "").to_ascii_lowercase();
            !digits.is_empty() && uuid.starts_with(&digits)
        }
        None => first.parse::<u32>() == Ok(0),
    }
}

/// (name, description) of a CUresult.
pub fn error_text(code: u32) -> Option<(&'static CStr, &'static CStr)> {
    let at = ERRORS.binary_search_by_key(&code, |error| error.0).ok()?;
    Some((ERRORS[at].1, ERRORS[at].2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_suffix() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size(" 512M "), Some(512 << 20));
        assert_eq!(parse_size("8g"), Some(8 << 30));
        for bad in ["", "G", "x", "0", "-1", "99999999999999G"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn visible_devices() {
        for seen in ["0", "0,1", " 0 ", "GPU-736f6674", "GPU-736f6674-6770"] {
            assert!(first_names_this(seen), "{seen}");
        }
        for hidden in ["", "-1", "1", "none", "GPU-", "GPU-0123", "1,0"] {
            assert!(!first_names_this(hidden), "{hidden}");
        }
    }

    #[test]
    fn limits_agree_with_the_recorded_hardware() {
        let device = Device {
            sm_count: 2,
            memory: 1 << 30,
            primary: Primary::default(),
        };
        for (number, value) in [
            (1, MAX_THREADS_PER_BLOCK),
            (39, MAX_THREADS_PER_SM),
            (106, MAX_BLOCKS_PER_SM),
            (82, REGISTERS_PER_SM),
            (81, SHARED_PER_SM as u32),
            (8, SHARED_PER_BLOCK as u32),
            (97, SHARED_PER_BLOCK_OPTIN as u32),
            (111, SHARED_RESERVED_PER_BLOCK as u32),
            (75, 9),
            (76, 0),
            (16, 2),
        ] {
            assert_eq!(device.attribute(number), Some(value as i32), "{number}");
        }
        assert_eq!(device.attribute(0), None);
        assert_eq!(device.attribute(150), None);
        assert_eq!(device.attribute(u32::MAX), None);
    }
}
