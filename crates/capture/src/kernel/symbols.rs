//! The kernel's functions: /proc/kallsyms, and of them those with a place for tracing.

use std::{
    collections::HashSet,
    fs,
    io::{self, BufRead},
    path::Path,
};

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
        let mut functions = Self::read(io::BufReader::new(fs::File::open(KALLSYMS)?))?;
        // A module without a function is a module nevertheless.
        for line in fs::read_to_string(MODULES).unwrap_or_default().lines() {
            if let Some(name) = line.split(' ').next() {
                functions.modules.insert(name.into());
            }
        }
        let list = tracefs.map(|folder| folder.join("available_filter_functions"));
        if let Some(file) = list.and_then(|path| fs::File::open(path).ok()) {
            functions.mark_traceable(io::BufReader::new(file))?;
        }
        Ok(functions)
    }

    /// Reads the form of /proc/kallsyms.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let mut functions = Functions::default();
        for line in from.lines() {
            let Some(function) = function(&line?) else {
                continue;
            };
            if let Some(module) = &function.module {
                functions.modules.insert(module.clone());
            }
            functions.sorted.push(function);
        }
        functions.sorted.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(functions)
    }

    /// Reads the form of available_filter_functions: `name` or `name [module]` a line.
    pub fn mark_traceable(&mut self, from: impl BufRead) -> io::Result<()> {
        let mut listed: HashSet<(Box<str>, Option<Box<str>>)> = HashSet::new();
        for line in from.lines() {
            let line = line?;
            let (name, module) = match line.split_once(' ') {
                Some((name, module)) => (name, Some(module.trim_matches(['[', ']']).into())),
                None => (line.as_str(), None),
            };
            listed.insert((name.into(), module));
        }
        // An empty list means that ftrace is shut, not that nothing can be traced.
        if listed.is_empty() {
            return Ok(());
        }
        self.says_traceable = true;
        for function in &mut self.sorted {
            let key = (function.name.clone(), function.module.clone());
            function.traceable = Some(listed.contains(&key));
        }
        Ok(())
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
        let mut functions = Functions::read(KALLSYMS.as_bytes()).unwrap();
        functions.mark_traceable(TRACEABLE.as_bytes()).unwrap();
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
    fn an_empty_list_says_nothing() {
        let mut functions = Functions::read(KALLSYMS.as_bytes()).unwrap();
        functions.mark_traceable(&b""[..]).unwrap();
        assert!(!functions.says_traceable());
        assert_eq!(functions.named("rm_ioctl")[0].traceable, None);
    }
}
