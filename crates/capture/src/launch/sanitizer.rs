//! Programs with AddressSanitizer as a library (gcc's default, clang's -shared-libasan): it refuses to
//! start where another library comes before it, as an injected one does.
//!
//! The injected library answers `__asan_default_options` and so turns that check off in every process
//! that it comes into. This is for the programs that answer it themselves: their ASAN_OPTIONS say it.

use object::elf::FileHeader64;
use object::read::elf::{Dyn, ElfFile, FileHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What turns the check off.
const ORDER: &str = "verify_asan_link_order";
/// What programs are asked for options by.
const OWN_OPTIONS: &str = "__asan_default_options";
/// How often `#!` may lead to a script.
const MOST_SCRIPTS: usize = 4;

/// What the program must find in its environment, behind what is in it; `options`: its ASAN_OPTIONS.
/// None where nothing is needed, and where the user has set it.
pub fn environment(program: &OsStr, options: Option<&OsStr>) -> Option<(OsString, OsString)> {
    let said = options.is_some_and(|options| {
        let said = |word: &[u8]| word.starts_with(ORDER.as_bytes());
        (options.as_bytes().split(|byte| b":, \n\t".contains(byte))).any(said)
    });
    if said || !has_own_options(&executable(program)?)? {
        return None;
    }
    let mut value = options.map_or_else(OsString::new, OsStr::to_owned);
    if !value.is_empty() {
        value.push(":");
    }
    value.push(format!("{ORDER}=0"));
    Some(("ASAN_OPTIONS".into(), value))
}

/// The file that exec would map: found in PATH, behind the `#!` lines of scripts.
fn executable(program: &OsStr) -> Option<PathBuf> {
    let mut path = found(program)?;
    for _ in 0..MOST_SCRIPTS {
        let mut head = Vec::new();
        File::open(&path)
            .ok()?
            .take(256)
            .read_to_end(&mut head)
            .ok()?;
        let Some(rest) = head.strip_prefix(b"#!") else {
            return Some(path);
        };
        let line = rest.split(|&byte| byte == b'\n').next()?;
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty())
            .map(|word| OsString::from_vec(word.to_vec()));
        path = PathBuf::from(words.next()?);
        // `#!/usr/bin/env python3`
        if path.file_name() == Some(OsStr::new("env")) {
            path = found(&words.find(|word| !word.as_bytes().starts_with(b"-"))?)?;
        }
    }
    None
}

fn found(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return path.is_file().then(|| path.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Whether a program has AddressSanitizer as a library, and options for it built in.
fn has_own_options(path: &Path) -> Option<bool> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
    let (endian, data) = (elf.endian(), elf.data());
    let headers = elf.elf_header().program_headers(endian, data).ok()?;
    let mut strings = None;
    let mut needed = Vec::new();
    use object::read::elf::ProgramHeader as _;
    for header in headers {
        let Ok(Some(entries)) = header.dynamic(endian, data) else {
            continue;
        };
        for entry in entries {
            match entry.tag32(endian)? {
                object::elf::DT_STRTAB => strings = Some(entry.d_val(endian)),
                object::elf::DT_NEEDED => needed.push(entry.d_val(endian)),
                _ => {}
            }
        }
    }
    // Where the loader will have it: the file's part that is mapped there.
    let at = headers.iter().find_map(|header| {
        let from = header.p_vaddr(endian);
        let inside = strings?.checked_sub(from)?;
        (header.p_type(endian) == object::elf::PT_LOAD && inside < header.p_filesz(endian))
            .then(|| header.p_offset(endian).checked_add(inside))?
    })?;
    use object::ReadRef as _;
    let name = |offset: u64| {
        let from = at.checked_add(offset)?;
        data.read_bytes_at_until(from..from.checked_add(256)?, 0)
            .ok()
    };
    let is_asan = |name: &[u8]| {
        [&b"libasan.so"[..], b"libclang_rt.asan"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    if !needed.into_iter().filter_map(name).any(is_asan) {
        return Some(false);
    }
    let own = elf
        .dynamic_symbols()
        .any(|symbol| symbol.is_definition() && symbol.name() == Ok(OWN_OPTIONS));
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn what_is_no_such_program_needs_nothing() {
        let own = std::env::current_exe().expect("known");
        assert_eq!(has_own_options(&own), Some(false));
        for program in ["sh", "/nonexistent", "", "/", "/dev/zero"] {
            assert_eq!(environment(OsStr::new(program), None), None, "{program}");
        }
    }

    #[test]
    fn a_program_with_its_own_options_is_found_behind_its_scripts() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, program) = (folder.path().join("own.c"), folder.path().join("own"));
        let code = "const char *__asan_default_options(void) { return \"exitcode=5\"; }\n\
                    int main(void) { return 0; }";
        std::fs::write(&source, code).expect("written");
        let built = Command::new("cc")
            .args(["-fsanitize=address", "-o"])
            .args([&program, &source])
            .status();
        assert!(built.is_ok_and(|status| status.success()), "cc has ASan");
        let script = folder.path().join("script");
        std::fs::write(&script, format!("#!{} -x\n", program.display())).expect("written");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
        for program in [program.as_os_str(), script.as_os_str()] {
            let value = |options: Option<&str>| {
                environment(program, options.map(OsStr::new)).map(|(_, value)| value)
            };
            assert_eq!(value(None), Some("verify_asan_link_order=0".into()));
            let theirs = "detect_leaks=0:verify_asan_link_order=0";
            assert_eq!(value(Some("detect_leaks=0")), Some(theirs.into()));
            assert_eq!(value(Some("verify_asan_link_order=1")), None);
        }
    }
}
