//! The sources there are, a line each, in the order in which they start.

use super::{About, SourceRef};

/// Everything that cutrace can watch by.
pub static SOURCES: Registry = Registry(&[
    &crate::preload::PRELOAD,
    &crate::syscall::SYSCALL,
    &crate::ebpf::EBPF,
    &crate::cupti::CUPTI,
    &crate::cupti::EVENTS,
    &crate::torch::TORCH,
    &crate::ebpf::kernel::KERNEL,
    &crate::uvm::UVM,
    &crate::nvml::NVML,
    &crate::fecs::FECS,
    &crate::gpu_probe::PROBES,
]);

/// Sources in the order in which they start.
#[derive(Clone, Copy)]
pub struct Registry(pub &'static [SourceRef]);

impl Registry {
    pub fn all(self) -> impl Iterator<Item = SourceRef> {
        self.0.iter().copied()
    }

    /// Those that `--method` takes by their names.
    pub fn by_method(self) -> impl Iterator<Item = SourceRef> {
        self.all().filter(|source| source.about().by_method)
    }

    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        self.by_method().map(|source| source.about().name).collect()
    }

    pub fn named(self, name: &str) -> Option<SourceRef> {
        self.by_method().find(|source| source.about().name == name)
    }

    /// What is typed, in this registry's words, for what a word of another tool means.
    pub fn meant_by(self, word: &str) -> Option<&'static super::OtherTools> {
        let tools = self.all().filter_map(|it| it.about().other_tools.as_ref());
        tools.into_iter().find(|tools| tools.words.contains(&word))
    }

    /// In the order in which they start, each once.
    pub fn in_order(self, sources: &[SourceRef]) -> Vec<SourceRef> {
        self.all()
            .filter(|source| sources.contains(source))
            .collect()
    }

    /// The rows of README's table of ways to look.
    pub fn table(self) -> Vec<String> {
        let row = |source: SourceRef| {
            let About {
                name, shows, needs, ..
            } = source.about();
            let way = source.about().typed.unwrap_or(name);
            let document = source.about().document;
            let document = document.map_or_else(String::new, |path| format!(" ([{path}]({path}))"));
            format!("| {way} | {shows}{document} | {needs} |")
        };
        self.all().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Methods, Plan, RunOptions, Subject};
    use std::collections::BTreeSet;

    #[test]
    fn each_has_a_name_of_its_own_and_words() {
        let names: BTreeSet<&str> = SOURCES.all().map(|source| source.about().name).collect();
        assert_eq!(names.len(), SOURCES.0.len());
        for source in SOURCES.all() {
            let about = source.about();
            let words = [about.help, about.shows, about.needs];
            assert!(words.iter().all(|words| !words.is_empty()), "{source:?}");
            assert!(!about.shows.contains('|'), "{source:?}");
        }
    }

    #[test]
    fn words_of_other_tools_mean_one_thing_each() {
        let tools = || {
            SOURCES
                .all()
                .filter_map(|it| it.about().other_tools.as_ref())
        };
        let words = || tools().flat_map(|tools| tools.words);
        let distinct: BTreeSet<&&str> = words().collect();
        assert_eq!(distinct.len(), words().count());
        for tools in tools().filter(|tools| tools.method != "auto") {
            for name in tools.method.split(',') {
                assert!(SOURCES.named(name).is_some(), "{name}");
            }
        }
    }

    /// What `auto` means, for whom.
    #[test]
    fn a_command_gets_calls_and_gpu_times() {
        let mut run = RunOptions {
            simulate: true,
            ..RunOptions::default()
        };
        let names = |run: &RunOptions| {
            let plan = Plan::of(run, SOURCES).expect("a plan");
            plan.names()
        };
        assert_eq!(names(&run), ["preload", "cupti", "torch"]);
        // No process has this number.
        run.subject = Subject::Process(4_194_305);
        assert!(
            [["ebpf"], ["syscall"]]
                .map(Vec::from)
                .contains(&names(&run))
        );
        // Whatever the machine has, each source is taken or left out with a reason.
        run.methods = Methods::All;
        let plan = Plan::of(&run, SOURCES).expect("a plan");
        let known = SOURCES.by_method().count();
        assert_eq!(plan.sources.len() + plan.left_out.len(), known);
        for words in [
            "left out: preload: process 4194305 does not exist",
            "left out: cupti: process 4194305 does not exist",
            "left out: events: process 4194305 does not exist",
        ] {
            assert!(plan.left_out.iter().any(|line| line == words), "{words}");
        }
    }
}
