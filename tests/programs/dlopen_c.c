/* Plain C, no CUDA headers, no link to libcuda: opens it at run time, finds half of its functions by
 * dlsym and half by cuGetProcAddress, and runs a kernel written in PTX by hand. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4000, BLOCK = 128 };

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    "// out[i] = in[i] * in[i] + i, -in[i], in[i] or 7, as i modulo 4 says\n"
    ".visible .entry by_table(.param .u64 in, .param .u64 out, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .b32 %r<7>;\n"
    "    .reg .b64 %rd<6>;\n"
    "    mov.u32 %r0, %ctaid.x;\n"
    "    mov.u32 %r1, %ntid.x;\n"
    "    mov.u32 %r2, %tid.x;\n"
    "    mad.lo.s32 %r0, %r0, %r1, %r2;\n"
    "    ld.param.u32 %r3, [n];\n"
    "    setp.ge.s32 %p, %r0, %r3;\n"
    "    @%p bra done;\n"
    "    ld.param.u64 %rd0, [in];\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    mul.wide.s32 %rd2, %r0, 4;\n"
    "    cvta.to.global.u64 %rd0, %rd0;\n"
    "    cvta.to.global.u64 %rd1, %rd1;\n"
    "    add.s64 %rd0, %rd0, %rd2;\n"
    "    add.s64 %rd1, %rd1, %rd2;\n"
    "    ld.global.u32 %r4, [%rd0];\n"
    "    and.b32 %r6, %r0, 3;\n"
    "ways: .branchtargets square, minus, same, seven;\n"
    "    brx.idx %r6, ways;\n"
    "square:\n"
    "    mad.lo.s32 %r5, %r4, %r4, %r0;\n"
    "    bra.uni store;\n"
    "minus:\n"
    "    neg.s32 %r5, %r4;\n"
    "    bra.uni store;\n"
    "same:\n"
    "    mov.b32 %r5, %r4;\n"
    "    bra.uni store;\n"
    "seven:\n"
    "    mov.b32 %r5, 7;\n"
    "store:\n"
    "    st.global.u32 [%rd1], %r5;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

static void fail(const char *what, int status) {
    fflush(stdout);
    fprintf(stderr, "FAIL %s (%d)\n", what, status);
    exit(1);
}

#define CU(call) \
    do { \
        int status_ = (call); \
        if (status_ != 0) fail(#call, status_); \
    } while (0)

static void *library;
static int (*getProcAddress)(const char *, void **, int, uint64_t, int *);

static void *named(const char *name) {
    void *function = dlsym(library, name);
    if (!function) fail(name, 0);
    return function;
}

/* As CUDA 12.0 knew the function. */
static void *asked(const char *name) {
    void *function = NULL;
    int found = -1;
    CU(getProcAddress(name, &function, 12000, 0, &found));
    if (!function || found != 0) fail(name, found);
    return function;
}

int main(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "FAIL %s\n", dlerror());
        return 1;
    }
    int (*init)(unsigned) = named("cuInit");
    int (*deviceGet)(int *, int) = named("cuDeviceGet");
    int (*retain)(void **, int) = named("cuDevicePrimaryCtxRetain");
    int (*release)(int) = named("cuDevicePrimaryCtxRelease_v2");
    int (*setCurrent)(void *) = named("cuCtxSetCurrent");
    getProcAddress = named("cuGetProcAddress_v2");
    printf("libcuda opened\n");

    CU(init(0));
    int (*load)(void **, const void *) = asked("cuModuleLoadData");
    int (*getFunction)(void **, void *, const char *) = asked("cuModuleGetFunction");
    int (*unload)(void *) = asked("cuModuleUnload");
    int (*allocate)(uint64_t *, size_t) = asked("cuMemAlloc");
    int (*release_memory)(uint64_t) = asked("cuMemFree");
    int (*in)(uint64_t, const void *, size_t) = asked("cuMemcpyHtoD");
    int (*out)(void *, uint64_t, size_t) = asked("cuMemcpyDtoH");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = asked("cuLaunchKernel");
    if ((void *)allocate != named("cuMemAlloc_v2")) fail("cuMemAlloc of CUDA 12 is not cuMemAlloc_v2", 0);
    void *none = &none;
    int found = -1;
    (void)getProcAddress("cuNoSuchFunction", &none, 12000, 0, &found);
    if (none || found != 1) fail("cuNoSuchFunction was found", found);
    printf("functions found by name and by version\n");

    int device = -1;
    void *context = NULL, *module = NULL, *function = NULL;
    CU(deviceGet(&device, 0));
    CU(retain(&context, device));
    CU(setCurrent(context));
    CU(load(&module, ptx));
    CU(getFunction(&function, module, "by_table"));
    static int values[N], results[N];
    for (int i = 0; i < N; i++) values[i] = 3 * i - 1000;
    uint64_t from = 0, to = 0;
    CU(allocate(&from, sizeof values));
    CU(allocate(&to, sizeof results));
    CU(in(from, values, sizeof values));
    int n = N;
    void *arguments[] = {&from, &to, &n};
    CU(launch(function, (N + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
    CU(out(results, to, sizeof results));
    for (int i = 0; i < N; i++) {
        int expected[] = {values[i] * values[i] + i, -values[i], values[i], 7};
        if (results[i] != expected[i % 4]) fail("a result is wrong at index", i);
    }
    printf("%d results right\n", N);
    CU(release_memory(from));
    CU(release_memory(to));
    CU(unload(module));
    CU(release(device));
    dlclose(library);
    printf("PASS dlopen_c\n");
    return 0;
}
