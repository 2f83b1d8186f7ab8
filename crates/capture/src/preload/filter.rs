//! Which calls the user asked for. Injected code hooks by the same rules; here they decide what is
//! hooked besides, so that what was asked for can be understood, and is not shown.

use super::role::{Observed, Role};

/// Categories, layers and function globs; `!` excludes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Filter {
    pub fn parse(text: &str) -> Self {
        let mut filter = Filter {
            text: text.to_owned(),
            ..Filter::default()
        };
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            match item.strip_prefix('!') {
                Some(item) => filter.unwanted.push(item.to_owned()),
                None => filter.wanted.push(item.to_owned()),
            }
        }
        filter
    }

    pub fn wants(&self, name: &str) -> bool {
        let meant = |items: &[String]| items.iter().any(|item| means(item, name));
        (self.wanted.is_empty() || meant(&self.wanted)) && !meant(&self.unwanted)
    }

    /// What injected code is to hook: launches have kernels' names only if the calls that tell
    /// these names are seen too.
    pub fn for_injection(&self) -> String {
        let launches = (cuda::functions().iter())
            .any(|function| Role::of(function.name) == Role::Launch && self.wants(function.name));
        let mut text = self.text.clone();
        if launches && !self.wanted.is_empty() {
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
        let items = self.wanted.iter().chain(&self.unwanted);
        items
            .filter(move |item| !all().any(|function| means(item, function.name)))
            .map(String::as_str)
    }
}

fn tells_kernel_names(name: &str) -> bool {
    matches!(
        Observed::of(name),
        Observed::KernelName { .. } | Observed::KernelAlias { .. }
    )
}

fn means(item: &str, name: &str) -> bool {
    item == cuda::category(name).as_str()
        || item == cuda::layer(name).as_str()
        || matches_glob(item.as_bytes(), name.as_bytes())
        || matches_glob(item.as_bytes(), cuda::family(name).as_bytes())
}

/// Globs of `*` and `?`, in time that is linear for each star.
fn matches_glob(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // The last star, and the place in the text that it was tried up to.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((last, tried)) = star else {
                    return false;
                };
                star = Some((last, tried + 1));
                (at, place) = (last + 1, tried + 1);
            }
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
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
