"""What happens beside the threads: mbarrier objects, asynchronous copies, clusters, cache hints. Every
thread has objects of its own, so that the answers are the same on every run; none waits without end."""

from warp import Machine

I32, I64, KEY = ("i32", 32), ("i64", 64), ("key", 32)
BOX = "\n.shared .align 16 .b8 $g_bar[4096];\n.shared .align 128 .b8 $g_data[4096];\n"
# The thread's mbarrier in %r40, its 16 bytes of shared memory in %r41, of the operands in %d60.
PLACES = """mov.u32 %r40, $g_bar;
mad.lo.u32 %r40, %t, 16, %r40;
mov.u32 %r41, $g_data;
mad.lo.u32 %r41, %t, 16, %r41;
ld.param.u64 %d60, [inputs];
mad.wide.u32 %d60, %t, 16, %d60;
"""
FETCH = "ld.shared.b64 %d10, [%r41];\nld.shared.b64 %d11, [%r41+8];"
CLEAR = "mov.b64 %d61, 0x1122334455667788;\nst.shared.b64 [%r41], %d61;\nst.shared.b64 [%r41+8], %d61;"
# Until the phase of parity 0 is over, or much too long.
WAIT = """mov.b32 %r50, 0;
AGAIN:
mbarrier.test_wait.parity.shared.b64 %p9, [%r40], 0;
add.u32 %r50, %r50, 1;
setp.gt.u32 %p8, %r50, 1000000;
or.pred %p9, %p9, %p8;
@!%p9 bra AGAIN;"""


def cases():
    found = []

    def add(name, dsts, srcs, body, outside=BOX):
        found.append(Machine(name, dsts, srcs, PLACES + body, outside))

    barriers(add)
    copies(add)
    bulk(add)
    clusters(add)
    others(add)
    return found


def barriers(add):
    init = "mbarrier.init.shared.b64 [%r40], {};"
    arrive = "mbarrier.arrive.shared.b64 %d{}, [%r40];"
    test = "mbarrier.test_wait.shared.b64 %p{}, [%r40], %d{};"
    add("mbarrier.arrive and test_wait", [1, 1], [], "\n".join([
        init.format(3), arrive.format(20), arrive.format(21), test.format(10, 20), arrive.format(22), test.format(11, 20)]))
    add("mbarrier.arrive of many", [1, 1], [], f"""{init.format(7)}
mbarrier.arrive.shared.b64 %d20, [%r40], 4;
{test.format(10, 20)}
mbarrier.arrive.shared.b64 %d21, [%r40], 3;
{test.format(11, 20)}""")
    add("mbarrier.arrive without a state", [1], [], f"""{init.format(2)}
mbarrier.arrive.shared.b64 _, [%r40];
mbarrier.arrive.shared.b64 _, [%r40];
mbarrier.test_wait.parity.shared.b64 %p10, [%r40], 0;""")
    add("mbarrier.arrive generic", [1, 1], [], f"""cvt.u64.u32 %d22, %r40;
cvta.shared.u64 %d22, %d22;
mbarrier.init.b64 [%d22], 1;
mbarrier.arrive.b64 %d20, [%d22];
mbarrier.test_wait.b64 %p10, [%d22], %d20;
mbarrier.test_wait.parity.b64 %p11, [%d22], 1;""")
    add("mbarrier.arrive.release.cta", [1], [], f"""{init.format(1)}
mbarrier.arrive.release.cta.shared::cta.b64 %d20, [%r40];
mbarrier.test_wait.acquire.cta.shared::cta.b64 %p10, [%r40], %d20;""")
    add("mbarrier.pending_count", [32, 32], [KEY], f"""add.u32 %r20, %r0, 3;
{init.format("%r20")}
{arrive.format(20)}
{arrive.format(21)}
mbarrier.pending_count.b64 %r10, %d20;
mbarrier.pending_count.b64 %r11, %d21;""")
    add("mbarrier.arrive.noComplete", [32, 1], [KEY], f"""add.u32 %r20, %r0, 1;
{init.format(9)}
mbarrier.arrive.noComplete.shared.b64 %d20, [%r40], %r20;
{arrive.format(21)}
mbarrier.pending_count.b64 %r10, %d21;
{test.format(11, 21)}""")
    for how in ["", ".noComplete"]:
        count = ", 1" if how else ""
        add(f"mbarrier.arrive_drop{how}", [32, 1], [], f"""{init.format(3)}
mbarrier.arrive_drop{how}.shared.b64 %d20, [%r40]{count};
{arrive.format(21)}
{arrive.format(22)}
{arrive.format(23)}
mbarrier.pending_count.b64 %r10, %d23;
{arrive.format(24)}
{test.format(11, 23)}""")
    add("mbarrier.expect_tx and complete_tx", [1, 1], [], f"""{init.format(1)}
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r40], 64;
{arrive.format(20)}
{test.format(10, 20)}
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r40], 64;
{test.format(11, 20)}""")
    for verb in ["arrive", "arrive_drop"]:
        add(f"mbarrier.{verb}.expect_tx", [1, 1], [], f"""{init.format(2)}
mbarrier.{verb}.expect_tx.shared.b64 %d20, [%r40], 48;
{arrive.format(21)}
{test.format(10, 20)}
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r40], 48;
{test.format(11, 20)}""")
    add("mbarrier.test_wait.parity", [1, 1], [KEY], f"""{init.format(1)}
and.b32 %r20, %r0, 1;
mbarrier.test_wait.parity.shared.b64 %p10, [%r40], %r20;
{arrive.format(20)}
mbarrier.test_wait.parity.shared.b64 %p11, [%r40], %r20;""")
    add("mbarrier.try_wait", [1, 1], [], f"""{init.format(1)}
{arrive.format(20)}
mbarrier.try_wait.shared.b64 %p10, [%r40], %d20;
mbarrier.try_wait.parity.shared.b64 %p11, [%r40], 0;""")
    add("mbarrier.inval", [1], [], f"""{init.format(2)}
{arrive.format(20)}
mbarrier.inval.shared.b64 [%r40];
{init.format(1)}
{arrive.format(21)}
{test.format(10, 21)}""")


def copies(add):
    done = "cp.async.commit_group;\ncp.async.wait_group 0;"
    for size in [4, 8, 16]:
        add(f"cp.async.ca of {size}", [64, 64], [], f"""{CLEAR}
cp.async.ca.shared.global [%r41], [%d60], {size};
{done}
{FETCH}""")
    add("cp.async.cg of 16", [64, 64], [], f"{CLEAR}\ncp.async.cg.shared.global [%r41], [%d60], 16;\ncp.async.wait_all;\n{FETCH}")
    for size in [4, 8, 16]:
        add(f"cp.async.ca of {size}, some of it zero", [64, 64], [KEY], f"""{CLEAR}
mul.lo.u32 %r20, %r0, {size // 4};
cp.async.ca.shared.global [%r41], [%d60], {size}, %r20;
{done}
{FETCH}""")
    add("cp.async in groups", [64, 64], [], f"""{CLEAR}
cp.async.ca.shared.global [%r41], [%d60], 8;
cp.async.commit_group;
cp.async.ca.shared.global [%r41+8], [%d60+16], 8;
cp.async.commit_group;
cp.async.wait_group 1;
cp.async.wait_group 0;
{FETCH}""")
    for how in ["", ".noinc"]:
        extra = "" if how else "mbarrier.arrive.shared.b64 _, [%r40];"
        add(f"cp.async.mbarrier.arrive{how}", [64, 64], [], f"""{CLEAR}
mbarrier.init.shared.b64 [%r40], 1;
cp.async.ca.shared.global [%r41], [%d60], 16;
cp.async.mbarrier.arrive{how}.shared.b64 [%r40];
{extra}
{WAIT}
{FETCH}""")


def bulk(add):
    tell = "mbarrier.init.shared.b64 [%r40], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r40], 16;"
    counted = "mbarrier::complete_tx::bytes"
    add("cp.async.bulk from global", [64, 64], [], f"""{CLEAR}
{tell}
fence.proxy.async;
cp.async.bulk.shared::cluster.global.{counted} [%r41], [%d60], 16, [%r40];
{WAIT}
{FETCH}""")
    add("cp.async.bulk to global", [64, 64], [I64, I64], """st.shared.b64 [%r41], %d0;
st.shared.b64 [%r41+8], %d1;
mov.u64 %d62, $g_there;
mad.wide.u32 %d62, %t, 16, %d62;
fence.proxy.async;
cp.async.bulk.global.shared::cta.bulk_group [%d62], [%r41], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
fence.proxy.async;
ld.global.b64 %d10, [%d62];
ld.global.b64 %d11, [%d62+8];""", BOX + ".global .align 128 .b8 $g_there[4096];\n")
    add("cp.async.bulk.prefetch", [64], [I64], "cp.async.bulk.prefetch.L2.global [%d60], 16;\nmov.b64 %d10, %d0;")


def clusters(add):
    add("mapa and ld.shared::cluster", [32, 32], [I32], """st.shared.u32 [%r41], %r0;
mapa.shared::cluster.u32 %r20, %r41, 0;
ld.shared::cluster.u32 %r10, [%r20];
getctarank.shared::cluster.u32 %r11, %r20;""")
    add("mapa generic", [32, 32], [I32], """st.shared.u32 [%r41], %r0;
cvt.u64.u32 %d20, %r41;
cvta.shared.u64 %d20, %d20;
mapa.u64 %d21, %d20, 0;
ld.u32 %r10, [%d21];
getctarank.u64 %r11, %d21;""")
    add("barrier.cluster", [32], [I32], """st.shared.u32 [%r41], %r0;
barrier.cluster.arrive;
barrier.cluster.wait;
xor.b32 %r20, %t, 1;
mov.u32 %r21, $g_data;
mad.lo.u32 %r21, %r20, 16, %r21;
ld.shared.u32 %r10, [%r21];
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;""")
    for name in ["tid.z", "ctaid.y", "ctaid.z", "nctaid.y", "clusterid.x", "nclusterid.x", "cluster_ctaid.x", "cluster_nctaid.x",
                 "cluster_ctarank", "cluster_nctarank"]:
        add(f"mov.u32 %{name}", [32], [], f"mov.u32 %r10, %{name};")
    add("mov.pred %is_explicit_cluster", [1], [], "mov.pred %p10, %is_explicit_cluster;")


def others(add):
    add("alloca", [32, 32], [I32, KEY], """stacksave.u64 %d20;
alloca.u64 %d21, 32, 16;
mad.wide.u32 %d22, %r1, 4, %d21;
st.local.u32 [%d21], %t;
st.local.u32 [%d21+4], %t;
st.local.u32 [%d21+8], %t;
st.local.u32 [%d21+12], %t;
st.local.u32 [%d22], %r0;
ld.local.u32 %r10, [%d21];
ld.local.u32 %r11, [%d21+8];
stackrestore.u64 %d20;""")
    add("nanosleep", [32], [I32], "nanosleep.u32 20;\nmov.b32 %r10, %r0;")
    add("createpolicy and cache_hint", [32, 32], [I32], """createpolicy.fractional.L2::evict_last.b64 %d20, 1.0;
ld.global.L2::cache_hint.u32 %r10, [%d60], %d20;
mov.u64 %d62, $g_there;
mad.wide.u32 %d62, %t, 4, %d62;
st.global.L2::cache_hint.u32 [%d62], %r0, %d20;
ld.global.u32 %r11, [%d62];""", BOX + ".global .align 128 .b8 $g_there[1024];\n")
    for space in ["shared::cta", "shared::cluster", "param"]:
        add(f"isspacep.{space} of shared", [1], [], f"""cvt.u64.u32 %d20, %r41;
cvta.shared.u64 %d20, %d20;
isspacep.{space} %p10, %d20;""")
    add("cvta.param", [64, 1], [], """mov.b64 %d20, inputs;
cvta.param.u64 %d21, %d20;
ld.u64 %d22, [%d21];
ld.param.u64 %d23, [inputs];
xor.b64 %d10, %d22, %d23;
isspacep.param %p11, %d21;""")
    for fence in ["fence.acq_rel.cta", "fence.acq_rel.cluster", "fence.sc.gpu", "fence.sc.sys", "fence.proxy.alias",
                  "fence.proxy.async.global", "griddepcontrol.wait", "griddepcontrol.launch_dependents"]:
        add(fence, [32], [I32], f"st.shared.u32 [%r41], %r0;\n{fence};\nld.shared.u32 %r10, [%r41];")
    add("prefetchu", [32], [I32], "prefetchu.L1 [%d60];\nmov.b32 %r10, %r0;")
    add("barrier.red.popc.u32", [32], [("pred", 1)], "barrier.red.popc.u32 %r10, 1, 256, %p0;")
    for op in ["and", "or"]:
        add(f"bar.red.{op}.pred of 256", [1], [("pred", 1)], f"bar.red.{op}.pred %p10, 2, 256, !%p0;")
