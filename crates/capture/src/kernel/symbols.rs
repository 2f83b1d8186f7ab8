//! The kernel's functions: /proc/kallsyms, and of them those with a place for tracing.

use std::{collections::HashSet, fs, io, path::Path};

/// A function of the kernel or of one of its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: Box<str>,
    /// None: of the kernel itself.
    pub module: Option<Box<str>>,
    /// 0 where the kernel does not tell this user.
    pub address: u64,
    /// Whether it has a place for tracing; none if the kernel does not say.
    pub traceable: Option<bool>,
}

/// All of them, by name.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    sorted: Vec<Function>,
    modules: HashSet<Box<str>>,
    says_traceable: bool,
}

const KALLSYMS: &str = "/proc/kallsyms";
const MODULES: &str = "/proc/modules";

impl Functions {
    /// Those of the running kernel; `tracefs` is where that is mounted.
    pub fn of_this_kernel(tracefs: Option<&Path>) -> io::Result<Self> {
        Self::of_modules(tracefs, None)
    }

    /// Only those of these modules: the kernel's own are many.
    pub fn of_modules(tracefs: Option<&Path>, modules: Option<&[String]>) -> io::Result<Self> {
        let mut functions = Self::read(&fs::read(KALLSYMS)?, modules);
        // A module without a function is a module nevertheless.
        for line in fs::read_to_string(MODULES).unwrap_or_default().lines() {
            if let Some(name) = line.split(' ').next() {
                functions.modules.insert(name.into());
            }
        }
        let list = tracefs.map(|folder| folder.join("available_filter_functions"));
        if let Some(list) = list.and_then(|path| fs::read(path).ok()) {
            functions.mark_traceable(&list, modules);
        }
        Ok(functions)
    }

    /// Reads the form of /proc/kallsyms.
    pub fn read(text: &[u8], modules: Option<&[String]>) -> Self {
        let mut functions = Functions::default();
        for line in lines(text, modules) {
            let Some(function) = function(line) else {
                continue;
            };
            if let Some(module) = &function.module {
                functions.modules.insert(module.clone());
            }
            functions.sorted.push(function);
        }
        let by_name = |one: &Function, other: &Function| {
            (&one.name, &one.module).cmp(&(&other.name, &other.module))
        };
        functions.sorted.sort_by(by_name);
        functions
    }

    /// Reads the form of available_filter_functions: `name` or `name [module]` a line.
    pub fn mark_traceable(&mut self, text: &[u8], modules: Option<&[String]>) {
        // An empty list means that ftrace is shut, not that nothing can be traced.
        if text.is_empty() {
            return;
        }
        let mut listed: HashSet<(&str, Option<&str>)> = HashSet::new();
        for line in lines(text, modules) {
            listed.insert(match line.split_once(' ') {
                Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
                None => (line, None),
            });
        }
        self.says_traceable = true;
        for function in &mut self.sorted {
            let key = (&*function.name, function.module.as_deref());
            function.traceable = Some(listed.contains(&key));
        }
    }

    /// Whether the kernel says which functions have a place for tracing.
    pub fn says_traceable(&self) -> bool {
        self.says_traceable
    }

    pub fn has_module(&self, module: &str) -> bool {
        self.modules.contains(&*module.replace('-', "_"))
    }

    pub fn all(&self) -> &[Function] {
        &self.sorted
    }

    /// Those of exactly this name.
    pub fn named(&self, name: &str) -> &[Function] {
        self.starting(name, |found| found == name)
    }

    /// Those whose names begin with this: a slice of the sorted list.
    pub fn with_prefix(&self, prefix: &str) -> &[Function] {
        self.starting(prefix, |found| found.starts_with(prefix))
    }

    fn starting(&self, from: &str, belongs: impl Fn(&str) -> bool) -> &[Function] {
        let start = self
            .sorted
            .partition_point(|function| &*function.name < from);
        let length = self.sorted[start..].partition_point(|function| belongs(&function.name));
        &self.sorted[start..start + length]
    }
}

/// The lines that tell of functions of these modules, or all of them.
fn lines<'a>(text: &'a [u8], modules: Option<&[String]>) -> impl Iterator<Item = &'a str> {
    let wanted = move |line: &&[u8]| {
        let Some(modules) = modules else { return true };
        // Told by the last bytes: the kernel's own functions are most of them.
        let Some(inner) = line.strip_suffix(b"]") else {
            return false;
        };
        let ends = |module: &String| {
            let before = inner.strip_suffix(module.as_bytes());
            before.is_some_and(|before| before.ends_with(b"["))
        };
        modules.iter().any(ends)
    };
    (text.split(|byte| *byte == b'\n'))
        .filter(wanted)
        .filter_map(|line| std::str::from_utf8(line).ok())
}

/// `ffffffffc02be0b0 t nv_kthread_q_schedule_q_item [nvidia_uvm]`, with a tab before the module.
fn function(line: &str) -> Option<Function> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let module = words.next().map(|module| module.trim_matches(['[', ']']));
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    // Padding before functions, and parts cut off as rarely used, are no functions.
    if !is_code || name.starts_with("__pfx_") || name.ends_with(".cold") {
        return None;
    }
    // BPF programs and trampolines come and go.
    if matches!(
        module,
        Some("bpf" | "__builtin__ftrace" | "__builtin__kprobes")
    ) {
        return None;
    }
    Some(Function {
        name: name.into(),
        module: module.map(Into::into),
        address,
        traceable: None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As in a machine with the stand-in driver.
    pub const KALLSYMS: &str = "\
ffffffff81000000 T vfs_open
ffffffff81000100 D some_data
ffffffff81000200 t nv_unrelated.cold
ffffffffc02df110 t nv_kthread_q_schedule_q_item\t[nvidia_uvm]
ffffffffc02df100 t __pfx_nv_kthread_q_schedule_q_item\t[nvidia_uvm]
ffffffffc02d10c0 t nv_free_pages.isra.0\t[nvidia]
ffffffffc02d18c0 t rm_ioctl\t[nvidia]
ffffffffc02d1600 t nv_kthread_q_schedule_q_item\t[nvidia]
ffffffffc02d19b0 t nvidia_unlocked_ioctl\t[nvidia]
ffffffffc02d19f0 t bpf_prog_1_enter\t[bpf]
not a line
";
    pub const TRACEABLE: &str = "\
vfs_open
nv_kthread_q_schedule_q_item [nvidia_uvm]
nv_free_pages.isra.0 [nvidia]
nv_kthread_q_schedule_q_item [nvidia]
nvidia_unlocked_ioctl [nvidia]
";

    pub fn functions() -> Functions {
        let mut functions = Functions::read(KALLSYMS.as_bytes(), None);
        functions.mark_traceable(TRACEABLE.as_bytes(), None);
        functions
    }

    #[test]
    fn functions_and_their_modules() {
        let functions = functions();
        assert_eq!(functions.all().len(), 6);
        assert_eq!(functions.named("nv_kthread_q_schedule_q_item").len(), 2);
        assert_eq!(functions.with_prefix("nv").len(), 4);
        assert!(functions.named("nv").is_empty());
        assert!(functions.has_module("nvidia-uvm") && !functions.has_module("nouveau"));
        let traceable = |name: &str| functions.named(name)[0].traceable;
        assert_eq!(traceable("rm_ioctl"), Some(false));
        assert_eq!(traceable("vfs_open"), Some(true));
    }

    #[test]
    fn some_modules_only() {
        let modules = [String::from("nvidia")];
        let mut functions = Functions::read(KALLSYMS.as_bytes(), Some(&modules));
        functions.mark_traceable(TRACEABLE.as_bytes(), Some(&modules));
        let shown: Vec<_> = (functions.all().iter())
            .map(|function| (&*function.name, function.traceable))
            .collect();
        let expected = [
            ("nv_free_pages.isra.0", Some(true)),
            ("nv_kthread_q_schedule_q_item", Some(true)),
            ("nvidia_unlocked_ioctl", Some(true)),
            ("rm_ioctl", Some(false)),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_empty_list_says_nothing() {
        let mut functions = Functions::read(KALLSYMS.as_bytes(), None);
        functions.mark_traceable(b"", None);
        assert!(!functions.says_traceable());
        assert_eq!(functions.named("rm_ioctl")[0].traceable, None);
    }
}
