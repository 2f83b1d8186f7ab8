//! Which calls the user asked for. Injected code hooks by the same rules; here they decide what is
//! hooked besides, so that what was asked for can be understood, and is not shown.

use super::role::{Observed, Role, unloads};
use cuda::select::candidate;
use event::{Item, Selection};

/// Categories, layers and function globs; `!` excludes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    selection: Selection<String>,
}

impl Filter {
    pub fn parse(text: &str) -> Self {
        Filter {
            selection: Selection::new(text.to_owned()),
        }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        self.selection.text()
    }

    pub fn wants(&self, name: &str) -> bool {
        self.selection.wants(&candidate(name.as_bytes()))
    }

    /// What injected code is to hook: launches have kernels' names only if the calls that tell
    /// these names are seen too.
    pub fn for_injection(&self) -> String {
        let mut all = cuda::functions().iter().chain(cuda::older_functions());
        let launches =
            all.any(|one| matches!(Role::of(one.name), Role::Launch(_)) && self.wants(one.name));
        let tellers = || {
            let names = cuda::functions().iter().map(|function| function.name);
            names.filter(|name| tells_kernel_names(name))
        };
        if !launches || tellers().all(|name| self.wants(name)) {
            return self.text().to_owned();
        }
        let mut items = Vec::new();
        for item in self.selection.items() {
            match item.excludes {
                true => items.extend(without_tellers(item)),
                false => items.push(item.text.to_owned()),
            }
        }
        if self.selection.is_positive() {
            items.extend(tellers().map(str::to_owned));
        }
        items.join(",")
    }

    /// Whether a function is among those that say most: what moves data, starts work, takes memory,
    /// waits, or tells what later calls mean.
    pub fn is_telling(name: &str) -> bool {
        Role::of(name) != Role::None
            || Observed::of(name) != Observed::Nothing
            || cuda::category(name) == event::Category::Sync
    }

    /// Whether a function's calls launch kernels.
    pub fn launches(name: &str) -> bool {
        matches!(Role::of(name), Role::Launch(_))
    }

    /// Whether nothing later is understood by a function's calls: short ones may be missed.
    pub fn stands_alone(name: &str) -> bool {
        let moves = matches!(
            Role::of(name),
            Role::None | Role::Transfer(_) | Role::Launch(_)
        );
        let tells = Observed::of(name) != Observed::Nothing || unloads(name);
        moves && !tells && !name.starts_with("nvtx")
    }

    /// Items that match no known function: perhaps they are misspelt.
    pub fn meaningless(&self) -> impl Iterator<Item = &str> {
        let all = || cuda::functions().iter().chain(cuda::older_functions());
        let names = move || all().map(|function| function.name);
        let ranges = || {
            cuda::nvtx::FUNCTIONS
                .iter()
                .map(cuda::nvtx::Function::family)
                .chain([cuda::operators::FUNCTIONS[0].name])
        };
        (self.selection.items())
            .filter(move |item| {
                let mut all = names().chain(ranges());
                !all.any(|name| item.means(&candidate(name.as_bytes())))
            })
            .map(|item| item.text)
    }
}

/// What is not wanted, without the functions that tell names; the tracer leaves those out itself.
fn without_tellers(item: Item<'_>) -> Vec<String> {
    let all = || cuda::functions().iter().chain(cuda::older_functions());
    let meant = |name: &str| item.means(&candidate(name.as_bytes()));
    if !all().any(|one| tells_kernel_names(one.name) && meant(one.name)) {
        return vec![format!("!{}", item.text)];
    }
    let mut rest: Vec<String> = all()
        .filter(|one| meant(one.name) && !tells_kernel_names(one.name))
        // Variants for default streams go with the plain ones.
        .map(|one| format!("!{}", cuda::family(one.name)))
        .collect();
    rest.sort();
    rest.dedup();
    rest
}

/// Functions that programs must call to have a kernel at all; those that only ask are not needed.
fn tells_kernel_names(name: &str) -> bool {
    !name.ends_with("GetName")
        && matches!(
            Observed::of(name),
            Observed::KernelName { .. } | Observed::KernelAlias { .. }
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is let by while nobody watches must not be what later calls are understood by.
    #[test]
    fn gates_close_for_calls_that_stand_alone() {
        let all = cuda::functions().iter().chain(cuda::older_functions());
        let wrong: Vec<&str> = all
            .map(|function| function.name)
            .filter(|name| {
                [true, false]
                    .iter()
                    .any(|brief| cuda::gate::class(name, *brief) != cuda::gate::ALWAYS)
            })
            .filter(|name| !Filter::stands_alone(name))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn selections_mean_what_the_table_says() {
        let table = include_str!("../../../event/tests/selections.txt");
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let wants = Filter::parse(cells[0]).wants(cells[1]);
            assert_eq!(wants, cells[2] == "yes", "{line}");
        }
    }

    #[test]
    fn launches_bring_the_calls_that_name_kernels() {
        let injected = Filter::parse("kernel").for_injection();
        assert!(injected.starts_with("kernel,"), "{injected}");
        for name in [
            "__cudaRegisterFunction",
            "cuModuleGetFunction",
            "cuKernelGetFunction",
        ] {
            assert!(injected.split(',').any(|item| item == name), "{injected}");
        }
        assert!(!Filter::parse("kernel").wants("cuModuleGetFunction"));
        let injected = Filter::parse("!module").for_injection();
        let unwanted = |name: &str| injected.split(',').any(|item| item == name);
        assert!(
            unwanted("!cuModuleLoadData") && !unwanted("!cuModuleGetFunction"),
            "{injected}"
        );
        assert!(!injected.contains("!module"), "{injected}");
        let injected = Filter::parse("kernel,!__cuda*").for_injection();
        assert!(injected.contains(",__cudaRegisterFunction"), "{injected}");
        assert!(!injected.contains("!__cudaRegisterFunction"), "{injected}");
        for unchanged in ["memory", "!query", ""] {
            assert_eq!(Filter::parse(unchanged).for_injection(), unchanged);
        }
    }

    #[test]
    fn what_means_nothing_is_found() {
        let filter = Filter::parse("memory,memry,cuLaunch*,!ncclX,nvtx*,!nvtxMark");
        assert!(filter.meaningless().eq(["memry", "ncclX"]));
    }
}
