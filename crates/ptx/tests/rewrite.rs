//! Probes put into real PTX: what comes out is PTX still, to our parser and to ptxas, and says where
//! the probes are.

mod fixtures;

use ptx::device;
use ptx::rewrite::{Isa, Pattern, Plan, Probe, ProbePoint, rewrite};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A probe that calls every helper there is, and one that reads its context.
fn functions() -> String {
    let mut text = String::from(
        ".func (.reg .b64 r) __cutrace_probe (.reg .b64 ctx)\n{\n\
         .reg .pred %p;\n.reg .b64 %map, %key, %a;\n.local .align 8 .b8 stack[64];\n\
         mov.u64 %map, __cutrace_maps;\ncvta.global.u64 %map, %map;\n\
         mov.u64 %key, stack;\ncvta.local.u64 %key, %key;\nmov.u64 %a, 8;\nmov.u64 r, 0;\n",
    );
    let calls = [
        (1, "%map, %key, %a, %a, %a"),
        (2, "%map, %key, %key, %a, %a"),
        (3, "%map, %key, %a, %a, %a"),
        (25, "ctx, %map, %a, %key, %a"),
        (130, "%map, %key, %a, %a, %a"),
        (177, "%a, %a, %key, %a, %a"),
    ];
    let addresses = [503, 504, 505, 508].map(|number| (number, "%key, %key, %key, %a, %a"));
    let numbers = [5, 6, 7, 8, 14, 501, 502, 506, 509, 510, 511, 600, 602]
        .map(|number| (number, "%a, %a, %a, %a, %a"));
    let counted = [(601, "%map, %a, %a, %a, %a")];
    for (number, arguments) in calls
        .into_iter()
        .chain(addresses)
        .chain(numbers)
        .chain(counted)
    {
        text.push_str(&format!(
            "call (r), {}, ({arguments});\n",
            device::helper(number)
        ));
    }
    text.push_str("ret;\n}\n.func (.reg .b64 r) __cutrace_reader (.reg .b64 ctx)\n{\nld.u32 r, [ctx];\nret;\n}\n");
    text
}

fn plan(places: &[ProbePoint], function: &str, context_bytes: u32) -> Plan {
    let functions = functions();
    Plan {
        probes: (places.iter())
            .map(|place| Probe {
                place: *place,
                kernels: Pattern::any(),
                function: function.into(),
                context_bytes,
                one_of: 1,
                inline: None,
            })
            .collect(),
        prelude: format!("{}{functions}", device::runtime(&functions, 1)),
        isa: Isa::default(),
    }
}

/// Every PTX text that the tests of this crate have, and what nvcc made of the test programs.
fn texts() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, bytes) in fixtures::all("ptx") {
        all.push((name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    all
}

const EVERYWHERE: [ProbePoint; 3] = [ProbePoint::Entry, ProbePoint::Return, ProbePoint::Memory];

#[test]
fn real_ptx_stays_ptx() {
    let mut kernels = 0;
    for (name, text) in texts() {
        let readable = ptx::parse(&text).is_ok();
        let plan = plan(&EVERYWHERE, "__cutrace_probe", 0);
        let Ok(Some(rewritten)) = rewrite(&text, &plan) else {
            continue;
        };
        for done in rewritten
            .kernels
            .iter()
            .filter(|done| done.refused.is_none())
        {
            kernels += 1;
            assert_eq!(done.entries, 1, "{name} {}", done.kernel);
            assert!(done.returns > 0, "{name} {}", done.kernel);
        }
        if readable {
            let why = ptx::parse(&rewritten.text).err();
            assert!(why.is_none(), "{name}: {}", why.expect("an error"));
        }
    }
    assert!(kernels > 20, "{kernels} kernels were probed");
}

#[test]
fn ptxas_takes_it() {
    let Some(ptxas) = ptxas() else {
        let all = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!all, "must not be skipped here: no ptxas");
        return eprintln!("skipped: no ptxas (scripts/setup-nvcc gets it)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut assembled = 0;
    for (name, text) in texts() {
        for (function, bytes) in [("__cutrace_probe", 0), ("__cutrace_reader", 4)] {
            let plan = plan(&EVERYWHERE, function, bytes);
            let Ok(Some(rewritten)) = rewrite(&text, &plan) else {
                continue;
            };
            if rewritten.kernels.iter().all(|done| done.refused.is_some()) {
                continue;
            }
            let target = target(&rewritten.text);
            // What ptxas does not take as it was says nothing.
            if assemble(&ptxas, folder.path(), &text, &target).is_err() {
                continue;
            }
            assembled += 1;
            if let Err(why) = assemble(&ptxas, folder.path(), &rewritten.text, &target) {
                panic!("{name}: {why}");
            }
        }
    }
    assert!(assembled > 5, "{assembled} texts were assembled");
}

fn target(text: &str) -> String {
    let after = text.split_once("\n.target").map_or("", |(_, after)| after);
    let name = after
        .trim_start()
        .split([',', '\n', ' '])
        .next()
        .unwrap_or("");
    // What this ptxas has no code for any more.
    let number = name
        .trim_start_matches("sm_")
        .trim_end_matches(char::is_alphabetic);
    match number.parse::<u32>() {
        Ok(number) if number < 75 => "sm_75".into(),
        _ => name.to_owned(),
    }
}

fn ptxas() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvcc/lib");
    let python = std::fs::read_dir(root).ok()?.flatten().next()?.path();
    let ptxas = python.join("site-packages/nvidia/cu13/bin/ptxas");
    ptxas.exists().then_some(ptxas)
}

fn assemble(ptxas: &Path, folder: &Path, text: &str, target: &str) -> Result<(), String> {
    let file = folder.join("text.ptx");
    std::fs::write(&file, text).expect("written");
    let output = Command::new(ptxas)
        .args(["-O1", "-c", "-arch", target, "-o"])
        .arg(folder.join("text.cubin"))
        .arg(&file)
        .output()
        .expect("ptxas runs");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

const SMALL: &str = r#"
.version 6.0
.target sm_52
.address_size 64
.extern .func  (.param .b32 func_retval0) helper ();
.visible .entry _Z5smallPfi(
	.param .u64 .ptr .align 4 _Z5smallPfi_param_0,
	.param .u32 _Z5smallPfi_param_1
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<5>;
	.shared .align 4 .b8 tile[64];
	.loc 1 7 3
	ld.param.u64 	%rd1, [_Z5smallPfi_param_0];
	@%p1 ret;
	@!%p2 exit;
	ld.global.nc.v4.f32 	{%r1, %r1, %r1, %r1}, [%rd1+16];
	.loc 1 9 3
	@%p1 st.shared.u32 	[tile+8], %r1;
	atom.global.add.u32 %r2, [%rd1+-4], %r1;
	cp.async.ca.shared.global [%r3], [%rd1], 16;
$L__BB0_2:
	ret;
}
.entry other () { ret; }
"#;

#[test]
fn places_are_found() {
    let mut plan = plan(&EVERYWHERE, "__cutrace_reader", 8);
    for probe in &mut plan.probes {
        probe.kernels = Pattern::parse("small").expect("a name");
    }
    let rewritten = rewrite(SMALL, &plan).expect("readable").expect("a kernel");
    let [done] = rewritten.kernels.as_slice() else {
        panic!("{:?}", rewritten.kernels);
    };
    assert_eq!((done.entries, done.returns, done.stubs), (1, 3, 0));
    let sites: Vec<_> = (done.sites.iter())
        .map(|site| (site.space.name(), site.kind as u32, site.size, site.line))
        .collect();
    assert_eq!(
        sites,
        [
            ("global", 0, 16, 7),
            ("shared", 1, 4, 9),
            ("global", 2, 4, 9),
            ("global", 4, 16, 9),
            ("shared", 5, 16, 9),
        ]
    );
    let text = &rewritten.text;
    assert!(text.contains(".version 7.7"), "for cvta.param");
    assert!(text.contains(".target sm_70"));
    assert!(
        text.contains("@!%p1 bra"),
        "predicated ways out are gone round"
    );
    assert!(text.contains("@%p2 bra"));
    assert!(text.contains("add.s64 %cutrace_at, %cutrace_at, -4;"));
    assert!(text.contains("cvt.u64.u32 %cutrace_at, %r3;"));
    assert!(
        text.ends_with(".entry other () { ret; }\n"),
        "the other kernel is as it was"
    );
    ptx::parse(text).expect("PTX");
}

#[test]
fn versions_are_raised_to_the_minimum_only() {
    let plan = plan(&[ProbePoint::Entry], "__cutrace_probe", 0);
    for (from, to) in [
        (
            (".version 6.0", ".target sm_52"),
            (".version 6.3", ".target sm_70"),
        ),
        (
            (".version 8.0", ".target sm_90a"),
            (".version 8.0", ".target sm_90a"),
        ),
        (
            (".version 8.7", ".target sm_100a, debug"),
            (".version 8.7", ".target sm_100a, debug"),
        ),
    ] {
        let text = format!(
            "{}\n{}\n.address_size 64\n.entry k () {{ ret; }}",
            from.0, from.1
        );
        let rewritten = rewrite(&text, &plan).expect("readable").expect("a kernel");
        let mut lines = rewritten.text.lines();
        assert_eq!((lines.next(), lines.next()), (Some(to.0), Some(to.1)));
    }
}

#[test]
fn what_cannot_be_probed_says_why() {
    let refused = |body: &str, bytes: u32| {
        let plan = plan(&[ProbePoint::Entry], "__cutrace_reader", bytes);
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k (.param .u32 a) {{ {body} ret; }}"
        );
        let rewritten = rewrite(&text, &plan).expect("readable").expect("a kernel");
        let unchanged = rewritten.text == text;
        (rewritten.kernels[0].refused.clone(), unchanged)
    };
    let (why, unchanged) = refused("setmaxnreg.inc.sync.aligned.u32 96;", 0);
    assert!(why.is_some_and(|why| why.contains("setmaxnreg")) && unchanged);
    let (why, unchanged) = refused("", 8);
    assert!(why.is_some_and(|why| why.contains("the kernel has 4")) && unchanged);
    assert_eq!(refused("", 4), (None, false));
    let plan = plan(&[ProbePoint::Entry], "__cutrace_probe", 0);
    assert!(
        rewrite(
            ".version 8.0\n.target sm_90\n.address_size 32\n.entry k () { ret; }",
            &plan
        )
        .is_err()
    );
    assert!(rewrite(".entry k () { ret; }", &plan).is_err());
}

#[test]
fn a_stub_call_is_where_the_probe_goes() {
    let plan = plan(&[ProbePoint::Entry], "__cutrace_probe", 0);
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .extern .func __bpftime_cuda__kernel_trace ();\n\
        .entry k () { .reg .pred %p; mov.pred %p, 1;\n\
        @%p call.uni\n __bpftime_cuda__kernel_trace,\n (\n );\n\
        { call.uni _Z28__bpftime_cuda__kernel_tracev, (); } ret; }";
    let rewritten = rewrite(text, &plan).expect("readable").expect("a kernel");
    let done = &rewritten.kernels[0];
    assert_eq!((done.stubs, done.entries), (2, 0));
    assert_eq!(
        rewritten
            .text
            .matches("call (%cutrace_result), __cutrace_probe")
            .count(),
        2
    );
    assert!(!rewritten.text.contains("call.uni"));
    ptx::parse(&rewritten.text).expect("PTX");
}

#[test]
fn cut_text_never_panics() {
    let plan = plan(&EVERYWHERE, "__cutrace_probe", 0);
    for end in 0..SMALL.len() {
        let _ = rewrite(&SMALL[..end], &plan);
        let _ = rewrite(&SMALL[end..], &plan);
    }
}
