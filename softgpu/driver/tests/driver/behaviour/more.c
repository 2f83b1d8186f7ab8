/* What the first rounds had left out, of every subject. A part of ../behaviour.c. */

static int destroyed;
static void destroy_object(void *data) { destroyed += *(int *)data; }

static void *other_thread(void *data) {
    u64 p = 0, c = 9;
    R(cuMemAlloc_v2, &p, (size_t)16);
    R(cuCtxGetCurrent, &c);
    V(c);
    R(cuCtxSetCurrent, context);
    R(cuMemAlloc_v2, &p, (size_t)16);
    *(u64 *)data = p;
    return 0;
}

static void section_more(void) {
    setup();
    u64 p = device_memory(4096), q = device_memory(4096), s = 0, e = 0, never = 0, x = 0, y = 0;
    int a = 9;
    unsigned words[16] = {0};
    CALL(cuStreamCreate, &s, 0);
    CALL(cuEventCreate, &e, 0);
    CALL(cuEventCreate, &never, 0);
    /* Addresses and directions. */
    unsigned char *pin = pinned(4096);
    R(cuMemcpyDtoD_v2, p, (u64)pin, (size_t)64);
    R(cuMemcpyHtoD_v2, p, (void *)q, (size_t)64);
    R(cuMemcpyDtoH_v2, (void *)q, p, (size_t)64);
    R(cuMemcpyDtoH_v2, pin, (u64)pin, (size_t)64);
    R(cuMemsetD8_v2, (u64)pin, 7, (size_t)64);
    V(pin[63]);
    R(cuMemsetD8Async, (u64)pin, 8, (size_t)64, s);
    R(cuStreamSynchronize, s);
    V(pin[63]);
    R(cuMemsetD8_v2, (u64)&p, 7, (size_t)4);
    R(cuMemcpyDtoHAsync_v2, pin, p, (size_t)4097, s);
    R(cuStreamAttachMemAsync, s, p, (size_t)0, 1);
    R(cuStreamWaitEvent, s, never, 0);
    R(cuEventRecordWithFlags, e, s, 1);
    R(cuEventRecordWithFlags, e, s, 8);
    R(cuStreamGetAttribute, s, 3, words);
    V(words[0]);
    words[0] = 3;
    R(cuStreamSetAttribute, s, 3, words);
    R(cuStreamGetAttribute, s, 3, words);
    V(words[0]);
    R(cuStreamGetAttribute, s, 8, words);
    V((int)words[0]);
    R(cuStreamGetAttribute, s, 200, words);
    R(cuDeviceCanAccessPeer, &a, 0, 0);
    R(cuDeviceCanAccessPeer, &a, 0, 9);
    R(cuDeviceGetP2PAttribute, &a, 1, 0, 0);
    R(cuCtxEnablePeerAccess, context, 0);
    R(cuCtxDisablePeerAccess, context);
    R(cuProfilerStart);
    R(cuProfilerStop);
    R(cuFuncIsLoaded, &a, add);
    V(a);
    R(cuFuncLoad, add);
    R(cuCtxResetPersistingL2Cache);
    const char id[16] = "no such table";
    void *table = 0;
    V(CALL(cuGetExportTable, &table, id) != 0);
    /* Two contexts. */
    u64 second = 0, s2 = 0, e2 = 0;
    R(cuCtxCreate_v2, &second, 0, 0);
    CALL(cuStreamCreate, &s2, 0);
    CALL(cuEventCreate, &e2, 0);
    V(launch1(count_, s2, 0));
    V(launch1(count_, s, 0));
    V(launch1(count_, 0, 0));
    R(cuEventRecord, e, s2);
    R(cuEventRecord, e2, s2);
    R(cuStreamWaitEvent, s, e2, 0);
    R(cuStreamSynchronize, s);
    R(cuMemcpyDtoD_v2, p, q, (size_t)64);
    R(cuMemFree_v2, q);
    R(cuPointerGetAttribute, &x, 1, p);
    V(x == context);
    R(cuCtxDestroy_v2, second);
    R(cuCtxGetCurrent, &x);
    V(x == context);
    R(cuEventDestroy_v2, e);
    R(cuCtxRecordEvent, context, never);
    R(cuEventSynchronize, never);
    R(cuCtxWaitEvent, context, never);
    /* Linking. */
    u64 link = 0, m = 0, f = 0;
    void *image = 0;
    size_t size = 0;
    R(cuLinkCreate_v2, 0, (void *)0, (void *)0, &link);
    R(cuLinkAddData_v2, link, 1, ptx, strlen(ptx) + 1, "one", 0, (void *)0, (void *)0);
    R(cuLinkAddData_v2, link, 1, "rubbish", (size_t)8, "two", 0, (void *)0, (void *)0);
    R(cuLinkAddFile_v2, link, 1, "/no/such/file", 0, (void *)0, (void *)0);
    R(cuLinkDestroy, link);
    R(cuLinkCreate_v2, 0, (void *)0, (void *)0, &link);
    R(cuLinkAddData_v2, link, 1, ptx, strlen(ptx) + 1, "one", 0, (void *)0, (void *)0);
    R(cuLinkComplete, link, &image, &size);
    V(size > 0 && image != 0);
    R(cuModuleLoadData, &m, image);
    R(cuLinkDestroy, link);
    R(cuModuleGetFunction, &f, m, "count");
    V(launch1(f, 0, 0));
    R(cuCtxSynchronize);
    /* User objects. */
    u64 object = 0, g = 0, n1 = 0, n2 = 0, exec = 0;
    int one = 1;
    R(cuUserObjectCreate, &object, &one, destroy_object, 1, 1);
    R(cuUserObjectCreate, &x, &one, destroy_object, 1, 0);
    R(cuUserObjectCreate, &x, &one, destroy_object, 0, 1);
    CALL(cuGraphCreate, &g, 0);
    R(cuGraphRetainUserObject, g, object, 1, 1);
    V(destroyed);
    R(cuGraphDestroy, g);
    usleep(100000);
    V(destroyed);
    /* Pools. */
    u64 pool = 0, now = 0;
    unsigned properties[22] = {1, 0, 1, 0};
    R(cuMemPoolCreate, &pool, properties);
    unsigned long long threshold = 12345;
    R(cuMemPoolSetAttribute, pool, 4, &threshold);
    threshold = 0;
    R(cuMemPoolGetAttribute, pool, 4, &threshold);
    V(threshold);
    R(cuMemPoolGetAttribute, pool, 1, &a);
    V(a);
    R(cuMemPoolGetAttribute, pool, 77, &a);
    R(cuMemAllocFromPoolAsync, &x, (size_t)1000, pool, s);
    R(cuMemsetD8Async, x, 1, (size_t)1000, s);
    R(cuMemFreeAsync, x, s);
    R(cuStreamSynchronize, s);
    R(cuMemFreeAsync, p, s);
    R(cuStreamSynchronize, s);
    R(cuMemPoolTrimTo, pool, (size_t)0);
    R(cuDeviceGetMemPool, &now, 0);
    V(now != pool);
    R(cuDeviceSetMemPool, 0, pool);
    R(cuDeviceGetMemPool, &now, 0);
    V(now == pool);
    R(cuMemPoolDestroy, pool);
    R(cuDeviceGetMemPool, &now, 0);
    V(now != pool);
    /* Graphs, by the general calls. */
    p = device_memory(64);
    unsigned by = 4;
    void *params[2] = {&p, &by};
    struct {
        int type, reserved[3];
        u64 words[30];
    } node;
    struct {
        u64 f;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
        u64 kernel, context;
    } k = {bump, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0};
    memset(&node, 0, sizeof node);
    memcpy(node.words, &k, sizeof k);
    CALL(cuGraphCreate, &g, 0);
    R(cuGraphAddNode_v2, &n1, g, (void *)0, (void *)0, (size_t)0, &node);
    R(cuGraphAddNode_v2, &n2, g, &n1, (void *)0, (size_t)1, &node);
    node.type = 40;
    R(cuGraphAddNode_v2, &x, g, &n1, (void *)0, (size_t)1, &node);
    R(cuGraphKernelNodeGetAttribute, n1, 2, words);
    V(words[0]);
    R(cuGraphKernelNodeGetAttribute, n1, 99, words);
    struct {
        u64 flags, stream, node;
        int result;
    } how = {0, 0, 9, 9};
    R(cuGraphInstantiateWithParams, &exec, g, &how);
    V(how.node);
    V(how.result);
    R(cuGraphUpload, exec, s);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(p));
    R(cuGraphDebugDotPrint, g, "/dev/null", 0);
    R(cuGraphExecGetFlags, exec, &x);
    V(x);
    R(cuGraphInstantiateWithFlags, &y, g, (u64)0x100);
    /* A cycle shows at instantiation at the latest. */
    CALL(cuGraphAddDependencies, g, &n2, &n1, (size_t)1);
    V(CALL(cuGraphInstantiateWithFlags, &y, g, (u64)0) != 0);
    /* Capture into a graph that exists, and a graph launched into a capture. */
    u64 whole = 0;
    u64 free_stream = 0;
    CALL(cuStreamCreate, &free_stream, 1);
    CALL(cuGraphCreate, &whole, 0);
    R(cuStreamBeginCaptureToGraph, free_stream, whole, (void *)0, (void *)0, (size_t)0, 0);
    V(launch1(bump, free_stream, params));
    R(cuGraphLaunch, exec, free_stream);
    R(cuStreamEndCapture, free_stream, &x);
    V(x == whole);
    size = 0;
    R(cuGraphGetNodes, whole, (void *)0, &size);
    V(size);
    R(cuGraphInstantiateWithFlags, &exec, whole, (u64)0);
    CALL(cuMemsetD8_v2, p, 0, (size_t)64);
    R(cuGraphLaunch, exec, (u64)0);
    V(word(p));
    /* Managed memory's ranges. */
    u64 managed = 0;
    CALL(cuMemAllocManaged, &managed, (size_t)65536, 1);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 1, managed, (size_t)65536);
    V(a);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 2, managed, (size_t)65536);
    V(a);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 77, managed, (size_t)65536);
    R(cuMemRangeGetAttribute, &a, (size_t)3, 1, managed, (size_t)65536);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 1, p, (size_t)64);
    /* A thread that has no context. */
    pthread_t thread;
    u64 from_thread = 0;
    pthread_create(&thread, 0, other_thread, &from_thread);
    pthread_join(thread, 0);
    R(cuMemFree_v2, from_thread);
}
