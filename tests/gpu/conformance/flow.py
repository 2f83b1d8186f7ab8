"""Control flow: divergence, loops, predication, branches by index, calls, special registers."""

I32 = ("i32", 32)
LANE = ("lane", 32)
PRED = ("pred", 1)
KEY = ("key", 32)
ALL = "0xffffffff"


def cases(add):
    branches(add)
    calls(add)
    registers(add)
    barriers(add)


def branches(add):
    add("branch if", [32], [I32, I32, PRED], """@%p2 bra YES;
sub.u32 %r10, %r0, %r1;
bra.uni DONE;
YES:
add.u32 %r10, %r0, %r1;
DONE:""")
    add("predicated instructions", [32], [I32, I32, PRED], """mov.b32 %r10, %r0;
@%p2 add.u32 %r10, %r10, %r1;
@!%p2 xor.b32 %r10, %r10, 0x5a5a5a5a;
@%p2 mul.lo.u32 %r10, %r10, 3;""")
    add("branch nested", [32], [I32, LANE, PRED], """mov.b32 %r10, 1;
@%p2 bra A;
setp.lt.u32 %p3, %r1, 8;
@%p3 bra B;
setp.lt.u32 %p3, %r1, 20;
@%p3 bra C;
mul.lo.u32 %r10, %r0, 7;
bra JOIN;
C: mul.lo.u32 %r10, %r0, 5;
bra JOIN;
B: mul.lo.u32 %r10, %r0, 3;
JOIN: add.u32 %r10, %r10, %r1;
bra DONE;
A: setp.gt.u32 %p3, %r1, 15;
@%p3 bra DONE;
add.u32 %r10, %r0, 1;
DONE: xor.b32 %r10, %r10, 0x1234;""")
    add("loop by lane", [32], [I32, LANE], """mov.b32 %r10, %r0;
mov.b32 %r20, 0;
setp.ge.u32 %p1, %r20, %r1;
@%p1 bra DONE;
LOOP:
mad.lo.u32 %r10, %r10, 1664525, 1013904223;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p1, %r20, %r1;
@%p1 bra LOOP;
DONE:""")
    add("loop with break and vote after", [32, 32], [I32, LANE], f"""mov.b32 %r10, %r0;
mov.b32 %r20, 0;
LOOP:
xor.b32 %r10, %r10, %r20;
shl.b32 %r10, %r10, 1;
and.b32 %r21, %r10, 64;
setp.ne.u32 %p1, %r21, 0;
@%p1 bra OUT;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p1, %r20, %r1;
@%p1 bra LOOP;
OUT:
bar.warp.sync {ALL};
vote.sync.ballot.b32 %r11, %p1, {ALL};""")
    add("loops nested", [32], [I32, LANE, KEY], """mov.b32 %r10, %r0;
mov.b32 %r20, 0;
OUTER:
mov.b32 %r21, 0;
INNER:
mad.lo.u32 %r10, %r10, 31, %r21;
add.u32 %r21, %r21, 1;
setp.le.u32 %p1, %r21, %r2;
@%p1 bra INNER;
add.u32 %r20, %r20, 1;
setp.lt.u32 %p2, %r20, %r1;
@%p2 bra OUTER;""")
    add("lanes exit early", [32], [I32, LANE], """mad.wide.u32 %d20, %t, 4, %out;
st.global.u32 [%d20+2048], %r1;
setp.lt.u32 %p1, %r1, 10;
mov.b32 %r10, 0xdead;
@%p1 bra STAY;
st.global.u32 [%d20], %r0;
exit;
STAY:
activemask.b32 %r20;
redux.sync.add.u32 %r10, %r1, %r20;""")
    add("ret predicated", [32], [I32, PRED], """mov.b32 %r10, 5;
mad.wide.u32 %d20, %t, 4, %out;
st.global.u32 [%d20], %r0;
@%p1 ret;
add.u32 %r10, %r0, 9;""")
    for count in [2, 4]:
        labels = ", ".join(f"L{i}" for i in range(count))
        arms = "\n".join(f"L{i}: mad.lo.u32 %r10, %r0, {2 * i + 3}, {i};\nbra JOIN;" for i in range(count))
        add(f"brx.idx of {count}", [32], [I32, KEY], f"""and.b32 %r20, %r1, {count - 1};
TABLE: .branchtargets {labels};
brx.idx %r20, TABLE;
{arms}
JOIN: add.u32 %r10, %r10, 1;""")
    add("select by lane then shuffle", [32], [I32, PRED], f"""@%p1 bra ODD;
mul.lo.u32 %r20, %r0, 3;
bra MEET;
ODD: not.b32 %r20, %r0;
MEET:
bar.warp.sync {ALL};
shfl.sync.bfly.b32 %r10, %r20, 1, 31, {ALL};""")
    add("switch of eight", [32], [I32, LANE], "and.b32 %r20, %r1, 7;\nmov.b32 %r10, %r0;\n" + "\n".join(
        f"setp.ne.u32 %p1, %r20, {i};\n@%p1 bra N{i};\nmad.lo.u32 %r10, %r10, {i + 2}, {i};\nN{i}:" for i in range(8)))
    add("collatz", [32], [("lane", 32)], """add.u32 %r10, %r0, 1;
mov.b32 %r11, 0;
LOOP: setp.le.u32 %p1, %r10, 1;
@%p1 bra DONE;
and.b32 %r20, %r10, 1;
setp.eq.u32 %p2, %r20, 0;
@%p2 bra EVEN;
mad.lo.u32 %r10, %r10, 3, 1;
bra NEXT;
EVEN: shr.u32 %r10, %r10, 1;
NEXT: add.u32 %r11, %r11, 1;
bra LOOP;
DONE: mov.b32 %r10, %r11;""")


def calls(add):
    add("call", [32], [I32, I32], """{
.param .b32 a; .param .b32 b; .param .b32 result;
st.param.b32 [a], %r0;
st.param.b32 [b], %r1;
call.uni (result), $g_mix, (a, b);
ld.param.b32 %r10, [result];
}""", """
.func (.param .b32 result) $g_mix(.param .b32 a, .param .b32 b)
{
.reg .b32 %x<4>;
ld.param.b32 %x0, [a];
ld.param.b32 %x1, [b];
mad.lo.u32 %x2, %x0, 33, %x1;
st.param.b32 [result], %x2;
ret;
}
""")
    add("call by registers", [64], [I32, ("i64", 64)], "call (%d10), $g_join, (%r0, %d1);", """
.func (.reg .b64 %o) $g_join(.reg .b32 %a, .reg .b64 %b)
{
.reg .b64 %w;
cvt.u64.u32 %w, %a;
add.u64 %o, %b, %w;
ret;
}
""")
    add("call diverged", [32], [I32, PRED], """mov.b32 %r10, %r0;
@%p1 bra SKIP;
call (%r10), $g_twice, (%r0);
SKIP: add.u32 %r10, %r10, 1;""", """
.func (.reg .b32 %o) $g_twice(.reg .b32 %a)
{
.reg .pred %q;
setp.gt.s32 %q, %a, 0;
@%q bra POSITIVE;
neg.s32 %o, %a;
ret;
POSITIVE: shl.b32 %o, %a, 1;
ret;
}
""")
    add("call with an array", [32], [I32, I32], """{
.param .align 8 .b8 data[16]; .param .b32 result;
st.param.b32 [data], %r0;
st.param.b32 [data+4], %r1;
st.param.v2.b32 [data+8], {%r1, %r0};
call.uni (result), $g_sum, (data);
ld.param.b32 %r10, [result];
}""", """
.func (.param .b32 result) $g_sum(.param .align 8 .b8 data[16])
{
.reg .b32 %x<6>;
ld.param.v4.b32 {%x0, %x1, %x2, %x3}, [data];
mad.lo.u32 %x4, %x0, 3, %x1;
mad.lo.u32 %x4, %x2, 5, %x4;
mad.lo.u32 %x4, %x3, 7, %x4;
st.param.b32 [result], %x4;
ret;
}
""")
    two = """
.func (.param .b32 result) $g_one(.param .b32 a)
{
.reg .b32 %x<2>;
ld.param.b32 %x0, [a];
add.u32 %x1, %x0, 1000;
st.param.b32 [result], %x1;
ret;
}
.func (.param .b32 result) $g_two(.param .b32 a)
{
.reg .b32 %x<2>;
ld.param.b32 %x0, [a];
mul.lo.u32 %x1, %x0, 3;
st.param.b32 [result], %x1;
ret;
}
"""
    add("call indirect", [32], [I32, PRED], """mov.u64 %d20, $g_one;
mov.u64 %d21, $g_two;
selp.b64 %d22, %d20, %d21, %p1;
{
.param .b32 a; .param .b32 result;
st.param.b32 [a], %r0;
SHAPE: .callprototype (.param .b32 _) _ (.param .b32 _);
call (result), %d22, (a), SHAPE;
ld.param.b32 %r10, [result];
}""", two)
    add("call recursive", [32], [KEY], """{
.param .b32 n; .param .b32 result;
add.u32 %r20, %r0, 5;
st.param.b32 [n], %r20;
call.uni (result), $g_fib, (n);
ld.param.b32 %r10, [result];
}""", """
.func (.param .b32 result) $g_fib(.param .b32 n)
{
.reg .b32 %x<6>;
.reg .pred %q;
ld.param.b32 %x0, [n];
setp.lt.u32 %q, %x0, 2;
@%q bra BASE;
sub.u32 %x1, %x0, 1;
{
.param .b32 m; .param .b32 got;
st.param.b32 [m], %x1;
call.uni (got), $g_fib, (m);
ld.param.b32 %x2, [got];
}
sub.u32 %x1, %x0, 2;
{
.param .b32 m; .param .b32 got;
st.param.b32 [m], %x1;
call.uni (got), $g_fib, (m);
ld.param.b32 %x3, [got];
}
add.u32 %x0, %x2, %x3;
BASE: st.param.b32 [result], %x0;
ret;
}
""")


def registers(add):
    for name in ["tid.x", "tid.y", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "nctaid.x", "nctaid.z", "laneid",
                 "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"]:
        add(f"mov.u32 %{name}", [32], [], f"mov.u32 %r10, %{name};")
    add("mov.u32 WARP_SZ", [32], [], "mov.u32 %r10, WARP_SZ;")
    add("clock64 grows", [1], [], """mov.u64 %d20, %clock64;
membar.cta;
mov.u64 %d21, %clock64;
setp.ge.u64 %p10, %d21, %d20;""")
    add("globaltimer grows", [1], [], """mov.u64 %d20, %globaltimer;
membar.gl;
mov.u64 %d21, %globaltimer;
setp.ge.u64 %p10, %d21, %d20;""")


def barriers(add):
    reverse = """mov.u32 %r20, $g_box;
mad.lo.u32 %r21, %t, 4, %r20;
st.shared.u32 [%r21], %r0;
SYNC
sub.u32 %r22, 255, %t;
mad.lo.u32 %r21, %r22, 4, %r20;
ld.shared.u32 %r10, [%r21];"""
    box = "\n.shared .align 4 .b8 $g_box[1024];\n"
    for sync in ["bar.sync 0;", "barrier.sync 0;", "barrier.sync.aligned 1;", "bar.sync 0, 256;", "barrier.cta.sync 3, 256;",
                 "barrier.sync.aligned 15, 256;"]:
        add(f"{sync.split(';')[0]} across warps", [32], [I32], reverse.replace("SYNC", sync), box)
    add("bar.arrive and bar.sync", [32], [I32], """mov.u32 %r20, $g_box;
mad.lo.u32 %r21, %t, 4, %r20;
mov.b32 %r10, %r0;
setp.lt.u32 %p1, %t, 128;
@%p1 bra CONSUMER;
st.shared.u32 [%r21], %r0;
membar.cta;
bar.arrive 2, 256;
bra DONE;
CONSUMER:
bar.sync 2, 256;
ld.shared.u32 %r10, [%r21+512];
DONE:""", box)
    add("bar.red.popc.u32", [32], [PRED], "bar.red.popc.u32 %r10, 0, %p0;")
    add("bar.red.popc.u32 negated", [32], [PRED], "bar.red.popc.u32 %r10, 0, 256, !%p0;")
    for op in ["and", "or"]:
        add(f"bar.red.{op}.pred", [1], [PRED], f"bar.red.{op}.pred %p10, 0, %p0;")
        add(f"barrier.red.{op}.pred alike", [1], [], f"""setp.ge.u32 %p0, %t, 0;
barrier.red.{op}.pred %p10, 0, %p0;""")
    add("tree sum over shared memory", [32], [I32], """mov.u32 %r20, $g_box;
mad.lo.u32 %r21, %t, 4, %r20;
st.shared.u32 [%r21], %r0;
mov.b32 %r22, 128;
LOOP:
bar.sync 0;
setp.ge.u32 %p1, %t, %r22;
@%p1 bra NEXT;
mad.lo.u32 %r23, %r22, 4, %r21;
ld.shared.u32 %r24, [%r23];
ld.shared.u32 %r25, [%r21];
add.u32 %r25, %r24, %r25;
st.shared.u32 [%r21], %r25;
NEXT:
shr.u32 %r22, %r22, 1;
setp.ne.u32 %p2, %r22, 0;
@%p2 bra LOOP;
bar.sync 0;
ld.shared.u32 %r10, [%r20];""", box)
