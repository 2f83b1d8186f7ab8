//! What is wrong is said with its line; hostile input is refused in good time.

use std::fmt::Write;
use std::time::{Duration, Instant};

const HEADER: &str = ".version 8.7\n.target sm_90\n.address_size 64\n";

fn error(text: &str) -> ptx::ParseError {
    ptx::parse(text).expect_err(text)
}

#[test]
fn messages() {
    let mut all = String::new();
    for text in [
        "",
        "hello",
        ".version eight",
        ".version 8.7",
        ".version 8.7\n.entry k()",
    ] {
        writeln!(all, "{text:?}\n    {}", error(text)).unwrap();
    }
    for text in [
        ".global .u32",
        ".global .x32 a;",
        ".global .align 3 .u32 a;",
        ".global .u32 a[-1];",
        ".global .u64 a[0x7fffffffffffffff];",
        ".global .u32 a = 1 / 0;",
        ".global .u32 a = 1.0 + 2;",
        ".global .u32 a = 99999999999999999999;",
        ".global .u32 a = 12x;",
        ".global .f32 a = 0f123;",
        ".global .u32 a = {1, 2;",
        ".global .u32 a",
        ".global .u32 é;",
        ".reg .u32 %r<99999999>;",
        ".address_size 48",
        ".file 1 \"open\n",
        "/* open",
        ".section .debug_str { .b8 1",
        "ret;",
        ".entry k(.u32 a) { }",
        ".entry k() .maxntid 1, 2, 3",
    ] {
        writeln!(all, "{text:?}\n    {}", error(&format!("{HEADER}{text}"))).unwrap();
    }
    for text in [
        "ld.global.u32 %r1, [%rd1;",
        "ld.global.u32 %r1, [%rd1+%r2];",
        "add.u32 %r1, %r2 %r3;",
        "add.u32 %r1, ;",
        "mov.u32 %r1, array[2];",
        "mov.u32 %r1, {%r2, %r3;",
        "@ ret;",
        "x: .branchtargets;",
        "{ ret;",
        "= 5;",
        ".visible 5;",
        ".unheard_of { }",
        ".loc 1 2",
    ] {
        let text = format!("{HEADER}.entry k() {{\n\n{text}");
        writeln!(all, "{:?}\n    {}", &text[HEADER.len()..], error(&text)).unwrap();
    }
    insta::assert_snapshot!(all);
}

/// Read as a directive, it would print as a number.
#[test]
fn a_number_is_no_directive() {
    let text = format!("{HEADER}.entry k() .minnctapersm a.0;");
    assert_eq!(error(&text).line, 4);
}

#[test]
fn deep_nesting_is_refused() {
    let deep = 1_000_000;
    for (open, close) in [("{", "}"), ("mov.u32 a, {", "};")] {
        let text = format!(
            "{HEADER}.entry k() {{ {}{}",
            open.repeat(deep),
            close.repeat(deep)
        );
        error(&text);
    }
    for part in [
        "(", "-", "~", "generic(", "{", "0xFF(", "1 ? 1 : ", "(.u64)",
    ] {
        error(&format!("{HEADER}.global .u32 a = {};", part.repeat(deep)));
    }
    let statement = |text: String| format!("{HEADER}.entry k() {{ {text}");
    for text in [
        format!("setp.eq.s32 {}", "a|".repeat(deep)),
        format!("mov.u32 a, {}", "[".repeat(deep)),
        format!("mov.u32 a, {}", "-".repeat(deep)),
        format!("call f, {}", "(".repeat(deep)),
    ] {
        error(&statement(text));
    }
}

/// Parsing time must grow with the text, not with its square: a megabyte of any one thing takes
/// seconds at most even on a slow, unoptimised build; squared it would take hours.
#[test]
fn long_input_takes_linear_time() {
    let many = 200_000;
    let inits = format!(".global .u8 a[] = {{{}}};", "1,".repeat(many));
    let sum = format!(".global .u64 a = {}1;", "1+".repeat(many));
    let module = [
        inits,
        sum,
        ".global .u32 a;".repeat(many / 10),
        "/* */".repeat(many),
        "\n".repeat(many),
        format!(".global .u32 {};", "x".repeat(many * 5)),
        format!(
            ".global .f64 v = {}.{};",
            "1".repeat(many),
            "5".repeat(many)
        ),
        format!(".pragma \"{}\";", "x".repeat(many * 5)),
        format!(
            ".section .debug_x {{ {} }}",
            ".b8 1,2,3\n".repeat(many / 10)
        ),
    ];
    let body = [
        "L: ".repeat(many),
        "{}".repeat(many),
        "{ .local .u8 t[2]; mov.u64 a, t[1]; }".repeat(many / 10),
        "add.s32 %r1, %r2, %r3;".repeat(many / 10),
        format!("add{} a;", ".x".repeat(many)),
        format!("add a{};", ".x".repeat(many)),
        format!("t: .branchtargets {} a;", "a,".repeat(many)),
    ];
    let body = body.map(|text| format!(".entry k() {{ {text} }}"));
    for text in module.into_iter().chain(body) {
        let start = Instant::now();
        let shown: String = text.chars().take(40).collect();
        ptx::parse(&format!("{HEADER}{text}")).unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{shown}: {:?}",
            start.elapsed()
        );
    }
}
