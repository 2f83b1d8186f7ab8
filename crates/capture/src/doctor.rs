//! What of eBPF works here, found out by trying: programs are loaded and attached for a moment.
//! Versions are not looked at; kernels are patched, configured and locked down as their owners like.

use crate::{
    ebpf::{
        kernel::{Tries, TryError, first_line},
        layout::Settings,
        maps::Maps,
        objects::{self, Compiled},
    },
    kernel::{Functions, Tracefs},
    source::Obstacle,
};
use std::fs;

/// A thing's name, and words about how it works, or why it does not.
pub type Examined = (&'static str, Result<String, Obstacle>);

/// A function that every kernel has, with a place for probes.
const FUNCTION: &str = "vfs_open";

pub fn is_root() -> bool {
    // SAFETY: a question without side effects.
    unsafe { libc::geteuid() == 0 }
}

/// How far the kernel is locked down.
pub fn lockdown() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let level = text.split_once('[')?.1.split_once(']')?.0;
    (level != "none").then(|| level.to_owned())
}

/// Whether the kernel tells this user where its functions are.
pub fn tells_addresses() -> bool {
    let functions = Functions::of_modules(None, Some(&[])).and_then(|_| fs::read("/proc/kallsyms"));
    let text = functions.unwrap_or_default();
    // Variables of processors come first, with small numbers; how many there are differs.
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.any(|line| line.first().is_some_and(|digit| *digit == b'f'))
}

/// What this user may do.
pub fn rights() -> Result<String, Obstacle> {
    const CAP_SYS_PTRACE: u32 = 19;
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    const CAP_BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let bits = bits.unwrap_or(0);
    let has = |bit: u32| bits >> bit & 1 == 1;
    let named = [
        (CAP_BPF, "CAP_BPF"),
        (CAP_PERFMON, "CAP_PERFMON"),
        (CAP_SYS_PTRACE, "CAP_SYS_PTRACE"),
        (CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    let (held, lacking): (Vec<_>, Vec<_>) = named.iter().partition(|(bit, _)| has(*bit));
    let list = |these: Vec<&(u32, &str)>| -> String {
        let names: Vec<&str> = these.iter().map(|(_, name)| *name).collect();
        names.join(", ")
    };
    if (has(CAP_BPF) && has(CAP_PERFMON)) || has(CAP_SYS_ADMIN) {
        return Ok(list(held));
    }
    Err(Obstacle::new(format!(
        "missing {}: use sudo cutrace …, or grant them to the binary: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep CUTRACE",
        list(lacking)
    )))
}

/// eBPF's abilities, one by one.
pub fn ebpf() -> Vec<Examined> {
    let Some(level) = lockdown() else {
        return tried();
    };
    let because =
        |why: Obstacle| Obstacle::new(format!("the kernel is locked down ({level}): {why}"));
    let found = tried().into_iter();
    found
        .map(|(name, found)| (name, found.map_err(because)))
        .collect()
}

/// Why probes cannot be attached here, by kind; None: they can.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Functions and markers of libraries.
    pub libraries: Option<String>,
    /// Functions of the kernel and its modules.
    pub functions: Option<String>,
    pub tracepoints: Option<String>,
}

/// Tries each kind of probe for a moment.
pub fn refusals() -> Refusals {
    let found = match rights() {
        Ok(_) => ebpf(),
        Err(why) => vec![("BPF", Err(why))],
    };
    let why_not = |names: &[&str]| {
        // Nothing works without the first.
        if let Some((_, Err(why))) = found.first() {
            return Some(why.to_string());
        }
        let of_kind = || found.iter().filter(|(name, _)| names.contains(name));
        let works = of_kind().any(|(_, found)| found.is_ok());
        let mut reasons = of_kind().filter_map(|(_, found)| found.as_ref().err());
        (reasons.next().filter(|_| !works)).map(Obstacle::to_string)
    };
    Refusals {
        libraries: why_not(&["uprobe", "uprobe_multi", "session"]),
        functions: why_not(&["kprobe", "kprobe_multi", "fentry"]),
        tracepoints: why_not(&["tracepoint"]),
    }
}

fn tried() -> Vec<Examined> {
    let maps = match Maps::create(1 << 16) {
        Ok(maps) => maps,
        Err(error) => return vec![("BPF", Err(Obstacle::new(first_line(&error))))],
    };
    // Nothing is recorded: what is attached here only counts as attached.
    let disabled = Settings {
        disabled: 1,
        ..Settings::default()
    };
    if let Err(error) = maps.set(&disabled) {
        return vec![("BPF", Err(Obstacle::new(first_line(&error))))];
    }
    let mut found = vec![("BPF", Ok("maps and programs can be created".to_owned()))];
    let tries = Tries::new(&maps);
    let words = |tried: Result<(), TryError>, words: &str| match tried {
        Ok(()) => Ok(words.to_owned()),
        Err(why) => Err(Obstacle::from_error(why)),
    };
    found.push((
        "uprobe",
        words(tries.uprobe(), "library functions, attached one by one"),
    ));
    found.push((
        "uprobe_multi",
        words(
            tries.uprobe_multi(),
            "library functions, all attached at once",
        ),
    ));
    found.push(("session", loads(objects::SESSION, &maps, "call_session")));
    let tracepoint = match Tracefs::find() {
        Some(tracefs) => tries.tracepoint(&tracefs),
        None => Err(TryError::NoTracefs),
    };
    found.push((
        "tracepoint",
        words(tracepoint, "system calls, scheduling, interrupts, Xids"),
    ));
    let functions = Functions::of_this_kernel(None).unwrap_or_default();
    let address = (functions.named(FUNCTION).iter())
        .find(|function| function.module.is_none())
        .map_or(0, |function| function.address);
    let tried = |attach: &dyn Fn() -> Result<(), TryError>, shown: &str| {
        let tried = match address {
            0 => Err(TryError::NoAddresses),
            _ => attach(),
        };
        words(tried, shown)
    };
    found.push((
        "kprobe",
        tried(
            &|| tries.kprobe(address),
            "driver functions, attached one by one",
        ),
    ));
    found.push((
        "kprobe_multi",
        tried(
            &|| tries.kprobe_multi(address),
            "driver functions, all attached at once",
        ),
    ));
    found.push((
        "fentry",
        tried(
            &|| tries.fentry(FUNCTION),
            "driver functions, at the lowest cost",
        ),
    ));
    found
}

fn loads(object: Compiled, maps: &Maps, program: &str) -> Result<String, Obstacle> {
    match objects::load(object, maps, &[program], |_| Ok(())) {
        Ok(_) => Ok("entry and return of a call in one probe".to_owned()),
        Err(_) => Err(Obstacle::new(
            "not in this kernel (needs 6.13): two probes per function are used instead",
        )),
    }
}
