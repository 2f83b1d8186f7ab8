//! Nothing was hooked: the likeliest reason that can be seen from here.

use crate::{
    launch::found_in_path,
    source::{RunOptions, words::NO_CALL},
};
use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// What the reason depends on.
pub struct Nothing {
    program: OsString,
    simulated: bool,
    /// The first library that was asked for.
    library: Option<(String, String)>,
}

impl Nothing {
    pub fn of(run: &RunOptions) -> Self {
        Nothing {
            program: run.command().program,
            simulated: run.simulate,
            library: run.libraries.first().cloned(),
        }
    }

    pub fn words(&self) -> String {
        let cannot = "so cutrace cannot trace it from inside";
        let Some(path) = found_in_path(&self.program) else {
            return format!("{NO_CALL}the program loaded no CUDA library");
        };
        let name = path.display();
        let mode = fs::metadata(&path).map_or(0, |found| found.permissions().mode());
        if mode & 0o6000 != 0 {
            return format!("{NO_CALL}{name} is setuid or setgid, {cannot}");
        }
        if is_static(&path) == Some(true) {
            return format!("{NO_CALL}{name} is statically linked, {cannot}");
        }
        let mut words = format!(
            "{NO_CALL}the program loaded no CUDA library (libcuda, libcudart), or did so in a process that \
             cutrace could not follow (a cleared environment; a container: run cutrace inside it)"
        );
        if let Some((library, functions)) = &self.library {
            let _ = write!(
                words,
                "; nor did it load a library {library} with functions {functions} that can be hooked (--lib)"
            );
        }
        if !self.simulated && !Path::new("/proc/driver/nvidia").exists() {
            words
                .push_str("; no NVIDIA driver is loaded here: --sim runs CUDA programs on softgpu");
        }
        words
    }
}

/// Whether an ELF program asks for no loader; None for scripts and what cannot be read.
fn is_static(path: &Path) -> Option<bool> {
    let mut head = Vec::new();
    File::open(path)
        .ok()?
        .take(64 << 10)
        .read_to_end(&mut head)
        .ok()?;
    if head.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let number = |at: usize, size: usize| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(head.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    const INTERPRETER: usize = 3;
    for entry in 0..count {
        if number(table.checked_add(entry.checked_mul(size)?)?, 4)? == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, ffi::OsStr};

    #[test]
    fn this_test_is_dynamically_linked_and_a_script_is_neither() {
        let own = env::current_exe().expect("known");
        assert_eq!(is_static(&own), Some(false));
        assert_eq!(is_static(Path::new(file!())), None);
        assert_eq!(is_static(Path::new("/nonexistent")), None);
        assert!(found_in_path(OsStr::new("sh")).is_some());
    }
}
