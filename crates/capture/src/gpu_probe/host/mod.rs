//! Programs of an object with probes that run on the host: uprobes, kernel probes, tracepoints.
//!
//! The kernel runs them, by libbpf. Arrays that they share with programs of the GPU are the kernel's,
//! with pages that can be mapped: the library in the traced program asks for their files over a socket
//! of the session's folder, and the device reaches the pages themselves. Who asks also gets the uprobes
//! that belong to its libraries, before it is answered: so they are there before its first call.

mod contents;
mod launch;
mod socket;
mod uprobe;

use super::maps::MapDump;
use crate::ebpf::{self, EbpfError, objects};
use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapType, Object, ObjectBuilder, ProgramType, libbpf_sys,
};
use socket::Door;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use uprobe::Uprobe;

/// What of an object belongs on the host.
#[derive(Debug, Clone, Default)]
pub struct HostPart {
    /// The whole object.
    pub object: Vec<u8>,
    pub programs: Vec<HostProgram>,
    pub maps: Vec<HostMap>,
}

#[derive(Debug, Clone)]
pub struct HostProgram {
    pub name: String,
    pub section: String,
    /// Its section is another than the object says.
    pub is_moved: bool,
}

impl HostPart {
    /// Functions of libraries that uprobes go to: nobody else may change their code.
    pub fn functions(&self) -> Vec<String> {
        let uprobes = self.programs.iter();
        let uprobes = uprobes.filter_map(|one| Uprobe::parse(&one.section, &one.name));
        uprobes.flat_map(|uprobe| uprobe.functions()).collect()
    }
}

/// A map that programs of the host use.
#[derive(Debug, Clone)]
pub struct HostMap {
    pub name: String,
    /// Its place in the orders.
    pub index: usize,
    /// An array, by whatever number: the kernel knows one.
    pub is_array: bool,
    /// The GPU's programs use it too.
    pub shared: bool,
    /// Keys and values that it starts with.
    pub initial: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(
        "program {program} ({section}) runs on the host: {source}\nto run only the GPU programs: --no-host"
    )]
    NotAllowed {
        program: String,
        section: String,
        source: EbpfError,
    },
    #[error("{0}")]
    Load(EbpfError),
    #[error("program {program} ({section}) cannot be attached: {source}")]
    Attach {
        program: String,
        section: String,
        source: libbpf_rs::Error,
    },
    #[error(
        "program {program}: section {section} does not say what to attach to; use --attach {program}=uprobe:LIB:FUNCTION"
    )]
    Section { program: String, section: String },
    #[error("map {map} cannot be set: {source}")]
    Set {
        map: String,
        source: libbpf_rs::Error,
    },
    #[error("cannot share maps with the program: {0}")]
    Socket(io::Error),
}

/// The programs, running. Dropped, they are gone.
pub struct Host {
    stop: Arc<AtomicBool>,
    socket: PathBuf,
    serving: Option<JoinHandle<Served>>,
}

/// What they left.
#[derive(Debug, Default)]
pub struct HostFound {
    pub maps: Vec<MapDump>,
    pub notes: Vec<String>,
}

/// What the thread that answers holds.
struct Served {
    object: Object,
    maps: Vec<HostMap>,
    uprobes: Vec<Uprobe>,
    links: Vec<Link>,
    /// Files of the shared maps, by their place in the orders.
    files: Vec<(usize, OwnedFd)>,
    known: BTreeSet<(u32, usize)>,
}

impl Host {
    /// Loads the programs and attaches all that are of no process. The session's folder learns of them.
    pub fn start(part: &HostPart, folder: &Path) -> Result<Host, HostError> {
        let first = part.programs.first();
        ebpf::available().map_err(|source| HostError::NotAllowed {
            program: first.map_or("?", |one| &one.name).to_owned(),
            section: first.map_or("?", |one| &one.section).to_owned(),
            source,
        })?;
        let object = load(part).map_err(HostError::Load)?;
        set(&object, &part.maps)?;
        let mut served = Served {
            files: shared_files(&object, part).map_err(HostError::Socket)?,
            object,
            maps: part.maps.clone(),
            uprobes: Vec::new(),
            links: Vec::new(),
            known: BTreeSet::new(),
        };
        served.attach(&part.programs)?;
        let places: String = (served.files.iter())
            .map(|(index, _)| format!("{index}\n"))
            .collect();
        std::fs::write(folder.join(socket::PLACES), places).map_err(HostError::Socket)?;
        let door = Door::open(folder).map_err(HostError::Socket)?;
        let socket = door.path.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let serving = std::thread::Builder::new()
            .name("cutrace-gpu-host".into())
            .spawn(move || {
                while let Some(guest) = door.next() {
                    if stopping.load(Ordering::Acquire) {
                        break;
                    }
                    served.meet(guest.process);
                    let files: Vec<i32> =
                        served.files.iter().map(|file| file.1.as_raw_fd()).collect();
                    guest.answer(&files);
                }
                served
            })
            .map_err(HostError::Socket)?;
        Ok(Host {
            stop,
            socket,
            serving: Some(serving),
        })
    }

    /// The traced program has ended.
    pub fn finish(mut self) -> HostFound {
        self.end().map_or_else(HostFound::default, |mut served| {
            // Nothing writes any more when the maps are read.
            served.links.clear();
            HostFound {
                notes: served.uprobes.iter().filter_map(Uprobe::note).collect(),
                maps: contents::of(&served.object, &served.maps),
            }
        })
    }

    fn end(&mut self) -> Option<Served> {
        let serving = self.serving.take()?;
        self.stop.store(true, Ordering::Release);
        // Wakes it.
        let _ = std::os::unix::net::UnixStream::connect(&self.socket);
        serving.join().ok()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
    }
}

impl Served {
    fn attach(&mut self, programs: &[HostProgram]) -> Result<(), HostError> {
        for one in programs {
            if one.section.starts_with("uprobe") || one.section.starts_with("uretprobe") {
                let parsed = Uprobe::parse(&one.section, &one.name);
                self.uprobes.push(parsed.ok_or_else(|| HostError::Section {
                    program: one.name.clone(),
                    section: one.section.clone(),
                })?);
                continue;
            }
            let Some(program) = self.object.progs_mut().find(|it| it.name() == &*one.name) else {
                continue;
            };
            let moved = (one.section.split_once('/')).filter(|_| one.is_moved);
            let attached = match moved {
                Some(("kprobe", function)) => program.attach_kprobe(false, function),
                Some(("kretprobe", function)) => program.attach_kprobe(true, function),
                _ => program.attach(),
            };
            let link = attached.map_err(|source| HostError::Attach {
                program: one.name.clone(),
                section: one.section.clone(),
                source,
            })?;
            self.links.push(link);
        }
        Ok(())
    }

    /// A process is there, with libraries: it gets the uprobes that it has not yet.
    fn meet(&mut self, process: u32) {
        for (number, uprobe) in self.uprobes.iter_mut().enumerate() {
            if self.known.contains(&(process, number)) {
                continue;
            }
            let program = self
                .object
                .progs_mut()
                .find(|it| it.name() == &*uprobe.program);
            let links = program.map_or_else(Vec::new, |program| uprobe.attach(&program, process));
            if !links.is_empty() {
                uprobe.is_attached = true;
                self.links.extend(links);
                self.known.insert((process, number));
            }
        }
    }
}

fn load(part: &HostPart) -> Result<Object, EbpfError> {
    objects::listen();
    let _ = objects::said();
    let failed = |source| EbpfError::Load {
        object: "setting up the host programs",
        source,
        log: objects::said(),
    };
    let mut open = ObjectBuilder::default()
        .open_memory(&part.object)
        .map_err(failed)?;
    for mut program in open.progs_mut() {
        let ours = part
            .programs
            .iter()
            .find(|one| program.name() == &*one.name);
        program.set_autoload(ours.is_some());
        if ours.is_some_and(|one| one.is_moved) {
            program.set_prog_type(ProgramType::Kprobe);
        }
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // Global data are libbpf's own maps, that can be mapped as they are.
        if name.contains('.') {
            continue;
        }
        match part.maps.iter().find(|one| one.name == name) {
            None => map.set_autocreate(false).map_err(failed)?,
            Some(one) => {
                if one.is_array {
                    map.set_type(MapType::Array).map_err(failed)?;
                }
                if one.shared {
                    map.set_map_flags(map.map_flags() | libbpf_sys::BPF_F_MMAPABLE)
                        .map_err(failed)?;
                }
            }
        }
    }
    open.load().map_err(failed)
}

/// Gives maps what they start with.
fn set(object: &Object, maps: &[HostMap]) -> Result<(), HostError> {
    for one in maps.iter().filter(|one| !one.initial.is_empty()) {
        let Some(map) = object.maps().find(|map| is_named(map.name(), &one.name)) else {
            continue;
        };
        for (key, value) in &one.initial {
            map.update(key, value, MapFlags::ANY)
                .map_err(|source| HostError::Set {
                    map: one.name.clone(),
                    source,
                })?;
        }
    }
    Ok(())
}

/// The kernel's name of a map: those of global data have the object's before them.
fn is_named(found: &std::ffi::OsStr, name: &str) -> bool {
    match name.starts_with('.') {
        true => found.to_string_lossy().ends_with(name),
        false => found == name,
    }
}

fn shared_files(object: &Object, part: &HostPart) -> io::Result<Vec<(usize, OwnedFd)>> {
    let mut files = Vec::new();
    for one in part.maps.iter().filter(|one| one.shared) {
        let found = object.maps().find(|map| is_named(map.name(), &one.name));
        if let Some(map) = found {
            files.push((one.index, map.as_fd().try_clone_to_owned()?));
        }
    }
    Ok(files)
}
