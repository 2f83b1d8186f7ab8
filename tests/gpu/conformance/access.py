"""Every type and vector of ld, st, ldu, atom and red, in every space that has it."""

import memory
from values import POOLS, floats, packs
from warp import Machine

POOLS.update({
    "f16x4": packs(floats(5, 10), 16, 4), "bf16x4": packs(floats(8, 7), 16, 4), "f32x2": packs(floats(8, 23), 32, 2),
})

# Sixteen bytes a thread, in each space: what declares them, and what brings their address into a register.
SPACES = {
    "global": ("\n.global .align 16 .b8 $g_box[4096];\n", "mov.u64 %d60, $g_box;\nmad.wide.u32 %d60, %t, 16, %d60;", "%d60"),
    "shared": (memory.BOX, "mov.u32 %r40, $g_box;\nmad.lo.u32 %r40, %t, 16, %r40;", "%r40"),
    "local": ("", ".local .align 16 .b8 $g_stack[16];\nmov.u64 %d60, $g_stack;", "%d60"),
    "": ("\n.global .align 16 .b8 $g_box[4096];\n",
         "mov.u64 %d60, $g_box;\ncvta.global.u64 %d60, %d60;\nmad.wide.u32 %d60, %t, 16, %d60;", "%d60"),
}
TABLE = [(i * 37 + 11 ^ i << 3) & 255 for i in range(256)]
CONSTANTS = "\n.const .align 16 .b8 $g_table[256] = {" + ", ".join(map(str, TABLE)) + "};\n"
CONSTANT_PLACE = "and.b32 %r40, %t, 15;\nmov.u64 %d60, $g_table;\nmad.wide.u32 %d60, %r40, 16, %d60;"

TYPES = ["b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"]
I64 = ("i64", 64)
FOUR = [I64] * 4
Q = ".reg .b128 %q<3>;\n"


def bits(ty):
    return {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}.get(ty) or int(ty[1:])


# Types and how many of them an access may take: 128 bits at most, and eight only from sm_100 on.
SHAPES = [(ty, n) for ty in TYPES for n in [1, 2, 4] if bits(ty) * n <= 128]


def dotted(*words):
    return ".".join(w for w in words if w)


class Group:
    """The registers of one access, as a list for PTX; each as wide as its type, bytes in 16 bits."""

    def __init__(self, ty, count, first):
        self.width = max(16, bits(ty))
        prefix = {16: "%h", 32: "%r", 64: "%d", 128: "%q"}[self.width]
        first = first % 3 if self.width == 128 else first
        self.names = [f"{prefix}{first + i}" for i in range(count)]

    def text(self):
        return self.names[0] if len(self.names) == 1 else "{" + ", ".join(self.names) + "}"

    def words(self):
        """The groups of registers that fill 64 bits each."""
        a_word = 64 // self.width
        return [self.names[i:i + a_word] for i in range(0, len(self.names), a_word)]

    def pack(self, low, high):
        """Text that brings the registers' bits into two 64-bit ones."""
        if self.width == 128:
            return f"mov.b128 {{{low}, {high}}}, {self.names[0]};"
        lines = []
        for to, names in zip([low, high], self.words() + [None]):
            if names is None:
                lines.append(f"mov.b64 {to}, 0;")
            elif self.width == 64:
                lines.append(f"mov.b64 {to}, {names[0]};")
            elif len(names) == 1:
                lines.append(f"cvt.u64.u{self.width} {to}, {names[0]};")
            elif len(names) * self.width == 64:
                lines.append(f"mov.b64 {to}, {{{', '.join(names)}}};")
            else:
                lines.append(f"mov.b32 %r50, {{{', '.join(names)}}};\ncvt.u64.u32 {to}, %r50;")
        return "\n".join(lines)

    def unpack(self, low, high):
        """Text that fills the registers from the bits of two 64-bit ones."""
        if self.width == 128:
            return f"mov.b128 {self.names[0]}, {{{low}, {high}}};"
        lines = []
        for source, names in zip([low, high], self.words()):
            if self.width == 64:
                lines.append(f"mov.b64 {names[0]}, {source};")
            else:
                every = names + ["_"] * (64 // self.width - len(names))
                lines.append(f"mov.b64 {{{', '.join(every)}}}, {source};")
        return "\n".join(lines)


def cases():
    found = []

    def add(name, dsts, srcs, body, outside=""):
        found.append(Machine(name, dsts, srcs, body, outside))

    loads(add)
    stores(add)
    parameters(add)
    known = set()
    memory.cases(lambda name, *_: known.add(name))

    def add_new(name, *rest):
        if name not in known:
            add(name, *rest)

    atomics(add_new)
    half_atomics(add_new)
    return found


def vector(count):
    return f"v{count}" if count > 1 else ""


def fill(space, at):
    where = dotted("st", space, "b64")
    return f"{where} [{at}], %d0;\n{where} [{at}+8], %d1;"


def loads(add):
    for space, (outside, place, at) in SPACES.items():
        for ty, count in SHAPES:
            name, group = dotted("ld", space, vector(count), ty), Group(ty, count, 16)
            add(name, [64, 64], [I64, I64], f"""{Q}{place}
{fill(space, at)}
{name} {group.text()}, [{at}];
{group.pack("%d10", "%d11")}""", outside)
    for ty, count in SHAPES:
        name, group = dotted("ld.const", vector(count), ty), Group(ty, count, 16)
        add(name, [64, 64], [], f"""{Q}{CONSTANT_PLACE}
{name} {group.text()}, [%d60];
{group.pack("%d10", "%d11")}""", CONSTANTS)
    # All threads of a warp at one place, as ldu wants it, and nobody writes there.
    for space in ["global", ""]:
        for ty, count in SHAPES:
            name, group = dotted("ldu", space, vector(count), ty), Group(ty, count, 16)
            add(name, [64, 64], [], f"""{Q}ld.param.u64 %d60, [inputs];
shr.u32 %r40, %t, 5;
mad.wide.u32 %d60, %r40, 16, %d60;
{name} {group.text()}, [%d60];
{group.pack("%d10", "%d11")}""")


def stores(add):
    for space, (outside, place, at) in SPACES.items():
        for ty, count in SHAPES:
            name, group = dotted("st", space, vector(count), ty), Group(ty, count, 16)
            back = dotted("ld", space, "b64")
            add(name, [64, 64], FOUR, f"""{Q}{place}
{fill(space, at)}
{group.unpack("%d2", "%d3")}
{name} [{at}], {group.text()};
{back} %d10, [{at}];
{back} %d11, [{at}+8];""", outside)


def parameters(add):
    """A kernel's parameters are addresses, different on every run: what is kept is how a load of them
    differs from the same load of a copy in shared memory. A function's are plain bytes."""
    for ty, count in SHAPES:
        kind = dotted(vector(count), ty)
        group, copy = Group(ty, count, 16), Group(ty, count, 24)
        outside, place, at = SPACES["shared"]
        add(f"ld.param.{kind}", [64, 64], [], f"""{Q}{place}
ld.param.u64 %d30, [inputs];
ld.param.u64 %d31, [outputs];
st.shared.b64 [{at}], %d30;
st.shared.b64 [{at}+8], %d31;
ld.param.{kind} {group.text()}, [inputs];
ld.shared.{kind} {copy.text()}, [{at}];
{group.pack("%d32", "%d33")}
{copy.pack("%d34", "%d35")}
xor.b64 %d10, %d32, %d34;
xor.b64 %d11, %d33, %d35;""", outside)
        # Read back by the same kind: how the bytes beside those written look is nobody's business.
        # Not so 128 bits, of which ptxas 13.0 then loses the upper half.
        back = f"ld.param.{kind} {copy.text()}, [data];\n{copy.pack('%d10', '%d11')}"
        if ty == "b128":
            back = "ld.param.b64 %d10, [data];\nld.param.b64 %d11, [data+8];"
        add(f"st.param.{kind}", [64, 64], [I64, I64], f"""{Q}{group.unpack("%d0", "%d1")}
{{
.param .align 16 .b8 data[16]; .param .align 16 .b8 result[16];
st.param.{kind} [data], {group.text()};
call.uni (result), $g_back, (data);
ld.param.b64 %d10, [result];
ld.param.b64 %d11, [result+8];
}}""", f"""
.func (.param .align 16 .b8 result[16]) $g_back(.param .align 16 .b8 data[16])
{{
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .b64 %d<64>;
{Q}{back}
st.param.b64 [result], %d10;
st.param.b64 [result+8], %d11;
ret;
}}
""")


HALVES = ["f16", "bf16", "f16x2", "bf16x2"]
SCALARS = {
    "add": ["u32", "s32", "u64", "f32", "f64"], "min": ["u32", "s32", "u64", "s64"], "max": ["u32", "s32", "u64", "s64"],
    "and": ["b32", "b64"], "or": ["b32", "b64"], "xor": ["b32", "b64"], "inc": ["u32"], "dec": ["u32"],
    "exch": ["b32", "b64", "b128"], "cas": ["b16", "b32", "b64", "b128"],
}


def atomic_forms():
    """Operation, type and count, but for single halves; vectors and shared memory do not go together."""
    for op, types in SCALARS.items():
        yield from ((op, "", ty, 1) for ty in types)
    yield from (("add", "", "f32", n) for n in [2, 4])
    for op in ["add", "min", "max"]:
        yield from ((op, "noftz", ty, n) for ty in HALVES for n in [2, 4, 8] if bits(ty) * n <= 128)


def atomics(add):
    pools = {"f16": "f16x4", "f16x2": "f16x4", "bf16": "bf16x4", "bf16x2": "bf16x4", "f32": "f32x2", "f64": "f64"}
    for space in ["global", "shared", ""]:
        outside, place, at = SPACES[space]
        for op, flush, ty, count in atomic_forms():
            if count > 1 and space == "shared":
                continue
            back = dotted("ld", space, "b64")
            old, value, swap = Group(ty, count, 12), Group(ty, count, 20), Group(ty, count, 28)
            third = f", {swap.text()}" if op == "cas" else ""
            for kind in ["atom"] if op in ("exch", "cas") else ["atom", "red"]:
                name = dotted(kind, space, op, flush, vector(count), ty)
                result = f"{old.text()}, " if kind == "atom" else ""
                # What was there before, told from what was put there: no difference.
                check = f"""{old.pack("%d50", "%d51")}
{Group(ty, count, 16).unpack("%d0", "%d1")}
{Group(ty, count, 16).pack("%d52", "%d53")}
xor.b64 %d50, %d50, %d52;
xor.b64 %d51, %d51, %d53;
xor.b64 %d10, %d10, %d50;
xor.b64 %d11, %d11, %d51;""" if kind == "atom" else ""
                add(name, [64, 64], [(pools.get(ty, "i64"), 64)] * 4, f"""{Q}{place}
{fill(space, at)}
{value.unpack("%d2", "%d3")}
mov.b64 %d54, 77;
{swap.unpack("%d54", "%d54") if third else ""}
{name} {result}[{at}], {value.text()}{third};
{back} %d10, [{at}];
{back} %d11, [{at}+8];
{check}""", outside)


def half_atomics(add):
    """One register of halves, loaded as such: taken out of a wider one, ptxas 13.0 mixes up the parts."""
    for space in ["global", "shared", ""]:
        outside, place, at = SPACES[space]
        for ty in HALVES:
            width = bits(ty)
            register = {16: "%h", 32: "%r"}[width]
            for kind in ["atom", "red"]:
                name = dotted(kind, space, "add.noftz", ty)
                result = f"{register}10, " if kind == "atom" else ""
                first = "" if kind == "atom" else f"mov.b{width} {register}10, 0;"
                add(name, [width, width], [(ty, width)] * 2, f"""{place}
{first}
{dotted("st", space, f"b{width}")} [{at}], {register}0;
{name} {result}[{at}], {register}1;
{dotted("ld", space, f"b{width}")} {register}11, [{at}];""", outside)
