//! Which functions a probe means here, and if none, why.

use super::{Function, Functions, base_name, is_variant, lore};
use event::matches_glob;
use std::fmt;

/// What a probe on functions of the kernel means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<'a> {
    pub functions: Vec<&'a Function>,
    /// What is to be said about them: a compiler's variant, for instance.
    pub note: Option<String>,
}

/// Why a probe means nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    NoModule(String),
    /// The name, and what is known about it.
    NoFunction(String, Option<&'static str>),
    NoMatch(String, Option<&'static str>),
    /// It is there, without a place for tracing.
    NotTraceable(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NoModule(module) => write!(to, "the module {module} is not loaded"),
            Missing::NoFunction(name, Some(truth)) => write!(to, "no function {name}: {truth}"),
            Missing::NoFunction(name, None) => write!(
                to,
                "no function {name} in this kernel: the compiler inlined it, or another version has it"
            ),
            Missing::NoMatch(glob, None) => write!(to, "no function matches {glob}"),
            Missing::NoMatch(glob, Some(truth)) => {
                write!(to, "no function matches {glob}: {truth}")
            }
            Missing::NotTraceable(name) => write!(
                to,
                "{name} is notrace: it was built without room for probes"
            ),
        }
    }
}

/// The functions of this name or glob, in that module or anywhere.
pub fn resolve<'a>(
    functions: &'a Functions,
    module: Option<&str>,
    wanted: &str,
) -> Result<Resolved<'a>, Missing> {
    let module = module.map(|module| module.replace('-', "_"));
    if let Some(module) = &module
        && module != "vmlinux"
        && !functions.has_module(module)
    {
        return Err(Missing::NoModule(module.clone()));
    }
    let in_module = |function: &&Function| match module.as_deref() {
        None => true,
        Some("vmlinux") => function.module.is_none(),
        Some(module) => function.module.as_deref() == Some(module),
    };
    if wanted.contains(['*', '?']) {
        let prefix = &wanted[..wanted.find(['*', '?']).unwrap_or(0)];
        let all = functions.with_prefix(prefix).iter().filter(in_module);
        let found: Vec<&Function> = all
            .filter(|f| matches_glob(wanted.as_bytes(), f.name.as_bytes()))
            .filter(|f| f.traceable != Some(false))
            .collect();
        if found.is_empty() {
            return Err(Missing::NoMatch(wanted.to_owned(), lore(wanted)));
        }
        return Ok(Resolved {
            functions: found,
            note: None,
        });
    }

    let exact: Vec<&Function> = functions.named(wanted).iter().filter(in_module).collect();
    let (found, note) = if exact.is_empty() {
        let variants: Vec<&Function> = (functions.with_prefix(wanted).iter())
            .filter(in_module)
            .filter(|f| is_variant(&f.name, wanted))
            .collect();
        let note = variants.first().map(|f| {
            format!(
                "{wanted} is {} here: the compiler may have changed its arguments",
                f.name
            )
        });
        (variants, note)
    } else {
        (exact, None)
    };
    if found.is_empty() {
        let name = base_name(wanted);
        return Err(Missing::NoFunction(wanted.to_owned(), lore(name)));
    }
    let traceable: Vec<&Function> = (found.iter().copied())
        .filter(|f| f.traceable != Some(false))
        .collect();
    if traceable.is_empty() {
        return Err(Missing::NotTraceable(found[0].name.to_string()));
    }
    Ok(Resolved {
        functions: traceable,
        note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::symbols::tests::functions;

    fn found(module: Option<&str>, wanted: &str) -> (Vec<String>, Option<String>) {
        let functions = functions();
        let resolved = resolve(&functions, module, wanted).unwrap();
        let names = resolved.functions.iter().map(|f| {
            let module = f.module.as_deref().unwrap_or("vmlinux");
            format!("{module}:{}", f.name)
        });
        (names.collect(), resolved.note)
    }

    fn missing(module: Option<&str>, wanted: &str) -> String {
        resolve(&functions(), module, wanted)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn names_globs_modules_and_variants() {
        let (both, _) = found(None, "nv_kthread_q_schedule_q_item");
        assert_eq!(both.len(), 2);
        let (one, note) = found(Some("nvidia-uvm"), "nv_kthread_q_schedule_q_item");
        assert_eq!(one, ["nvidia_uvm:nv_kthread_q_schedule_q_item"]);
        assert_eq!(note, None);
        let (variant, note) = found(None, "nv_free_pages");
        assert_eq!(variant, ["nvidia:nv_free_pages.isra.0"]);
        assert!(note.unwrap().contains("changed its arguments"));
        let (some, _) = found(Some("nvidia"), "n*");
        assert_eq!(some.len(), 3);
        let (own, _) = found(Some("vmlinux"), "vfs_*");
        assert_eq!(own, ["vmlinux:vfs_open"]);
    }

    #[test]
    fn what_is_missing_is_missing_for_a_reason() {
        assert!(missing(Some("nouveau"), "x").contains("nouveau is not loaded"));
        assert!(missing(None, "nvidia_ioctl").contains("inlines it into nvidia_unlocked_ioctl"));
        assert!(missing(None, "nv_schedule_work").contains("nv_kthread_q_schedule_q_item"));
        assert!(missing(None, "no_such").contains("the compiler inlined it, or another version"));
        assert!(missing(None, "rm_ioctl").contains("notrace"));
        assert!(missing(None, "rm_*").contains("no function matches"));
    }
}
