//! PTX syntax, one form at a time.

mod fixtures;

use ptx::ast::{
    FunctionKind, Guard, Initializer, Instruction, Module, Operand, Space, Statement, Type,
    Variable,
};

const HEADER: &str = ".version 8.7\n.target sm_90a, debug\n.address_size 64\n";

fn module(text: &str) -> Module {
    ptx::parse(&format!("{HEADER}{text}")).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn variable(text: &str) -> Variable {
    module(text).variables.remove(0)
}

fn body(text: &str) -> Vec<Statement> {
    let text = format!(".global .u16 table[8];\n.entry k() {{\n{text}\n}}");
    module(&text).functions.remove(0).body.unwrap()
}

fn instruction(text: &str) -> Instruction {
    match body(text).remove(0) {
        Statement::Instruction(instruction) => instruction,
        other => panic!("{other:?}"),
    }
}

fn operands(text: &str) -> Vec<Operand> {
    instruction(text).operands
}

fn name(text: &str) -> Operand {
    Operand::Name(text.into())
}

fn address(base: &str, offset: i64) -> Operand {
    Operand::Address {
        base: Box::new(name(base)),
        offset,
    }
}

#[test]
fn header() {
    let module = module("");
    assert_eq!(module.version, (8, 7));
    assert_eq!(module.target, ["sm_90a", "debug"]);
    assert_eq!(module.address_size, 64);
    assert_eq!(
        ptx::parse(".version 1.4 .target sm_13")
            .unwrap()
            .address_size,
        64
    );
    // A NUL ends the text; what follows is not ours to read.
    assert!(ptx::parse(".version 8.0\n.target sm_80\n\0\u{1}garbage").is_ok());
}

#[test]
fn module_directives() {
    let module = module(
        ".file 1 \"a \\\"b\\\".cu\", 12, 34\n.pragma \"one\", \"two\";\n.alias f, g;\n\
         .section .debug_str { $L: .b8 1, 2 { } // }\n }\n@@DWARF .byte 7 whatever }\n",
    );
    assert_eq!(module.files, [(1, "a \\\"b\\\".cu".to_string())]);
    assert_eq!(module.directives[0].args, ["\"one\"", "\"two\""]);
    assert_eq!(module.aliases, [("f".to_string(), "g".to_string())]);
    assert_eq!(module.sections[0].name, ".debug_str");
    assert!(module.sections[0].text.contains("$L: .b8 1, 2 { } // }"));
}

#[test]
fn variables() {
    let v = variable(".visible .global .attribute(.managed) .align 16 .v4 .f32 name[4][2];");
    assert!(v.linkage.visible && v.managed);
    assert_eq!(
        (v.space, v.align, v.vector, v.ty),
        (Space::Global, Some(16), 4, Type::F32)
    );
    assert_eq!(
        (v.name.as_str(), v.dims.as_slice(), v.line),
        ("name", &[4, 2][..], 4)
    );
    let v = variable(".extern .shared .align 8 .b8 dynamic[];");
    assert!(v.linkage.external);
    assert_eq!(v.dims, [0]);
    assert!(variable(".common .global .u32 c;").linkage.common);
    assert!(variable(".weak .const .u32 c;").linkage.weak);
    assert_eq!(variable(".tex .u32 t;").space, Space::Tex);
    assert_eq!(variable(".global .u8 a[4 * (1 << 2) - 1];").dims, [15]);
    let two = module(".global .u32 a = 1, b[2] = {2, 3};").variables;
    assert_eq!(two[0].init, Some(Initializer::Int(1)));
    assert_eq!(two[1].dims, [2]);
    // Other attributes are read and mean nothing to us.
    assert!(!variable(".global .attribute(.unified(19, 95)) .f32 u;").managed);
}

#[test]
fn initializers() {
    let init = |text: &str| {
        variable(&format!(".global .u64 v[] = {text};"))
            .init
            .unwrap()
    };
    let at = |addend, generic, mask| Initializer::Address {
        symbol: "x".into(),
        addend,
        generic,
        mask,
    };
    assert_eq!(init("x"), at(0, false, None));
    assert_eq!(init("generic(x)+8"), at(8, true, None));
    assert_eq!(init("generic(x+4)-12"), at(-8, true, None));
    assert_eq!(init("4+x"), at(4, false, None));
    assert_eq!(init("0xFF00(x+4)"), at(4, false, Some(0xFF00)));
    assert_eq!(init("0xFF(generic(x))"), at(0, true, Some(0xFF)));
    assert_eq!(init("0xFF00(0x1234)"), Initializer::Int(0x12));
    assert_eq!(init("0f3F800000"), Initializer::Float32(0x3F80_0000));
    assert_eq!(init("-0f3F800000"), Initializer::Float32(0xBF80_0000));
    assert_eq!(init("0dBFF8000000000000"), Initializer::Float(-1.5));
    assert_eq!(init("1.5e-3"), Initializer::Float(1.5e-3));
    assert_eq!(init("{}"), Initializer::List(vec![]));
    let nested = Initializer::List(vec![
        Initializer::Int(1),
        Initializer::List(vec![Initializer::Int(-2)]),
    ]);
    assert_eq!(init("{1, {-2}}"), nested);
    let sampler =
        variable(".global .samplerref s = { addr_mode_0 = wrap, force_unnormalized_coords = 1 };");
    let field = |name: &str, value: &str| Initializer::Field {
        name: name.into(),
        value: value.into(),
    };
    let fields = vec![
        field("addr_mode_0", "wrap"),
        field("force_unnormalized_coords", "1"),
    ];
    assert_eq!(sampler.init, Some(Initializer::List(fields)));
}

#[test]
fn constant_expressions() {
    for (text, value) in [
        ("0x10 + 010 + 0b10 + 10", 36),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("(1 + 2) * 3 % 4", 1),
        ("-7 / 2", -3),
        ("-7U / 2", ((-7i64) as u64 / 2) as i64),
        ("-1 >> 63", -1),
        ("-1U >> 63", 1),
        ("1 << 64", 0),
        ("~0", -1),
        ("!5 + !0", 1),
        ("6 & 3 | 8 ^ 1", 11),
        ("1 < 2 && 2 <= 2 || 0", 1),
        ("-1 < 1U", 0),
        ("-1 < 1", 1),
        ("(.s64) 0xFFFFFFFFFFFFFFFF < 0", 1),
        ("(.u64) -1 > 0", 1),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("-9223372036854775808", i64::MIN),
        ("(-9223372036854775807 - 1) / -1", i64::MIN),
        ("1 == 1 ? 10 : 20", 10),
        ("0 ? 10 : 1 ? 30 : 40", 30),
        ("5 != 5", 0),
        ("WARP_SZ * 2", 64),
        ("+3 - -3", 6),
    ] {
        let init = variable(&format!(".const .s64 v = {text};")).init;
        assert_eq!(init, Some(Initializer::Int(value)), "{text}");
        let text = if text.starts_with("WARP") {
            text.into()
        } else {
            format!("({text})")
        };
        assert_eq!(
            operands(&format!("mov.u64 %rd, {text};"))[1],
            Operand::Int(value),
            "{text}"
        );
    }
}

#[test]
fn functions() {
    let module = module(
        ".extern .func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 b[16]);\n\
         .func old\n\
         .visible .func (.reg .u32 r) g (.reg .u32 a) .noreturn { ret; }\n\
         .weak .entry k(.param .u64 .ptr .global .align 4 p, .param .u64 .ptr q)\n\
         .maxntid 256, 1, 1 .minnctapersm 2 .explicitcluster .pragma \"x\"; { }\n\
         .func .attribute(.unified(1, 2)) u();",
    );
    let [f, old, g, k, u] = &module.functions[..] else {
        panic!("{module:?}")
    };
    assert!(f.linkage.external && f.body.is_none());
    assert_eq!(
        (f.returns.len(), f.params.len(), f.params[1].dims.as_slice()),
        (1, 2, &[16][..])
    );
    assert!(old.body.is_none() && old.params.is_empty());
    assert_eq!(
        (g.kind, g.params[0].space, g.line),
        (FunctionKind::Func, Space::Reg, 6)
    );
    assert_eq!(g.directives[0].name, "noreturn");
    assert_eq!(k.kind, FunctionKind::Entry);
    assert_eq!(k.params[0].pointer, Some((Some(Space::Global), Some(4))));
    assert_eq!(k.params[1].pointer, Some((None, None)));
    let directives: Vec<_> = k
        .directives
        .iter()
        .map(|d| (d.name.as_str(), d.args.len()))
        .collect();
    assert_eq!(
        directives,
        [
            ("maxntid", 3),
            ("minnctapersm", 1),
            ("explicitcluster", 0),
            ("pragma", 1)
        ]
    );
    assert_eq!(k.directives[0].args, ["256", "1", "1"]);
    assert_eq!(u.directives[0].args, [".unified(1,2)"]);
}

#[test]
fn statements() {
    let statements = body(
        ".reg .b32 %r<10>, x;\n.loc 1 20 5, function_name $L__info+4, inlined_at 1 34 5\n\
         .pragma \"nounroll\";\nL1: L2:\n{ .shared .u8 s; ; { } }\n\
         ts: .branchtargets L1, L2;\ncs: .calltargets f, g;\n\
         proto: .callprototype (.param .b32 _) _ (.param .b64 _, .reg .f32) .noreturn;\n\
         .unheard_of 1, two \"three\";",
    );
    let [
        r,
        x,
        loc,
        pragma,
        l1,
        l2,
        block,
        targets,
        calls,
        proto,
        other,
    ] = &statements[..]
    else {
        panic!("{statements:#?}");
    };
    assert!(matches!(r, Statement::Variable(v) if v.range == Some(10) && v.name == "%r"));
    assert!(matches!(x, Statement::Variable(v) if v.range.is_none()));
    let args = [
        "1",
        "20",
        "5",
        "function_name",
        "$L__info+4",
        "inlined_at",
        "1",
        "34",
        "5",
    ];
    assert!(matches!(loc, Statement::Directive(d) if d.name == "loc" && d.args == args));
    assert!(matches!(pragma, Statement::Directive(d) if d.args == ["\"nounroll\""]));
    assert_eq!(
        (l1, l2),
        (
            &Statement::Label(9, "L1".into()),
            &Statement::Label(9, "L2".into())
        )
    );
    assert!(matches!(block, Statement::Block(inside) if inside.len() == 2));
    assert!(
        matches!(targets, Statement::Targets { names, calls: false, .. } if names == &["L1", "L2"])
    );
    assert!(matches!(calls, Statement::Targets { label, calls: true, .. } if label == "cs"));
    let Statement::Prototype {
        returns,
        params,
        noreturn: true,
        ..
    } = proto
    else {
        panic!("{proto:?}")
    };
    assert_eq!(
        (returns.len(), params.len(), params[1].name.as_str()),
        (1, 2, "_")
    );
    assert!(matches!(other, Statement::Directive(d) if d.args == ["1", "two", "\"three\""]));
}

#[test]
fn opcodes_and_guards() {
    let i = instruction("@!%p1 ld.global.L2::128B.nc.v2.f32 {%f1, _}, [%rd1];");
    assert_eq!(
        i.guard,
        Some(Guard {
            negated: true,
            register: "%p1".into()
        })
    );
    assert_eq!((i.opcode.as_str(), i.line), ("ld", 6));
    assert_eq!(i.modifiers, ["global", "L2::128B", "nc", "v2", "f32"]);
    assert_eq!(
        i.operands[0],
        Operand::Vector(vec![name("%f1"), Operand::Sink])
    );
    let i = instruction(
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3}], [%r4];",
    );
    assert_eq!(
        i.modifiers[3..],
        [
            "1d",
            "shared::cluster",
            "global",
            "mbarrier::complete_tx::bytes"
        ]
    );
    assert_eq!(
        i.operands[1],
        Operand::Bracket(vec![name("%rd2"), Operand::Vector(vec![name("%r3")])])
    );
    assert!(instruction("@p ret;").operands.is_empty());
}

#[test]
fn operand_forms() {
    assert_eq!(operands("mov.u32 %r1, %tid.x;")[1], name("%tid.x"));
    assert_eq!(
        operands("vadd.u32.u32.u32 %r1, %r2.b0, %r3.h1;")[2],
        name("%r3.h1")
    );
    assert_eq!(operands("not.pred p, !q;")[1], Operand::Not("q".into()));
    assert_eq!(
        operands("neg.s32 a, -b;")[1],
        Operand::Neg(Box::new(name("b")))
    );
    assert_eq!(
        operands("add.f32 a, b, 1.5;")[2],
        Operand::Float64(1.5f64.to_bits())
    );
    assert_eq!(
        operands("add.f32 a, b, .5;")[2],
        Operand::Float64(0.5f64.to_bits())
    );
    assert_eq!(
        operands("add.f32 a, b, -0f3F800000;")[2],
        Operand::Float32(0xBF80_0000)
    );
    assert_eq!(
        operands("add.f64 a, b, 0d3FF0000000000000;")[2],
        Operand::Float64(0x3FF0 << 48)
    );
    let pair = Operand::Pair(Box::new(name("%p1")), Box::new(name("%p2")));
    assert_eq!(operands("setp.eq.s32 %p1|%p2, a, b;")[0], pair);
    let sink = Operand::Pair(Box::new(Operand::Sink), Box::new(name("%p2")));
    assert_eq!(operands("elect.sync _|%p2, -1;"), [sink, Operand::Int(-1)]);
    let resident = operands("tex.2d.v4.f32.f32 {a, b, c, d}|p, [t, s, {x, y}], {1, 2};");
    assert!(matches!(&resident[0], Operand::Pair(v, _) if matches!(**v, Operand::Vector(_))));
    assert!(matches!(&resident[1], Operand::Bracket(parts) if parts.len() == 3));
}

#[test]
fn addresses() {
    for (text, expected) in [
        ("[%rd1]", address("%rd1", 0)),
        ("[%rd1+8]", address("%rd1", 8)),
        ("[%rd1+-8]", address("%rd1", -8)),
        ("[%rd1 - 8]", address("%rd1", -8)),
        ("[param+2*4+1]", address("param", 9)),
        (
            "[16]",
            Operand::Address {
                base: Box::new(Operand::Int(16)),
                offset: 0,
            },
        ),
        ("[table[3]]", address("table", 6)),
        (
            "table[3]",
            Operand::Offset {
                base: "table".into(),
                offset: 6,
            },
        ),
        (
            "table+4",
            Operand::Offset {
                base: "table".into(),
                offset: 4,
            },
        ),
    ] {
        assert_eq!(
            operands(&format!("ld.global.u16 %r1, {text};"))[1],
            expected,
            "{text}"
        );
    }
    // The innermost declaration gives the size of an element.
    let inner = body("{ .local .u64 table[2]; mov.u64 %rd1, table[1]; } mov.u64 %rd1, table[1];");
    let offset = |statement: &Statement| match statement {
        Statement::Instruction(i) => i.operands[1].clone(),
        other => panic!("{other:?}"),
    };
    let Statement::Block(block) = &inner[0] else {
        panic!("{inner:?}")
    };
    assert_eq!(
        offset(&block[1]),
        Operand::Offset {
            base: "table".into(),
            offset: 8
        }
    );
    assert_eq!(
        offset(&inner[1]),
        Operand::Offset {
            base: "table".into(),
            offset: 2
        }
    );
}

#[test]
fn calls() {
    let list = |names: &[&str]| Operand::List(names.iter().map(|n| name(n)).collect());
    assert_eq!(operands("call f;"), [name("f")]);
    assert_eq!(
        operands("call.uni f, (a, b);"),
        [name("f"), list(&["a", "b"])]
    );
    let full = [list(&["r"]), name("%rd1"), list(&["a"]), name("proto")];
    assert_eq!(operands("call (r), %rd1, (a), proto;"), full);
    assert_eq!(operands("call.uni (r), f, ();")[2], Operand::List(vec![]));
    let constant = Operand::List(vec![Operand::Int(3), Operand::Float32(0)]);
    assert_eq!(operands("call f, ((1 + 2), 0f00000000);")[1], constant);
}

#[test]
fn whole_trees() {
    for fixture in ["vector_add", "inline_asm"] {
        let text = String::from_utf8(fixtures::read(&format!("ptx/{fixture}.ptx"))).unwrap();
        insta::assert_snapshot!(fixture, format!("{:#?}", ptx::parse(&text).unwrap()));
    }
}
