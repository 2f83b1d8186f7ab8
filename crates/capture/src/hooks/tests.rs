//! Hooks files, right ones and wrong ones.

use super::*;

fn one(text: &str) -> Hook {
    let mut hooks = Hooks::parse(text).unwrap().hooks;
    assert_eq!(hooks.len(), 1);
    hooks.remove(0)
}

fn error(text: &str) -> String {
    Hooks::parse(text).unwrap_err().to_string()
}

#[test]
fn a_hook_with_everything() {
    let hook = one(r#"
# A comment.
[[hook]]
name  = "queue item"
group = "schedule"
probe = ["kprobe:nvidia:nv_kthread_q_schedule_q_item", "kprobe:nv_schedule_work"]
type  = "scheduler"
time  = true
stack = true
required = true
process = "any"
args  = { size = "arg1:u64", name = "arg2:str", dev = "*arg0+16:u32", out = "*arg3+8:i32@return", result = "retval:i32" }
when  = "size > 4096"
"#);
    assert_eq!(hook.title(), "queue item");
    assert_eq!(hook.line, 3);
    assert_eq!(
        hook.probes[1].to_string(),
        "kprobe:nv_schedule_work",
        "the second"
    );
    assert_eq!(hook.kind, Some(Kind::Scheduler));
    assert!(hook.time && hook.stack && hook.required && hook.everywhere);
    let shown: Vec<_> = (hook.arguments.iter())
        .map(|a| (a.name.as_str(), &a.source, a.pointed, a.format, a.place))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "size",
                &ValueOrigin::Argument(1),
                None,
                Format::Unsigned(64),
                CopiedAt::Entry
            ),
            (
                "name",
                &ValueOrigin::Argument(2),
                None,
                Format::Text,
                CopiedAt::Entry
            ),
            (
                "dev",
                &ValueOrigin::Argument(0),
                Some(16),
                Format::Unsigned(32),
                CopiedAt::Entry
            ),
            (
                "out",
                &ValueOrigin::Argument(3),
                Some(8),
                Format::Signed(32),
                CopiedAt::Return
            ),
            (
                "result",
                &ValueOrigin::Returned,
                None,
                Format::Signed(32),
                CopiedAt::Return
            ),
        ]
    );
    let condition = hook.condition.unwrap();
    assert!(condition.holds(&[4097]) && !condition.holds(&[4096]));
}

#[test]
fn probes_as_bpftrace_writes_them() {
    for (written, read) in [
        ("k:nvidia_isr", "kprobe:nvidia_isr"),
        ("kretprobe:nvidia_uvm:uvm_*", "kretprobe:nvidia_uvm:uvm_*"),
        ("kfunc:nvidia:nvidia_open", "fentry:nvidia:nvidia_open"),
        ("uprobe:/opt/a:b/libx.so:f*", "uprobe:/opt/a:b/libx.so:f*"),
        (
            "ur:libnccl.so.2:ncclAllReduce",
            "uretprobe:libnccl.so.2:ncclAllReduce",
        ),
        (
            "usdt:libpython3.11.so:python:gc__start",
            "usdt:libpython3.11.so:python:gc__start",
        ),
        (
            "t:irq:irq_handler_entry",
            "tracepoint:irq:irq_handler_entry",
        ),
    ] {
        assert_eq!(Probe::parse(written).unwrap().to_string(), read);
    }
    for wrong in [
        "",
        "nvidia_isr",
        "kprobe:",
        "kprobe::x",
        "kprobe:a b",
        "uprobe:x",
        "uprobe::f",
        "usdt:a:b",
        "tracepoint:x",
        "tracepoint:../..:x",
        "probe:x:y",
    ] {
        assert!(Probe::parse(wrong).is_err(), "{wrong}");
    }
}

fn holds(when: &str, values: &[u64]) -> bool {
    let argument = |name: &str, text: &str| Argument::parse(name, text).unwrap();
    let mut arguments = vec![
        argument("a", "arg0"),
        argument("b", "arg1"),
        argument("s", "arg2:i64"),
    ];
    let condition = Condition::parse(when, &mut arguments).unwrap_or_else(|e| panic!("{e:?}"));
    condition.holds(values)
}

#[test]
fn conditions_mean_what_they_say() {
    assert!(holds("a == 1 && b != 2", &[1, 3]) && !holds("a == 1 && b != 2", &[1, 2]));
    assert!(holds("a == 1 || b == 2", &[0, 2]) && !holds("a == 1 || b == 2", &[0, 0]));
    assert!(holds("!(a == 1 || b == 2)", &[0, 0]) && !holds("!(a == 1 || b == 2)", &[1, 0]));
    assert!(holds("!(a > 1 && b < 2) && a", &[1, 0]));
    assert!(holds("s < 0", &[0, 0, u64::MAX]) && holds("s >= -5", &[0, 0, 0]));
    assert!(!holds("a < 0x10", &[u64::MAX]));
    assert!(holds("a & 4", &[6]) && !holds("!(a & 4)", &[6]));
    assert!(holds("(a & 0xff) == 0x2b", &[0xc030_462b]));
    assert!(holds("(a & 1 || b == 2) && (a == 2 || b == 3)", &[2, 2]));
    assert!(holds("arg5 == 7", &[0, 0, 0, 7]), "added, hidden");
}

/// Every condition of two comparisons and a third around them, against the same in Rust.
#[test]
fn alternatives_are_equal_to_what_was_written() {
    let values = [0u64, 1, 2, 3];
    for a in values {
        for b in values {
            for c in values {
                let row = [a, b, c];
                let (x, y, z) = (a > 1, b <= 2, c == 3);
                for (text, meant) in [
                    ("(a > 1 || b <= 2) && s == 3", (x || y) && z),
                    ("!(a > 1 || b <= 2) && s == 3", !(x || y) && z),
                    ("!((a > 1 && b <= 2) || s == 3)", !((x && y) || z)),
                    ("a > 1 || b <= 2 && s == 3", x || (y && z)),
                    ("!(!(a > 1)) && !(b <= 2 && s == 3)", x && !(y && z)),
                ] {
                    assert_eq!(holds(text, &row), meant, "{text} of {row:?}");
                }
            }
        }
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let hook = |rest: &str| format!("[[hook]]\nprobe = \"kprobe:f\"\n{rest}\n");
    for (text, place, what) in [
        ("[[hook]\n".to_owned(), "line 1, column", ""),
        (
            "[hooks]\n".to_owned(),
            "line 1, column",
            "unknown key 'hooks'",
        ),
        ("[hook]\n".to_owned(), "line 1, column", "two brackets"),
        (
            "\n[[hook]]\nname = \"x\"\n".to_owned(),
            "line 2, column 1",
            "needs a probe",
        ),
        (
            hook("when = \"size > 1\""),
            "line 3, column 9",
            "'size' is not among",
        ),
        (
            hook("args = { size = \"arg1:u46\" }"),
            "line 3, column 23",
            "'u46' is not a type",
        ),
        (
            hook("args = { size = \"arg12\" }"),
            "line 3, column 18",
            "arg0 to arg11",
        ),
        (
            hook("args = { size = \"length\" }"),
            "line 3, column 18",
            "only tracepoints",
        ),
        (
            hook("args = { size = 4 }"),
            "line 3, column 17",
            "expected a string",
        ),
        (
            hook("args = { r = \"retval\" }"),
            "line 3, column 8",
            "add time = true",
        ),
        (hook("time = \"yes\""), "line 3, column 8", "true or false"),
        (hook("tim = true"), "line 3, column 1", "unknown key 'tim'"),
        (
            hook("type = \"sheduler\""),
            "line 3, column 8",
            "userspace, syscall",
        ),
        (
            hook("when = \"arg1 >\""),
            "line 3, column 15",
            "expected a number",
        ),
        (
            hook("when = \"arg1 > -1\""),
            "line 3, column 16",
            "unsigned",
        ),
        (
            hook("when = \"4 < arg1\""),
            "line 3, column 9",
            "write the argument on the left",
        ),
        (
            hook("when = \"retval < 1\"\ntime = true"),
            "line 3, column 8",
            "only with return probes",
        ),
        (
            "[[hook]]\nprobe = \"kprobe:a b\"\n".to_owned(),
            "line 2, column 18",
            "a function's name",
        ),
        (
            "[[hook]]\nprobe = [\"kprobe:a\", \"kretprobe:a\"]\n".to_owned(),
            "line 2, column 9",
            "a hook cannot mix return probes",
        ),
        (
            "[[hook]]\nprobe = \"kretprobe:a\"\nargs = { a = \"arg0\" }\n".to_owned(),
            "line 3, column 8",
            "arguments are not available",
        ),
        (
            "[[hook]]\nprobe = \"tracepoint:a:b\"\ntime = true\n".to_owned(),
            "line 3, column 8",
            "tracepoints and markers have no return",
        ),
        (
            "[[hook]]\nprobe = \"uprobe:libc.so.6:open\"\nprocess = \"any\"\n".to_owned(),
            "line 3, column 11",
            "use -a",
        ),
        (
            hook("args = { n = \"arg0:str\" }\nwhen = \"n == 1\""),
            "line 4, column 14",
            "expected a quoted string",
        ),
    ] {
        let said = error(&text);
        assert!(
            said.starts_with(place) && said.contains(what),
            "{text}\n{said}"
        );
    }
}

#[test]
fn nothing_grows_without_bound() {
    let hook = |when: &str| format!("[[hook]]\nprobe = \"kprobe:f\"\nwhen = \"{when}\"\n");
    assert!(error(&hook(&"(".repeat(500))).contains("nested too deep"));
    assert!(error(&hook(&"!".repeat(500))).contains("nested too deep"));
    assert!(error(&hook(&["arg0"; 9].join(" && "))).contains("more than 8 comparisons"));
    let product = vec!["(arg0 || arg1)"; 40].join(" && ");
    assert!(error(&hook(&product)).contains("more than 8 comparisons"));
    assert!(error(&hook(&"a".repeat(5000))).contains("longer than"));
    let many = (0..13)
        .map(|n| format!("a{n} = \"arg1\""))
        .collect::<Vec<_>>();
    let many = format!(
        "[[hook]]\nprobe = \"kprobe:f\"\nargs = {{ {} }}\n",
        many.join(", ")
    );
    assert!(error(&many).contains("at most 12"));
}

#[test]
fn the_place_is_shown() {
    let text = "[[hook]]\nprobe = \"kprobe:f\"\n\twhen = \"size > 1\"\n";
    let shown = Hooks::parse(text).unwrap_err().show("my.toml");
    assert!(
        shown.starts_with("my.toml:3:10: 'size' is not among"),
        "{shown}"
    );
    assert!(shown.ends_with("\n   | \t        ^"), "{shown}");
}

#[test]
fn the_drivers_own_file_is_right() {
    let hooks =
        Hooks::parse(DRIVER).unwrap_or_else(|error| panic!("{}", error.show("driver.toml")));
    assert_eq!(Hooks::of_driver(), hooks);
    assert!(
        hooks
            .hooks
            .iter()
            .all(|hook| hook.group.is_some() && !hook.required)
    );
    // Interrupts are nobody's: they must not be looked for in the traced processes only.
    let interrupts = hooks
        .hooks
        .iter()
        .filter(|hook| hook.kind == Some(Kind::Interrupt));
    assert!(interrupts.clone().count() > 5);
    assert!(interrupts.into_iter().all(|hook| hook.everywhere));
}

#[test]
fn the_examples_are_right() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hooks");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let hooks = Hooks::parse(&text)
            .unwrap_or_else(|e| panic!("{}", e.show(&path.display().to_string())));
        assert!(!hooks.hooks.is_empty());
        read += 1;
    }
    assert!(read >= 3);
}
