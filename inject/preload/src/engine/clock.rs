//! Which clock times are taken from: the processor's counter where it runs evenly on all cores, else
//! the kernel's CLOCK_MONOTONIC, which takes a system call for each reading.

use crate::layout::Stage;
use crate::sys::{self, File};
use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicBool, Ordering};

static HOST: AtomicBool = AtomicBool::new(false);

pub fn start(stage: &Stage, forced: bool) {
    let host = forced || !counter_is_good();
    HOST.store(host, Ordering::Relaxed);
    // SAFETY: the stage's variable lives as long as the process.
    unsafe { (*stage.host_clock).store(host.into(), Ordering::Relaxed) };
}

/// The kernel gives the counter up for these when it finds it uneven.
fn counter_is_good() -> bool {
    let mut buffer = [0u8; 64];
    let path = b"/sys/devices/system/clocksource/clocksource0/current_clocksource\0";
    let read = File::open(path, libc::O_RDONLY, 0).map_or(0, |file| file.read(&mut buffer));
    let source = buffer[..read].trim_ascii();
    ![&b"hpet"[..], b"acpi_pm", b"jiffies", b"refined-jiffies"].contains(&source)
}

/// Whether each reading takes a system call.
pub fn is_hosts() -> bool {
    HOST.load(Ordering::Relaxed)
}

/// The time as records have it.
pub fn now() -> u64 {
    if HOST.load(Ordering::Relaxed) {
        sys::monotonic_ns()
    } else {
        sys::ticks()
    }
}

/// What the processor or the hypervisor says; 0 if neither does.
pub fn ticks_a_second() -> u64 {
    if HOST.load(Ordering::Relaxed) {
        return 1_000_000_000;
    }
    let highest = __cpuid(0).eax;
    if highest >= 0x15 {
        let leaf = __cpuid(0x15);
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax);
        }
    }
    let hypervised = __cpuid(1).ecx >> 31 == 1;
    if hypervised && __cpuid(0x4000_0000).eax >= 0x4000_0010 {
        return u64::from(__cpuid(0x4000_0010).eax) * 1000;
    }
    0
}
