/* Graphs, and memory as their nodes. A part of ../behaviour.c. */

static void section_graph(void) {
    setup();
    u64 s = 0, g = 0, exec = 0, a = 0, b = 0, c = 0, d = 0, h = 0, clone = 0, found = 0;
    CALL(cuStreamCreate, &s, 1);
    u64 out = device_memory(16), copy_to = device_memory(16);
    unsigned by = 2;
    void *params[2] = {&out, &by};
    struct {
        u64 f;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
        u64 kernel, context;
    } k = {bump, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0}, got;
    R(cuGraphCreate, &g, 0);
    R(cuGraphCreate, &d, 1);
    R(cuGraphAddKernelNode_v2, &a, g, (void *)0, (size_t)0, &k);
    R(cuGraphAddKernelNode_v2, &b, g, &a, (size_t)1, &k);
    u64 twice[2] = {a, a};
    R(cuGraphAddEmptyNode, &c, g, twice, (size_t)2);
    struct {
        u64 dst;
        size_t pitch;
        unsigned value, size;
        size_t width, height;
    } m = {out + 8, 0, 5, 4, 1, 1}, gotm;
    R(cuGraphAddMemsetNode, &c, g, (void *)0, (size_t)0, &m, context);
    struct {
        size_t sx, sy, sz, sl;
        unsigned st;
        const void *sh;
        u64 sd, sa, r0;
        size_t sp, shh, dx, dy, dz, dl;
        unsigned dt;
        void *dh;
        u64 dd, da, r1;
        size_t dp, dhh, w, h, d;
    } y;
    memset(&y, 0, sizeof y);
    y.st = 2, y.sd = out, y.dt = 2, y.dd = copy_to, y.w = 16, y.h = 1, y.d = 1;
    u64 after[2] = {b, c};
    R(cuGraphAddMemcpyNode, &d, g, after, (size_t)2, &y, context);
    int calls = 0;
    struct {
        void (*f)(void *);
        void *data;
    } hp = {host_function, &calls};
    R(cuGraphAddHostNode, &h, g, &d, (size_t)1, &hp);
    int type = 9;
    R(cuGraphNodeGetType, a, &type);
    V(type);
    R(cuGraphNodeGetType, d, &type);
    V(type);
    R(cuGraphNodeGetType, h, &type);
    V(type);
    size_t n = 0;
    u64 list[8] = {1, 1, 1, 1, 1, 1, 1, 1}, to[8];
    R(cuGraphGetNodes, g, (void *)0, &n);
    V(n);
    n = 8;
    R(cuGraphGetNodes, g, list, &n);
    V(n);
    V(list[7]);
    n = 2;
    R(cuGraphGetNodes, g, list, &n);
    V(n);
    n = 8;
    R(cuGraphGetEdges, g, list, to, &n);
    V(n);
    n = 8;
    R(cuGraphNodeGetDependencies, d, list, &n);
    V(n);
    n = 8;
    R(cuGraphNodeGetDependentNodes, a, list, &n);
    V(n);
    V(list[0] == b);
    R(cuGraphKernelNodeGetParams_v2, a, &got);
    V(got.f == bump || got.kernel != 0);
    V(*(unsigned *)got.params[1]);
    R(cuGraphKernelNodeGetParams_v2, d, &got);
    R(cuGraphMemsetNodeGetParams, c, &gotm);
    V(gotm.value);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    V(word(copy_to + 8));
    V(calls);
    /* Changing the executable, not the graph. */
    by = 100;
    R(cuGraphExecKernelNodeSetParams_v2, exec, b, &k);
    R(cuGraphExecKernelNodeSetParams_v2, exec, d, &k);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    R(cuGraphNodeSetEnabled, exec, b, 0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    R(cuGraphClone, &clone, g);
    R(cuGraphNodeFindInClone, &found, a, clone);
    V(found != a && found != 0);
    R(cuGraphNodeFindInClone, &found, a, g);
    R(cuGraphDestroyNode, h);
    R(cuGraphGetNodes, g, (void *)0, &n);
    V(n);
    int result = 9;
    u64 where = 0;
    R(cuGraphExecUpdate, exec, g, &where, &result);
    V(result);
    R(cuGraphExecUpdate, exec, clone, &where, &result);
    V(result);
    /* Edges by hand, and a cycle. */
    R(cuGraphAddDependencies, g, &c, &a, (size_t)1);
    R(cuGraphAddDependencies, g, &c, &a, (size_t)1);
    R(cuGraphRemoveDependencies, g, &c, &a, (size_t)1);
    R(cuGraphRemoveDependencies, g, &c, &a, (size_t)1);
    /* A child graph. */
    u64 parent = 0, child = 0;
    CALL(cuMemsetD8_v2, out, 0, (size_t)16);
    by = 1;
    CALL(cuGraphCreate, &parent, 0);
    R(cuGraphAddChildGraphNode, &child, parent, (void *)0, (size_t)0, g);
    R(cuGraphAddKernelNode_v2, &found, parent, &child, (size_t)1, &k);
    R(cuGraphNodeGetType, child, &type);
    V(type);
    u64 inner = 0;
    R(cuGraphChildGraphNodeGetGraph, child, &inner);
    V(inner != g);
    u64 parent_exec = 0;
    R(cuGraphInstantiateWithFlags, &parent_exec, parent, (u64)0);
    R(cuGraphLaunch, parent_exec, (u64)0);
    R(cuCtxSynchronize);
    V(word(out));
    V(word(copy_to));
    R(cuGraphDestroy, parent);
    R(cuGraphExecDestroy, parent_exec);
    /* Branches and an event. */
    u64 e = 0, wide = 0, root = 0, n1 = 0, n2 = 0, rec = 0;
    CALL(cuEventCreate, &e, 0);
    CALL(cuMemsetD8_v2, out, 0, (size_t)16);
    CALL(cuCtxSynchronize);
    CALL(cuGraphCreate, &wide, 0);
    R(cuGraphAddEmptyNode, &root, wide, (void *)0, (size_t)0);
    R(cuGraphAddKernelNode_v2, &n1, wide, &root, (size_t)1, &k);
    u64 second = out + 4;
    params[0] = &second;
    R(cuGraphAddKernelNode_v2, &n2, wide, &root, (size_t)1, &k);
    u64 both[2] = {n1, n2};
    R(cuGraphAddEventRecordNode, &rec, wide, both, (size_t)2, e);
    R(cuGraphInstantiateWithFlags, &exec, wide, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuEventSynchronize, e);
    V(word(out));
    V(word(out + 4));
    R(cuGraphDestroy, wide);
    R(cuCtxSynchronize);
}

static int refused_inside;
static void calls_inside(void *data) {
    u64 p = 0;
    (void)data;
    refused_inside = CALL(cuMemAlloc_v2, &p, (size_t)16);
}

/* Memory and memory operations as nodes of graphs. */
static void section_graph_memory(void) {
    setup();
    u64 s = 0, g = 0, exec = 0, p = 0, freed = 0;
    CALL(cuStreamCreate, &s, 1);
    u64 out = device_memory(64);
    size_t count = 0;
    int type = 0;
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemAllocAsync, &p, (size_t)1000, s);
    V(p != 0);
    R(cuMemsetD32Async, p, 9, (size_t)10, s);
    R(cuMemcpyDtoDAsync_v2, out, p, (size_t)40, s);
    R(cuMemFreeAsync, p, s);
    R(cuStreamEndCapture, s, &g);
    R(cuGraphGetNodes, g, (void *)0, &count);
    V(count);
    u64 nodes[4];
    R(cuGraphGetNodes, g, nodes, &count);
    R(cuGraphNodeGetType, nodes[0], &type);
    V(type);
    R(cuGraphNodeGetType, nodes[3], &type);
    V(type);
    R(cuGraphMemFreeNodeGetParams, nodes[3], &freed);
    V(freed == p);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(out + 36));
    struct {
        unsigned kind, handles, location, id;
        u64 rest[9];
        void *access;
        size_t access_count, size;
        u64 address;
    } a;
    memset(&a, 0, sizeof a);
    a.kind = 1, a.location = 1, a.size = 4096;
    u64 h = 0, made = 0, fill = 0, end = 0;
    CALL(cuGraphCreate, &h, 0);
    R(cuGraphAddMemAllocNode, &made, h, (void *)0, (size_t)0, &a);
    V(a.address != 0);
    R(cuGraphMemAllocNodeGetParams, made, &a);
    V(a.size);
    R(cuGraphAddMemFreeNode, &end, h, &made, (size_t)1, out);
    R(cuGraphAddMemFreeNode, &end, h, &made, (size_t)1, a.address);
    R(cuGraphInstantiateWithFlags, &exec, h, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    R(cuGraphExecDestroy, exec);
    R(cuGraphDestroy, h);
    R(cuDeviceGraphMemTrim, 0);
    /* Writing a value from a graph. */
    struct {
        unsigned operation;
        u64 address, value;
        unsigned flags;
        u64 alias, pad;
    } write = {2, out, 77, 0, 0, 0};
    struct {
        u64 context;
        unsigned count;
        void *operations;
        unsigned flags;
    } b = {context, 1, &write, 0};
    CALL(cuGraphCreate, &h, 0);
    R(cuGraphAddBatchMemOpNode, &fill, h, (void *)0, (size_t)0, &b);
    R(cuGraphNodeGetType, fill, &type);
    V(type);
    R(cuGraphInstantiateWithFlags, &exec, h, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(out));
    /* What host functions may not do. */
    R(cuLaunchHostFunc, s, calls_inside, (void *)0);
    R(cuStreamSynchronize, s);
    V(refused_inside);
}
