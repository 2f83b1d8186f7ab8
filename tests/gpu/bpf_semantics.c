// Runs every case of a module of translated BPF programs and compares what each leaves.
// usage: run MODULE.ptx MODULE.expected OPERANDS.bin BEFORE.bin
//
// Kernel case_N runs with one block of 32 threads and gets the address of its operands (one of 64
// sets); each thread finds its value through the descriptor in __cutrace_maps. The values are set to
// BEFORE first, and their FNV-1a digest afterwards must be the expected one. With KEEP=FOLDER in the
// environment, what wrong cases (KEEP_ALL: all cases) left is kept there; JIT_LEVEL sets how much the
// driver optimises.
#include "driver.h"

enum { THREADS = 32, SETS = 64 };

typedef unsigned long long u64;

static u64 digest(const unsigned char *bytes, size_t size) {
    u64 hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: run MODULE.ptx MODULE.expected OPERANDS.bin BEFORE.bin\n");
        return 2;
    }
    open_driver();
    CUresult (*load)(void **, const void *, unsigned, int *, void **) = symbol("cuModuleLoadDataEx");
    CUresult (*get_function)(void **, void *, const char *) = symbol("cuModuleGetFunction");
    CUresult (*get_global)(CUdeviceptr *, size_t *, void *, const char *) = symbol("cuModuleGetGlobal_v2");
    CUresult (*allocate)(CUdeviceptr *, size_t) = symbol("cuMemAlloc_v2");
    CUresult (*to_device)(CUdeviceptr, const void *, size_t) = symbol("cuMemcpyHtoD_v2");
    CUresult (*to_host)(void *, CUdeviceptr, size_t) = symbol("cuMemcpyDtoH_v2");
    CUresult (*synchronize)(void) = symbol("cuCtxSynchronize");
    CUresult (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                       void **) = symbol("cuLaunchKernel");

    size_t module_size, expected_size, operands_size, before_size;
    char *text = read_file(argv[1], &module_size);
    u64 *expected = (u64 *)read_file(argv[2], &expected_size);
    char *operands = read_file(argv[3], &operands_size);
    char *before = read_file(argv[4], &before_size);

    void *module;
    enter_context();
    const char *level = getenv("JIT_LEVEL"), *keep = getenv("KEEP");
    enum { OPTIMIZATION_LEVEL = 7 };
    int option = OPTIMIZATION_LEVEL;
    void *value = (void *)(size_t)(level ? atoi(level) : 4);
    check(load(&module, text, level ? 1 : 0, &option, &value), argv[1]);
    CUdeviceptr inputs, values, descriptor;
    size_t descriptor_size;
    check(allocate(&inputs, operands_size), "cuMemAlloc");
    check(allocate(&values, before_size), "cuMemAlloc");
    check(to_device(inputs, operands, operands_size), "cuMemcpyHtoD");
    check(get_global(&descriptor, &descriptor_size, module, "__cutrace_maps"), "cuModuleGetGlobal");
    // base, host base, kind and key size, value size and entries, copies.
    u64 words[8] = {values, values, 1502ull | 4ull << 32, before_size / THREADS | 1ull << 32, THREADS};
    check(to_device(descriptor, words, sizeof words), "cuMemcpyHtoD");

    unsigned char *after = malloc(before_size);
    size_t cases = 0, wrong = 0;
    char name[32];
    for (char *at = text; next_case(&at, name); cases++) {
        if (cases >= expected_size / sizeof *expected) {
            fprintf(stderr, "%s: more cases than answers\n", argv[1]);
            return 1;
        }
        void *function;
        check(get_function(&function, module, name), name);
        u64 number = strtoull(name + strlen("case_"), 0, 10);
        CUdeviceptr set = inputs + number % SETS * (operands_size / SETS);
        void *parameters[] = {&set};
        check(to_device(values, before, before_size), "cuMemcpyHtoD");
        check(launch(function, 1, 1, 1, THREADS, 1, 1, 0, 0, parameters, 0), name);
        check(synchronize(), name);
        check(to_host(after, values, before_size), "cuMemcpyDtoH");
        int differs = digest(after, before_size) != expected[cases];
        if (differs) {
            printf("%s differs\n", name);
            wrong++;
        }
        if (keep && (differs || getenv("KEEP_ALL"))) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s.after", keep, name);
            FILE *f = fopen(path, "wb");
            if (!f || fwrite(after, 1, before_size, f) != before_size || fclose(f)) perror(path);
        }
    }
    printf("%s: %zu programs, %zu wrong\n", argv[1], cases, wrong);
    return wrong || cases != expected_size / sizeof *expected;
}
