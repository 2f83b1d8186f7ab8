//! Which back ends a run takes, and which it leaves out, with the reason.

use super::{ebpf, kernel};
use crate::arguments::{Method, Methods, Record};
use anyhow::{Result, bail};

/// What a run is watched by.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they start.
    pub methods: Vec<Method>,
    /// ebpf is there for system calls, not for calls of libraries.
    pub only_requests: bool,
    /// What was asked for in general and cannot be had here, and why.
    pub left_out: Vec<String>,
}

pub fn of(options: &Record) -> Result<Plan> {
    let mut plan = by_methods(options)?;
    if options.kernel.is_some() || kernel::asks(options) {
        add_kernel(&mut plan, options)?;
    }
    if options.waits && !plan.methods.contains(&Method::Cupti) {
        let words = "left out: waits: CUPTI tells them, and is not used in this run (--method=preload,cupti)";
        plan.left_out.push(words.into());
    }
    Ok(plan)
}

/// The driver's functions, and the requests that lead to them.
fn add_kernel(plan: &mut Plan, options: &Record) -> Result<()> {
    // A wrong file is told before anything is begun.
    kernel::wanted(options)?;
    if let Err(why) = available(Method::Kernel) {
        bail!("--kernel, --hooks and --hook: {why}");
    }
    let requests = [Method::Syscall, Method::Ebpf];
    if options.kernel.is_some()
        && !options.everyone
        && !requests.iter().any(|method| plan.methods.contains(method))
    {
        // ptrace stops the program at every request, and its times are mostly those of the stops.
        if available(Method::Ebpf).is_ok() && !ebpf::in_pid_namespace() {
            plan.methods.push(Method::Ebpf);
            plan.only_requests = true;
        } else if available(Method::Syscall).is_ok() {
            plan.methods.push(Method::Syscall);
        }
    }
    plan.methods.push(Method::Kernel);
    plan.methods.sort();
    plan.methods.dedup();
    Ok(())
}

fn by_methods(options: &Record) -> Result<Plan> {
    let here = |method| match method {
        // A library comes into a program when it starts, or not at all.
        Method::Preload | Method::Cupti | Method::Events if options.pid.is_some() => {
            Err("it cannot enter a process that runs already".into())
        }
        Method::Preload | Method::Cupti | Method::Events | Method::Syscall if options.everyone => {
            Err("it traces commands and processes, not the whole machine".into())
        }
        Method::Uvm | Method::Fecs if !options.whose.is_anybodys() => {
            Err("it cannot tell users and cgroups apart (--uid, --cgroup)".into())
        }
        method => available(method),
    };
    match &options.methods {
        Methods::Auto => Ok(Plan {
            methods: usual(
                match options.pid {
                    None if options.everyone => {
                        if let Err(why) = here(Method::Ebpf) {
                            bail!("-a: {why}");
                        }
                        vec![Method::Ebpf]
                    }
                    None => vec![Method::Preload, Method::Cupti],
                    Some(_) if here(Method::Ebpf).is_ok() => vec![Method::Ebpf],
                    Some(_) => vec![Method::Syscall],
                },
                options.simulate,
                here,
            ),
            ..Plan::default()
        }),
        Methods::These(these) => {
            if these.contains(&Method::Events) {
                if these.contains(&Method::Cupti) {
                    bail!("--method: cupti falls back to events by itself; name one of them");
                }
                if !these.contains(&Method::Preload) {
                    bail!(
                        "--method=events: it is the injected library that records them; type: --method preload,events"
                    );
                }
            }
            for &method in these {
                if let Err(why) = here(method) {
                    bail!("--method={}: {why}", method.as_str());
                }
            }
            Ok(Plan {
                methods: these.clone(),
                ..Plan::default()
            })
        }
        Methods::All => Ok(everything(|method| match method {
            Method::Kernel if !kernel::has_driver() => Err("NVIDIA's driver is not loaded".into()),
            method => here(method),
        })),
    }
}

/// What nobody has to ask for: of a GPU's driver only where there is one.
fn usual(
    mut methods: Vec<Method>,
    simulate: bool,
    available: impl Fn(Method) -> Result<(), String>,
) -> Vec<Method> {
    let of_driver = [Method::Uvm, Method::Nvml];
    methods.extend((of_driver.into_iter()).filter(|&one| !simulate && available(one).is_ok()));
    methods
}

/// Whatever is available, each event once.
fn everything(available: impl Fn(Method) -> Result<(), String>) -> Plan {
    let mut plan = Plan::default();
    let ebpf = available(Method::Ebpf).is_ok();
    for method in Method::ALL {
        let reason = match available(method) {
            Ok(()) if method == Method::Syscall && ebpf => {
                "ebpf sees the same system calls, and stops nothing for it".into()
            }
            Ok(()) if method == Method::Events => "cupti takes them where it has to".into(),
            // It tells of every process on the GPU, not of the traced ones alone.
            Ok(()) if method == Method::Fecs => "it has to be asked for by name".into(),
            Ok(()) => {
                plan.methods.push(method);
                continue;
            }
            Err(why) => why,
        };
        let name = method.as_str();
        plan.left_out.push(format!("left out: {name}: {reason}"));
    }
    plan
}

/// Whether a back end can work here, or why not.
fn available(method: Method) -> Result<(), String> {
    match method {
        Method::Preload | Method::Cupti | Method::Events | Method::Probes => Ok(()),
        Method::Syscall => capture::syscall::available().map_err(|why| why.to_string()),
        Method::Kernel => capture::doctor::rights().map(drop),
        Method::Ebpf => capture::ebpf::available().map_err(|why| why.to_string()),
        Method::Uvm => capture::uvm::available(),
        Method::Nvml => capture::nvml::available().map_err(|why| why.to_string()),
        Method::Fecs => capture::fecs::available(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said() {
        let plan = everything(|method| match method {
            Method::Preload | Method::Syscall => Ok(()),
            _ => Err("not here".into()),
        });
        assert_eq!(plan.methods, [Method::Preload, Method::Syscall]);
        assert_eq!(
            plan.left_out,
            [
                "left out: ebpf: not here",
                "left out: cupti: not here",
                "left out: events: not here",
                "left out: kernel: not here",
                "left out: uvm: not here",
                "left out: nvml: not here",
                "left out: fecs: not here"
            ]
        );
        let plan = everything(|_| Ok(()));
        let most = [
            Method::Preload,
            Method::Ebpf,
            Method::Cupti,
            Method::Kernel,
            Method::Uvm,
            Method::Nvml,
        ];
        assert_eq!(plan.methods, most);
        let left_out = [
            "left out: syscall: ebpf sees the same system calls, and stops nothing for it",
            "left out: events: cupti takes them where it has to",
            "left out: fecs: it has to be asked for by name",
        ];
        assert_eq!(plan.left_out, left_out);
    }

    #[test]
    fn the_driver_is_asked_where_there_is_one() {
        let all = [Method::Preload, Method::Uvm, Method::Nvml];
        assert_eq!(usual(vec![Method::Preload], false, |_| Ok(())), all);
        assert_eq!(usual(vec![Method::Preload], true, |_| Ok(())), all[..1]);
        assert_eq!(
            usual(vec![Method::Preload], false, |_| Err("not here".into())),
            all[..1]
        );
    }
}
