/* Kernels that fail, kernels that print, handles that never were. A part of ../behaviour.c. */

/* A fault is sticky in its context, and only there. */
static void faulty(const char *name, u64 at) {
    setup();
    u64 p = 0;
    void *params[1] = {&at};
    printf("%s\n", name);
    V(launch1(function_of(name), 0, params));
    R(cuCtxSynchronize);
    R(cuCtxSynchronize);
    R(cuMemAlloc_v2, &p, (size_t)64);
    R(cuStreamQuery, (u64)0);
    V(launch1(count_, 0, 0));
    R(cuMemFree_v2, (u64)0);
    u64 c = 0;
    int device = 0;
    R(cuCtxGetCurrent, &c);
    R(cuCtxGetDevice, &device);
    R(cuDeviceGetCount, &device);
    R(cuCtxDestroy_v2, context);
}

static void section_fault_null(void) { faulty("fault", 0); }
static void section_fault_wild(void) { faulty("fault", 0x123456789000); }
static void section_fault_misaligned(void) {
    setup();
    u64 p = device_memory(64);
    faulty("misaligned", p);
}
static void section_fault_trap(void) { faulty("trapped", 0); }

static const char *talk =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);\n"
    /* "device %d\n" */
    ".global .align 1 .b8 text[11] = {100, 101, 118, 105, 99, 101, 32, 37, 100, 10, 0};\n"
    ".visible .entry say(.param .u32 n) {\n"
    "  .local .align 8 .b8 room[8]; .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
    "  ld.param.u32 %r1, [n]; mov.u64 %d1, room; cvta.local.u64 %d2, %d1; st.local.u32 [room], %r1;\n"
    "  mov.u64 %d3, text; cvta.global.u64 %d3, %d3;\n"
    "  { .param .b64 p0; .param .b64 p1; .param .b32 back; st.param.b64 [p0], %d3; st.param.b64 [p1], %d2;\n"
    "    call.uni (back), vprintf, (p0, p1); ld.param.b32 %r2, [back]; }\n"
    "  ret;\n}\n";

/* What kernels print comes out when the host synchronises, between its own lines. */
static void section_printf(void) {
    setup();
    u64 m = 0, say = 0, s = 0;
    R(cuModuleLoadData, &m, talk);
    R(cuModuleGetFunction, &say, m, "say");
    CALL(cuStreamCreate, &s, 0);
    int n = 1;
    void *params[1] = {&n};
    V(launch1(say, s, params));
    R(cuStreamSynchronize, s);
    n = 2;
    V(launch1(say, s, params));
    R(cuCtxSynchronize);
    n = 3;
    V(launch1(say, 0, params));
    u64 p = device_memory(4);
    n = 4;
    V(launch1(say, 0, params));
    V(word(p));
    u64 e = 0;
    CALL(cuEventCreate, &e, 0);
    n = 5;
    V(launch1(say, 0, params));
    CALL(cuEventRecord, e, (u64)0);
    R(cuEventSynchronize, e);
    n = 6;
    CALL(cuLaunchKernel, say, 2, 1, 1, 2, 1, 1, 0, (u64)0, params, (void *)0);
    R(cuModuleUnload, m);
}

/* Handles that never were: a real driver may crash on some of these, softgpu must not. */
static void section_garbage(void) {
    setup();
    u64 bad = 0x12345678, p = device_memory(64), s = 0, g = 0, n = 0;
    int type = 0;
    CALL(cuStreamCreate, &s, 0);
    CALL(cuGraphCreate, &g, 0);
    R(cuMemcpyHtoDAsync_v2, p, &bad, (size_t)8, bad);
    R(cuStreamSynchronize, bad);
    R(cuEventQuery, bad);
    R(cuEventRecord, bad, s);
    R(cuGraphLaunch, bad, s);
    R(cuGraphNodeGetType, bad, &type);
    R(cuGraphAddEmptyNode, &n, g, &bad, (size_t)1);
    R(cuCtxSetCurrent, bad);
    R(cuCtxDestroy_v2, bad);
    R(cuModuleGetFunction, &n, bad, "add");
    R(cuLaunchKernel, bad, 1, 1, 1, 1, 1, 1, 0, s, (void *)0, (void *)0);
    R(cuLibraryGetKernel, &n, bad, "add");
    R(cuFuncGetAttribute, &type, 0, bad);
    R(cuStreamDestroy_v2, s);
    R(cuStreamSynchronize, s);
    R(cuStreamDestroy_v2, s);
    R(cuCtxSynchronize);
}
