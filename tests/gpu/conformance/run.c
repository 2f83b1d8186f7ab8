// Runs every case of a conformance module and writes its results.
// usage: run MODULE.ptx INPUTS.bin OUTPUTS.bin
//
// Each kernel case_NNNN runs with one block of 256 threads and gets two pointers: the operand
// columns, and its own 4096 bytes of zeroed results. Results are written in the order in which the
// kernels stand in the module.
#include "../driver.h"

enum { AREA = 4096, THREADS = 256 };

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: run MODULE.ptx INPUTS.bin OUTPUTS.bin\n");
        return 2;
    }
    open_driver();
    CUresult (*load)(void **, const void *) = symbol("cuModuleLoadData");
    CUresult (*get_function)(void **, void *, const char *) = symbol("cuModuleGetFunction");
    CUresult (*allocate)(CUdeviceptr *, size_t) = symbol("cuMemAlloc_v2");
    CUresult (*to_device)(CUdeviceptr, const void *, size_t) = symbol("cuMemcpyHtoD_v2");
    CUresult (*to_host)(void *, CUdeviceptr, size_t) = symbol("cuMemcpyDtoH_v2");
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t) = symbol("cuMemsetD8_v2");
    CUresult (*synchronize)(void) = symbol("cuCtxSynchronize");
    CUresult (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                       void **) = symbol("cuLaunchKernel");

    size_t module_size, inputs_size;
    char *text = read_file(argv[1], &module_size);
    char *inputs = read_file(argv[2], &inputs_size);
    size_t cases = 0;
    char name[32];
    for (char *at = text; next_case(&at, name);) cases++;

    void *module;
    enter_context();
    check(load(&module, text), argv[1]);
    CUdeviceptr operands, results;
    check(allocate(&operands, inputs_size), "cuMemAlloc");
    check(allocate(&results, cases * AREA), "cuMemAlloc");
    check(to_device(operands, inputs, inputs_size), "cuMemcpyHtoD");
    check(fill(results, 0, cases * AREA), "cuMemsetD8");

    size_t done = 0;
    for (char *at = text; next_case(&at, name); done++) {
        void *function;
        check(get_function(&function, module, name), name);
        CUdeviceptr area = results + done * AREA;
        void *parameters[] = {&operands, &area};
        check(launch(function, 1, 1, 1, THREADS, 1, 1, 0, 0, parameters, 0), name);
        // One case that fails is told from the next.
        check(synchronize(), name);
    }
    char *answers = malloc(cases * AREA + 1);
    check(to_host(answers, results, cases * AREA), "cuMemcpyDtoH");
    FILE *out = fopen(argv[3], "wb");
    if (!out || fwrite(answers, 1, cases * AREA, out) != cases * AREA || fclose(out)) {
        perror(argv[3]);
        return 1;
    }
    printf("%zu\n", done);
    return 0;
}
