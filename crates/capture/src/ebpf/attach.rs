//! Probes in libraries: by sessions, by two links of many probes, or one by one, whichever this
//! kernel takes.

use super::EbpfError;
use super::maps::Maps;
use super::objects::{self, CALLS, CALLS_PLAIN, SESSION};
use libbpf_rs::{Link, Object, ProgramMut, UprobeMultiOpts, UprobeOpts};
use std::fs::File;
use std::os::fd::AsRawFd;

/// A probe: where in the file, and what comes with its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    pub offset: u64,
    pub cookie: u64,
    /// Whether the return is probed, too.
    pub returns: bool,
}

/// How probes are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// One link of many probes, for beginnings and returns (6.13).
    Session,
    /// Two of them (6.6).
    Multi,
    /// Two links for each function. Taking them off again takes the kernel a tenth of a second each.
    Single,
}

impl AttachMode {
    pub fn as_str(self) -> &'static str {
        match self {
            AttachMode::Session => "uprobe session",
            AttachMode::Multi => "uprobe multi",
            AttachMode::Single => "uprobe",
        }
    }
}

/// The programs for calls, loaded, and their links. Dropped, the probes are gone.
pub struct Calls {
    pub way: AttachMode,
    object: Object,
    links: Vec<Link>,
}

impl Calls {
    /// `from` is the first way to try.
    pub fn load(maps: &Maps, from: AttachMode) -> Result<Self, EbpfError> {
        let ways = [AttachMode::Session, AttachMode::Multi, AttachMode::Single];
        let mut refused = None;
        for way in ways.into_iter().skip_while(|way| *way != from) {
            match load(maps, way) {
                Ok(object) => {
                    return Ok(Calls {
                        way,
                        object,
                        links: Vec::new(),
                    });
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused
            .unwrap_or_else(|| EbpfError::NothingToTrace("no supported way to attach".into())))
    }

    /// Puts probes into a file. All of them, or none.
    pub fn attach(&mut self, file: &File, what: &str, probes: &[Probe]) -> Result<(), EbpfError> {
        // Found by descriptor: the same file, wherever it is mounted and even if it has been deleted.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let before = self.links.len();
        let attached = match self.way {
            // Its program keeps the kernel from returns that are not wanted.
            AttachMode::Session => self.multi("call_session", &path, probes, false, true),
            AttachMode::Multi => self
                .multi("enter_multi", &path, probes, false, false)
                .and_then(|()| {
                    let returns: Vec<Probe> =
                        probes.iter().filter(|it| it.returns).copied().collect();
                    if returns.is_empty() {
                        return Ok(());
                    }
                    self.multi("return_multi", &path, &returns, true, false)
                }),
            AttachMode::Single => probes.iter().try_for_each(|probe| {
                self.single("enter_one", &path, probe, false)?;
                if probe.returns {
                    self.single("return_one", &path, probe, true)?;
                }
                Ok(())
            }),
        };
        attached.map_err(|source| {
            self.links.truncate(before);
            EbpfError::Attach {
                what: what.to_owned(),
                source,
            }
        })
    }

    /// Whether nothing is attached by it yet.
    pub fn is_unused(&self) -> bool {
        self.links.is_empty()
    }

    /// Takes all probes off.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    fn program(&mut self, name: &str) -> libbpf_rs::Result<ProgramMut<'_>> {
        let found = self.object.progs_mut().find(|one| one.name() == name);
        found.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOENT))
    }

    fn multi(
        &mut self,
        program: &str,
        path: &str,
        probes: &[Probe],
        retprobe: bool,
        session: bool,
    ) -> libbpf_rs::Result<()> {
        let options = UprobeMultiOpts {
            offsets: probes.iter().map(|probe| probe.offset as usize).collect(),
            cookies: probes.iter().map(|probe| probe.cookie).collect(),
            retprobe,
            session,
            ..UprobeMultiOpts::default()
        };
        let link = self
            .program(program)?
            .attach_uprobe_multi_with_opts(-1, path, "", options)?;
        self.links.push(link);
        Ok(())
    }

    fn single(
        &mut self,
        program: &str,
        path: &str,
        probe: &Probe,
        retprobe: bool,
    ) -> libbpf_rs::Result<()> {
        let options = UprobeOpts {
            cookie: probe.cookie,
            retprobe,
            ..UprobeOpts::default()
        };
        let link = self.program(program)?.attach_uprobe_with_opts(
            -1,
            path,
            probe.offset as usize,
            options,
        )?;
        self.links.push(link);
        Ok(())
    }
}

fn load(maps: &Maps, way: AttachMode) -> Result<Object, EbpfError> {
    let plain = |_: &mut _| Ok(());
    match way {
        AttachMode::Session => objects::load(SESSION, maps, &["call_session"], plain),
        AttachMode::Multi => objects::load(CALLS, maps, &["enter_multi", "return_multi"], plain),
        AttachMode::Single => {
            let programs = ["enter_one", "return_one"];
            objects::load(CALLS, maps, &programs, plain)
                .or_else(|_| objects::load(CALLS_PLAIN, maps, &programs, plain))
        }
    }
}
