//! From hooks to what is attached: of each hook the first probe that exists, by the first means that
//! works; of all others, why not.

use super::{
    aggregated::Aggregated,
    attach::{self, Attached, Constants, Means},
    marks::Marks,
    refusal::Refusal,
    shape::Shape,
};
use crate::{
    ebpf::{EbpfError, attach::Calls, layout::SPEC_AT_RETURN, maps::Maps},
    hooks::{Hook, Probe, ProbeKind, Target},
    kernel::{Btf, Function, Functions, Tracefs, base_name, lore_of_group, resolve, silence},
    notes::Notes,
};
use event::{Category, Kind, Layer, Name};
use libbpf_rs::Object;
use std::{collections::HashSet, io, os::fd::OwnedFd, path::PathBuf};

/// Functions of one glob: more would be a mistake.
const MOST_FUNCTIONS: usize = 20_000;
/// Functions that are attached one by one: taking them off again takes the kernel long.
pub(super) const MOST_SINGLE: usize = 1_000;

/// What the events of one cookie are.
#[derive(Debug, Clone)]
pub struct Subject {
    pub name: Name,
    pub layer: Layer,
    pub kind: Kind,
    pub category: Category,
    pub shape: Shape,
    /// Its records bring the stack pointer, others the processor.
    pub by_stack: bool,
    /// It exists, and will stay silent: why.
    pub silence: Option<&'static str>,
}

/// Everything that is attached; dropping it detaches.
#[derive(Default)]
pub struct Attachments {
    /// By the low half of their cookies.
    pub subjects: Vec<Subject>,
    /// What is counted instead.
    pub aggregated: Aggregated,
    /// Hooks that were taken, and hooks in all.
    pub taken: u64,
    pub total: u64,
    /// What was not, each with the reason.
    pub missing: Vec<String>,
    /// What was, and how.
    pub details: Vec<String>,
    /// What the user should know of it at the end, each once.
    pub notes: Notes,
    links: Vec<OwnedFd>,
    events: Vec<Attached>,
    objects: Vec<Object>,
    calls: Option<Calls>,
    entries: Option<Calls>,
    marks: Option<Marks>,
}

/// One function that is to be attached.
struct Wanted {
    hook: usize,
    /// Which of the hook's probes.
    probe: usize,
    way: ProbeKind,
    name: Box<str>,
    module: Option<Box<str>>,
    address: u64,
    cookie: u64,
    enters: bool,
    returns: bool,
}

/// Attaches hooks on functions of the kernel and on tracepoints.
pub struct Choice<'a> {
    pub(super) maps: &'a Maps,
    pub(super) hooks: &'a [Hook],
    /// Where libraries are looked for first.
    pub(super) folders: &'a [PathBuf],
    functions: Functions,
    tracefs: Option<Tracefs>,
    /// Looked at when it is needed first.
    btf: Option<Option<Btf>>,
    pub(super) made: Attachments,
    /// For each hook: why its probes so far are not what is taken.
    reasons: Vec<Vec<String>>,
    attached: Vec<bool>,
    /// Says of fentry what the kernel said the first time.
    no_fentry: Option<String>,
    kprobes: Option<Object>,
    pub(super) calls: Option<Calls>,
    /// For functions whose returns nobody waits for: sessions would be told of them all the same.
    pub(super) entries: Option<Calls>,
    pub(super) marks: Option<Marks>,
    /// A program can be on a tracepoint once: another hook on it takes another copy.
    points: Vec<(Object, HashSet<u32>)>,
}

impl<'a> Choice<'a> {
    pub fn new(maps: &'a Maps, hooks: &'a [Hook], folders: &'a [PathBuf]) -> Self {
        let tracefs = Tracefs::find();
        let folder = tracefs.as_ref().map(Tracefs::folder);
        Choice {
            functions: Functions::of_modules(folder, modules(hooks).as_deref()).unwrap_or_default(),
            tracefs,
            btf: None,
            reasons: vec![Vec::new(); hooks.len()],
            attached: vec![false; hooks.len()],
            made: Attachments {
                total: hooks.len() as u64,
                ..Attachments::default()
            },
            maps,
            hooks,
            folders,
            no_fentry: None,
            kprobes: None,
            calls: None,
            entries: None,
            marks: None,
            points: Vec::new(),
        }
    }

    /// Attaches what can be; fails if something cannot that is required.
    pub fn attach(mut self) -> Result<Attachments, EbpfError> {
        let most = self.hooks.iter().map(|hook| hook.probes.len()).max();
        // Alternative by alternative, so that most are attached together.
        for probe in 0..most.unwrap_or(0) {
            let mut wanted = Vec::new();
            for hook in 0..self.hooks.len() {
                if !self.attached[hook] && probe < self.hooks[hook].probes.len() {
                    self.consider(hook, probe, &mut wanted)?;
                }
            }
            self.attach_functions(wanted)?;
        }
        for (number, hook) in self.hooks.iter().enumerate() {
            // Alternatives often fail for the same reason.
            self.reasons[number].dedup();
            let reasons = self.reasons[number].join("; ");
            if self.attached[number] {
                self.made.taken += 1;
                if !reasons.is_empty() {
                    let line = format!("{}: fallback; {reasons}", hook.title());
                    self.made.details.push(line);
                }
            } else if hook.required {
                let what = format!(
                    "{} is required and cannot be hooked: {reasons}",
                    hook.title()
                );
                return Err(EbpfError::NothingToTrace(what));
            } else {
                self.made
                    .missing
                    .push(format!("{}: {reasons}", hook.title()));
            }
        }
        self.made.calls = self.calls;
        self.made.entries = self.entries;
        self.made.marks = self.marks;
        Ok(self.made)
    }

    /// One probe of one hook: functions are added to those wanted, tracepoints attached.
    fn consider(
        &mut self,
        hook: usize,
        at: usize,
        wanted: &mut Vec<Wanted>,
    ) -> Result<(), EbpfError> {
        let probe = &self.hooks[hook].probes[at];
        match &probe.target {
            Target::Function { module, function } => {
                let resolved = match resolve(&self.functions, module.as_deref(), function) {
                    Ok(resolved) => resolved,
                    Err(missing) => {
                        self.reasons[hook].push(missing.to_string());
                        return Ok(());
                    }
                };
                if resolved.functions.len() > MOST_FUNCTIONS {
                    let reason = format!("{probe} matches {} functions", resolved.functions.len());
                    self.reasons[hook].push(reason);
                    return Ok(());
                }
                if let Some(note) = resolved.note {
                    self.made.details.push(note);
                }
                let found: Vec<Function> = resolved.functions.into_iter().cloned().collect();
                self.want(hook, at, &found, wanted)
            }
            Target::Tracepoint { group, name } => {
                let (group, name) = (group.clone(), name.clone());
                self.attach_tracepoints(hook, &group, &name)
            }
            Target::Library { library, function } => {
                let (library, function) = (library.clone(), function.clone());
                match self.by_uprobe(hook, at, &library, &function) {
                    Ok(()) => self.attached[hook] = true,
                    Err(why) => self.reasons[hook].push(why.to_string()),
                }
                Ok(())
            }
            Target::Usdt {
                library,
                provider,
                name,
            } => {
                let (library, provider, name) = (library.clone(), provider.clone(), name.clone());
                match self.by_marker(hook, &library, &provider, &name) {
                    Ok(()) => self.attached[hook] = true,
                    Err(why) => self.reasons[hook].push(why.to_string()),
                }
                Ok(())
            }
        }
    }

    fn want(
        &mut self,
        hook: usize,
        probe: usize,
        found: &[Function],
        wanted: &mut Vec<Wanted>,
    ) -> Result<(), EbpfError> {
        let asked = &self.hooks[hook];
        let way = asked.probes[probe].way;
        let shape = match Shape::of_function(asked, way.is_return()) {
            Ok(shape) => shape,
            Err(error) => {
                self.reasons[hook].push(error.to_string());
                return Ok(());
            }
        };
        if found.iter().all(|function| function.address == 0) {
            let reason = "the kernel hides its function addresses from this user".to_owned();
            self.reasons[hook].push(reason);
            return Ok(());
        }
        let at_return = shape.spec.flags & SPEC_AT_RETURN != 0;
        let number = self.maps.describe(&shape.spec)?;
        for function in found.iter().filter(|function| function.address != 0) {
            let name = asked.name.as_deref().unwrap_or(base_name(&function.name));
            let cookie = if let Some(aggregate) = &asked.aggregate {
                let key = match &function.module {
                    Some(module) => format!("{}:{module}:{}", way.as_str(), function.name),
                    None => format!("{}:{}", way.as_str(), function.name),
                };
                match self.made.aggregated.place(asked, aggregate, key) {
                    Ok(place) => place,
                    Err(why) => {
                        self.reasons[hook].push(why.to_string());
                        break;
                    }
                }
            } else {
                self.subject(hook, name, Layer::Kernel, &shape, None)
            };
            wanted.push(Wanted {
                hook,
                probe,
                way,
                name: function.name.clone(),
                module: function.module.clone(),
                address: function.address,
                cookie: u64::from(number) << 32 | u64::from(cookie),
                enters: !at_return,
                returns: at_return || asked.time,
            });
        }
        Ok(())
    }

    pub(super) fn subject(
        &mut self,
        hook: usize,
        name: &str,
        layer: Layer,
        shape: &Shape,
        silence: Option<&'static str>,
    ) -> u32 {
        let asked = &self.hooks[hook];
        let layer = asked.layer.unwrap_or(layer);
        self.made.subjects.push(Subject {
            name: name.into(),
            layer,
            kind: asked.kind.unwrap_or(layer.usual_kind()),
            category: asked.category,
            shape: shape.clone(),
            by_stack: false,
            silence,
        });
        (self.made.subjects.len() - 1) as u32
    }

    fn attach_functions(&mut self, wanted: Vec<Wanted>) -> Result<(), EbpfError> {
        let (through_fentry, mut rest): (Vec<Wanted>, Vec<Wanted>) = (wanted.into_iter())
            .partition(|wanted| matches!(wanted.way, ProbeKind::Fentry | ProbeKind::Fexit));
        // Those that cannot be had the way they were asked for are had another way.
        for wanted in through_fentry {
            if self.by_fentry(&wanted).is_err() {
                rest.push(wanted);
            }
        }
        let rest = self.by_kprobe_multi(rest);
        if rest.len() > MOST_SINGLE {
            let reason = format!(
                "{} functions match, and this kernel attaches them one by one: choose fewer than {MOST_SINGLE}",
                rest.len()
            );
            let hooks: HashSet<usize> = rest.iter().map(|wanted| wanted.hook).collect();
            for hook in hooks {
                self.reasons[hook].push(reason.clone());
            }
            return Ok(());
        }
        for wanted in rest {
            let asked_for_fentry = matches!(wanted.way, ProbeKind::Fentry | ProbeKind::Fexit);
            let done = (!asked_for_fentry && self.by_fentry(&wanted).is_ok())
                || match self.by_kprobe(&wanted) {
                    Ok(()) => true,
                    Err(why) => {
                        let reason = format!("{}: {why}", wanted.name);
                        // One of many is no reason to list each.
                        if self.reasons[wanted.hook].len() < 4 {
                            self.reasons[wanted.hook].push(reason);
                        }
                        false
                    }
                };
            self.attached[wanted.hook] |= done;
        }
        Ok(())
    }

    /// All of them in one link; those that are left.
    fn by_kprobe_multi(&mut self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        if wanted.is_empty() {
            return wanted;
        }
        let names = ["multi_enter", "multi_return"];
        let Ok(object) = attach::load(self.maps, &names, Constants::default()) else {
            return wanted;
        };
        // A link knows one cookie for an address: hooks on the same function go into another.
        let mut rest = Vec::new();
        let mut left = wanted;
        while !left.is_empty() {
            let mut seen = HashSet::new();
            let (batch, again): (Vec<Wanted>, Vec<Wanted>) = left
                .into_iter()
                .partition(|wanted| seen.insert(wanted.address));
            left = again;
            match link_batch(&object, &batch) {
                Ok(links) => {
                    self.made.links.extend(links);
                    for wanted in &batch {
                        self.took(wanted, Means::KprobeMulti);
                    }
                }
                Err(_) => rest.extend(batch),
            }
        }
        self.made.objects.push(object);
        rest
    }

    fn by_fentry(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        if let Some(reason) = &self.no_fentry {
            return Err(Refusal::NoFentry(reason.clone()));
        }
        // Most modules from elsewhere have none: that is seen without reading the kernel's.
        if (wanted.module.as_deref()).is_some_and(|module| !Btf::has_module(module)) {
            return Err(Refusal::NoModuleBtf);
        }
        let btf = self.btf.get_or_insert_with(|| Btf::of_this_kernel().ok());
        let btf = btf.as_mut().ok_or(Refusal::NoKernelBtf)?;
        if btf
            .function(wanted.module.as_deref(), &wanted.name)
            .is_none()
        {
            return Err(Refusal::NotInBtf);
        }
        let mut programs = Vec::new();
        if wanted.enters {
            programs.push("fentry_enter");
        }
        if wanted.returns {
            programs.push("fexit_return");
        }
        let module = wanted.module.as_deref();
        match attach::fentry(self.maps, module, &wanted.name, wanted.cookie, &programs) {
            Ok((object, links)) => {
                self.made.objects.push(object);
                self.made.links.extend(links);
                self.took(wanted, Means::Fentry);
                Ok(())
            }
            Err(error) => {
                // Locked down, or without trampolines: it will be so for the next one, too.
                if is_refused(&error) {
                    self.no_fentry = Some(error.to_string());
                }
                Err(error.into())
            }
        }
    }

    fn by_kprobe(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        let object = kept(
            &mut self.kprobes,
            self.maps,
            &["kprobe_enter", "kprobe_return"],
        )?;
        let mut events = Vec::new();
        for (program, at_return, wants) in [
            ("kprobe_return", true, wanted.returns),
            ("kprobe_enter", false, wanted.enters),
        ] {
            if wants {
                let made =
                    attach::kprobe(object, program, wanted.address, wanted.cookie, at_return);
                events.push(made.map_err(Refusal::Kernel)?);
            }
        }
        self.made.events.extend(events);
        self.took(wanted, Means::Kprobe);
        Ok(())
    }

    fn attach_tracepoints(
        &mut self,
        hook: usize,
        group: &str,
        name: &str,
    ) -> Result<(), EbpfError> {
        let Some(tracefs) = self.tracefs.clone() else {
            let reason = "tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing";
            self.reasons[hook].push(reason.to_owned());
            return Ok(());
        };
        let names: Vec<String> = if name.contains(['*', '?']) {
            let all = tracefs.list().unwrap_or_default();
            (all.into_iter())
                .filter(|(g, n)| g == group && event::matches_glob(name.as_bytes(), n.as_bytes()))
                .map(|(_, name)| name)
                .collect()
        } else {
            vec![name.to_owned()]
        };
        if names.is_empty() {
            let mut reason = format!("no tracepoint matches {group}:{name}");
            if let Some(truth) = lore_of_group(group) {
                reason = format!("{reason}: {truth}");
            }
            self.reasons[hook].push(reason);
        }
        for name in names {
            match self.by_tracepoint(&tracefs, hook, group, &name) {
                Ok(()) => self.attached[hook] = true,
                Err(why) => self.reasons[hook].push(why.to_string()),
            }
        }
        Ok(())
    }

    fn by_tracepoint(
        &mut self,
        tracefs: &Tracefs,
        hook: usize,
        group: &str,
        name: &str,
    ) -> Result<(), Refusal> {
        let point = tracefs.tracepoint(group, name).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "not in this kernel or its modules".to_owned(),
                _ => error.to_string(),
            };
            Refusal::NoTracepoint {
                group: group.to_owned(),
                name: name.to_owned(),
                why: lore_of_group(group).map_or(why, str::to_owned),
            }
        })?;
        let asked = &self.hooks[hook];
        let shape = Shape::of_tracepoint(asked, &point)?;
        let number = self.maps.describe(&shape.spec)?;
        let title = asked.name.clone().unwrap_or_else(|| name.to_owned());
        let layer = if group == "nvidia" {
            Layer::Kernel
        } else {
            Layer::Os
        };
        let subject = if let Some(aggregate) = &asked.aggregate {
            let key = format!("tracepoint:{group}:{name}");
            self.made.aggregated.place(asked, aggregate, key)?
        } else {
            self.subject(hook, &title, layer, &shape, silence(group))
        };
        let cookie = u64::from(number) << 32 | u64::from(subject);
        let copy = (self.points.iter()).position(|(_, on)| !on.contains(&point.id));
        let copy = match copy {
            Some(copy) => copy,
            None => {
                let object = attach::load(self.maps, &["point"], Constants::default())?;
                self.points.push((object, HashSet::new()));
                self.points.len() - 1
            }
        };
        let (object, on) = &mut self.points[copy];
        on.insert(point.id);
        let made = attach::tracepoint(object, "point", point.id, cookie);
        self.made.events.push(made.map_err(Refusal::Kernel)?);
        let line = format!("{group}:{name} ({})", Means::Tracepoint.as_str());
        self.made.details.push(line);
        Ok(())
    }

    fn took(&mut self, wanted: &Wanted, means: Means) {
        self.attached[wanted.hook] = true;
        let probe = &self.hooks[wanted.hook].probes[wanted.probe];
        let module = wanted.module.as_deref().unwrap_or("vmlinux");
        let line = format!("{module}:{} ({})", wanted.name, means.as_str());
        self.made.details.push(match is_plain(probe) {
            true => line,
            false => format!("{line} for {probe}"),
        });
    }
}

/// The modules that hooks name, if every hook on a function names one.
fn modules(hooks: &[Hook]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for probe in hooks.iter().flat_map(|hook| &hook.probes) {
        if let Target::Function { module, .. } = &probe.target {
            found.push(module.as_deref()?.replace('-', "_"));
        }
    }
    (!found.iter().any(|module| module == "vmlinux")).then_some(found)
}

/// Programs that are loaded when they are needed first.
fn kept<'a>(
    place: &'a mut Option<Object>,
    maps: &Maps,
    names: &[&str],
) -> Result<&'a Object, EbpfError> {
    let object = match place.take() {
        Some(object) => object,
        None => attach::load(maps, names, Constants::default())?,
    };
    Ok(place.insert(object))
}

/// It names one function.
fn is_plain(probe: &Probe) -> bool {
    matches!(&probe.target, Target::Function { function, .. } if !function.contains(['*', '?']))
}

fn link_batch(object: &Object, batch: &[Wanted]) -> io::Result<Vec<OwnedFd>> {
    let mut links = Vec::new();
    for (program, at_return) in [("multi_return", true), ("multi_enter", false)] {
        let part = batch.iter().filter(|wanted| match at_return {
            true => wanted.returns,
            false => wanted.enters,
        });
        let (addresses, cookies): (Vec<u64>, Vec<u64>) =
            part.map(|wanted| (wanted.address, wanted.cookie)).unzip();
        if !addresses.is_empty() {
            let link = attach::kprobe_multi(object, program, &addresses, &cookies, at_return)?;
            links.push(link);
        }
    }
    Ok(links)
}

fn is_refused(error: &EbpfError) -> bool {
    let EbpfError::Load { source, .. } = error else {
        return false;
    };
    matches!(
        source.kind(),
        libbpf_rs::ErrorKind::PermissionDenied | libbpf_rs::ErrorKind::InvalidInput
    )
}
