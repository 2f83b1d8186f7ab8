//! Of hooks on functions of libraries and programs: which ones match, in which files, and how they are attached.

use super::{
    choose::{Choice, MOST_SINGLE},
    refusal::Refusal,
    shape::Shape,
};
use crate::{
    ebpf::{
        attach::{AttachMode as UprobeWay, Calls, Probe as Uprobe},
        changed::Changes,
        layout::{MEASURE_DURATION, MEASURE_RESULT, SPEC_INSTANT},
        library,
        watch::{self, ALREADY_RECORDED, WITHOUT_DURATIONS, functions_of},
    },
    hooks::{Hook, Target},
    library::find,
    notes::counted,
};
use event::Layer;
use std::fs::File;

impl Choice<'_> {
    /// Functions of a library, in every copy of it that is found.
    pub(super) fn by_uprobe(
        &mut self,
        hook: usize,
        at: usize,
        library: &str,
        function: &str,
    ) -> Result<(), Refusal> {
        let asked = &self.hooks[hook];
        let mut shape = Shape::of_function(asked, false)?;
        if asked.probes[at].way.is_return() {
            if asked.condition.is_some() {
                return Err(Refusal::ConditionAtReturn);
            }
            // Seen as a span: a return alone tells less.
            shape.spec.flags &= !SPEC_INSTANT;
        }
        let wants_return = asked.probes[at].way.is_return();
        let needs_return = matches!(shape.spec.measure, MEASURE_DURATION | MEASURE_RESULT);
        let number = self.maps.describe(&shape.spec)?;
        // Where exceptions may pass, only beginnings are seen.
        let mut instant = shape.spec;
        instant.flags |= SPEC_INSTANT;
        let instant = self.maps.describe(&instant)?;
        let files = find(library, self.folders);
        if files.is_empty() {
            return Err(Refusal::NoLibrary(library.to_owned()));
        }
        let (mut found, mut refused) = (false, None);
        for path in files {
            let shown = path.display().to_string();
            let file = File::open(&path).map_err(|why| Refusal::File {
                file: shown.clone(),
                why,
            })?;
            let wanted = library::Wanted {
                libraries: vec![("*".to_owned(), function.to_owned())],
                only_named: true,
                ..library::Wanted::default()
            };
            let Some(mut read) = library::read(&file, &shown, &wanted) else {
                continue;
            };
            let changes = Changes::of_path(&path);
            let left = read.leave_changed(&file, &changes);
            if left > 0 {
                let subject = functions_of(left, &shown);
                self.made.notes.about(&ALREADY_RECORDED, subject);
            }
            let mut probes = Vec::new();
            for function in &read.functions {
                if !event::matches_glob(function_glob(asked, at), function.name.as_bytes()) {
                    continue;
                }
                if wants_return && !function.returns {
                    return Err(Refusal::Throws { file: shown });
                }
                let subject = if let Some(aggregate) = &asked.aggregate {
                    let way = asked.probes[at].way.as_str();
                    let key = format!("{way}:{shown}:{}", function.name);
                    if needs_return && !function.returns {
                        refused.get_or_insert_with(|| Refusal::ThrowsWhenCounted {
                            function: function.name.to_string(),
                            file: shown.clone(),
                        });
                        continue;
                    }
                    self.made.aggregated.place(asked, aggregate, key)?
                } else {
                    let name = self.hooks[hook].name.clone();
                    let name = name.unwrap_or_else(|| function.name.to_string());
                    let subject = self.subject(hook, &name, Layer::Library, &shape, None);
                    self.made.subjects[subject as usize].by_stack = true;
                    subject
                };
                probes.push(Uprobe {
                    offset: function.entry + function.offset,
                    cookie: u64::from(if function.returns { number } else { instant }) << 32
                        | u64::from(subject),
                    returns: function.returns && (needs_return || asked.aggregate.is_none()),
                });
            }
            if probes.is_empty() {
                continue;
            }
            let throwing = probes.iter().filter(|probe| !probe.returns).count();
            if throwing > 0 && self.hooks[hook].aggregate.is_none() {
                let subject = watch::throwing(&shown, throwing as u64, probes.len());
                self.made.notes.about(&WITHOUT_DURATIONS, subject);
            }
            let way = self.attach_library(&file, &shown, &probes)?;
            let line = format!(
                "{} of {shown} ({way})",
                counted(probes.len() as u64, "function", "functions")
            );
            self.made.details.push(line);
            found = true;
        }
        match (found, refused) {
            (true, None) => Ok(()),
            (true, Some(refused)) => {
                self.made.notes.say(refused.to_string());
                Ok(())
            }
            (false, Some(refused)) => Err(refused),
            (false, None) => Err(Refusal::NoFunction {
                library: library.to_owned(),
                function: function.to_owned(),
            }),
        }
    }

    /// By the first way that works, and how that is called. A kernel may take programs that it then does
    /// not attach.
    fn attach_library(
        &mut self,
        file: &File,
        shown: &str,
        probes: &[Uprobe],
    ) -> Result<&'static str, Refusal> {
        if probes.iter().all(|probe| !probe.returns) {
            if self.entries.is_none() {
                self.entries = Calls::load(self.maps, UprobeWay::Multi).ok();
            }
            let multi = (self.entries.as_mut()).filter(|calls| calls.way == UprobeWay::Multi);
            if let Some(calls) = multi
                && calls.attach(file, shown, probes).is_ok()
            {
                return Ok(calls.way.as_str());
            }
        }
        let mut calls = match self.calls.take() {
            Some(calls) => calls,
            None => Calls::load(self.maps, UprobeWay::Session)?,
        };
        loop {
            if calls.way == UprobeWay::Single && probes.len() > MOST_SINGLE {
                self.calls = Some(calls);
                return Err(Refusal::OneByOne {
                    count: probes.len(),
                    what: "functions",
                    file: shown.to_owned(),
                    most: MOST_SINGLE,
                });
            }
            let next = match calls.way {
                UprobeWay::Session => Some(UprobeWay::Multi),
                UprobeWay::Multi => Some(UprobeWay::Single),
                UprobeWay::Single => None,
            };
            match (calls.attach(file, shown, probes), next) {
                (Ok(()), _) => {
                    let way = calls.way.as_str();
                    self.calls = Some(calls);
                    return Ok(way);
                }
                (Err(_), Some(next)) if calls.is_unused() => {
                    calls = Calls::load(self.maps, next)?;
                }
                (Err(error), _) => {
                    self.calls = Some(calls);
                    return Err(error.into());
                }
            }
        }
    }
}

fn function_glob(hook: &Hook, probe: usize) -> &[u8] {
    match &hook.probes[probe].target {
        Target::Library { function, .. } => function.as_bytes(),
        _ => b"*",
    }
}
