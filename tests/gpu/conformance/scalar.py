"""Cases that compute registers from registers: one instruction each, every type and modifier."""

INTS = ["u16", "s16", "u32", "s32", "u64", "s64"]
ROUNDINGS = ["rn", "rz", "rm", "rp"]


def width(ty):
    """Bits of the register that holds a type."""
    fixed = {"pred": 1, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32,
             "e4m3x2": 16, "e5m2x2": 16}
    return fixed.get(ty) or int(ty[1:])


def pool(ty):
    """Where operands of a type come from."""
    own = {"pred", "f16", "bf16", "f32", "f64", "f16x2", "bf16x2"}
    if ty in own:
        return ty
    if ty in ("u16x2", "s16x2"):
        return "i16x2"
    return f"i{max(16, width(ty))}"


class Scalar:
    """One instruction: name, destination registers' widths, (pool, width) of each source."""

    def __init__(self, name, dsts, srcs, tolerance="exact", carry=None):
        self.name, self.dsts, self.srcs = name, dsts, srcs
        self.tolerance, self.carry = tolerance, carry


def cases():
    found = []

    def add(name, dst, srcs, tolerance="exact", carry=None):
        dsts = dst if isinstance(dst, list) else [dst]
        sources = []
        for s in srcs:
            if isinstance(s, tuple):
                sources.append(s)
            elif isinstance(s, int):
                sources.append(("imm", s))
            else:
                sources.append((pool(s), max(16, width(s)) if s != "pred" else 1))
        found.append(Scalar(name, [max(16, width(d)) if d != "pred" else 1 for d in dsts], sources, tolerance, carry))

    integers(add)
    bit_operations(add)
    comparisons(add)
    floating(add)
    approximate(add)
    conversions(add)
    video(add)
    return found


def integers(add):
    for ty in INTS:
        double = ty[0] + str(2 * int(ty[1:]))
        for op in ["add", "sub", "div", "rem", "min", "max"]:
            add(f"{op}.{ty}", ty, [ty] * 2)
        for half in ["lo", "hi"]:
            add(f"mul.{half}.{ty}", ty, [ty] * 2)
            add(f"mad.{half}.{ty}", ty, [ty] * 3)
        if ty[1:] != "64":
            add(f"mul.wide.{ty}", double, [ty] * 2)
            add(f"mad.wide.{ty}", double, [ty, ty, double])
        add(f"sad.{ty}", ty, [ty] * 3)
        if ty[0] == "s":
            add(f"abs.{ty}", ty, [ty])
            add(f"neg.{ty}", ty, [ty])
    for op in ["add", "sub"]:
        add(f"{op}.sat.s32", "s32", ["s32"] * 2)
    add("mad.hi.sat.s32", "s32", ["s32"] * 3)
    for ty in ["u32", "s32"]:
        for half in ["lo", "hi"]:
            add(f"mul24.{half}.{ty}", ty, [ty] * 2)
            add(f"mad24.{half}.{ty}", ty, [ty] * 3)
    add("mad24.hi.sat.s32", "s32", ["s32"] * 3)
    for op in ["min", "max"]:
        add(f"{op}.relu.s32", "s32", ["s32"] * 2)
        add(f"{op}.relu.s16x2", "s16x2", ["s16x2"] * 2)
    for op in ["add", "min", "max"]:
        for ty in ["u16x2", "s16x2"]:
            add(f"{op}.{ty}", ty, [ty] * 2)
    for ty in ["u32", "s32", "u64", "s64"]:
        for op, kind in [("add", "add"), ("sub", "sub")]:
            add(f"{op}.cc.{ty}", [ty, "u32"], [ty] * 2, carry=f"{kind}:out")
            add(f"{op}c.{ty}", ty, [ty] * 2, carry=f"{kind}:in")
            add(f"{op}c.cc.{ty}", [ty, "u32"], [ty] * 2, carry=f"{kind}:both")
        for half in ["lo", "hi"]:
            add(f"mad.{half}.cc.{ty}", [ty, "u32"], [ty] * 3, carry="add:out")
            add(f"madc.{half}.{ty}", ty, [ty] * 3, carry="add:in")
            add(f"madc.{half}.cc.{ty}", [ty, "u32"], [ty] * 3, carry="add:both")
    for a in ["u32", "s32"]:
        for b in ["u32", "s32"]:
            c = "u32" if a == b == "u32" else "s32"
            add(f"dp4a.{a}.{b}", c, [a, b, c])
            for half in ["lo", "hi"]:
                add(f"dp2a.{half}.{a}.{b}", c, [a, b, c])


def bit_operations(add):
    count = ("count", 32)
    for ty in ["b32", "b64"]:
        add(f"popc.{ty}", "u32", [ty])
        add(f"clz.{ty}", "u32", [ty])
        add(f"brev.{ty}", ty, [ty])
        add(f"bfi.{ty}", ty, [ty, ty, count, count])
    for ty in ["u32", "s32", "u64", "s64"]:
        add(f"bfind.{ty}", "u32", [ty])
        add(f"bfind.shiftamt.{ty}", "u32", [ty])
        add(f"bfe.{ty}", ty, [ty, count, count])
    add("fns.b32", "u32", ["b32", ("lane", 32), ("key", 32)])
    add("fns.b32", "u32", ["b32", ("lane", 32), "s32"])
    for mode in ["clamp", "wrap"]:
        add(f"bmsk.{mode}.b32", "b32", [count, count])
        add(f"shf.l.{mode}.b32", "b32", ["b32", "b32", count])
        add(f"shf.r.{mode}.b32", "b32", ["b32", "b32", count])
        for ty in ["u32", "s32"]:
            add(f"szext.{mode}.{ty}", ty, [ty, count])
    for ty in ["b16", "b32", "b64"]:
        for op in ["and", "or", "xor"]:
            add(f"{op}.{ty}", ty, [ty] * 2)
        add(f"not.{ty}", ty, [ty])
        add(f"cnot.{ty}", ty, [ty])
        add(f"shl.{ty}", ty, [ty, count])
    for op in ["and", "or", "xor"]:
        add(f"{op}.pred", "pred", ["pred"] * 2)
    add("not.pred", "pred", ["pred"])
    for ty in ["b16", "b32", "b64"] + INTS:
        add(f"shr.{ty}", ty, [ty, count])
    for table in [0x00, 0x01, 0x1B, 0x3C, 0x40, 0x80, 0x96, 0xAA, 0xC0, 0xCA, 0xD8, 0xE8, 0xF0, 0xFE, 0xFF, 0x69, 0x55, 0x0F]:
        add("lop3.b32", "b32", ["b32", "b32", "b32", table])
    add("prmt.b32", "b32", ["b32"] * 3)
    for mode in ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]:
        add(f"prmt.b32.{mode}", "b32", ["b32"] * 3)
    for ty in ["b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "pred"]:
        add(f"mov.{ty}", ty, [ty])


INT_TESTS = ["eq", "ne", "lt", "le", "gt", "ge"]
FLOAT_TESTS = INT_TESTS + ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
COMBINES = ["", "and", "or", "xor"]


def comparisons(add):
    def dotted(*words):
        return ".".join(w for w in words if w)

    sources = [("", ty, INT_TESTS) for ty in INTS]
    sources += [("", ty, ["eq", "ne"]) for ty in ["b16", "b32", "b64"]]
    sources += [("", ty, ["lo", "ls", "hi", "hs"]) for ty in ["u16", "u32", "u64"]]
    sources += [(f, ty, FLOAT_TESTS) for f, ty in
                [("", "f32"), ("ftz", "f32"), ("", "f64"), ("", "f16"), ("ftz", "f16"), ("", "bf16")]]
    packed = [("", "f16x2", FLOAT_TESTS), ("ftz", "f16x2", FLOAT_TESTS), ("", "bf16x2", FLOAT_TESTS)]
    for flush, ty, tests in sources + packed:
        for at, test in enumerate(tests):
            for combine in COMBINES:
                third = ["pred"] if combine else []
                results = ["pred"] if ty in ("f16", "bf16") else ["pred", "pred"]
                add(dotted("setp", test, combine, flush, ty), results, [ty, ty] + third)
                # set: all destinations without a predicate, one with.
                targets = ["u32", "s32", "f32"]
                if ty in ("f16", "bf16"):
                    targets = ["u16", "s16", "u32", "s32", ty]
                elif ty in ("f16x2", "bf16x2"):
                    targets = [ty, "u32", "s32"]
                elif flush == "" and test in ("eq", "ltu", "lt", "ge", "num"):
                    targets = targets + ["f16", "bf16"]
                if combine:
                    targets = [targets[at % len(targets)]]
                for target in targets:
                    add(dotted("set", test, combine, flush, target, ty), target, [ty, ty] + third)
    for ty in ["b16", "b32", "b64"] + INTS + ["f32", "f64"]:
        add(f"selp.{ty}", ty, [ty, ty, "pred"])
        add(f"slct.{ty}.s32", ty, [ty, ty, "s32"])
        add(f"slct.{ty}.f32", ty, [ty, ty, "f32"])
        add(f"slct.ftz.{ty}.f32", ty, [ty, ty, "f32"])
    for ty in ["f32", "f64"]:
        for property in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]:
            add(f"testp.{property}.{ty}", "pred", [ty])
        add(f"copysign.{ty}", ty, [ty] * 2)


def floating(add):
    def forms(*groups):
        """Every choice of one word from each group."""
        out = [""]
        for group in groups:
            out = [f"{o}.{g}" if g else o for o in out for g in group]
        return out

    for op, n in [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("mad", 3)]:
        rounding = ROUNDINGS if n == 3 else [""] + ROUNDINGS
        for f in forms(rounding, ["", "ftz"], ["", "sat"]):
            add(f"{op}{f}.f32", "f32", ["f32"] * n)
        for f in forms(rounding):
            add(f"{op}{f}.f64", "f64", ["f64"] * n)
        if op == "mad":
            continue
        half_rounding = ["rn"] if n == 3 else ["", "rn"]
        for ty in ["f16", "f16x2"]:
            for f in forms(half_rounding, ["", "ftz"], ["", "sat"]):
                add(f"{op}{f}.{ty}", ty, [ty] * n)
        for ty in ["bf16", "bf16x2"]:
            for f in forms(half_rounding):
                add(f"{op}{f}.{ty}", ty, [ty] * n)
    for ty in ["f16", "f16x2"]:
        for f in ["rn.relu", "rn.ftz.relu"]:
            add(f"fma.{f}.{ty}", ty, [ty] * 3)
    for ty in ["bf16", "bf16x2"]:
        add(f"fma.rn.relu.{ty}", ty, [ty] * 3)
    for f in forms(ROUNDINGS, ["", "ftz"]):
        add(f"div{f}.f32", "f32", ["f32"] * 2)
        add(f"rcp{f}.f32", "f32", ["f32"])
        add(f"sqrt{f}.f32", "f32", ["f32"])
    for f in ROUNDINGS:
        add(f"div.{f}.f64", "f64", ["f64"] * 2)
        add(f"rcp.{f}.f64", "f64", ["f64"])
        add(f"sqrt.{f}.f64", "f64", ["f64"])
    for op in ["abs", "neg"]:
        for f in ["", ".ftz"]:
            for ty in ["f32", "f16", "f16x2"]:
                add(f"{op}{f}.{ty}", ty, [ty])
        for ty in ["f64", "bf16", "bf16x2"]:
            add(f"{op}.{ty}", ty, [ty])
    for op in ["min", "max"]:
        for ty in ["f32", "f16", "f16x2"]:
            for f in forms(["", "ftz"], ["", "NaN"], ["", "xorsign.abs"]):
                add(f"{op}{f}.{ty}", ty, [ty] * 2)
        for ty in ["bf16", "bf16x2"]:
            for f in forms(["", "NaN"], ["", "xorsign.abs"]):
                add(f"{op}{f}.{ty}", ty, [ty] * 2)
        add(f"{op}.f64", "f64", ["f64"] * 2)


def approximate(add):
    angle = ("angle", 32)
    for flush in ["", ".ftz"]:
        for mode in ["approx", "full"]:
            add(f"div.{mode}{flush}.f32", "f32", ["f32"] * 2, "div")
        add(f"rcp.approx{flush}.f32", "f32", ["f32"], "rcp")
        add(f"sqrt.approx{flush}.f32", "f32", ["f32"], "sqrt")
        add(f"rsqrt.approx{flush}.f32", "f32", ["f32"], "rsqrt")
        add(f"sin.approx{flush}.f32", "f32", [angle], "sin")
        add(f"cos.approx{flush}.f32", "f32", [angle], "sin")
        add(f"ex2.approx{flush}.f32", "f32", [angle], "ex2")
        add(f"ex2.approx{flush}.f32", "f32", ["f32"], "ex2")
        add(f"lg2.approx{flush}.f32", "f32", ["f32"], "lg2")
        add(f"lg2.approx{flush}.f32", "f32", [angle], "lg2")
    add("tanh.approx.f32", "f32", [angle], "tanh")
    add("tanh.approx.f32", "f32", ["f32"], "tanh")
    add("rcp.approx.ftz.f64", "f64", ["f64"], "rcp64")
    add("rsqrt.approx.ftz.f64", "f64", ["f64"], "rsqrt64")
    add("rsqrt.approx.f64", "f64", ["f64"], "rsqrt64")
    for ty in ["f16", "f16x2", "bf16", "bf16x2"]:
        add(f"tanh.approx.{ty}", ty, [ty], "tanh16")
    for ty in ["f16", "f16x2"]:
        add(f"ex2.approx.{ty}", ty, [ty], "ex2h")
    for ty in ["bf16", "bf16x2"]:
        add(f"ex2.approx.ftz.{ty}", ty, [ty], "ex2b")


def contains(to, source):
    """Whether every value of one integer type is one of another: there .sat is not allowed."""
    if to[0] == "u":
        return source[0] == "u" and width(to) >= width(source)
    return width(to) > width(source) or to == source


def conversions(add):
    eight = ["u8", "s8"] + INTS
    for to in eight:
        for source in eight:
            # an 8-bit result lands in a wider register, sign and all
            dst = {"u8": "b32", "s8": "b32"}.get(to, to)
            add(f"cvt.{to}.{source}", dst, [source])
            if not contains(to, source):
                add(f"cvt.sat.{to}.{source}", dst, [source])
    add("cvt.s8.s32", "b16", ["s32"])
    add("cvt.u8.s32", "b16", ["s32"])
    add("cvt.s8.s64", "b64", ["s64"])
    add("cvt.s16.s32", "b32", ["s32"])
    add("cvt.u16.u64", "b32", ["u64"])
    for source in ["f16", "bf16", "f32", "f64"]:
        for to in INTS if source == "bf16" else eight:
            dst = {"u8": "b32", "s8": "b32"}.get(to, to)
            for rounding in ["rni", "rzi", "rmi", "rpi"]:
                for flush in ["", ".ftz"] if source == "f32" else [""]:
                    add(f"cvt.{rounding}{flush}.{to}.{source}", dst, [(source + "w", width(source))])
            if source != "bf16":
                add(f"cvt.rzi.sat.{to}.{source}", dst, [(source + "w", width(source))])
        for to in ["s32", "u64"]:
            add(f"cvt.rni.{to}.{source}", to, [source])
    for to in ["f16", "bf16", "f32", "f64"]:
        for source in INTS if to == "bf16" else eight:
            for rounding in ROUNDINGS:
                add(f"cvt.{rounding}.{to}.{source}", to, [source])
            if to != "bf16":
                add(f"cvt.rn.sat.{to}.{source}", to, [source])
    for ty in ["f16", "bf16", "f32", "f64"]:
        for rounding in ["rni", "rzi", "rmi", "rpi"]:
            for flush in ["", ".ftz"] if ty == "f32" else [""]:
                add(f"cvt.{rounding}{flush}.{ty}.{ty}", ty, [(ty + "w", width(ty))])
                if ty != "bf16":
                    add(f"cvt.{rounding}{flush}.sat.{ty}.{ty}", ty, [ty])
    for ty in ["f16", "f32", "f64"]:
        add(f"cvt.{ty}.{ty}", ty, [ty])
        add(f"cvt.sat.{ty}.{ty}", ty, [ty])
    add("cvt.ftz.f32.f32", "f32", ["f32"])
    add("cvt.ftz.sat.f32.f32", "f32", ["f32"])
    for flush in ["", ".ftz"]:
        for rounding in ROUNDINGS:
            for own in ["f32", "f32_f16"]:
                add(f"cvt.{rounding}{flush}.f16.f32", "f16", [(own, 32)])
                add(f"cvt.{rounding}{flush}.sat.f16.f32", "f16", [(own, 32)])
            for own in ["f64", "f64_f32"]:
                add(f"cvt.{rounding}{flush}.f32.f64", "f32", [(own, 64)])
                add(f"cvt.{rounding}{flush}.sat.f32.f64", "f32", [(own, 64)])
        add(f"cvt{flush}.f64.f32", "f64", ["f32"])
        add(f"cvt{flush}.sat.f64.f32", "f64", ["f32"])
        add(f"cvt{flush}.f32.f16", "f32", ["f16"])
        add(f"cvt{flush}.sat.f32.f16", "f32", ["f16"])
        add(f"cvt{flush}.f32.bf16", "f32", ["bf16"])
    for rounding in ROUNDINGS:
        for own in ["f64", "f64_f16"]:
            add(f"cvt.{rounding}.f16.f64", "f16", [(own, 64)])
            add(f"cvt.{rounding}.sat.f16.f64", "f16", [(own, 64)])
        for own in ["f64", "f64_bf16"]:
            add(f"cvt.{rounding}.bf16.f64", "bf16", [(own, 64)])
        add(f"cvt.{rounding}.bf16.f16", "bf16", ["f16"])
        add(f"cvt.{rounding}.f16.bf16", "f16", ["bf16"])
    add("cvt.f64.f16", "f64", ["f16"])
    add("cvt.sat.f64.f16", "f64", ["f16"])
    add("cvt.f64.bf16", "f64", ["bf16"])
    for rounding in ["rn", "rz"]:
        for extra in ["", ".relu", ".satfinite", ".relu.satfinite"]:
            for to, near in [("f16", "f32_f16"), ("bf16", "f32_bf16")]:
                for own in ["f32", near]:
                    if extra or to == "bf16":
                        add(f"cvt.{rounding}{extra}.{to}.f32", to, [(own, 32)])
                    add(f"cvt.{rounding}{extra}.{to}x2.f32", f"{to}x2", [(own, 32)] * 2)
            for own in ["f32", "f32_tf32"] if "satfinite" not in extra else []:
                add(f"cvt.{rounding}{extra}.tf32.f32", "tf32", [(own, 32)])
    for own in ["f32", "f32_tf32"]:
        add("cvt.rna.tf32.f32", "tf32", [(own, 32)])
        add("cvt.rna.satfinite.tf32.f32", "tf32", [(own, 32)])
    for to in ["e4m3", "e5m2"]:
        for relu in ["", ".relu"]:
            for own in ["f32", f"f32_{to}"]:
                add(f"cvt.rn.satfinite{relu}.{to}x2.f32", f"{to}x2", [(own, 32)] * 2)
            for own in ["f16x2", f"f16x2_{to}"]:
                add(f"cvt.rn.satfinite{relu}.{to}x2.f16x2", f"{to}x2", [(own, 32)])
            add(f"cvt.rn{relu}.f16x2.{to}x2", "f16x2", [("i16", 16)])
    for ty in ["u16", "s16"]:
        add(f"cvt.pack.sat.{ty}.s32", "b32", ["s32"] * 2)
    for ty in ["u8", "s8", "u4", "s4", "u2", "s2"]:
        add(f"cvt.pack.sat.{ty}.s32.b32", "b32", ["s32", "s32", "b32"])


def video(add):
    """Scalar video instructions without selectors."""
    for op in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"]:
        for d in ["u32", "s32"]:
            for a in ["u32", "s32"]:
                for b in ["u32", "s32"]:
                    for sat in ["", ".sat"]:
                        add(f"{op}.{d}.{a}.{b}{sat}", d, [a, b])
            for second in ["add", "min", "max"]:
                add(f"{op}.{d}.u32.s32.{second}", d, ["u32", "s32", d])
    for op in ["vshl", "vshr"]:
        for d in ["u32", "s32"]:
            for a in ["u32", "s32"]:
                for mode in ["clamp", "wrap"]:
                    add(f"{op}.{d}.{a}.u32.{mode}", d, [a, ("count", 32)])
                    add(f"{op}.{d}.{a}.u32.sat.{mode}", d, [a, ("count", 32)])
                    add(f"{op}.{d}.{a}.u32.{mode}.add", d, [a, ("count", 32), d])
    for a in ["u32", "s32"]:
        for b in ["u32", "s32"]:
            for test in INT_TESTS:
                add(f"vset.{a}.{b}.{test}", "u32", [a, b])
            add(f"vset.{a}.{b}.lt.add", "u32", [a, b, "u32"])
    for d, a, b in [("u32", "u32", "u32"), ("s32", "s32", "s32"), ("s32", "u32", "s32")]:
        for shift in ["", ".shr7", ".shr15"]:
            for sat in ["", ".sat"]:
                add(f"vmad.{d}.{a}.{b}{sat}{shift}", d, [a, b, d])
