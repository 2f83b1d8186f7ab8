"""Cases that need more than one register operation: warps, divergence, memory, atomics, calls."""

import memory
import flow


class Machine:
    """A kernel body. Sources stand in registers numbered by slot (%r0, %h1, %d2, %p3 by width),
    results in those numbered from 10 on. `$g` is a name no other case uses."""

    def __init__(self, name, dsts, srcs, body, outside="", last=""):
        self.name, self.dsts, self.srcs, self.body = name, dsts, srcs, body
        self.outside, self.last = outside, last

    def text(self, columns, load, store, unique):
        lines, listed = [], []
        for slot, (pool, width) in enumerate(self.srcs):
            column = columns.of(pool, slot)
            lines += load(slot, width, column)[0]
            listed.append(f"{column}:{width}")
        lines.append(self.body)
        for i, width in enumerate(self.dsts):
            register = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}[width] + str(10 + i)
            lines += store(i, width, register, 30 + i)
        lines = [line.replace("$g", unique) for line in lines]
        return lines, self.outside.replace("$g", unique), listed


def cases():
    found = []

    def add(name, dsts, srcs, body, outside=""):
        found.append(Machine(name, dsts, srcs, body, outside))

    shuffles(add)
    votes(add)
    flow.cases(add)
    memory.cases(add)
    return found


I32 = ("i32", 32)
LANE = ("lane", 32)
PRED = ("pred", 1)
ALL = "0xffffffff"

# A lane's half of the warp as a member mask in %r50; pairs of lanes as another in %r51.
HALF = """mov.u32 %r52, %laneid;
setp.lt.u32 %p12, %r52, 16;
selp.b32 %r50, 0xffff, 0xffff0000, %p12;"""


def shuffles(add):
    # Clamp and segment masks: whole warp, and segments of 16, 8, 4, 2 lanes.
    for mode in ["up", "down", "bfly", "idx"]:
        for segment in [32, 16, 8, 4, 2]:
            control = (32 - segment) << 8 | (0 if mode == "up" else 31)
            for distance in [0, 1, 3, 16]:
                add(f"shfl.sync.{mode}.b32", [32, 1], [I32],
                    f"shfl.sync.{mode}.b32 %r10|%p11, %r0, {distance}, {control}, {ALL};")
        for control in [0x1F, 0x1C1F, 0x101F, 0x0007, 0x1810]:
            clamp = control & ~0x1F if mode == "up" else control
            add(f"shfl.sync.{mode}.b32 by lane", [32, 1], [I32, LANE],
                f"shfl.sync.{mode}.b32 %r10|%p11, %r0, %r1, {clamp}, {ALL};")
        add(f"shfl.sync.{mode}.b32 any count", [32, 1], [I32, I32],
            f"shfl.sync.{mode}.b32 %r10|%p11, %r0, %r1, {0 if mode == 'up' else 31}, {ALL};")
        add(f"shfl.sync.{mode}.b32 without p", [32], [I32],
            f"shfl.sync.{mode}.b32 %r10, %r0, 2, {0 if mode == 'up' else 31}, {ALL};")
        # Both halves of a warp, each by itself; results stay inside.
        control = 16 << 8 | (0 if mode == "up" else 15)
        add(f"shfl.sync.{mode}.b32 diverged", [32, 1], [I32], f"""{HALF}
mov.b32 %r10, 0;
@%p12 bra LOW;
shfl.sync.{mode}.b32 %r10|%p11, %r0, 3, {control | (31 if mode != 'up' else 0)}, 0xffff0000;
add.u32 %r10, %r10, 1;
bra.uni DONE;
LOW:
shfl.sync.{mode}.b32 %r10|%p11, %r0, 5, {control | (31 if mode != 'up' else 0)}, 0xffff;
DONE:""")


def votes(add):
    for mode in ["all", "any", "uni"]:
        add(f"vote.sync.{mode}.pred", [1], [PRED], f"vote.sync.{mode}.pred %p10, %p0, {ALL};")
        add(f"vote.sync.{mode}.pred negated", [1], [PRED], f"vote.sync.{mode}.pred %p10, !%p0, {ALL};")
        # One warp's predicate is the same in all lanes.
        add(f"vote.sync.{mode}.pred alike", [1], [I32], f"""shr.u32 %r20, %t, 5;
and.b32 %r20, %r20, 1;
setp.ne.u32 %p0, %r20, 0;
vote.sync.{mode}.pred %p10, %p0, {ALL};""")
        add(f"vote.sync.{mode}.pred halves", [1], [PRED], f"""{HALF}
vote.sync.{mode}.pred %p10, %p0, %r50;""")
    add("vote.sync.ballot.b32", [32], [PRED], f"vote.sync.ballot.b32 %r10, %p0, {ALL};")
    add("vote.sync.ballot.b32 negated", [32], [PRED], f"vote.sync.ballot.b32 %r10, !%p0, {ALL};")
    add("vote.sync.ballot.b32 halves", [32], [PRED], f"{HALF}\nvote.sync.ballot.b32 %r10, %p0, %r50;")
    add("vote.sync.ballot.b32 diverged", [32], [PRED], f"""mov.b32 %r10, 0;
vote.sync.ballot.b32 %r20, %p0, {ALL};
@!%p0 bra DONE;
setp.lt.u32 %p1, %t, 100;
vote.sync.ballot.b32 %r10, %p1, %r20;
DONE:""")
    add("activemask.b32", [32], [], "activemask.b32 %r10;")
    add("activemask.b32 diverged", [32], [PRED], """mov.b32 %r10, 0;
@!%p0 bra DONE;
activemask.b32 %r10;
DONE:""")
    for op in ["add", "min", "max"]:
        for ty in ["u32", "s32"]:
            add(f"redux.sync.{op}.{ty}", [32], [I32], f"redux.sync.{op}.{ty} %r10, %r0, {ALL};")
            add(f"redux.sync.{op}.{ty} halves", [32], [I32], f"{HALF}\nredux.sync.{op}.{ty} %r10, %r0, %r50;")
    for op in ["and", "or", "xor"]:
        add(f"redux.sync.{op}.b32", [32], [I32], f"redux.sync.{op}.b32 %r10, %r0, {ALL};")
        add(f"redux.sync.{op}.b32 halves", [32], [I32], f"{HALF}\nredux.sync.{op}.b32 %r10, %r0, %r50;")
    for width, pool in [(32, "key"), (64, "key"), (32, "i32"), (64, "i64")]:
        register = "%r0" if width == 32 else "%d0"
        source = [(pool, width)]
        add(f"match.any.sync.b{width}", [32], source, f"match.any.sync.b{width} %r10, {register}, {ALL};")
        add(f"match.any.sync.b{width} halves", [32], source,
            f"{HALF}\nmatch.any.sync.b{width} %r10, {register}, %r50;")
        add(f"match.all.sync.b{width}", [32, 1], source, f"match.all.sync.b{width} %r10|%p11, {register}, {ALL};")
        alike = "shr.u32 %r0, %t, 6;" + ("" if width == 32 else "cvt.u64.u32 %d0, %r0;")
        add(f"match.all.sync.b{width} alike", [32, 1], [],
            f"{alike}\nmatch.all.sync.b{width} %r10|%p11, {register}, {ALL};")
        add(f"match.all.sync.b{width} one differs", [32, 1], [], f"""setp.eq.u32 %p0, %t, 77;
selp.u32 %r0, 1, 0, %p0;
cvt.u64.u32 %d0, %r0;
match.all.sync.b{width} %r10|%p11, {register}, {ALL};""")
    add("elect.sync", [32, 1], [], f"elect.sync %r10|%p11, {ALL};")
    add("elect.sync halves", [32, 1], [], f"{HALF}\nelect.sync %r10|%p11, %r50;")
    add("bar.warp.sync", [32], [I32], f"""st.global.b32 [%out], %r0;
bar.warp.sync {ALL};
mov.b32 %r10, %r0;""".replace("st.global.b32 [%out], %r0;\n", ""))
