//! Following processes: forks, what they load, and holding a loading thread until probes are in
//! what it has loaded.

use super::EbpfError;
use super::changed::{Change, Changes};
use super::loader;
use super::maps::Maps;
use super::objects::{self, Compiled, LOADING, LOADING_PLAIN, PROCESSES, PROCESSES_BTF};
use super::probe_point;
use libbpf_rs::{Link, MapCore, Object, UprobeMultiOpts, UprobeOpts};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TRACING: &str = "/sys/kernel/tracing";
/// Where the loader is for nearly all programs.
const LOADERS: [&str; 3] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "/lib/ld-musl-x86_64.so.1",
];

/// The program of loaders, by kernels: 6.6, 6.0, older ones.
const LOADED: [(Compiled, &str); 3] = [
    (LOADING, "loaded_multi"),
    (LOADING, "loaded_one"),
    (LOADING_PLAIN, "loaded_plain"),
];

/// Why what programs load later cannot be waited for, by the loader that it is of.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct LoaderError {
    path: PathBuf,
    why: WithoutProbe,
}

/// Why a loader gets no probe.
#[derive(Debug, thiserror::Error)]
enum WithoutProbe {
    #[error("{0}")]
    Unreadable(io::Error),
    #[error("it has no function that announces loaded libraries")]
    NoFunction,
    #[error("another cutrace has patched it in a program's memory")]
    Patched,
    #[error("{0}")]
    Refused(Arc<EbpfError>),
    #[error("{0}")]
    NotAttached(libbpf_rs::Error),
}

/// The programs that follow processes. Dropped, they are gone.
pub struct Following {
    _object: Object,
    /// The program of loaders, by the ways to attach it that have been tried.
    loading: Vec<Result<Object, Arc<EbpfError>>>,
    links: Vec<Link>,
    /// Loaders that have their probe, by device and inode.
    loaders: HashSet<(u64, u64)>,
    /// Why what is loaded later cannot be waited for.
    pub without_hold: Option<LoaderError>,
}

impl Following {
    pub fn start(maps: &Maps) -> Result<Self, EbpfError> {
        let (object, links) = follow_children(maps)?;
        let mut following = Following {
            _object: object,
            loading: Vec::new(),
            links,
            loaders: HashSet::new(),
            without_hold: None,
        };
        // One that is not there is nobody's.
        for loader in LOADERS.map(Path::new).into_iter().filter(|it| it.exists()) {
            if let Err(why) = following.watch_loader(maps, loader) {
                following.without_hold = Some(why);
            }
        }
        Ok(following)
    }

    /// Puts probes where a loader has notified debuggers that its list has changed.
    /// If that cannot be done, why not.
    pub fn watch_loader(&mut self, maps: &Maps, path: &Path) -> Result<(), LoaderError> {
        self.attach_to_loader(maps, path)
            .map_err(|why| LoaderError {
                path: path.to_owned(),
                why,
            })
    }

    fn attach_to_loader(&mut self, maps: &Maps, path: &Path) -> Result<(), WithoutProbe> {
        let found = fs::metadata(path).map_err(WithoutProbe::Unreadable)?;
        if !self.loaders.insert((found.dev(), found.ino())) {
            return Ok(());
        }
        let places = loader::places(path).ok_or(WithoutProbe::NoFunction)?;
        let offsets = places.offsets();
        if offsets.iter().any(|offset| is_changed(path, *offset)) {
            return Err(WithoutProbe::Patched);
        }
        let mut refused = None;
        for (number, (compiled, name)) in LOADED.into_iter().enumerate() {
            if self.loading.len() == number {
                let loaded = objects::load(compiled, maps, &[name], |_| Ok(()));
                self.loading.push(loaded.map_err(Arc::new));
            }
            refused = Some(match &mut self.loading[number] {
                Err(why) => WithoutProbe::Refused(why.clone()),
                Ok(object) => match attach_loader(object, name, path, offsets) {
                    Ok(links) => {
                        self.links.extend(links);
                        return Ok(());
                    }
                    Err(why) => WithoutProbe::NotAttached(why),
                },
            });
        }
        Err(refused.unwrap_or(WithoutProbe::NoFunction))
    }

    /// Whether a loader has its probe, or cannot have one.
    pub fn knows_loader(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| self.loaders.contains(&(found.dev(), found.ino())))
    }

    /// Lets a thread go on that waited.
    pub fn answer(&self, maps: &Maps, thread: u32) {
        if let Some(waiting) = maps.other("waiting") {
            // One that did not wait so long is gone from there.
            let _ = waiting.delete(&thread.to_le_bytes());
        }
    }

    /// Takes the probes off, and others with them, all at once: for each the kernel waits until
    /// nobody runs it.
    pub fn detach(&mut self, others: Vec<Link>) {
        std::thread::scope(|scope| {
            for link in self.links.drain(..).chain(others) {
                scope.spawn(move || drop(link));
            }
        });
    }
}

/// Whether a probe there could destroy a program: another tool has patched the function in its memory. Where
/// it is a mere `ret`, the file's byte alone is the whole of it.
fn is_changed(path: &Path, offset: u64) -> bool {
    const RET: u8 = 0xc3;
    let mut code = [0; 16];
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    if file.read_at(&mut code, offset).is_err() || code[0] == RET {
        return false;
    }
    let first = probe_point::instruction_bytes(&code, 0);
    Changes::of_path(path).at(&file, offset, first, first) == Change::AtFirst
}

fn attach_loader(
    object: &mut Object,
    name: &str,
    path: &Path,
    offsets: &[u64],
) -> libbpf_rs::Result<Vec<Link>> {
    let mut programs = object.progs_mut();
    let program = programs.find(|program| program.name() == name);
    let program = program.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))?;
    let offsets = offsets.iter().map(|offset| *offset as usize);
    if name != "loaded_multi" {
        let attach =
            |offset| program.attach_uprobe_with_opts(-1, path, offset, UprobeOpts::default());
        return offsets.map(attach).collect();
    }
    let options = UprobeMultiOpts {
        offsets: offsets.collect(),
        ..UprobeMultiOpts::default()
    };
    let link = program.attach_uprobe_multi_with_opts(-1, path, "", options)?;
    Ok(vec![link])
}

const PROGRAMS: [&str; 3] = ["process_fork", "process_exec", "process_exit"];

/// Children of followed processes are followed. By the kernel's BTF that takes no tracefs, which only
/// root may read, and the links are gone at once: for each of tracefs' the kernel waits a twentieth of
/// a second.
pub fn follow_children(maps: &Maps) -> Result<(Object, Vec<Link>), EbpfError> {
    by_btf(maps).or_else(|_| by_tracefs(maps))
}

fn by_tracefs(maps: &Maps) -> Result<(Object, Vec<Link>), EbpfError> {
    let child = child_offset().unwrap_or(CHILD_OFFSET);
    let set_offset = |object: &mut libbpf_rs::OpenObject| {
        for mut map in object.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                map.set_initial_value(&child.to_le_bytes())?;
            }
        }
        Ok(())
    };
    let mut object = objects::load(PROCESSES, maps, &PROGRAMS, set_offset)?;
    let links = objects::attach_all(&mut object)?;
    Ok((object, links))
}

fn by_btf(maps: &Maps) -> Result<(Object, Vec<Link>), EbpfError> {
    let mut object = objects::load(PROCESSES_BTF, maps, &PROGRAMS, |_| Ok(()))?;
    let links = objects::attach_all(&mut object)?;
    Ok((object, links))
}

/// Where the child's id is in sched_process_fork's record on kernels that say nothing.
const CHILD_OFFSET: u32 = 44;

fn child_offset() -> Option<u32> {
    let path = format!("{TRACING}/events/sched/sched_process_fork/format");
    field_offset(&fs::read_to_string(path).ok()?, "child_pid")
}

/// The offset of a field in a tracepoint's record, by its format.
pub fn field_offset(format: &str, field: &str) -> Option<u32> {
    format.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("field:")?;
        let (declared, rest) = rest.split_once(';')?;
        let name = declared.rsplit([' ', '*']).next()?;
        let name = name.split('[').next()?;
        if name != field {
            return None;
        }
        let offset = rest.trim().strip_prefix("offset:")?;
        offset.split(';').next()?.parse().ok()
    })
}

/// Makes sure that tracepoints can be found. Most systems mount this when they start.
pub fn mount_tracefs() -> io::Result<()> {
    if Path::new(TRACING).join("events").exists()
        || PathBuf::from("/sys/kernel/debug/tracing/events").exists()
    {
        return Ok(());
    }
    // SAFETY: constant strings that end in NUL.
    let mounted = unsafe {
        libc::mount(
            c"tracefs".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            std::ptr::null(),
        )
    };
    match mounted {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_formats() {
        let format = "name: sched_process_fork\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:char child_comm[16];\toffset:28;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n";
        assert_eq!(field_offset(format, "child_pid"), Some(20));
        assert_eq!(field_offset(format, "child_comm"), Some(28));
        assert_eq!(field_offset(format, "missing"), None);
    }
}
