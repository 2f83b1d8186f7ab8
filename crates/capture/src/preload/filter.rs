//! Which calls the user asked for. Injected code hooks by the same rules; here they decide what is
//! hooked besides, so that what was asked for can be understood, and is not shown.

use super::role::{Observed, Role};
use event::{Candidate, Selection, means};

/// Categories, layers and function globs; `!` excludes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    selection: Selection,
}

impl Filter {
    pub fn parse(text: &str) -> Self {
        Filter {
            text: text.to_owned(),
            selection: Selection::parse(text),
        }
    }

    pub fn wants(&self, name: &str) -> bool {
        self.selection.wants(&known(name))
    }

    /// What injected code is to hook: launches have kernels' names only if the calls that tell
    /// these names are seen too.
    pub fn for_injection(&self) -> String {
        let launches = (cuda::functions().iter()).any(|function| {
            matches!(Role::of(function.name), Role::Launch(_)) && self.wants(function.name)
        });
        let mut text = self.text.clone();
        if launches && self.selection.is_positive() {
            for function in cuda::functions() {
                if tells_kernel_names(function.name) && !self.wants(function.name) {
                    text.push(',');
                    text.push_str(function.name);
                }
            }
        }
        text
    }

    /// Items that no known function is meant by: perhaps they are misspelt.
    pub fn meaningless(&self) -> impl Iterator<Item = &str> {
        let all = || cuda::functions().iter().chain(cuda::older_functions());
        (self.selection.items())
            .filter(move |item| !all().any(|function| means(item, &known(function.name))))
    }
}

fn tells_kernel_names(name: &str) -> bool {
    matches!(
        Observed::of(name),
        Observed::KernelName { .. } | Observed::KernelAlias { .. }
    )
}

/// What a function's name says about its calls.
fn known(name: &str) -> Candidate<'_> {
    Candidate {
        name,
        family: cuda::family(name),
        category: cuda::category(name),
        layer: cuda::layer(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_layers_globs_and_exclusions() {
        let wants = |text: &str, name: &str| Filter::parse(text).wants(name);
        assert!(wants("memory, cuLaunch*", "cuMemAlloc_v2"));
        assert!(wants("memory,cuLaunch*", "cuLaunchKernel"));
        assert!(!wants("memory,cuLaunch*", "cuCtxGetCurrent"));
        assert!(wants("!query", "cuMemAlloc_v2") && !wants("!query", "cuDriverGetVersion"));
        assert!(!wants("driver,!cuCtx*", "cuCtxCreate_v2") && wants("driver", "cuInit"));
        assert!(wants("cuMemAlloc", "cuMemAlloc_v2") && wants("", "cuInit"));
        assert!(wants("cu*Get*n*", "cuDriverGetVersion") && !wants("cu?nit?", "cuInit"));
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
        for unchanged in ["memory", "!query", ""] {
            assert_eq!(Filter::parse(unchanged).for_injection(), unchanged);
        }
    }

    #[test]
    fn what_means_nothing_is_found() {
        let filter = Filter::parse("memory,memry,cuLaunch*,!ncclX");
        assert!(filter.meaningless().eq(["memry", "ncclX"]));
    }
}
