"""Memory: loads and stores of every space and width, addresses, atomics, vectors, packing."""

I16, I32, I64 = ("i16", 16), ("i32", 32), ("i64", 64)
F32, F64 = ("f32", 32), ("f64", 64)
PRED = ("pred", 1)


def cases(add):
    loads(add)
    vectors(add)
    spaces(add)
    atomics(add)
    contended(add)
    packing(add)
    chains(add)


# A place of its own in the second half of the case's results, 8 bytes a thread.
OWN = "mad.wide.u32 %d20, %t, 8, %out;\nadd.u64 %d20, %d20, 2048;"
BOX = "\n.shared .align 16 .b8 $g_box[4096];\n"
SHARED_OWN = "mov.u32 %r40, $g_box;\nmad.lo.u32 %r40, %t, 8, %r40;"


def loads(add):
    for ty in ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64"]:
        bits = int(ty[1:])
        for width in [16, 32, 64]:
            if bits > width or ty[0] == "f" and bits != width:
                continue
            register = {16: "%h10", 32: "%r10", 64: "%d10"}[width]
            column = {16: "i16", 32: "i32", 64: "i64"}[max(16, bits)]
            add(f"ld.global.{ty} into b{width}", [width], [(column, 64)], f"""{OWN}
st.global.b64 [%d20], %d0;
ld.global.{ty} {register}, [%d20];
mov.b64 %d21, 0;
st.global.b64 [%d20], %d21;""")
        for width in [32, 64]:
            if bits > width or ty[0] == "f" and bits != width:
                continue
            source = {32: "%r0", 64: "%d0"}[width]
            add(f"st.shared.{ty} from b{width}", [64], [(f"i{width}", width)], f"""{SHARED_OWN}
mov.b64 %d21, 0x1122334455667788;
st.shared.b64 [%r40], %d21;
st.shared.{ty} [%r40], {source};
ld.shared.b64 %d10, [%r40];""", BOX)
    for how in ["volatile", "relaxed.gpu", "acquire.gpu", "relaxed.sys", "relaxed.cta", "ca", "cg", "cs", "cv", "lu",
                "L1::evict_last", "L1::no_allocate", "L2::128B"]:
        before = how if how in ("volatile",) or "." in how and "L" not in how else ""
        after = how if not before else ""
        name = ".".join(w for w in ["ld", before, "global", after, "u32"] if w)
        add(name, [32], [I32], f"{OWN}\nst.global.b32 [%d20], %r0;\n{name} %r10, [%d20];")
    for how in ["volatile", "relaxed.gpu", "release.gpu", "release.sys"]:
        add(f"st.{how}.global.u32", [32], [I32], f"{OWN}\nst.{how}.global.u32 [%d20], %r0;\nld.global.u32 %r10, [%d20];")
    for how in ["wb", "cg", "cs", "wt"]:
        add(f"st.global.{how}.u32", [32], [I32], f"{OWN}\nst.global.{how}.u32 [%d20], %r0;\nld.global.u32 %r10, [%d20];")
    add("ld.global.nc.u32", [32], [], "ld.global.nc.u32 %r10, [%in];")
    add("ld.global.nc.v2.u32", [32, 32], [], "ld.global.nc.v2.u32 {%r10, %r11}, [%in];")
    add("ldu.global.u32", [32], [], "ld.param.u64 %d20, [inputs];\nldu.global.u32 %r10, [%d20+16];")
    for fence in ["membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.gpu", "fence.sc.cta", "fence.acq_rel.sys",
                  "fence.proxy.async"]:
        add(fence, [32], [I32], f"{OWN}\nst.global.b32 [%d20], %r0;\n{fence};\nld.global.u32 %r10, [%d20];")
    add("prefetch", [32], [I32], "prefetch.global.L2 [%in];\nprefetch.global.L1 [%in];\nmov.b32 %r10, %r0;")


def vectors(add):
    for ty, width, prefix in [("b8", 16, "%h"), ("b16", 16, "%h"), ("b32", 32, "%r"), ("b64", 64, "%d"), ("f32", 32, "%r"),
                              ("s8", 32, "%r"), ("u16", 32, "%r"), ("s16", 32, "%r"), ("f64", 64, "%d")]:
        for n in [2, 4]:
            bits = int(ty[1:])
            if bits * n > 128:
                continue
            names = [f"{prefix}{24 + i}" for i in range(n)]
            where = "mul.lo.u32 %r40, %t, 16;\nmov.u32 %r41, $g_box;\nadd.u32 %r40, %r40, %r41;"
            fill = "st.shared.b64 [%r40], %d0;\nst.shared.b64 [%r40+8], %d1;"
            back = [names[0], names[-1]]
            move = {16: "mov.b16", 32: "mov.b32", 64: "mov.b64"}[width]
            add(f"ld.shared.v{n}.{ty}", [width, width], [I64, I64], f"""{where}
{fill}
ld.shared.v{n}.{ty} {{{', '.join(names)}}}, [%r40];
{move} {prefix}10, {back[0]};
{move} {prefix}11, {back[1]};""", BOX)
            if ty[0] == "b":
                add(f"st.shared.v{n}.{ty}", [64, 64], [I64, I64], f"""{where}
{fill}
ld.shared.v{n}.{ty} {{{', '.join(names)}}}, [%r40];
st.shared.v{n}.{ty} [%r40], {{{', '.join(reversed(names))}}};
ld.shared.b64 %d10, [%r40];
ld.shared.b64 %d11, [%r40+8];""", BOX)
    add("ld.global.v4.u32", [32, 32], [], """ld.param.u64 %d20, [inputs];
mad.wide.u32 %d20, %t, 16, %d20;
ld.global.v4.u32 {%r10, %r20, %r21, %r22}, [%d20];
xor.b32 %r11, %r22, %r21;
add.u32 %r10, %r10, %r20;""")
    add("ld.global.v2.u64 with sink", [64], [], """ld.param.u64 %d20, [inputs];
mad.wide.u32 %d20, %t, 16, %d20;
ld.global.v2.u64 {_, %d10}, [%d20];""")


def spaces(add):
    add("ld.const", [32], [("lane", 32)], """mov.u64 %d20, $g_table;
mad.wide.u32 %d20, %r0, 4, %d20;
ld.const.u32 %r10, [%d20];""", "\n.const .align 4 .u32 $g_table[32] = {" + ", ".join(str(i * i * 7 + 1) for i in range(32)) + "};\n")
    add("ld.const of bytes", [32, 32], [("key", 32)], """mov.u64 %d20, $g_table;
cvt.u64.u32 %d21, %r0;
add.u64 %d20, %d20, %d21;
ld.const.s8 %r10, [%d20];
ld.const.u8 %r11, [%d20+4];""", "\n.const .align 4 .b8 $g_table[8] = {1, 254, 127, 128, 9, 200, 0, 255};\n")
    add("ld.const of floats", [32, 64], [], """ld.const.f32 %r10, [$g_table+4];
ld.const.f64 %d11, [$g_wide+8];""", """
.const .align 4 .f32 $g_table[3] = {0f3F800000, 0fC0490FDB, 1.5};
.const .align 8 .f64 $g_wide[2] = {0d3FF0000000000000, 2.71828};
""")
    add("global variable", [32], [("lane", 32)], """mov.u64 %d20, $g_table;
mad.wide.u32 %d20, %r0, 4, %d20;
ld.global.u32 %r10, [%d20];""", "\n.global .align 4 .u32 $g_table[32] = {" + ", ".join(str(i * 3 + 11) for i in range(20)) + "};\n")
    add("global variable with an address in it", [32], [], """ld.global.u64 %d20, [$g_pointer];
ld.u32 %r10, [%d20];
ld.global.u64 %d21, [$g_pointer+8];
ld.global.u32 %r20, [%d21];
add.u32 %r10, %r10, %r20;""", """
.global .align 4 .u32 $g_table[4] = {5, 6, 7, 8};
.global .align 8 .u64 $g_pointer[2] = {generic($g_table)+4, $g_table+12};
""")
    add("local array", [32], [I32, ("key", 32)], """mov.u64 %d20, $g_stack;
mad.wide.u32 %d21, %r1, 4, %d20;
st.local.u32 [%d20], %t;
st.local.u32 [%d20+4], %t;
st.local.u32 [%d20+8], %t;
st.local.u32 [%d20+12], %t;
st.local.u32 [%d21], %r0;
ld.local.v2.u32 {%r20, %r21}, [%d20];
ld.local.v2.u32 {%r22, %r23}, [%d20+8];
mad.lo.u32 %r10, %r20, 3, %r21;
mad.lo.u32 %r10, %r10, 3, %r22;
mad.lo.u32 %r10, %r10, 3, %r23;""".replace("mov.u64 %d20", ".local .align 16 .b8 $g_stack[16];\nmov.u64 %d20", 1))
    add("generic local", [32], [I32], """.local .align 8 .b8 $g_stack[8];
mov.u64 %d20, $g_stack;
cvta.local.u64 %d21, %d20;
st.u32 [%d21], %r0;
ld.local.u32 %r10, [%d20];""")
    add("generic shared", [32, 32], [I32], f"""{SHARED_OWN}
cvt.u64.u32 %d20, %r40;
cvta.shared.u64 %d21, %d20;
st.u32 [%d21], %r0;
ld.shared.u32 %r10, [%r40];
cvta.to.shared.u64 %d22, %d21;
cvt.u32.u64 %r41, %d22;
sub.u32 %r11, %r41, %r40;""", BOX)
    add("generic global", [32], [I32], f"""{OWN}
cvta.global.u64 %d21, %d20;
st.u32 [%d21], %r0;
cvta.to.global.u64 %d22, %d21;
ld.global.u32 %r10, [%d22];""")
    add("generic const", [32], [], """mov.u64 %d20, $g_table;
cvta.const.u64 %d21, %d20;
ld.u32 %r10, [%d21+4];""", "\n.const .align 4 .u32 $g_table[2] = {77, 78};\n")
    for space, name in [("shared", "$g_box"), ("local", "$g_stack"), ("const", "$g_table"), ("global", "$g_here")]:
        for other in ["shared", "local", "const", "global"]:
            local = ".local .align 8 .b8 $g_stack[8];\n" if space == "local" else ""
            add(f"isspacep.{other} of {space}", [1], [], f"""{local}mov.u64 %d20, {name};
cvta.{space}.u64 %d21, %d20;
isspacep.{other} %p10, %d21;""", {"shared": BOX, "const": "\n.const .u32 $g_table = 1;\n", "global": "\n.global .u32 $g_here = 2;\n"}.get(space, ""))
    add("ld.param of parts", [32, 32], [], """ld.param.u32 %r20, [inputs];
ld.param.u32 %r21, [inputs+4];
mov.b64 %d20, {%r20, %r21};
mad.wide.u32 %d20, %t, 8, %d20;
ld.global.u32 %r10, [%d20];
ld.global.u32 %r11, [%d20+4];""")
    add("address of a variable with an offset", [32], [], """mov.u64 %d20, $g_table+8;
ld.global.u32 %r10, [%d20+4];
ld.global.u32 %r20, [$g_table];
add.u32 %r10, %r10, %r20;""", "\n.global .align 4 .u32 $g_table[4] = {1, 20, 300, 4000};\n")


# type, operations
ATOMICS = [
    ("u32", ["add", "min", "max", "inc", "dec"]), ("s32", ["add", "min", "max"]), ("u64", ["add", "min", "max"]),
    ("s64", ["min", "max"]), ("b32", ["and", "or", "xor", "exch"]), ("b64", ["and", "or", "xor", "exch"]),
    ("f32", ["add"]), ("f64", ["add"]),
]


def atomics(add):
    for ty, operations in ATOMICS:
        bits = int(ty[1:])
        prefix, pool = {32: ("%r", "i32"), 64: ("%d", "i64")}[bits]
        if ty[0] == "f":
            pool = ty
        source = [(pool, bits), (pool, bits)]
        for operation in operations:
            for space in ["global", "shared"]:
                place = OWN if space == "global" else SHARED_OWN
                at = "%d20" if space == "global" else "%r40"
                outside = BOX if space == "shared" else ""
                clear = f"\nmov.b64 %d21, 0;\nst.global.b64 [%d20], %d21;" if space == "global" else ""
                add(f"atom.{space}.{operation}.{ty}", [bits, bits], source, f"""{place}
st.{space}.b{bits} [{at}], {prefix}0;
atom.{space}.{operation}.{ty} {prefix}10, [{at}], {prefix}1;
ld.{space}.b{bits} {prefix}11, [{at}];{clear}
bar.sync 0;""", outside)
                if operation not in ("exch",):
                    add(f"red.{space}.{operation}.{ty}", [bits], source, f"""{place}
st.{space}.b{bits} [{at}], {prefix}0;
red.{space}.{operation}.{ty} [{at}], {prefix}1;
ld.{space}.b{bits} {prefix}10, [{at}];{clear}""", outside)
    for semantics in ["relaxed", "acquire", "release", "acq_rel"]:
        for scope in ["cta", "gpu", "sys", "cluster"]:
            add(f"atom.{semantics}.{scope}.global.add.u32", [32], [I32, I32], f"""{OWN}
st.global.b32 [%d20], %r0;
atom.{semantics}.{scope}.global.add.u32 %r20, [%d20], %r1;
ld.global.b32 %r10, [%d20];""")
    for ty, prefix, pool in [("b16", "%h", "i16"), ("b32", "%r", "i32"), ("b64", "%d", "i64")]:
        bits = int(ty[1:])
        for space in ["global", "shared"]:
            place = OWN if space == "global" else SHARED_OWN
            at = "%d20" if space == "global" else "%r40"
            clear = f"\nmov.b64 %d21, 0;\nst.global.b64 [%d20], %d21;" if space == "global" else ""
            add(f"atom.{space}.cas.{ty}", [bits, bits], [(pool, bits), (pool, bits)], f"""{place}
st.{space}.b{bits} [{at}], {prefix}0;
atom.{space}.cas.{ty} {prefix}10, [{at}], {prefix}1, 77;
ld.{space}.b{bits} {prefix}11, [{at}];{clear}
bar.sync 0;""".replace(", 77;", ", %h9;" if bits == 16 else ", 77;").replace("st." + space, "mov.b16 %h9, 77;\nst." + space, 1),
                BOX if space == "shared" else "")
    for ty, prefix, pool, bits in [("f16", "%h", "f16", 16), ("f16x2", "%r", "f16x2", 32), ("bf16", "%h", "bf16", 16),
                                   ("bf16x2", "%r", "bf16x2", 32)]:
        for space in ["global", "shared"]:
            place = OWN if space == "global" else SHARED_OWN
            at = "%d20" if space == "global" else "%r40"
            clear = f"\nmov.b64 %d21, 0;\nst.global.b64 [%d20], %d21;" if space == "global" else ""
            add(f"atom.{space}.add.noftz.{ty}", [bits, bits], [(pool, bits), (pool, bits)], f"""{place}
st.{space}.b{bits} [{at}], {prefix}0;
atom.{space}.add.noftz.{ty} {prefix}10, [{at}], {prefix}1;
ld.{space}.b{bits} {prefix}11, [{at}];{clear}
bar.sync 0;""", BOX if space == "shared" else "")
    add("atom generic", [32, 32], [I32, I32], f"""{SHARED_OWN}
cvt.u64.u32 %d20, %r40;
cvta.shared.u64 %d20, %d20;
st.b32 [%d20], %r0;
atom.add.u32 %r10, [%d20], %r1;
ld.b32 %r11, [%d20];""", BOX)
    add("atom predicated", [32], [I32, I32, PRED], f"""{OWN}
st.global.b32 [%d20], %r0;
@%p2 atom.global.add.u32 %r20, [%d20], %r1;
ld.global.b32 %r10, [%d20];""")


def contended(add):
    """All 256 threads at one place: only the outcome that no order changes is looked at."""
    for space, outside in [("shared", "\n.shared .align 8 .b8 $g_one[8];\n"), ("global", "\n.global .align 8 .b8 $g_one[8];\n")]:
        for operation, ty, first in [("add", "u32", 0), ("min", "u32", -1), ("max", "s32", 0), ("and", "b32", -1),
                                     ("or", "b32", 0), ("xor", "b32", 0), ("max", "u32", 0), ("min", "s32", 0)]:
            for kind in ["red", "atom"]:
                verb = f"{kind}.{space}.{operation}.{ty}"
                result = "%r20, " if kind == "atom" else ""
                add(f"{verb} by all", [32], [I32], f"""mov.b32 %r21, {first};
st.{space}.b32 [$g_one], %r21;
bar.sync 0;
{verb} {result}[$g_one], %r0;
bar.sync 0;
ld.{space}.b32 %r10, [$g_one];""", outside)
        add(f"atom.{space}.add.u32 tickets", [32], [], f"""mov.b32 %r21, 0;
st.{space}.b32 [$g_one], %r21;
bar.sync 0;
atom.{space}.add.u32 %r20, [$g_one], 1;
mov.b32 %r22, 0;
redux.sync.add.u32 %r23, %r20, 0xffffffff;
bar.sync 0;
st.{space}.b32 [$g_one], %r22;
bar.sync 0;
setp.eq.u32 %p1, 0, 0;
and.b32 %r24, %t, 31;
setp.eq.u32 %p1, %r24, 0;
@%p1 red.{space}.add.u32 [$g_one], %r23;
bar.sync 0;
ld.{space}.b32 %r10, [$g_one];""", outside)
        add(f"lock by atom.{space}.cas", [32], [], f"""mov.b32 %r21, 0;
st.{space}.b32 [$g_one], %r21;
st.{space}.b32 [$g_one+4], %r21;
bar.sync 0;
mov.b32 %r22, 0;
TRY: atom.{space}.cas.b32 %r20, [$g_one], 0, 1;
setp.ne.u32 %p1, %r20, 0;
@%p1 bra NEXT;
ld.volatile.{space}.u32 %r23, [$g_one+4];
add.u32 %r23, %r23, 1;
st.volatile.{space}.u32 [$g_one+4], %r23;
membar.gl;
atom.{space}.exch.b32 %r20, [$g_one], 0;
mov.b32 %r22, 1;
NEXT: setp.eq.u32 %p2, %r22, 0;
@%p2 bra TRY;
bar.sync 0;
ld.{space}.b32 %r10, [$g_one+4];""", outside)


def packing(add):
    add("mov.b32 from halves", [32], [I16, I16], "mov.b32 %r10, {%h0, %h1};")
    add("mov.b32 into halves", [16, 16], [I32], "mov.b32 {%h10, %h11}, %r0;")
    add("mov.b64 from words", [64], [I32, I32], "mov.b64 %d10, {%r0, %r1};")
    add("mov.b64 into words", [32, 32], [I64], "mov.b64 {%r10, %r11}, %d0;")
    add("mov.b64 into words with sink", [32], [I64], "mov.b64 {_, %r10}, %d0;")
    add("mov.b64 from quarters", [64], [I16, I16, I16, I16], "mov.b64 %d10, {%h0, %h1, %h2, %h3};")
    add("mov.b64 into quarters", [16, 16], [I64], "mov.b64 {%h20, %h10, %h21, %h11}, %d0;")
    add("mov immediates", [32, 64], [], "mov.u32 %r10, 0xdeadbeef;\nmov.f64 %d11, 0d400921FB54442D18;")
    add("mov float immediates", [32, 64], [], "mov.f32 %r10, 0fBF800000;\nmov.f64 %d11, 1.25;")
    add("add immediates", [32, 64], [I32, I64], "add.s32 %r10, %r0, -7;\nadd.s64 %d11, %d1, -1;")
    add("fma immediates", [32, 64], [F32, F64], "fma.rn.f32 %r10, %r0, 0f40000000, 0f3F800000;\nfma.rn.f64 %d11, %d1, 0d4000000000000000, 1.0;")
    add("setp immediates", [1, 1], [I32, F32], "setp.lt.s32 %p10, %r0, -1;\nsetp.gt.f32 %p11, %r1, 0f3F000000;")
    add("and immediates", [16, 64], [I16, I64], "and.b16 %h10, %h0, 0xff0;\nand.b64 %d11, %d1, 0xffffffff00000000;")
    add("selp immediates", [32], [PRED], "selp.b32 %r10, 10, -10, %p0;")


def chains(add):
    add("add of 128 bits", [64, 64], [I64, I64, I64, I64],
        "add.cc.u64 %d10, %d0, %d1;\naddc.u64 %d11, %d2, %d3;")
    add("sub of 128 bits", [64, 64], [I64, I64, I64, I64],
        "sub.cc.u64 %d10, %d0, %d1;\nsubc.u64 %d11, %d2, %d3;")
    add("add of 96 bits", [32, 32], [I32, I32, I32, I32],
        "add.cc.u32 %r20, %r0, %r1;\naddc.cc.u32 %r10, %r2, %r3;\naddc.u32 %r11, %r0, 0;")
    add("mul of 64 by 64 by words", [64, 64], [I32, I32, I32, I32], """mul.lo.u32 %r20, %r0, %r2;
mul.hi.u32 %r21, %r0, %r2;
mad.lo.cc.u32 %r21, %r0, %r3, %r21;
madc.hi.u32 %r22, %r0, %r3, 0;
mad.lo.cc.u32 %r21, %r1, %r2, %r21;
madc.hi.cc.u32 %r22, %r1, %r2, %r22;
addc.u32 %r23, 0, 0;
mad.lo.cc.u32 %r22, %r1, %r3, %r22;
madc.hi.u32 %r23, %r1, %r3, %r23;
mov.b64 %d10, {%r20, %r21};
mov.b64 %d11, {%r22, %r23};""")
    add("carry across a branch", [32], [I32, I32, PRED], """add.cc.u32 %r20, %r0, %r1;
@%p2 add.u32 %r20, %r20, 1;
addc.u32 %r10, 0, 0;
add.u32 %r10, %r10, %r20;""")
