/* Calls libcuda in many right and wrong ways and prints every answer, so that two libraries can
 * be compared line by line. Handles and addresses are not printed, only results and values that
 * must agree. Usage: behaviour LIBCUDA [section]. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;
typedef int (*function)();

static void *library;

static function find(const char *name) {
    function f = (function)dlsym(library, name);
    if (!f) {
        printf("missing %s\n", name);
        exit(2);
    }
    return f;
}

#define CALL(name, ...) (find(#name)(__VA_ARGS__))
#define R(name, ...) printf("%3d %s(%s)\n", CALL(name, __VA_ARGS__), #name, #__VA_ARGS__)
#define V(what) printf("    %s = %lld\n", #what, (long long)(what))

static const char *ptx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .u32 counter = 5;\n"
    ".const .align 4 .u32 factor = 7;\n"
    /* out[i] = a[i] + b[i] for i < n */
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) {\n"
    "  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
    "  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [out]; ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p, %r5, %r1; @%p ret;\n"
    "  cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; cvta.to.global.u64 %d3, %d3;\n"
    "  mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;\n"
    "  ld.global.u32 %r6, [%d1]; ld.global.u32 %r7, [%d2]; add.u32 %r6, %r6, %r7; st.global.u32 [%d3], %r6; ret;\n}\n"
    /* counter += factor */
    ".visible .entry count() {\n"
    "  .reg .b32 %r<4>;\n"
    "  ld.const.u32 %r1, [factor]; atom.global.add.u32 %r2, [counter], %r1; ret;\n}\n"
    /* waits until *flag is not 0 */
    ".visible .entry wait(.param .u64 flag) {\n"
    "  .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [flag];\n"
    "again: ld.volatile.u32 %r1, [%d1]; setp.eq.u32 %p, %r1, 0; @%p bra again; ret;\n}\n"
    /* *out += 1, in order */
    ".visible .entry bump(.param .u64 out, .param .u32 by) {\n"
    "  .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [out]; ld.param.u32 %r2, [by]; ld.u32 %r1, [%d1]; add.u32 %r1, %r1, %r2; st.u32 [%d1], %r1; ret;\n}\n"
    ".visible .entry bounded() .maxntid 128, 1, 1 { ret; }\n"
    ".visible .entry required() .reqntid 64, 1, 1 { ret; }\n"
    ".visible .entry shared() { .shared .align 4 .b8 room[1024]; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  mov.u32 %r1, room; st.shared.u32 [%r1], %r1; ret; }\n"
    ".visible .entry fault(.param .u64 at) { .reg .b32 %r; .reg .b64 %d; mov.u32 %r, 1; ld.param.u64 %d, [at]; st.u32 [%d], %r; ret; }\n"
    ".visible .entry misaligned(.param .u64 at) { .reg .b32 %r; .reg .b64 %d; mov.u32 %r, 1; ld.param.u64 %d, [at]; st.u32 [%d+1], %r; ret; }\n"
    ".visible .entry trapped() { trap; ret; }\n";

static u64 context, module, add, count_, wait_, bump;

static void *pinned(size_t bytes) {
    void *p = 0;
    CALL(cuMemHostAlloc, &p, bytes, 0);
    memset(p, 0, bytes);
    return p;
}

static u64 device_memory(size_t bytes) {
    u64 p = 0;
    CALL(cuMemAlloc_v2, &p, bytes);
    CALL(cuMemsetD8_v2, p, 0, bytes);
    CALL(cuCtxSynchronize);
    return p;
}

static unsigned word(u64 at) {
    unsigned value = 0xdead;
    CALL(cuMemcpyDtoH_v2, &value, at, (size_t)4);
    return value;
}

static void setup(void) {
    CALL(cuInit, 0);
    CALL(cuCtxCreate_v2, &context, 0, 0);
    CALL(cuModuleLoadData, &module, ptx);
    CALL(cuModuleGetFunction, &add, module, "add");
    CALL(cuModuleGetFunction, &count_, module, "count");
    CALL(cuModuleGetFunction, &wait_, module, "wait");
    CALL(cuModuleGetFunction, &bump, module, "bump");
}

static u64 function_of(const char *name) {
    u64 f = 0;
    CALL(cuModuleGetFunction, &f, module, name);
    return f;
}

/* Launches one thread. */
static int launch1(u64 f, u64 stream, void **params) {
    return CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, stream, params, (void **)0);
}

#include "behaviour/context.c"
#include "behaviour/memory.c"
#include "behaviour/module.c"
#include "behaviour/stream.c"
#include "behaviour/graph.c"
#include "behaviour/fault.c"
#include "behaviour/more.c"
#include "behaviour/rest.c"

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"init", section_init},           {"context", section_context},
    {"memory", section_memory},       {"copy", section_copy},
    {"module", section_module},       {"launch", section_launch},
    {"stream", section_stream},       {"capture", section_capture},
    {"graph", section_graph},         {"fault_null", section_fault_null},
    {"fault_wild", section_fault_wild},
    {"fault_misaligned", section_fault_misaligned},
    {"fault_trap", section_fault_trap},
    {"printf", section_printf},
    {"more", section_more},
    {"graph_memory", section_graph_memory},
    {"virtual_memory", section_virtual_memory},
    {"rest", section_rest},
    {"garbage", section_garbage},
};

int main(int argc, char **argv) {
    if (argc < 3) {
        for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
            printf("%s\n", sections[i].name);
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    setvbuf(stdout, 0, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!strcmp(argv[2], sections[i].name)) {
            sections[i].run();
            return 0;
        }
    return 2;
}
