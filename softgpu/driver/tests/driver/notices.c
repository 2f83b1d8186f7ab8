/* A program that ignores every error: notices LIBCUDA CASE. What softgpu could not do is on stderr. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef int (*function)();

static void *library;
#define CALL(name, ...) (((function)dlsym(library, #name))(__VA_ARGS__))

static const char *multiply =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry multiply() { .reg .b32 %r<4>; .reg .f32 %f<8>; "
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, "
    "{%f4,%f5,%f6,%f7}; ret; }\n";
static const char *read_texture =
    ".version 7.0\n.target sm_80\n"
    ".visible .entry read(.param .u64 t) { .reg .b32 %r<4>; .reg .f32 %f<8>; .reg .b64 %d; ld.param.u64 %d, [t]; "
    "tex.2d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%d, {%r0,%r1}]; ret; }\n";
static const char *odd = ".version 7.0\n.target sm_80\n"
                         ".visible .entry odd() { .reg .b32 %r<4>; nonsense.u32 %r0, %r1; ret; }\n";
static const char *faulty =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry fault() { .reg .b64 %d; .reg .b32 %r; mov.u64 %d, 64; mov.u32 %r, 1; st.u32 [%d], %r; ret; }\n";

static void load(const void *image) {
    u64 module = 0;
    CALL(cuModuleLoadData, &module, image);
}


int main(int argc, char **argv) {
    u64 context = 0, module = 0, nothing = 0, fault = 0;
    library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return 2;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    if (!strcmp(argv[2], "modules")) {
        for (int i = 0; i < 3; i++) {
            load(multiply);
            load(read_texture);
            load(odd);
        }
    } else if (!strcmp(argv[2], "machine_code")) {
        static const char elf[64] = "\177ELF\2\1\1";
        load(elf);
        load(elf);
    } else if (!strcmp(argv[2], "fault")) {
        CALL(cuModuleLoadData, &module, faulty);
        CALL(cuModuleGetFunction, &nothing, module, "nothing");
        CALL(cuModuleGetFunction, &fault, module, "fault");
        for (int i = 0; i < 4; i++) {
            CALL(cuLaunchKernel, i ? nothing : fault, 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
            CALL(cuCtxSynchronize);
        }
    } else if (!strcmp(argv[2], "functions")) {
        for (int i = 0; i < 3; i++) {
            CALL(cuArrayCreate_v2, (void *)0, (void *)0);
            CALL(cuGreenCtxCreate, (void *)0, (void *)0, 0, 0);
        }
    } else if (!strcmp(argv[2], "many")) {
        for (int i = 0; i < 100; i++) {
            char text[400];
            snprintf(text, sizeof text,
                     ".version 7.0\n.target sm_80\n.visible .entry k%d() { .reg .b32 %%r; nonsense %%r; ret; }\n", i);
            load(text);
        }
    }
    puts("Done!");
    return 0;
}
