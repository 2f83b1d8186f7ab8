//! One hook as it is typed on a command line: a probe, and after `=` what to do with it.

use super::{Error, Hook, file};

/// What is wrong with one hook of a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Without its place, which is one in a file.
    #[error("{}", .0.what)]
    Mistake(#[from] Error),
    #[error("a probe is missing")]
    NoProbe,
}

/// `PROBE`, `PROBE=count`, `PROBE=hist(duration)`, `PROBE=time`.
pub fn parse(text: &str) -> Result<Hook, LineError> {
    let (probe, how) = split(text);
    let mut as_file = format!("[[hook]]\nprobe = {}\n", quoted(probe));
    match how {
        None => {}
        Some("time") => as_file.push_str("time = true\n"),
        Some(how) => as_file.push_str(&format!("aggregate = {}\n", quoted(how))),
    }
    let mut hooks = file::parse(&as_file)?.hooks;
    let hook = hooks.pop().ok_or(LineError::NoProbe)?;
    Ok(Hook { line: 0, ..hook })
}

/// As a text of a hooks file.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// Folders may have an equals sign in their names; what is computed has no slash.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('=') {
        Some((probe, how)) if !how.contains('/') => (probe.trim_end(), Some(how.trim())),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{Aggregate, Measure, ValueOrigin};

    #[test]
    fn a_probe_and_what_to_do_with_it() {
        let hook = parse("kprobe:nv*").expect("a hook");
        assert_eq!(hook.probes[0].to_string(), "kprobe:nv*");
        assert!(!hook.time && hook.aggregate.is_none());
        let hook = parse("uprobe:/lib/*/libcuda.so:cuMem*=count").expect("a hook");
        assert_eq!(
            hook.probes[0].to_string(),
            "uprobe:/lib/*/libcuda.so:cuMem*"
        );
        assert_eq!(hook.aggregate, Some(Aggregate::Count));
        let hook = parse("uprobe:/tmp/a=b/libx.so:f").expect("a hook");
        assert_eq!(hook.probes[0].to_string(), "uprobe:/tmp/a=b/libx.so:f");
        let hook = parse("uprobe:/tmp/a=b/libx.so:f=hist(duration)").expect("a hook");
        let duration = Aggregate::Histogram(Measure::Duration);
        assert_eq!((hook.aggregate, hook.time), (Some(duration), true));
        let hook = parse("kprobe:nvidia:nv_open = hist(*arg0+16:u32)").expect("a hook");
        assert_eq!(hook.arguments[0].pointed, Some(16));
        let hook = parse("uprobe:libcuda.so:cuCtxSynchronize=hist(retval)").expect("a hook");
        assert_eq!(hook.arguments[0].source, ValueOrigin::Returned);
        assert!(hook.time);
        assert!(parse("kprobe:nv*=time").expect("a hook").time);
    }

    #[test]
    fn mistakes_say_what_is_right() {
        let wrong = |text| parse(text).expect_err("a mistake").to_string();
        assert!(wrong("nv*").contains("expected a probe"));
        assert!(wrong("kprobe:f=sum(arg1)").contains("count, hist(duration)"));
        assert!(wrong("kprobe:f=hist()").contains("count, hist(duration)"));
        assert!(wrong("kprobe:f=hist(arg0:str)").contains("not a string"));
        assert!(wrong("kprobe:f=hist(size)").contains("not a function argument"));
        assert!(
            wrong("tracepoint:irq:softirq_entry=hist(duration)")
                .contains("no return and no duration")
        );
        assert!(wrong("kretprobe:f=hist(duration)").contains("kprobe:"));
        assert!(wrong("kretprobe:f=hist(arg0)").contains("arguments are not available"));
        assert!(wrong("kprobe:f=hist(*arg0:u32@return)").contains("arguments at entry"));
        assert!(wrong("kprobe:\"\\\n\u{7f}f").contains("letters, digits"));
        assert!(parse("kretprobe:f=hist(retval:i32)").is_ok());
        assert!(parse("kretprobe:f=count").is_ok());
        assert!(parse("tracepoint:irq:softirq_entry=hist(vec)").is_ok());
        assert!(parse("usdt:python3:python:gc__start=hist(arg0)").is_ok());
    }
}
