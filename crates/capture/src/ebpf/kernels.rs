//! Which kernels take which of our programs, and pretending to be on an older one: for tests of what
//! cutrace does there (`CUTRACE_PRETEND_KERNEL=5.15`).

use super::EbpfError;
use std::sync::OnceLock;

const PRETEND: &str = "CUTRACE_PRETEND_KERNEL";

/// A kernel's version: 5.15.
pub type Version = (u32, u32);

/// The first kernel that takes programs of a section, by what they are attached to and what they ask
/// the kernel for.
pub fn since(section: &str) -> Version {
    let (kind, rest) = section.split_once('.').unwrap_or((section, ""));
    match (kind, rest) {
        ("uprobe" | "uretprobe", "session" | "session.s") => (6, 13),
        ("uprobe" | "uretprobe", "multi" | "multi.s") => (6, 6),
        ("uprobe" | "uretprobe", "s") => (6, 0),
        ("kprobe" | "kretprobe", "multi") => (5, 18),
        // Ours ask for arguments by number.
        ("fentry" | "fexit", _) => (5, 17),
        _ => (5, 15),
    }
}

/// Whether a program is to be refused because the kernel is pretended to be older.
pub fn pretends_to_lack(section: &str) -> Result<bool, EbpfError> {
    static PRETENDED: OnceLock<Option<String>> = OnceLock::new();
    let pretended = PRETENDED.get_or_init(|| std::env::var(PRETEND).ok());
    let Some(text) = pretended else {
        return Ok(false);
    };
    match version(text) {
        Some(version) => Ok(since(section) > version),
        None => Err(EbpfError::NothingToTrace(format!(
            "{PRETEND} is '{text}': expected a kernel version such as 5.15"
        ))),
    }
}

fn version(text: &str) -> Option<Version> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::objects;
    use object::{Object, ObjectSection};

    #[test]
    fn versions_are_read() {
        assert_eq!(version("5.15"), Some((5, 15)));
        assert_eq!([version("5"), version("x.1"), version("5.15.3")], [None; 3]);
        assert!(since("uprobe.session.s") > since("uprobe.multi.s"));
        assert!(since("uretprobe.s") > since("uretprobe"));
        assert_eq!(since("tracepoint/sched/sched_switch"), (5, 15));
    }

    /// What programs for 5.15 ask the kernel for, it has: its last helper is bpf_task_pt_regs.
    #[test]
    fn programs_for_the_oldest_kernel_ask_for_nothing_newer() {
        const LAST_OF_5_15: i32 = 175;
        const CALL: u8 = 0x85;
        let mut looked_at = 0;
        for compiled in objects::ALL {
            // Aligned, as a reader of ELF wants it.
            let bytes = compiled.bytes().to_vec();
            let file = object::File::parse(&*bytes).expect("an object");
            let code = || (file.sections()).filter(|one| one.kind() == object::SectionKind::Text);
            let is_old = |name: &str| name != ".text" && since(name) <= (5, 15);
            let names = code().map(|one| one.name().unwrap_or_default().to_owned());
            // Functions that all share are old if some program is.
            let some_old = names.into_iter().any(|name| is_old(&name));
            for section in code() {
                let name = section.name().expect("a name");
                let shared = name == ".text" && some_old;
                if !(shared || is_old(name)) {
                    continue;
                }
                for step in section.data().expect("its code").chunks_exact(8) {
                    // Calls of helpers, not of our own functions.
                    if step[0] == CALL && step[1] >> 4 == 0 {
                        let helper = i32::from_le_bytes([step[4], step[5], step[6], step[7]]);
                        let what = compiled.name;
                        assert!(helper <= LAST_OF_5_15, "{what}, {name}: helper {helper}");
                        looked_at += 1;
                    }
                }
            }
        }
        assert!(looked_at > 100, "{looked_at}");
    }
}
