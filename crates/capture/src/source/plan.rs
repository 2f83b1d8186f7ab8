//! Which sources a run takes, and which it leaves out, with the reason.

use super::{Auto, Methods, Registry, RunOptions, SourceRef, Unavailable};

/// What a run is watched by.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they start.
    pub sources: Vec<SourceRef>,
    /// One of them that is there for what another needs of it, and tells nothing else.
    pub companion: Option<SourceRef>,
    /// What was asked for in general and cannot be had here, and why.
    pub left_out: Vec<String>,
}

/// Why a run cannot be watched as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// What asks for it, and why it cannot be had.
    #[error("{asked}: {why}")]
    Unavailable { asked: String, why: Unavailable },
    #[error("{0}")]
    Clash(String),
}

impl Plan {
    pub fn of(run: &RunOptions, registry: Registry) -> Result<Plan, PlanError> {
        let mut plan = match &run.methods {
            Methods::Auto => usual(run, registry)?,
            Methods::All => everything(run, registry),
            Methods::These(these) => named(run, these)?,
        };
        plan.add_asked_for(run, registry)?;
        if run.waits && !plan.has(|about| about.provides.waits) {
            let words = "left out: waits: they need CUPTI (--method=preload,cupti)";
            plan.left_out.push(words.into());
        }
        Ok(plan)
    }

    /// Whether one of its sources is such.
    pub fn has(&self, is_such: impl Fn(&super::About) -> bool) -> bool {
        self.sources.iter().any(|source| is_such(source.about()))
    }

    pub fn names(&self) -> Vec<&'static str> {
        let names = self.sources.iter().map(|source| source.about().name);
        names.collect()
    }

    /// What options besides `--method` ask for, and what these need beside them.
    fn add_asked_for(&mut self, run: &RunOptions, registry: Registry) -> Result<(), PlanError> {
        for source in registry.all() {
            let Some(options) = source.asked_for_by(run) else {
                continue;
            };
            source
                .available(run)
                .map_err(|why| refused(options.to_owned(), why))?;
            if let Some(companion) = source.companion(run, &self.sources) {
                self.companion = Some(companion);
                self.sources.push(companion);
            }
            self.sources.push(source);
        }
        self.sources = registry.in_order(&self.sources);
        Ok(())
    }
}

fn refused(asked: String, why: Unavailable) -> PlanError {
    PlanError::Unavailable { asked, why }
}

/// What nobody has to ask for.
fn usual(run: &RunOptions, registry: Registry) -> Result<Plan, PlanError> {
    let mut mains: Vec<(u8, SourceRef)> = Vec::new();
    let mut sources = Vec::new();
    for source in registry.all() {
        match source.auto(run) {
            Auto::Main(rank) => mains.push((rank, source)),
            Auto::Beside if source.available(run).is_ok() => sources.push(source),
            Auto::Beside | Auto::No => {}
        }
    }
    mains.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    // Of a process that runs already, a better way may be closed that is open elsewhere: it is said why.
    let mut left_out = Vec::new();
    let available = mains.iter().find(|(_, it)| match it.available(run) {
        Ok(()) => true,
        Err(why) => {
            if run.pid().is_some() {
                left_out.push(format!("left out: {}: {why}", it.about().name));
            }
            false
        }
    });
    match (available, mains.last()) {
        (Some((_, source)), _) => sources.push(*source),
        // There is but one way to watch a machine.
        (None, Some((_, source))) if run.is_everyone() => {
            source
                .available(run)
                .map_err(|why| refused("-a".into(), why))?;
        }
        // It says itself what is wrong when it is started.
        (None, Some((_, source))) => sources.push(*source),
        (None, None) => {}
    }
    left_out.extend(better_if_named(run, registry, &sources));
    Ok(Plan {
        sources: registry.in_order(&sources),
        left_out,
        ..Plan::default()
    })
}

/// Of a process that runs already, without calls: how to have them. Nothing is loaded into a process unless somebody asks
/// for it.
fn better_if_named(run: &RunOptions, registry: Registry, taken: &[SourceRef]) -> Option<String> {
    let pid = run.pid()?;
    let calls = |source: &SourceRef| source.about().provides.calls;
    if taken.iter().any(calls) {
        return None;
    }
    let source = (registry.all()).find(|source| calls(source) && source.available(run).is_ok())?;
    Some(format!(
        "CUDA calls were not recorded; this records them, by loading a library into the process (docs/ATTACH.md): \
         cutrace --method={},cupti -p {pid}",
        source.about().name
    ))
}

/// These, or why one of them cannot be had.
fn named(run: &RunOptions, these: &[SourceRef]) -> Result<Plan, PlanError> {
    for source in these {
        if let Some(words) = source.clash(these) {
            return Err(PlanError::Clash(words));
        }
    }
    for source in these {
        let asked = || format!("--method={}", source.about().name);
        source.available(run).map_err(|why| refused(asked(), why))?;
    }
    Ok(Plan {
        sources: these.to_vec(),
        ..Plan::default()
    })
}

/// Whatever is available, each event once.
fn everything(run: &RunOptions, registry: Registry) -> Plan {
    let mut plan = Plan::default();
    for source in registry.by_method() {
        let reason = match source.available(run) {
            Ok(()) => source.left_out_of_all(run),
            Err(why) => Some(why.to_string()),
        };
        match reason {
            None => plan.sources.push(source),
            Some(reason) => {
                let name = source.about().name;
                plan.left_out.push(format!("left out: {name}: {reason}"));
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::{About, Joining, Provides, Running, Source, SourceError, Subject};
    use super::*;

    /// A source that is nothing but its answers.
    struct Fake {
        about: About,
        works: bool,
        auto: Auto,
        not_in_all: Option<&'static str>,
        needs: Option<SourceRef>,
    }

    impl Source for Fake {
        fn about(&self) -> &'static About {
            // Tests do not end before their fakes do.
            Box::leak(Box::new(About {
                name: self.about.name,
                provides: self.about.provides,
                ..About::EMPTY
            }))
        }

        fn available(&self, _run: &RunOptions) -> Result<(), Unavailable> {
            match self.works {
                true => Ok(()),
                false => Err(Unavailable::because("not here").advising("type: sudo cutrace …")),
            }
        }

        fn auto(&self, _run: &RunOptions) -> Auto {
            self.auto
        }

        fn left_out_of_all(&self, _run: &RunOptions) -> Option<String> {
            self.not_in_all.map(str::to_owned)
        }

        fn asked_for_by(&self, run: &RunOptions) -> Option<&'static str> {
            self.needs.filter(|_| run.driver_groups.is_some())?;
            Some("--fake")
        }

        fn companion(&self, _run: &RunOptions, taken: &[SourceRef]) -> Option<SourceRef> {
            self.needs.filter(|needed| !taken.contains(needed))
        }

        fn start(
            &self,
            _run: &RunOptions,
            _joining: Joining<'_>,
        ) -> Result<Box<dyn Running>, SourceError> {
            Err(SourceError::in_words("a fake"))
        }
    }

    fn fake(name: &'static str, works: bool, auto: Auto) -> Fake {
        Fake {
            about: About {
                name,
                ..About::EMPTY
            },
            works,
            auto,
            not_in_all: None,
            needs: None,
        }
    }

    fn registry(fakes: Vec<Fake>) -> Registry {
        let leaked = fakes.into_iter().map(|one| {
            let one: &'static Fake = Box::leak(Box::new(one));
            one as SourceRef
        });
        Registry(Vec::leak(leaked.collect()))
    }

    fn run(methods: Methods) -> RunOptions {
        RunOptions {
            methods,
            ..RunOptions::default()
        }
    }

    #[test]
    fn what_is_left_out_is_said() {
        let all = registry(vec![
            fake("calls", true, Auto::No),
            fake("broken", false, Auto::No),
            Fake {
                not_in_all: Some("it must be named explicitly"),
                ..fake("rare", true, Auto::No)
            },
        ]);
        let plan = Plan::of(&run(Methods::All), all).expect("a plan");
        assert_eq!(plan.names(), ["calls"]);
        let left_out = [
            "left out: broken: not here: type: sudo cutrace …",
            "left out: rare: it must be named explicitly",
        ];
        assert_eq!(plan.left_out, left_out);
    }

    #[test]
    fn the_best_way_that_works_is_taken_and_others_beside_it() {
        let all = registry(vec![
            fake("beside", true, Auto::Beside),
            fake("second", true, Auto::Main(1)),
            fake("best", false, Auto::Main(2)),
            fake("absent", false, Auto::Beside),
        ]);
        let plan = Plan::of(&run(Methods::Auto), all).expect("a plan");
        assert_eq!(plan.names(), ["beside", "second"]);
        let none = registry(vec![fake("best", false, Auto::Main(2))]);
        // Whoever starts it says why it cannot be.
        let plan = Plan::of(&run(Methods::Auto), none).expect("a plan");
        assert_eq!(plan.names(), ["best"]);
        let machine = RunOptions {
            subject: Subject::Machine,
            ..RunOptions::default()
        };
        let why = Plan::of(&machine, none).expect_err("no way");
        assert_eq!(why.to_string(), "-a: not here: type: sudo cutrace …");
    }

    #[test]
    fn a_process_without_calls_is_told_how_to_have_them() {
        let calls = |name, works, auto| Fake {
            about: About {
                name,
                provides: Provides {
                    calls: true,
                    ..Provides::NOTHING
                },
                ..About::EMPTY
            },
            ..fake(name, works, auto)
        };
        let words = |root: bool, enter: bool| {
            let all = registry(vec![
                calls("hooks", enter, Auto::No),
                calls("probes", root, Auto::Main(2)),
                fake("requests", true, Auto::Main(1)),
            ]);
            let process = RunOptions {
                subject: Subject::Process(42),
                ..RunOptions::default()
            };
            Plan::of(&process, all).expect("a plan").left_out
        };
        assert_eq!(words(true, true).len(), 0);
        assert_eq!(words(false, false).len(), 1);
        let said = &words(false, true)[1];
        assert!(
            said.ends_with("cutrace --method=hooks,cupti -p 42"),
            "{said}"
        );
    }

    #[test]
    fn what_is_named_must_be_there() {
        let all = registry(vec![
            fake("calls", true, Auto::No),
            fake("broken", false, Auto::No),
        ]);
        let these = all.in_order(&[all.0[1], all.0[0]]);
        let why = Plan::of(&run(Methods::These(these)), all).expect_err("refused");
        let words = "--method=broken: not here: type: sudo cutrace …";
        assert_eq!(why.to_string(), words);
        let plan = Plan::of(&run(Methods::These(vec![all.0[0]])), all).expect("a plan");
        assert_eq!(plan.names(), ["calls"]);
    }

    #[test]
    fn what_is_asked_for_brings_what_it_needs() {
        let helper: &'static Fake = Box::leak(Box::new(fake("helper", true, Auto::No)));
        let asked: &'static Fake = Box::leak(Box::new(Fake {
            needs: Some(helper),
            ..fake("asked", true, Auto::No)
        }));
        let all = Registry(Vec::leak(vec![helper as SourceRef, asked]));
        let mut options = run(Methods::Auto);
        assert_eq!(Plan::of(&options, all).expect("a plan").names().len(), 0);
        options.driver_groups = Some(Vec::new());
        let plan = Plan::of(&options, all).expect("a plan");
        assert_eq!(plan.names(), ["helper", "asked"]);
        assert_eq!(plan.companion, Some(helper as SourceRef));
        // It is a companion only where nobody has asked for it.
        options.methods = Methods::These(vec![helper]);
        assert_eq!(Plan::of(&options, all).expect("a plan").companion, None);
    }
}
